"""D. Norms and scales."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import PROD, SCALAR, fault
from kvassay.reference import packing
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd
from kvassay.reference.sphere import Array


@fault("D01", "TheTom/turboquant_plus#15", caught_by=("distortion", "qjl-unbiased"))
class NoNorm(TurboQuantMSE):
    """No norm is taken out: real keys, of norm 10 to 50, saturate."""

    alone = True

    def _encode(self, x: Array) -> Code:
        indices = self.book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), np.ones(len(x)))


@fault("D02", "qdrant/qdrant#9437", caught_by=("distortion", "qjl-unbiased"))
class ShrinkingCycle(Scalar):
    """The decoder's scale is not the encoder's: each cycle multiplies a vector by 0.969."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) * 0.969

    inner_products = property()


@fault(
    "D04",
    "qdrant/qdrant#8783",
    PROD,
    sketch="gaussian",
    dim=96,
    bits=3,
    caught_by=("qjl-unbiased",),
)
class ScoreOfPaddedSize(TurboQuantProd):
    """The score is undone with the true dimension though encoding used the padded one."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return np.asarray(
            super().inner_products(q, code) * np.sqrt(2 ** np.ceil(np.log2(self.dim)) / self.dim)
        )


@fault("D06", "workglow-dev/libs#757", caught_by=("distortion",))
class HalfPrecisionSquares(Scalar):
    """The sum of squares is kept in float16: norms above 256 saturate."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.minimum(code.norms, 255.9))


@fault("D09", "pytorch/pytorch#192017", caught_by=("zero-and-constant",))
class VanishingEpsilon(Scalar):
    """The epsilon that guards a division is zero in half precision: a zero vector becomes
    NaN."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) + np.where(code.norms == 0, np.nan, 0.0)[:, None]


@fault("D-overflow", "workglow-dev/libs#757", caught_by=("any-scale",))
class SinglePrecisionSquares(Scalar):
    """The sum of squares is taken in float32: norms beyond 1e19 or below 1e-22 are lost."""

    def encode(self, x: Array) -> Code:
        x = np.asarray(x, dtype=np.float32)
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.sum(np.square(x), axis=1)).astype(np.float64)
            return replace(super().encode(x), norms=np.where(np.isfinite(norms), norms, 0.0))


@fault("D-half-input", "kvassay", caught_by=("any-input",))
class HalfPrecisionArithmetic(Scalar):
    """The norm is taken in the precision of the input: in float16 its square overflows at
    256."""

    def encode(self, x: Array) -> Code:
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.sum(np.square(x), axis=1, dtype=np.asarray(x).dtype))
        return replace(super().encode(x), norms=norms.astype(np.float64))


@fault(
    "D-shared",
    "kvassay",
    SCALAR,
    dim=64,
    caught_by=(
        "distortion",
        "batch-invariance",
        "rows-apart",
    ),
)
class SharedNorm(Scalar):
    """All vectors of a batch share the largest norm."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        return replace(code, norms=np.full(len(x), code.norms.max(initial=0.0)))


@fault(
    "D-global",
    "turboquant-llm 0.1.0",
    caught_by=(
        "distortion",
        "batch-invariance",
        "rows-apart",
    ),
)
class GridOfTheBatch(TurboQuantMSE):
    """One grid from the least to the largest coordinate of the whole batch, and no norm."""

    alone = True

    def encode(self, x: Array) -> Any:
        y = self._to_coordinates(np.asarray(x, dtype=np.float64))
        low, high = float(y.min(initial=0.0)), float(y.max(initial=0.0))
        step = (high - low) / (2**self.bits - 1) or 1.0
        packed = packing.pack(np.round((y - low) / step).astype(np.uint8), self.bits)
        return packed, np.array([low, step])

    def decode(self, code: Any) -> Array:
        indices = packing.unpack(code[0], self.dim, self.bits)
        return self._from_coordinates(code[1][0] + code[1][1] * indices)

    def nbytes(self, code: Any) -> int:
        return int(code[0].nbytes + code[1].nbytes)

    inner_products = property()


@fault("D-squared", "kvassay", caught_by=("distortion", "qjl-unbiased"))
class SquaredNorm(Scalar):
    """The squared norm is stored and its root never taken; unit vectors do not show it."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=code.norms**2)


@fault("D-coarse", "kvassay", bits=6, caught_by=("distortion",))
class CoarseNorm(Scalar):
    """Norms are kept with three bits of mantissa: their error exceeds that of six-bit
    coordinates."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        mantissa, exponent = np.frexp(code.norms)
        return replace(code, norms=np.ldexp(np.round(mantissa * 16) / 16, exponent))


@fault("D-renormalised", "kvassay", bits=2, caught_by=("qjl-unbiased",))
class Renormalised(Scalar):
    """The reconstruction is stretched to the norm of the vector: its error grows, and the
    slope is no longer 1 - D."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        length = np.linalg.norm(decoded, axis=1, keepdims=True)
        return np.asarray(decoded * code.norms[:, None] / np.where(length > 0, length, 1.0))

    inner_products = property()


@fault("D-renormalised-small", "kvassay", dim=64, caught_by=("distortion",))
class RenormalisedAtFewDimensions(Renormalised):
    """The reconstruction is stretched to the norm of the vector: at few dimensions and four bits
    the error falls a few per cent below that of the levels as they are."""


@fault("D-nan", "kvassay", caught_by=("finite-answers",))
class NanOnOneHot(Scalar):
    """A vector with one coordinate alone becomes NaN: the spread of its coordinates divides."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        alone = np.sum(np.asarray(x) != 0, axis=1) == 1
        return replace(code, norms=np.where(alone, np.nan, code.norms))
