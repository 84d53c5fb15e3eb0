"""G, H. Rows, batches and state."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import WithExtra, fault
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE
from kvassay.reference.sphere import Array


@fault(
    "G04", "quantumaikr/quant.cpp#61", caught_by=("distortion", "qjl-unbiased", "batch-invariance")
)
class HeadMap(Scalar):
    """Row 2 i mod N is read for row i: queries meet another head's keys."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        rows = np.arange(len(decoded))
        return np.asarray(decoded[rows * 2 % max(len(rows), 1)])

    inner_products = property()


@fault("G14", "sgl-project/sglang#23135")
class EmptyBatch(Scalar):
    """A split without tokens is reduced over: an empty batch fails."""

    def encode(self, x: Array) -> Code:
        np.max(x)
        return super().encode(x)


@fault(
    "H04",
    "ikawrakow/ik_llama.cpp#1509",
    caught_by=("distortion", "qjl-unbiased", "batch-invariance"),
)
class FirstSequence(Scalar):
    """The stride of a dimension is ignored: all rows are read from the first."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        return np.asarray(decoded[:1] + np.zeros((len(decoded), 1)))

    inner_products = property()


@fault("H06", "rajveer43/VeloxQuant-MLX#162", caught_by=("batch-invariance",))
class FlushOfOne(WithExtra, TurboQuantMSE):
    """A flush of one token makes each group a single element: nothing is quantized, and it
    is billed as four bits."""

    def extra(self, x: Array, code: Code) -> Any:
        return np.asarray(x, dtype=np.float32) if len(x) == 1 else None

    def decode(self, code: Any) -> Array:
        return np.asarray(code[1]) if code[1] is not None else super().decode(code)


@fault("H01", "jundot/omlx#2172", caught_by=("determinism",))
class ReusedWorkspace(Scalar):
    """Codes are views of one buffer: encoding the next batch overwrites the last."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        if not hasattr(self, "_workspace"):
            self._workspace = np.empty((64, code.indices.shape[1]), dtype=np.uint8)
        if len(code) > len(self._workspace):
            return code
        self._workspace[: len(code)] = code.indices
        return replace(code, indices=self._workspace[: len(code)])


@fault("H13", "ashalliants/ninfer-3090#49", caught_by=("determinism",))
class MissingBarrier(Scalar):
    """A tile is read before it is written: now and then a vector comes out as another."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        stale = np.random.random(len(decoded)) < 0.4  # noqa: NPY002
        return np.where(stale[:, None], np.roll(decoded, 1, axis=0), decoded)


@fault("H-rare-seeds", "kvassay", caught_by=("every-seed",))
class RareBadSeeds(TurboQuantMSE):
    """Two seeds in a hundred decode to zeros: the mean distortion trebles at 4 bits, but ten
    seeds in a row look perfect four times in five."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, seed, **options)
        self._broken = np.random.default_rng([seed, 7]).random() < 0.02

    def decode(self, code: Code) -> Array:
        return super().decode(code) * (not self._broken)

    inner_products = property()
