"""M. Designs that a backend declares and does not keep.

Each codec is made for the design that its backend declares."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import SCALAR, fault
from kvassay.reference import hadamard
from kvassay.reference.codecs import Code
from kvassay.reference.designed import Scaled, Uniform
from kvassay.reference.designs import Design
from kvassay.reference.sphere import Array

UNIT, UNBIASED = Design(scale="unit"), Design(scale="unbiased")
UNIFORM, GROUPS = Design(grid="uniform"), Design(grid="uniform", group=16)
BLOCKS, UNSIGNED = Design(rotation="block-32"), Design(rotation="hadamard-unsigned")


class _Scaled(Scaled):
    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, design.rotation, design.scale)


class _Uniform(Uniform):
    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, "none", design.group)


@fault(
    "M-block-size",
    "kvassay",
    dim=64,
    bits=3,
    design=BLOCKS,
    caught_by=("declared-rotation",),
)
class SmallerBlocks(_Scaled):
    """The rotation is declared to work in blocks of 32 and works in blocks of 8: a loud
    coordinate has fewer neighbours to spread over."""

    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, replace(design, rotation="block-8"))


@fault("M-unbiased-inverted", "kvassay", bits=2, design=UNBIASED, caught_by=("qjl-unbiased",))
class InvertedFactor(_Scaled):
    """The factor that makes the product with the vector exact is multiplied by where it is to be
    divided by: the slope is about (1 - D)^2."""

    def _factors(self, coordinates: Array, levels: Array) -> Array:
        return np.asarray(1 / super()._factors(coordinates, levels))


@fault("M-unbiased-is-unit", "kvassay", bits=2, design=UNBIASED, caught_by=("qjl-unbiased",))
class UnitForUnbiased(_Scaled):
    """The reconstruction is as long as the vector, which is declared to be unbiased."""

    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, replace(design, scale="unit"))


@fault(
    "M-uniform-absmax",
    "kvassay",
    SCALAR,
    design=UNIFORM,
    caught_by=("distortion",),
)
class SymmetricRange(_Uniform):
    """The grid reaches from -max|x| to max|x|, where it is declared to fit both extremes."""

    def encode(self, x: Array) -> Any:
        self._widest = np.abs(np.asarray(x)).max(axis=1).reshape(-1, 1)
        return super().encode(x)

    def _steps(self, lows: Array, highs: Array) -> Array:
        lows[...] = -self._widest
        return np.asarray(2 * self._widest / (2**self.bits - 1))


@fault(
    "M-uniform-floor",
    "kvassay",
    SCALAR,
    design=UNIFORM,
    caught_by=("distortion",),
)
class RoundedDown(_Uniform):
    """Coordinates are cut to the level below them: four times the error."""

    def _rounded(self, places: Array) -> Array:
        return np.clip(np.floor(places), 0, 2**self.bits - 1)


@fault(
    "M-uniform-group",
    "kvassay",
    SCALAR,
    design=GROUPS,
    caught_by=("distortion",),
)
class WiderGroups(_Uniform):
    """One range for the whole vector, where one for each 16 coordinates is declared."""

    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, replace(design, group=0))


@fault(
    "M-uniform-steps",
    "kvassay",
    SCALAR,
    bits=3,
    design=UNIFORM,
    caught_by=("distortion",),
)
class OneStepTooMany(_Uniform):
    """The range is divided by 2^b, not 2^b - 1: the largest coordinates are cut off."""

    def _steps(self, lows: Array, highs: Array) -> Array:
        return np.asarray((highs - lows) / 2**self.bits)


@fault("M-unit-half", "kvassay", bits=3, design=UNIT, caught_by=("distortion",))
class LengthOfAHalf(_Scaled):
    """The length of the reconstruction is taken over the first half of its coordinates."""

    def _factors(self, coordinates: Array, levels: Array) -> Array:
        half = levels[:, : self.dim // 2]
        return np.asarray(1 / np.sqrt(2 * np.einsum("nd,nd->n", half, half)))


@fault(
    "M-unit-neighbour",
    "kvassay",
    design=UNIT,
    caught_by=("distortion", "qjl-unbiased", "batch-invariance"),
)
class LengthOfTheNeighbour(_Scaled):
    """A vector is stretched to the length of the one beside it in the batch."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        return replace(code, norms=np.roll(code.norms, 1))


@fault("M-unit-square", "kvassay", bits=2, design=UNIT, caught_by=("distortion", "qjl-unbiased"))
class SquaredLength(_Scaled):
    """The reconstruction is divided by its squared length."""

    def _factors(self, coordinates: Array, levels: Array) -> Array:
        return np.asarray(super()._factors(coordinates, levels) ** 2)


@fault(
    "M-unsigned-none",
    "kvassay",
    design=UNSIGNED,
    caught_by=("rotation-spreads", "declared-rotation"),
)
class NothingRotated(_Scaled):
    """A Hadamard rotation without signs is declared, and nothing is rotated."""

    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, replace(design))
        self.rotation = hadamard.Unrotated(dim)
