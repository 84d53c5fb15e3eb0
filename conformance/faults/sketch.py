"""A. QJL, the residual and the estimator."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import PROD, fault, present
from kvassay.reference import packing, qjl
from kvassay.reference.codecs import Code, TurboQuantProd, normalize
from kvassay.reference.sphere import Array


class _Scaled(TurboQuantProd):
    """A sketch whose scale is off by `factor`."""

    def factor(self) -> float:
        raise NotImplementedError

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch)
        self.sketch.scale *= self.factor()


@fault(
    "A01", "quantumaikr/quant.cpp#14", PROD, sketch="gaussian", bits=3, caught_by=("qjl-unbiased",)
)
class DeadCorrection(_Scaled):
    """The residual term is multiplied by next to nothing: the sketch bit is wasted."""

    def factor(self) -> float:
        return 1e-4


@fault(
    "A02",
    "TheTom/llama-cpp-turboquant#77",
    PROD,
    sketch="orthogonal",
    bits=3,
    caught_by=(
        "qjl-unbiased",
        "qjl-variance",
        "pi-over-2",
        "two-pi",
        "jensen",
        "kl-is-variance",
        "two-generators",
    ),
)
class GaussianScale(_Scaled):
    """An orthogonal sketch with the scale of a gaussian one, sqrt(d) too small: slope
    1 - D(1 - 1/sqrt(d)), while distortion and variance look better than without a sketch."""

    def factor(self) -> float:
        return float(self.dim**-0.5)


@fault(
    "A02-blown-up",
    "TheTom/turboquant_plus#93",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"),
)
class OrthogonalScale(_Scaled):
    """A gaussian sketch with the scale of an orthogonal one: sqrt(d) times the correction."""

    def factor(self) -> float:
        return float(self.dim**0.5)


@fault("A02-one-percent", "kvassay", PROD, sketch="gaussian", bits=1, caught_by=("qjl-unbiased",))
class OnePercentLow(_Scaled):
    """A scale 1 % too small, the least that standard effort must tell from none."""

    def factor(self) -> float:
        return 0.99


@fault(
    "A04",
    "TheTom/turboquant_plus turbo4-resurrection.md",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"),
)
class SignsAsCoordinates(TurboQuantProd):
    """Stored signs are added straight to the coordinates, without S^T: noise for a
    correction."""

    def _coordinates(self, code: Code) -> Array:
        signs = np.where(packing.unpack(present(code.signs), self.dim, 1), 1.0, -1.0)
        scale = self.sketch.scale * present(code.residual_norms)
        noise = signs * scale[:, None]
        return np.asarray(noise if self.bits == 1 else self._levels(code) + noise)


@fault(
    "A06",
    "TheTom/turboquant_plus turbo4-resurrection.md",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi", "determinism"),
)
class UnsetResidualNorm(TurboQuantProd):
    """The residual norm is read before it is set: a correction of random size."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.random.random(len(code)))  # noqa: NPY002


@fault(
    "A08",
    "curiosity-ai/hnsw-sharp#26",
    PROD,
    sketch="gaussian",
    bits=2,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"),
)
class ConstantResidualNorm(TurboQuantProd):
    """A constant stands for the residual's norm, whatever the vector or the width."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.full(len(code), 1 / 16))


@fault(
    "A11",
    "TheTom/turboquant_plus#90",
    PROD,
    sketch="orthogonal",
    bits=2,
    caught_by=("qjl-unbiased",),
)
class SketchIsRotation(TurboQuantProd):
    """The sketch is the rotation itself: variance and distortion look better than correct,
    and only the slope shows the bias."""

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch)
        itself = object.__new__(qjl.OrthogonalSketch)
        itself.dim = itself.rows = dim
        itself.scale = self.sketch.scale
        itself.blocks = [([], np.arange(dim))]  # the residual is in rotated coordinates
        self.sketch = itself


@fault(
    "A15",
    "cyberlife-coder/VelesDB#2104",
    PROD,
    sketch="gaussian",
    bits=1,
    caught_by=(
        "qjl-unbiased",
        "qjl-variance",
        "linear-scores",
    ),
)
class AgreementOnly(TurboQuantProd):
    """The estimate counts agreeing signs and never uses the correction: it follows
    1 - 2 angle / pi instead of the cosine."""

    def inner_products(self, q: Array, code: Code) -> Array:
        signs = np.where(packing.unpack(present(code.signs), self.dim, 1), 1.0, -1.0)
        rotated = self.rotate(np.asarray(q, dtype=np.float64))
        own = qjl.signs(self.sketch, rotated)
        return np.asarray(own @ signs.T / self.dim * code.norms)


@fault(
    "A18",
    "lance-format/lance#9452",
    PROD,
    sketch="gaussian",
    bits=4,
    caught_by=(
        "qjl-variance",
        "pi-over-2",
        "two-pi",
        "linear-scores",
    ),
)
class NotLinearInQuery(TurboQuantProd):
    """A constant is added to every estimate: scaling the query changes the ranking."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) + 0.05 * code.norms


@fault(
    "A-family",
    "kvassay",
    PROD,
    sketch="gaussian",
    caught_by=("distortion", "qjl-variance", "pi-over-2", "two-pi"),
)
class OrthogonalDeclaredGaussian(TurboQuantProd):
    """The sketch is orthogonal and is declared gaussian: its noise is about a third of what was
    stated. Declare it orthogonal."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, seed, **{**options, "sketch": "orthogonal"})


@fault(
    "A20",
    "facebookresearch/faiss#4877",
    PROD,
    sketch="gaussian",
    bits=3,
)
class ZeroResidual(TurboQuantProd):
    """A residual of norm zero is divided by: a vector that needs no correction becomes NaN."""

    def decode(self, code: Code) -> Array:
        exact = np.asarray(code.residual_norms == 0)
        return super().decode(code) + np.where(exact, np.nan, 0.0)[:, None]


@fault(
    "A-subtracted",
    "kvassay",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"),
)
class SubtractedCorrection(_Scaled):
    """The correction has the wrong sign: the bias doubles."""

    def factor(self) -> float:
        return -1.0


@fault(
    "A-absolute",
    "kvassay",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"),
)
class NormCountedTwice(TurboQuantProd):
    """The residual's norm is stored absolute and read as relative: the vector's own norm
    enters the correction twice."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=code.norms * present(code.residual_norms))


@fault(
    "A-half-rows",
    "kvassay",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=(
        "distortion",
        "qjl-variance",
        "pi-over-2",
        "two-pi",
        "kl-is-variance",
        "worst-case-kl",
        "two-generators",
    ),
)
class HalfTheRows(TurboQuantProd):
    """The sketch has d/2 rows, with the right scale: unbiased, with twice the noise."""

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch, rows=dim // 2)


@fault(
    "A-of-vector",
    "kvassay",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased"),
)
class SketchOfVector(TurboQuantProd):
    """The vector is sketched where its residual was meant."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        whole = self.sketch.project(self._to_coordinates(normalize(x)[0])) >= 0
        return replace(code, signs=np.packbits(whole, axis=1, bitorder="little"))


@fault(
    "A-sign-order",
    "kvassay",
    PROD,
    sketch="gaussian",
    bits=3,
    caught_by=("distortion", "qjl-unbiased"),
)
class SignsReversed(TurboQuantProd):
    """Sketch signs are packed from the high bit and read from the low one."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        bits = np.unpackbits(present(code.signs), axis=1, bitorder="little")
        return replace(code, signs=np.packbits(bits, axis=1))
