"""The reference with one thing broken at a time, as backends. Each is a few lines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance import Capabilities
from kvassay.reference import hadamard, qjl
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd, normalize
from kvassay.reference.lloyd_max import codebook


class NoRotation(TurboQuantMSE):
    """Carries the rotated name but applies no transform."""

    def _to_coordinates(self, x):
        return x

    def _from_coordinates(self, y):
        return y


class WrongInverse(TurboQuantMSE):
    """Applies the rotation where its inverse was meant."""

    def _from_coordinates(self, y):
        return self._rotation.forward(y)


class SignsAfterHadamard(TurboQuantMSE):
    """Random signs that come too late to do anything."""

    def _to_coordinates(self, x):
        return hadamard.transform(x) * self._rotation.signs

    def _from_coordinates(self, y):
        return hadamard.transform(y * self._rotation.signs)


class NarrowTable(TurboQuantMSE):
    """A table 0.6 times as wide as it should be."""

    def __init__(self, dim, bits, seed):
        super().__init__(dim, bits, seed)
        book = codebook(dim, bits)
        self._book = replace(book, levels=book.levels * 0.6, thresholds=book.thresholds * 0.6)


class RotationAsSketch(TurboQuantProd):
    """The sketch is the rotation itself, applied to the residual before rotating."""

    def __init__(self, dim, bits, seed, sketch):
        super().__init__(dim, bits, seed, sketch="orthogonal")
        identity = object.__new__(qjl.OrthogonalSketch)
        identity.dim = identity.rows = dim
        identity.scale = self._sketch.scale
        identity.blocks = [([_Identity()], np.arange(dim))]
        self._sketch = identity


class _Identity:
    def forward(self, x):
        return x

    inverse = forward


class SketchScale(TurboQuantProd):
    """The sketch's scale is off by a factor."""

    factor = 1.0

    def __init__(self, dim, bits, seed, sketch):
        super().__init__(dim, bits, seed, sketch=sketch)
        self._sketch.scale *= self.factor if self.factor != 0 else dim**-0.5


class ScaleOffBySqrtDim(SketchScale):
    """The scale of a gaussian sketch on an orthogonal one."""

    factor = 0.0


class ScaleOnePercentLow(SketchScale):
    """0.99 times the scale."""

    factor = 0.99


class NormOfNeighbour(Scalar):
    """All vectors of a batch share the largest norm."""

    def _encode(self, x):
        code = super()._encode(x)
        return replace(code, norms=np.full(len(x), code.norms.max(initial=0.0)))


class Unpacked(TurboQuantMSE):
    """A byte for each index, while the packed size is declared."""

    def encode(self, x):
        code = super().encode(x)
        return code, np.zeros((len(x), self.dim), dtype=np.uint8)

    def decode(self, code):
        return super().decode(code[0])

    def nbytes(self, code):
        return code[0].nbytes

    inner_products = property()


class SeedIgnored(TurboQuantMSE):
    """Every seed gives the same rotation."""

    def __init__(self, dim, bits, seed):
        super().__init__(dim, bits, 7)


class GlobalRandomness(TurboQuantMSE):
    """The rotation comes from the global generator."""

    def __init__(self, dim, bits, seed):
        super().__init__(dim, bits, int(np.random.randint(2**31)))  # noqa: NPY002


class TwoPaths(TurboQuantMSE):
    """A single vector takes another path, with one bit less."""

    def encode(self, x):
        if len(x) != 1:
            return super().encode(x)
        unit, norms = normalize(np.asarray(x, dtype=float))
        indices = self._book.quantize(self._to_coordinates(unit)) & np.uint8(0xFE)
        from kvassay.reference import packing

        return Code(packing.pack(indices, self.bits), norms)


class Backend:
    """The reference with `codec` in the place of one kind."""

    version = "0"

    def __init__(self, broken: type, kind: str, sketch: str = "") -> None:
        self.name = broken.__name__
        self._broken: Callable[..., Any] = broken
        self.kind = kind
        kinds = {kind, "turboquant-mse"} if kind == "turboquant-prod" else {kind}
        self.capabilities = Capabilities(tuple(sorted(kinds)), (sketch,) if sketch else ())

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        if kind != self.kind:
            return TurboQuantMSE(dim, bits, seed)
        if kind == "scalar":
            return self._broken(dim, bits)
        return self._broken(dim, bits, seed, **options)


MSE = "turboquant-mse"
PROD = "turboquant-prod"

# Each with the one cell that should show it, and the claims that must.
BROKEN = {
    "no-rotation": (Backend(NoRotation, MSE), 128, 4, {"rotation-spreads"}),
    "wrong-inverse": (Backend(WrongInverse, MSE), 80, 4, {"distortion", "rotation-isometry"}),
    "signs-after-hadamard": (Backend(SignsAfterHadamard, MSE), 128, 4, {"rotation-spreads"}),
    "table-0.6x": (
        Backend(NarrowTable, MSE),
        128,
        4,
        {"distortion", "codebook-optimal", "gaussian-limit", "qjl-unbiased"},
    ),
    "sketch-equals-rotation": (
        Backend(RotationAsSketch, PROD, "orthogonal"),
        128,
        2,
        {"qjl-unbiased"},
    ),
    "sketch-scale-sqrt-d": (
        Backend(ScaleOffBySqrtDim, PROD, "orthogonal"),
        128,
        3,
        {"qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi", "distortion"},
    ),
    "sketch-scale-0.99": (
        Backend(ScaleOnePercentLow, PROD, "gaussian"),
        128,
        1,
        {"qjl-unbiased"},
    ),
    "shared-norm": (
        Backend(NormOfNeighbour, "scalar"),
        64,
        4,
        {"distortion", "batch-invariance"},
    ),
    "unpacked": (Backend(Unpacked, MSE), 64, 3, {"size-accounting"}),
    "seed-ignored": (Backend(SeedIgnored, MSE), 64, 3, {"rotation-isometry"}),
    "global-randomness": (Backend(GlobalRandomness, MSE), 64, 3, {"determinism"}),
    "two-paths": (Backend(TwoPaths, MSE), 64, 3, {"batch-invariance"}),
}
