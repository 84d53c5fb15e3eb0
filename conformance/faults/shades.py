"""Other forms of known faults: another constant, another place, another direction.

Somebody else's fault is of the same sort as a known one, yet seldom of the same strength. Each
form below gives its fault a further signature. It is no fault of its own: the id above it names
the fault that it is a form of.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults import rotation
from kvassay.conformance.faults.fault import FAULTS, present
from kvassay.reference import hadamard, packing
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd
from kvassay.reference.sphere import Array

SHADES: dict[str, list[type]] = {}


def shade(fault: str) -> Callable[[type], type]:
    """Registers the class below as another form of a fault."""

    def register(codec_class: type) -> type:
        SHADES.setdefault(fault, []).append(codec_class)
        return codec_class

    return register


def shades(fault: str, base: type, **values: tuple[Any, ...]) -> None:
    """Registers a form of `fault` for each value of one attribute of `base`."""
    ((name, several),) = values.items()
    for value in several:
        shade(fault)(type(f"{base.__name__}_{value}", (base,), {name: value}))


class _ScaledTable(Scalar):
    """Levels, and thresholds between them, `factor` times too far out."""

    factor: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        scaled = {name: getattr(self.book, name) * self.factor for name in ("levels", "thresholds")}
        self.book = replace(self.book, **scaled)


shades("C02", _ScaledTable, factor=(0.3, 0.8, 1.15, 1.4, 2.0))


class _ScaledLevels(Scalar):
    """What is read is `factor` times too long."""

    factor: float

    def decode(self, code: Code) -> Array:
        return super().decode(code) * self.factor

    inner_products = property()


shades("D02", _ScaledLevels, factor=(0.1, 0.5, 0.9, 1.03, 1.15, 1.5, 4.0))


class _ScaledSketch(TurboQuantProd):
    """The correction is `factor` times too long."""

    factor: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sketch.scale *= self.factor


shades("A02", _ScaledSketch, factor=(0.0, 0.4, 0.8))
shades("A02-blown-up", _ScaledSketch, factor=(1.25, 1.6, 3.0))


class _ConstantResidual(TurboQuantProd):
    """A constant stands for the residual's norm."""

    constant: float

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.full(len(code), self.constant))


shades("A08", _ConstantResidual, constant=(0.02, 0.25, 1.0))


class _Offset(Scalar):
    """An offset of all coordinates, in units of their size."""

    offset: float

    def decode(self, code: Code) -> Array:
        offset = self.offset * code.norms[:, None] / np.sqrt(self.dim)
        return np.asarray(super().decode(code) + offset)

    inner_products = property()


shades("C10", _Offset, offset=(0.1, 0.3, 2.0))


@shade("D01")
class _NoNorm(Scalar):
    """Vectors are not divided by their norms, and 1 is stored; in any kind of codec."""

    _loud: Array | None = None

    def _encode(self, x: Array) -> Code:
        self._loud = np.linalg.norm(x, axis=1)[:, None]
        try:
            return self._stored(super()._encode(x))
        finally:
            self._loud = None

    def _stored(self, code: Code) -> Code:
        return replace(code, norms=np.ones(len(code)))

    def _to_coordinates(self, x: Array) -> Array:
        y = super()._to_coordinates(x)
        return y if self._loud is None else np.asarray(y * self._loud)


@shade("C14")
class _NormKeptToo(_NoNorm):
    """Vectors are not divided by their norms, which are stored all the same."""

    def _stored(self, code: Code) -> Code:
        return code


class _CoarseNorm(Scalar):
    """Norms have few digits."""

    digits: int

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        mantissa, exponent = np.frexp(code.norms)
        return replace(
            code, norms=np.ldexp(np.round(mantissa * self.digits) / self.digits, exponent)
        )


shades("D-coarse", _CoarseNorm, digits=(2, 6))


class _PowerOfNorm(Scalar):
    """Another power of the norm is stored."""

    power: float

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=code.norms**self.power)


shades("D-squared", _PowerOfNorm, power=(0.5, 0.0))


class _ClippedNorm(Scalar):
    """Norms saturate."""

    most: float

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.minimum(code.norms, self.most))


shades("D06", _ClippedNorm, most=(30.0, 100.0))


@shade("D-shared")
class _MeanNorm(Scalar):
    """All vectors of a batch share their mean norm."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.full(len(code), np.mean(code.norms)))


class _LostIndices(Scalar):
    """One index of `kept` arrives."""

    kept: int

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits)
        indices[:, np.arange(self.dim) % self.kept > 0] = 0
        return np.asarray(self.book.levels[indices])


shades("E03", _LostIndices, kept=(2, 4))


class _DroppedTail(Scalar):
    """The last coordinates are zero."""

    share: int

    def _levels(self, code: Code) -> Array:
        levels = super()._levels(code)
        levels[:, -self.dim // self.share :] = 0
        return levels


shades("F01", _DroppedTail, share=(2, 4, 16))


class _Blocks(TurboQuantMSE):
    """The rotation works in small blocks."""

    size: int

    def _to_coordinates(self, x: Array) -> Array:
        return self._blocks(x * self.rotation.signs)  # type: ignore[union-attr]

    def _from_coordinates(self, y: Array) -> Array:
        return self._blocks(y) * self.rotation.signs  # type: ignore[union-attr]

    def _blocks(self, x: Array) -> Array:
        size = int(np.gcd(self.dim, self.size))
        return hadamard.transform(x.reshape(-1, size)).reshape(len(x), self.dim)


shades("B09", _Blocks, size=(8, 16, 32))


class _Rows(TurboQuantProd):
    """The sketch has another number of rows, with the right scale for them."""

    share: float

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch, rows=int(dim * self.share))


shades("A-half-rows", _Rows, share=(0.25, 0.75, 2))


class _OtherWidth(Scalar):
    """The codec has another width than asked for."""

    more: int

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, min(max(bits + self.more, 1), 8), *seed, **options)


shades("K-fewer-bits", _OtherWidth, more=(-2,))
shades("K05", _OtherWidth, more=(1, 2))


class _AddedToScores(TurboQuantProd):
    """A constant is added to every estimate."""

    constant: float

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) + self.constant * code.norms


shades("A18", _AddedToScores, constant=(0.01, 0.2))


class _ScaledScores(TurboQuantProd):
    """Estimates are too large, while what is decoded is right."""

    factor: float

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) * self.factor


shades("D04", _ScaledScores, factor=(0.5, 0.9, 1.1, 2.0))


class _RowsMoved(Scalar):
    """Each row is read from its neighbour."""

    def decode(self, code: Code) -> Array:
        return np.roll(super().decode(code), 1, axis=0)

    inner_products = property()


shade("G04")(_RowsMoved)


@shade("C-floor")
class _RoundedUp(Scalar):
    """The index is that of the level above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.book = replace(self.book, thresholds=self.book.levels[:-1])


@shade("A06")
class _AlwaysAnotherNorm(TurboQuantProd):
    """The residual's norm is what another row's was."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.random.permutation(present(code.residual_norms)))  # noqa: NPY002


# The reference rotates a query and compares it with the code; others decode, and then see in their
# scores, too, what is wrong with the way back.
for each in FAULTS:
    if each.codec_class.__module__ == rotation.__name__:
        decoding = {"inner_products": property()}
        shade(each.id)(type(f"{each.codec_class.__name__}Decoded", (each.codec_class,), decoding))
