"""L. SpectralQuant."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import SPECTRAL, fault
from kvassay.reference.spectral import Calibration, Spectral, calibrate
from kvassay.reference.sphere import Array


class _Learnt(Spectral):
    """A spectral codec made from calibration tokens, with what it learns from them changed."""

    def learn(self, tokens: Array) -> Calibration:
        return calibrate(tokens)

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        super().__init__(self.learn(tokens), bits, **options)


@fault("L-rising", "kvassay", SPECTRAL, caught_by=("sq-structured",))
class RisingEigenvalues(_Learnt):
    """The eigenbasis is in the order that eigh returns, smallest first: the bits go to the
    directions that have least."""

    def learn(self, tokens: Array) -> Calibration:
        right = calibrate(tokens)
        return replace(right, basis=right.basis[::-1].copy())


@fault("L-no-floor", "kvassay", SPECTRAL, caught_by=("sq-heavy-tail",))
class NoFloor(_Learnt):
    """All directions share one scale and all the bits: an eigenbasis, but no spectrum."""

    def learn(self, tokens: Array) -> Calibration:
        right = calibrate(tokens)
        return replace(right, spectrum=np.full(right.dim, 1 / right.dim))

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        super().__init__(tokens, bits, **{**options, "effective_dim": tokens.shape[1]})


@fault("L-largest", "kvassay", SPECTRAL, caught_by=("d-eff-calibration",))
class TraceOverLargest(_Learnt):
    """d_eff is the sum of the eigenvalues over the largest, not the participation ratio."""

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        found = int(np.ceil(1 / self.learn(tokens).spectrum[0]))
        kept = min(max(found, 2), tokens.shape[1] - 2)
        super().__init__(tokens, bits, **{**options, "effective_dim": kept})


@fault("L-raw-tokens", "kvassay", SPECTRAL, caught_by=("d-eff-calibration",))
class RawTokens(_Learnt):
    """The second moments are those of the tokens as they are: loud ones count for more."""

    def learn(self, tokens: Array) -> Calibration:
        values, vectors = np.linalg.eigh(tokens.T @ tokens)
        spectrum = np.maximum(values[::-1], 0)
        return replace(
            calibrate(tokens), basis=vectors.T[::-1].copy(), spectrum=spectrum / spectrum.sum()
        )
