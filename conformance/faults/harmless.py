"""Equivalent changes: codecs that look otherwise and follow the same law.

No claim and no property may catch one."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import PROD, fault, signs_of
from kvassay.reference import packing, qjl
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd
from kvassay.reference.designed import Scaled
from kvassay.reference.designs import Design
from kvassay.reference.sphere import Array

UNIT = Design(scale="unit")


@fault("same-dense", "kvassay", proof="a Haar rotation has exactly the law that the table is for")
class DenseRotation(TurboQuantMSE):
    """The rotation is a dense random matrix."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, seed, **{**options, "rotation": "haar"})


@fault("same-signs", "kvassay", proof="the table is antisymmetric: x -> -x permutes its cells")
class SignsOnBothSides(TurboQuantMSE):
    """Random signs come before and after the transform."""

    def _to_coordinates(self, x: Array) -> Array:
        return super()._to_coordinates(x) * np.roll(signs_of(self), 1)

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(y * np.roll(signs_of(self), 1))


@fault("same-order", "kvassay", proof="all rotated coordinates have one law and one table")
class CoordinatesPermuted(TurboQuantMSE):
    """Rotated coordinates are kept in another order."""

    def _to_coordinates(self, x: Array) -> Array:
        return super()._to_coordinates(x)[:, ::-1]

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(np.ascontiguousarray(y[:, ::-1]))


@fault("same-gray", "kvassay", proof="a bijection of the indices that reading undoes")
class GrayCode(Scalar):
    """Indices are stored in Gray code."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        if not code.indices.shape[1]:
            return code
        indices = packing.unpack(code.indices, self.dim, self.book.bits)
        return replace(code, indices=packing.pack(indices ^ indices >> np.uint8(1), self.book.bits))

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits)
        for shift in (1, 2, 4):
            indices = indices ^ indices >> np.uint8(shift)
        return np.asarray(self.book.levels[indices])


@fault("same-precision", "kvassay", proof="float32 rounds by 6e-8, bands are wider by 1000")
class SinglePrecision(Scalar):
    """Norms and reconstructions are kept in float32."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=code.norms.astype(np.float32).astype(np.float64))

    def decode(self, code: Code) -> Array:
        return super().decode(code).astype(np.float32)


@fault(
    "same-sketch",
    "kvassay",
    PROD,
    sketch="gaussian",
    proof="-S has the law of S, and sign(-u) S^T(-1) is the same vector",
)
class NegatedSketch(TurboQuantProd):
    """The sketch is negated."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self.sketch, qjl.GaussianSketch):
            self.sketch.matrix = -self.sketch.matrix


@fault("same-rounding", "kvassay", proof="a tie has probability 0 under a continuous law")
class TiesDown(Scalar):
    """A coordinate on a threshold goes to the lower level."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        above = np.nextafter(self.book.thresholds, np.inf)
        self.book = replace(self.book, thresholds=above)


@fault(
    "same-unit-late",
    "kvassay",
    bits=2,
    design=UNIT,
    proof="the levels have the same length whenever it is taken",
)
class LengthWhenDecoded(Scaled):
    """A codec that is declared to keep the length stretches when it decodes."""

    def __init__(self, dim: int, bits: int, seed: int, design: Design) -> None:
        super().__init__(dim, bits, seed, design.rotation, "none")

    def _coordinates(self, code: Code) -> Array:
        levels = super()._coordinates(code)
        return np.asarray(levels / np.linalg.norm(levels, axis=1, keepdims=True))
