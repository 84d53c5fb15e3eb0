"""Faults that real implementations had, each as a mutation of the reference.

A fault is a codec with one thing wrong, in a few lines: its docstring says what is wrong
and what that costs, the decorator where it was seen and the cell in which it shows. Written
on `Scalar`, it can be put into a codec of any kind; on `TurboQuantMSE`, into both that
rotate. Which claims must catch it stands in the claims (`kills`), which properties in
those; `kvassay faults` holds them to it. At the end stand changes that are none: codecs
that look otherwise and follow the same law, which nothing may catch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvassay.conformance import papers
from kvassay.conformance.adapters import reference
from kvassay.conformance.catalogue import CLAIMS
from kvassay.conformance.claims import Claim
from kvassay.conformance.experiments import Effort
from kvassay.conformance.protocol import Capabilities
from kvassay.conformance.reproduce import violates
from kvassay.conformance.runner import Settings, check
from kvassay.reference import hadamard, packing, qjl, sphere
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd, normalize
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.spectral import Calibration, Spectral, calibrate
from kvassay.reference.sphere import Array

SCALAR, MSE, PROD, SPECTRAL = "scalar", "turboquant-mse", "turboquant-prod", "spectral"
_BASES: dict[str, type] = {SCALAR: Scalar, MSE: TurboQuantMSE, PROD: TurboQuantProd}


@dataclass(frozen=True)
class Fault:
    """One fault, and a backend that has it. `source` names the tracker it was seen in;
    `proof` says why it is none, where the law of the codec stays the same."""

    id: str
    text: str
    source: str
    kind: str
    sketch: str
    dim: int
    bits: int
    codec_class: type
    proof: str = ""

    @property
    def name(self) -> str:
        return f"fault {self.id}"

    @property
    def version(self) -> str:
        return "1"

    @property
    def capabilities(self) -> Capabilities:
        kinds = (self.kind, MSE) if self.kind == PROD else (self.kind,)
        return Capabilities(kinds, (self.sketch,) if self.sketch else ())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of codec that can have it."""
        if self.kind == SPECTRAL or getattr(self.codec_class, "alone", False):
            return (self.kind,)
        nearest = next(k for k in (PROD, MSE, SCALAR) if issubclass(self.codec_class, _BASES[k]))
        return tuple(_BASES)[tuple(_BASES).index(nearest) :]

    @property
    def hunters(self) -> tuple[str, ...]:
        """The claims that must catch it."""
        claims: Sequence[Claim | papers.PaperClaim] = (*CLAIMS, *papers.CLAIMS)
        return tuple(claim.id for claim in claims if self.id in claim.kills)

    def put_into(self, kind: str, sketch: str) -> "Fault":
        """The same fault in a codec of another kind."""
        return replace(self, kind=kind, sketch=sketch)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        """The faulty codec for its kind; the correct one beside it for the others."""
        if kind != self.kind and kind not in _BASES:
            return reference.backend().codec(kind, dim, bits, seed, **options)
        if kind == SPECTRAL:
            return self.codec_class(options.pop("calibration"), bits, seed=seed, **options)
        base, made = _BASES[kind], self.codec_class
        if kind != self.kind:
            made = base
        elif not issubclass(made, base):
            made = type(made.__name__, (made, base), {})
        return made(dim, bits) if kind == SCALAR else made(dim, bits, seed, **options)


@dataclass(frozen=True)
class Throughout:
    """The reference with a fault in one of its kinds, for claims that need several."""

    fault: Fault
    name: str = "reference with a fault"
    version: str = "1"
    capabilities: Capabilities = reference.Reference.capabilities

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        """The faulty codec for the fault's kind, the reference's for the others."""
        sketch = options.get("sketch", "")
        if kind == PROD and sketch != self.fault.sketch:
            return reference.backend().codec(kind, dim, bits, seed, **options)
        return self.fault.codec(kind, dim, bits, seed, **options)


FAULTS: list[Fault] = []


def fault(
    id: str,
    source: str,
    kind: str = MSE,
    *,
    sketch: str = "",
    dim: int = 128,
    bits: int = 4,
    proof: str = "",
) -> Callable[[type], type]:
    """Registers the class below as the fault `id`, to be looked for in one cell."""

    def register(codec_class: type) -> type:
        text = " ".join((codec_class.__doc__ or "").split())
        FAULTS.append(Fault(id, text, source, kind, sketch, dim, bits, codec_class, proof))
        return codec_class

    return register


# A. QJL, the residual and the estimator


class _Scaled(TurboQuantProd):
    """A sketch whose scale is off by `factor`."""

    def factor(self) -> float:
        raise NotImplementedError

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch)
        self.sketch.scale *= self.factor()


@fault("A01", "quantumaikr/quant.cpp#14", PROD, sketch="gaussian", bits=3)
class DeadCorrection(_Scaled):
    """The residual term is multiplied by next to nothing: the sketch bit is wasted."""

    def factor(self) -> float:
        return 1e-4


@fault("A02", "TheTom/llama-cpp-turboquant#77", PROD, sketch="orthogonal", bits=3)
class GaussianScale(_Scaled):
    """An orthogonal sketch with the scale of a gaussian one, sqrt(d) too small: slope
    1 - D(1 - 1/sqrt(d)), while distortion and variance look better than without a sketch."""

    def factor(self) -> float:
        return float(self.dim**-0.5)


@fault("A02-blown-up", "TheTom/turboquant_plus#93", PROD, sketch="gaussian", bits=3)
class OrthogonalScale(_Scaled):
    """A gaussian sketch with the scale of an orthogonal one: sqrt(d) times the correction."""

    def factor(self) -> float:
        return float(self.dim**0.5)


@fault("A02-one-percent", "kvassay", PROD, sketch="gaussian", bits=1)
class OnePercentLow(_Scaled):
    """A scale 1 % too small, the least that standard effort must tell from none."""

    def factor(self) -> float:
        return 0.99


@fault("A04", "TheTom/turboquant_plus turbo4-resurrection.md", PROD, sketch="gaussian", bits=3)
class SignsAsCoordinates(TurboQuantProd):
    """Stored signs are added straight to the coordinates, without S^T: noise for a
    correction."""

    def _coordinates(self, code: Code) -> Array:
        signs = np.where(packing.unpack(_present(code.signs), self.dim, 1), 1.0, -1.0)
        scale = self.sketch.scale * _present(code.residual_norms)
        noise = signs * scale[:, None]
        return np.asarray(noise if self.bits == 1 else self._levels(code) + noise)


@fault("A06", "TheTom/turboquant_plus turbo4-resurrection.md", PROD, sketch="gaussian", bits=3)
class UnsetResidualNorm(TurboQuantProd):
    """The residual norm is read before it is set: a correction of random size."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.random.random(len(code)))  # noqa: NPY002


@fault("A08", "curiosity-ai/hnsw-sharp#26", PROD, sketch="gaussian", bits=2)
class ConstantResidualNorm(TurboQuantProd):
    """A constant stands for the residual's norm, whatever the vector or the width."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=np.full(len(code), 1 / 16))


@fault("A11", "TheTom/turboquant_plus#90", PROD, sketch="orthogonal", bits=2)
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


@fault("A15", "cyberlife-coder/VelesDB#2104", PROD, sketch="gaussian", bits=1)
class AgreementOnly(TurboQuantProd):
    """The estimate counts agreeing signs and never uses the correction: it follows
    1 - 2 angle / pi instead of the cosine."""

    def inner_products(self, q: Array, code: Code) -> Array:
        signs = np.where(packing.unpack(_present(code.signs), self.dim, 1), 1.0, -1.0)
        rotated = self.rotate(np.asarray(q, dtype=np.float64))
        own = qjl.signs(self.sketch, rotated)
        return np.asarray(own @ signs.T / self.dim * code.norms)


@fault("A18", "lance-format/lance#9452", PROD, sketch="gaussian", bits=4)
class NotLinearInQuery(TurboQuantProd):
    """A constant is added to every estimate: scaling the query changes the ranking."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) + 0.05 * code.norms


@fault("A20", "facebookresearch/faiss#4877", PROD, sketch="gaussian", bits=3)
class ZeroResidual(TurboQuantProd):
    """A residual of norm zero is divided by: a vector that needs no correction becomes NaN."""

    def decode(self, code: Code) -> Array:
        exact = np.asarray(code.residual_norms == 0)
        return super().decode(code) + np.where(exact, np.nan, 0.0)[:, None]


@fault("A-subtracted", "kvassay", PROD, sketch="gaussian", bits=3)
class SubtractedCorrection(_Scaled):
    """The correction has the wrong sign: the bias doubles."""

    def factor(self) -> float:
        return -1.0


@fault("A-absolute", "kvassay", PROD, sketch="gaussian", bits=3)
class NormCountedTwice(TurboQuantProd):
    """The residual's norm is stored absolute and read as relative: the vector's own norm
    enters the correction twice."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, residual_norms=code.norms * _present(code.residual_norms))


@fault("A-half-rows", "kvassay", PROD, sketch="gaussian", bits=3)
class HalfTheRows(TurboQuantProd):
    """The sketch has d/2 rows, with the right scale: unbiased, with twice the noise."""

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch, rows=dim // 2)


@fault("A-of-vector", "kvassay", PROD, sketch="gaussian", bits=3)
class SketchOfVector(TurboQuantProd):
    """The vector is sketched where its residual was meant."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        whole = self.sketch.project(self._to_coordinates(normalize(x)[0])) >= 0
        return replace(code, signs=np.packbits(whole, axis=1, bitorder="little"))


@fault("A-sign-order", "kvassay", PROD, sketch="gaussian", bits=3)
class SignsReversed(TurboQuantProd):
    """Sketch signs are packed from the high bit and read from the low one."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        bits = np.unpackbits(_present(code.signs), axis=1, bitorder="little")
        return replace(code, signs=np.packbits(bits, axis=1))


# B. The rotation


@fault("B01", "Pushkinist/rMLX#453")
class NoRotation(TurboQuantMSE):
    """The codec carries the rotated name but applies no transform: invisible on isotropic
    vectors, ruinous on an outlier channel."""

    def _to_coordinates(self, x: Array) -> Array:
        return x

    def _from_coordinates(self, y: Array) -> Array:
        return y


@fault("B02", "Scottcjn/rustchain-bounties#71")
class SignsAfterHadamard(TurboQuantMSE):
    """Random signs come after the transform, where they do nothing, or not at all: a constant
    offset becomes one loud coordinate."""

    def _to_coordinates(self, x: Array) -> Array:
        return hadamard.transform(x) * _signs(self)

    def _from_coordinates(self, y: Array) -> Array:
        return hadamard.transform(y * _signs(self))


@fault("B04", "TheTom/llama-cpp-turboquant#43")
class TwoBackends(TurboQuantMSE):
    """Written with one rotation, read with another."""

    def _from_coordinates(self, y: Array) -> Array:
        other = hadamard.rotation("haar", self.dim, np.random.default_rng(0))
        return other.inverse(y)


@fault("B05", "Blaizzy/mlx-vlm#973")
class PathDependentRotation(TurboQuantMSE):
    """One token takes another rotation than many: a cache written by prefill and continued
    by decoding mixes both."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._dense().forward(x) if len(x) == 1 else super()._to_coordinates(x)

    def _from_coordinates(self, y: Array) -> Array:
        return self._dense().inverse(y) if len(y) == 1 else super()._from_coordinates(y)

    def _dense(self) -> hadamard.Rotation:
        return hadamard.rotation("haar", self.dim, np.random.default_rng(0))


class _Padded(TurboQuantMSE):
    """A Hadamard transform of the next power of two, cropped."""

    def _to_coordinates(self, x: Array) -> Array:
        padded = np.zeros((len(x), self._width()))
        padded[:, : self.dim] = x * _signs(self)
        return hadamard.transform(padded)[:, : self.dim] * self._gain()

    def _from_coordinates(self, y: Array) -> Array:
        padded = np.zeros((len(y), self._width()))
        padded[:, : self.dim] = y
        return hadamard.transform(padded)[:, : self.dim] * _signs(self) * self._gain()

    def _width(self) -> int:
        return int(2 ** np.ceil(np.log2(self.dim)))

    def _gain(self) -> float:
        return 1.0


@fault("B07", "vllm-project/vllm#41413", dim=80)
class WrongNormaliser(_Padded):
    """At d = 80 a matrix of 128 is built and divided by sqrt(80): not orthogonal."""

    def _gain(self) -> float:
        return float(np.sqrt(self._width() / self.dim))


@fault("B07-no-normaliser", "kvassay")
class NoNormaliser(TurboQuantMSE):
    """The transform lacks its 1/sqrt(d): rotated coordinates are far outside the table."""

    def _to_coordinates(self, x: Array) -> Array:
        return np.asarray(super()._to_coordinates(x) * np.sqrt(self.dim))

    def _from_coordinates(self, y: Array) -> Array:
        return np.asarray(super()._from_coordinates(y) / np.sqrt(self.dim))


@fault("B20", "workglow-dev/libs#762", dim=80)
class CroppedPadding(_Padded):
    """The padded transform is cropped back to d: what was cropped is lost."""


@fault("B09", "tetherto/qvac-fabric-llm.cpp#115", dim=128, bits=4)
class BlockRotation(TurboQuantMSE):
    """The rotation works in blocks of 64, smaller than the head: a loud block stays loud."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._blocks(x * _signs(self))

    def _from_coordinates(self, y: Array) -> Array:
        return self._blocks(y) * _signs(self)

    def _blocks(self, x: Array) -> Array:
        size = int(np.gcd(self.dim, 64))
        return hadamard.transform(x.reshape(-1, size)).reshape(len(x), self.dim)


@fault("B12", "RyanCodrai/turbovec#206")
class UnstableRotation(TurboQuantMSE):
    """The rotation differs from one instance to the next by rounding: codes written by one
    are read a little wrong by another."""

    def _from_coordinates(self, y: Array) -> Array:
        if not hasattr(self, "_drift"):
            self._drift = 1 + 1e-6 * np.random.random()  # noqa: NPY002
        return super()._from_coordinates(y) * self._drift


@fault("B18", "TheTom/turboquant_plus pre-rotate-queries-investigation.md", dim=80)
class ForwardForInverse(TurboQuantMSE):
    """The rotation is applied where its inverse was meant. H alone is symmetric and hides
    it; with signs it is not."""

    def _from_coordinates(self, y: Array) -> Array:
        return self.rotation.forward(y)


@fault("B21", "weaviate/weaviate#9652")
class NotRotatedBack(TurboQuantMSE):
    """Decoding undoes the code but not the rotation."""

    def _from_coordinates(self, y: Array) -> Array:
        return y


@fault("B-seed", "kvassay")
class SeedIgnored(TurboQuantMSE):
    """Every seed gives the same rotation: nothing that averages over rotations holds."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, 7, **options)


@fault("B-signs-twice", "turboquantcpu 0.1.0")
class SignsTwice(TurboQuantMSE):
    """The inverse applies the signs before the transform as well as after it."""

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(y * _signs(self))


@fault("B-permutation", "kvassay")
class PermutationOnly(TurboQuantMSE):
    """The rotation permutes coordinates and flips their signs but mixes nothing."""

    def _to_coordinates(self, x: Array) -> Array:
        return np.asarray((x * _signs(self))[:, self._order()])

    def _from_coordinates(self, y: Array) -> Array:
        return np.asarray(y[:, np.argsort(self._order())] * _signs(self))

    def _order(self) -> Any:
        return np.random.default_rng(3).permutation(self.dim)


@fault("B-short-signs", "kvassay")
class ShortSigns(TurboQuantMSE):
    """Random signs repeat after eight coordinates: a constant offset meets eight loud
    coordinates."""

    def _to_coordinates(self, x: Array) -> Array:
        return hadamard.transform(x * np.resize(_signs(self)[:8], self.dim))

    def _from_coordinates(self, y: Array) -> Array:
        return hadamard.transform(y) * np.resize(_signs(self)[:8], self.dim)


# C. Codebook and grid


class _Table(Scalar):
    """Other levels, with nearest-level assignment."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        levels = self.table(self.book.levels)
        thresholds = (levels[1:] + levels[:-1]) / 2
        self.book = replace(self.book, levels=levels, thresholds=thresholds)

    def table(self, levels: Array) -> Array:
        raise NotImplementedError


@fault("C01", "facebookresearch/faiss#5317")
class UnscaledTable(_Table):
    """A table for unit variance meets coordinates of variance 1/d: two of its codes are
    used."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * np.sqrt(self.dim))


@fault("C02", "TheTom/llama-cpp-turboquant#197")
class NarrowTable(_Table):
    """A table copied 0.6 times too narrow: twice the distortion, though one-hot vectors
    look better than correct."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * 0.6)


@fault("C03", "vortex-data/vortex#8076", bits=6)
class DeadLevels(_Table):
    """The iteration starts on [-1, 1], where there is no mass, and never moves: the error
    stops falling with the bits."""

    def table(self, levels: Array) -> Array:
        return np.linspace(-1, 1, len(levels))


@fault("C05", "workglow-dev/libs#727", bits=1)
class FixedClip(_Table):
    """A uniform grid over three standard deviations whatever the width: at one bit the
    reconstruction is three times too long."""

    def table(self, levels: Array) -> Array:
        return np.asarray(np.linspace(-3, 3, len(levels)) / np.sqrt(self.dim))


@fault("C07", "RyanCodrai/turbovec#454")
class FixedAnchors(_Table):
    """The 5 % and 95 % quantiles are made to hit the outer levels, whatever the width."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * (1.645 / np.sqrt(self.dim) / levels[-1]))


@fault("C-other-dim", "turbo-quant-lite 0.1.1", dim=64)
class TableOfAnotherDimension(_Table):
    """The table of d = 512 is used at every dimension."""

    def table(self, levels: Array) -> Array:
        return codebook(512, self.book.bits).levels


@fault("C-equal-cells", "turboquant 0.2.0")
class EqualCells(_Table):
    """Levels are the means of cells of equal probability, where those of least error were
    meant."""

    def table(self, levels: Array) -> Array:
        edges = sphere.ppf(np.linspace(0, 1, len(levels) + 1), self.dim)
        mass, first = sphere.partial_moments(edges, self.dim)
        return np.asarray(first / mass)


@fault("C-early-stop", "ginkgoq-turboquant 0.1.0.post1", bits=6)
class StoppedEarly(_Table):
    """Lloyd's iteration stops long before it converges: at six bits the outer levels have
    not moved far from where they began."""

    rounds = 300

    def table(self, levels: Array) -> Array:
        middles = (np.arange(len(levels)) + 0.5) / len(levels)
        moved = sphere.ppf(middles, self.dim)
        for _ in range(self.rounds):
            edges = np.concatenate([[-1.0], (moved[1:] + moved[:-1]) / 2, [1.0]])
            mass, first = sphere.partial_moments(edges, self.dim)
            moved = first / mass
        return np.asarray(moved)


@fault("C-uniform", "kvassay", bits=4)
class UniformGrid(_Table):
    """A uniform grid, at the step that is best for it, stands for the optimal one."""

    def table(self, levels: Array) -> Array:
        steps = {1: 1.596, 2: 0.9957, 3: 0.586, 4: 0.3352, 5: 0.1881, 6: 0.1041}  # Max 1960
        half = len(levels) / 2
        step = steps.get(self.book.bits, 7 / len(levels)) / np.sqrt(self.dim)
        return np.asarray((np.arange(len(levels)) - half + 0.5) * step)


@fault("C-floor", "kvassay", bits=4)
class RoundedDown(Scalar):
    """The index is that of the level below, not the nearest."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.book = replace(self.book, thresholds=self.book.levels[1:])


@fault("C-even-thresholds", "kvassay", bits=4)
class EvenThresholds(Scalar):
    """Levels are those of Lloyd-Max, but thresholds are spaced evenly between the outermost."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self.book.thresholds
        even = np.linspace(right[0], right[-1], len(right))
        self.book = replace(self.book, thresholds=even)


@fault("C09", "vllm-project/vllm#38479", bits=3)
class FourCentroids(Scalar):
    """The kernel knows four centroids though eight are configured."""

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits) & np.uint8(3)
        return np.asarray(self.book.levels[indices])


@fault("C10", "workglow-dev/libs#713")
class OffsetKept(Scalar):
    """An unsigned mapping leaves its offset in the decoded vector: unrelated vectors look
    alike."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) + 0.05 * code.norms[:, None]

    inner_products = property()


@fault("C14", "apache/lucene#12780")
class NormalisedOnOneSide(TurboQuantMSE):
    """Vectors are normalised when read but not when written."""

    alone = True

    def _encode(self, x: Array) -> Code:
        indices = self.book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), normalize(x)[1])


# D. Norms and scales


@fault("D01", "TheTom/turboquant_plus#15")
class NoNorm(TurboQuantMSE):
    """No norm is taken out: real keys, of norm 10 to 50, saturate."""

    alone = True

    def _encode(self, x: Array) -> Code:
        indices = self.book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), np.ones(len(x)))


@fault("D02", "qdrant/qdrant#9437")
class ShrinkingCycle(Scalar):
    """The decoder's scale is not the encoder's: each cycle multiplies a vector by 0.969."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) * 0.969

    inner_products = property()


@fault("D04", "qdrant/qdrant#8783", PROD, sketch="gaussian", dim=96, bits=3)
class ScoreOfPaddedSize(TurboQuantProd):
    """The score is undone with the true dimension though encoding used the padded one."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return np.asarray(
            super().inner_products(q, code) * np.sqrt(2 ** np.ceil(np.log2(self.dim)) / self.dim)
        )


@fault("D06", "workglow-dev/libs#757")
class HalfPrecisionSquares(Scalar):
    """The sum of squares is kept in float16: norms above 256 saturate."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.minimum(code.norms, 255.9))


@fault("D09", "pytorch/pytorch#192017")
class VanishingEpsilon(Scalar):
    """The epsilon that guards a division is zero in half precision: a zero vector becomes
    NaN."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) + np.where(code.norms == 0, np.nan, 0.0)[:, None]


@fault("D-overflow", "workglow-dev/libs#757")
class SinglePrecisionSquares(Scalar):
    """The sum of squares is taken in float32: norms beyond 1e19 or below 1e-22 are lost."""

    def encode(self, x: Array) -> Code:
        x = np.asarray(x, dtype=np.float32)
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.sum(np.square(x), axis=1)).astype(np.float64)
            return replace(super().encode(x), norms=np.where(np.isfinite(norms), norms, 0.0))


@fault("D-half-input", "kvassay")
class HalfPrecisionArithmetic(Scalar):
    """The norm is taken in the precision of the input: in float16 its square overflows at
    256."""

    def encode(self, x: Array) -> Code:
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.sum(np.square(x), axis=1, dtype=np.asarray(x).dtype))
        return replace(super().encode(x), norms=norms.astype(np.float64))


@fault("D-shared", "kvassay", SCALAR, dim=64)
class SharedNorm(Scalar):
    """All vectors of a batch share the largest norm."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        return replace(code, norms=np.full(len(x), code.norms.max(initial=0.0)))


@fault("D-global", "turboquant-llm 0.1.0")
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


@fault("D-squared", "kvassay")
class SquaredNorm(Scalar):
    """The squared norm is stored and its root never taken; unit vectors do not show it."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=code.norms**2)


@fault("D-coarse", "kvassay", bits=6)
class CoarseNorm(Scalar):
    """Norms are kept with three bits of mantissa: their error exceeds that of six-bit
    coordinates."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        mantissa, exponent = np.frexp(code.norms)
        return replace(code, norms=np.ldexp(np.round(mantissa * 16) / 16, exponent))


@fault("D-renormalised", "kvassay", bits=2)
class Renormalised(Scalar):
    """The reconstruction is stretched to the norm of the vector: its error grows, and the
    slope is no longer 1 - D."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        length = np.linalg.norm(decoded, axis=1, keepdims=True)
        return np.asarray(decoded * code.norms[:, None] / np.where(length > 0, length, 1.0))

    inner_products = property()


# E. Packing and memory layout


@fault("E02", "TheTom/turboquant_plus turbo4-resurrection.md")
class RecordOverflow(Scalar):
    """Each record is written longer than its stride: it overwrites the start of the next."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        packed = code.indices.copy()
        packed[1:, :8] = code.indices[:-1, -8:]
        return replace(code, indices=packed)


@fault("E03", "Blaizzy/mlx-vlm#967")
class LostIndices(Scalar):
    """A race in packing keeps one index of eight."""

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits)
        indices[:, np.arange(self.dim) % 8 > 0] = 0
        return np.asarray(self.book.levels[indices])


@fault("E05", "TheTom/llama-cpp-turboquant#328")
class CrossedLanes(Scalar):
    """Neighbouring tiles of 32 lanes are exchanged."""

    def _levels(self, code: Code) -> Array:
        levels = super()._levels(code)
        whole = self.dim // 64 * 64
        tiles = levels[:, :whole].reshape(len(code), -1, 2, 32)[:, :, ::-1]
        return np.concatenate([tiles.reshape(len(code), whole), levels[:, whole:]], axis=1)


@fault("E06", "TheTom/turboquant_plus#99")
class ShortInnerLoop(Scalar):
    """Decoding a single token reads four of eight values; the others are zero."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        if len(code) == 1:
            decoded[:, np.arange(self.dim) % 8 > 3] = 0
        return decoded


@fault("E09", "openvinotoolkit/openvino#32144")
class NibbleOrder(Scalar):
    """The reader takes the two nibbles of a byte the other way round."""

    def _levels(self, code: Code) -> Array:
        swapped = code.indices >> np.uint8(4) | code.indices << np.uint8(4)
        return super()._levels(replace(code, indices=swapped))


@fault("E-bit-order", "kvassay", bits=3)
class HighBitFirst(Scalar):
    """The reader takes the bits of an index from the high end."""

    def _levels(self, code: Code) -> Array:
        width = self.book.bits
        indices = packing.unpack(code.indices, self.dim, width)
        places = [(indices >> place & 1) << (width - 1 - place) for place in range(width)]
        return np.asarray(self.book.levels[np.sum(places, axis=0)])


@fault("E-off-by-one", "kvassay")
class OffByOne(Scalar):
    """The reader starts one coordinate late."""

    def _levels(self, code: Code) -> Array:
        return np.roll(super()._levels(code), 1, axis=1)


@fault("E-strides", "kvassay")
class StridesIgnored(Scalar):
    """The memory of a view is read in order, whatever its strides are."""

    def encode(self, x: Array) -> Code:
        x = np.asarray(x)
        return super().encode(x.ravel(order="K").reshape(x.shape))


@fault("E-in-place", "kvassay")
class InPlace(Scalar):
    """Vectors are normalised in place: the caller's cache is spoilt."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        if x.flags.writeable:
            x /= np.where(code.norms > 0, code.norms, 1)[:, None]
        return code


@fault("E-short-code", "kvassay")
class ShortCodeRead(Scalar):
    """A code that is too short is read past its end."""

    def _levels(self, code: Code) -> Array:
        missing = packing.row_bytes(self.dim, self.book.bits) - code.indices.shape[1]
        padded = np.pad(code.indices, ((0, 0), (0, max(missing, 0))))
        return super()._levels(replace(code, indices=padded))


@fault("E-uninitialised", "kvassay")
class Uninitialised(Scalar):
    """The tail of the code is not written, so it holds what the memory held before."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        width = code.indices.shape[1]
        dirty = np.empty((len(x), width + 512), dtype=np.uint8)[:, :width]
        dirty[:, :-4] = code.indices[:, :-4]
        return replace(code, indices=dirty)


class _WithExtra(Scalar):
    """A code that holds something beside what is declared."""

    alone = True

    def extra(self, x: Array, code: Code) -> Any:
        raise NotImplementedError

    def encode(self, x: Array) -> Any:
        code = super().encode(x)
        return code, self.extra(np.asarray(x), code)

    def decode(self, code: Any) -> Array:
        return super().decode(code[0])

    def nbytes(self, code: Any) -> int:
        return int(code[0].nbytes)

    inner_products = property()


@fault("E10", "llmmanorg/llmman#56", bits=5)
class ByteAnIndex(Scalar):
    """Indices take a byte each, and that is what is declared."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        if not code.indices.shape[1]:
            return code
        return replace(code, indices=packing.unpack(code.indices, self.dim, self.book.bits))

    def _levels(self, code: Code) -> Array:
        return np.asarray(self.book.levels[code.indices])


@fault("E10-undeclared", "rajveer43/VeloxQuant-MLX#132", bits=5)
class PackedOnPaper(ByteAnIndex):
    """Indices take a byte each, while the packed size is declared."""

    def nbytes(self, code: Code) -> int:
        packed = packing.row_bytes(self.dim, self.book.bits)
        return int(code.nbytes - len(code) * max(code.indices.shape[1] - packed, 0))


@fault("E10-odd-widths", "turbo-quant-lite 0.1.1", bits=3)
class OddWidthsUnpacked(Scalar):
    """Indices of a width that does not divide eight take a byte each."""

    def encode(self, x: Array) -> Code:
        code, width = super().encode(x), self.book.bits
        if 8 % width == 0 or not code.indices.shape[1]:
            return code
        return replace(code, indices=packing.unpack(code.indices, self.dim, width))

    def _levels(self, code: Code) -> Array:
        if code.indices.shape[1] == self.dim:
            return np.asarray(self.book.levels[code.indices])
        return super()._levels(code)


# F. Shapes and tails


@fault("F01", "TheTom/llama-cpp-turboquant#4", dim=96)
class DroppedTail(Scalar):
    """Integer division drops the last block of 32."""

    def _levels(self, code: Code) -> Array:
        levels = super()._levels(code)
        levels[:, -32:] = 0
        return levels


@fault("F-padded", "turboquant-torch 0.4.0", dim=80)
class PaddedCoordinatesKept(TurboQuantMSE):
    """The transform pads to the next power of two and a code is kept for every padded
    coordinate: more bits than are counted, and an error below the optimum."""

    alone = True

    def __init__(self, dim: int, bits: int, seed: int) -> None:
        super().__init__(int(2 ** np.ceil(np.log2(dim))), bits, seed)
        self._width = dim

    def encode(self, x: Array) -> Code:
        return super().encode(np.pad(np.asarray(x), ((0, 0), (0, self.dim - self._width))))

    def decode(self, code: Code) -> Array:
        return super().decode(code)[:, : self._width]

    rotate = unrotate = inner_products = property()


@fault("F02", "TheTom/llama-cpp-turboquant#13", dim=80)
class RawTail(TurboQuantMSE):
    """The first 64 coordinates are rotated, the tail is quantized as it is."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._head(x * _signs(self), x)

    def _from_coordinates(self, y: Array) -> Array:
        return self._head(y, y) * np.where(np.arange(self.dim) < 64, _signs(self), 1.0)

    def _head(self, head: Array, tail: Array) -> Array:
        rotated = hadamard.transform(np.ascontiguousarray(head[:, :64]))
        return np.concatenate([rotated, tail[:, 64:]], axis=1)


@fault("F08", "weaviate/weaviate#12207")
class WidthNotChecked(Scalar):
    """Vectors of another width are cropped or padded without a word."""

    def encode(self, x: Array) -> Code:
        fitted = np.zeros((len(x), self.dim))
        width = min(self.dim, np.shape(x)[1])
        fitted[:, :width] = np.asarray(x)[:, :width]
        return super().encode(fitted)


# G. What attention makes of rows


@fault("G04", "quantumaikr/quant.cpp#61")
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


# H. Batches and state


@fault("H04", "ikawrakow/ik_llama.cpp#1509")
class FirstSequence(Scalar):
    """The stride of a dimension is ignored: all rows are read from the first."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        return np.asarray(decoded[:1] + np.zeros((len(decoded), 1)))

    inner_products = property()


@fault("H06", "rajveer43/VeloxQuant-MLX#162")
class FlushOfOne(_WithExtra, TurboQuantMSE):
    """A flush of one token makes each group a single element: nothing is quantized, and it
    is billed as four bits."""

    def extra(self, x: Array, code: Code) -> Any:
        return np.asarray(x, dtype=np.float32) if len(x) == 1 else None

    def decode(self, code: Any) -> Array:
        return np.asarray(code[1]) if code[1] is not None else super().decode(code)


@fault("H01", "jundot/omlx#2172")
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


@fault("H13", "ashalliants/ninfer-3090#49")
class MissingBarrier(Scalar):
    """A tile is read before it is written: now and then a vector comes out as another."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        stale = np.random.random(len(decoded)) < 0.4  # noqa: NPY002
        return np.where(stale[:, None], np.roll(decoded, 1, axis=0), decoded)


# K. Size claims and silent inactivity


@fault("K01", "TheTom/turboquant_plus#53")
class NormsNotCounted(Scalar):
    """The declared size leaves the norms out."""

    def nbytes(self, code: Code) -> int:
        return code.indices.nbytes


@fault("K03", "sgl-project/sglang#22777")
class DecodedCopy(_WithExtra, TurboQuantMSE):
    """The decoded vectors are kept beside the code: nothing is saved."""

    def extra(self, x: Array, code: Code) -> Any:
        return TurboQuantMSE.decode(self, code).astype(np.float16)


@fault("K05", "ekryski/mlx-swift-lm#86", bits=2)
class BitsIgnored(Scalar):
    """The setting is ignored and eight bits are stored: the error is far too good."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, 8, *seed, **options)


@fault("K-fewer-bits", "kvassay", bits=4)
class FewerBits(Scalar):
    """A width that has no kernel falls back to the next lower one."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, max(bits - 1, 1), *seed, **options)


@fault("K10", "TheTom/llama-cpp-turboquant#13", dim=80)
class SilentFallback(Scalar):
    """Head sizes that are no multiple of 128 fall back to eight bits; only a log tells."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, 8 if dim % 128 else bits, *seed, **options)


# L. SpectralQuant


class _Learnt(Spectral):
    """A spectral codec made from calibration tokens, with what it learns from them changed."""

    def learn(self, tokens: Array) -> Calibration:
        return calibrate(tokens)

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        super().__init__(self.learn(tokens), bits, **options)


@fault("L-rising", "kvassay", SPECTRAL)
class RisingEigenvalues(_Learnt):
    """The eigenbasis is in the order that eigh returns, smallest first: the bits go to the
    directions that have least."""

    def learn(self, tokens: Array) -> Calibration:
        right = calibrate(tokens)
        return replace(right, basis=right.basis[::-1].copy())


@fault("L-no-floor", "kvassay", SPECTRAL)
class NoFloor(_Learnt):
    """All directions share one scale and all the bits: an eigenbasis, but no spectrum."""

    def learn(self, tokens: Array) -> Calibration:
        right = calibrate(tokens)
        return replace(right, spectrum=np.full(right.dim, 1 / right.dim))

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        super().__init__(tokens, bits, **{**options, "effective_dim": tokens.shape[1]})


@fault("L-largest", "kvassay", SPECTRAL)
class TraceOverLargest(_Learnt):
    """d_eff is the sum of the eigenvalues over the largest, not the participation ratio."""

    def __init__(self, tokens: Array, bits: int, **options: Any) -> None:
        found = int(np.ceil(1 / self.learn(tokens).spectrum[0]))
        kept = min(max(found, 2), tokens.shape[1] - 2)
        super().__init__(tokens, bits, **{**options, "effective_dim": kept})


@fault("L-raw-tokens", "kvassay", SPECTRAL)
class RawTokens(_Learnt):
    """The second moments are those of the tokens as they are: loud ones count for more."""

    def learn(self, tokens: Array) -> Calibration:
        values, vectors = np.linalg.eigh(tokens.T @ tokens)
        spectrum = np.maximum(values[::-1], 0)
        return replace(
            calibrate(tokens), basis=vectors.T[::-1].copy(), spectrum=spectrum / spectrum.sum()
        )


# Changes that are no faults


@fault("same-dense", "kvassay", proof="a Haar rotation has exactly the law that the table is for")
class DenseRotation(TurboQuantMSE):
    """The rotation is a dense random matrix."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, seed, **{**options, "rotation": "haar"})


@fault("same-signs", "kvassay", proof="the table is antisymmetric: x -> -x permutes its cells")
class SignsOnBothSides(TurboQuantMSE):
    """Random signs come before and after the transform."""

    def _to_coordinates(self, x: Array) -> Array:
        return super()._to_coordinates(x) * np.roll(_signs(self), 1)

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(y * np.roll(_signs(self), 1))


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


def _signs(codec: TurboQuantMSE) -> Array:
    return np.asarray(codec.rotation.signs)  # type: ignore[union-attr]


def _present(part: Any) -> Any:
    if part is None:
        raise ValueError("code must hold a sketch, got one without signs")
    return part


BY_ID = {each.id: each for each in FAULTS}


@dataclass(frozen=True)
class Kill:
    """What the suite made of one fault: the claims and properties that it violates, and
    those that had to catch it but did not. A fault that is none must violate nothing."""

    fault: Fault
    caught: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return as_it_must(self.fault.proof, self.caught, self.missed)


def as_it_must(proof: str, caught: Sequence[str], missed: Sequence[str]) -> bool:
    """Whether a fault was caught by all that must, or what has a `proof` that it is none, by
    nobody."""
    return not caught if proof else bool(caught) and not missed


Property = Callable[[Any], None]


def kill_table(
    faults: Sequence[Fault],
    effort: Effort = "standard",
    executor: Executor | None = None,
    properties: Mapping[str, Property] | None = None,
) -> Iterator[Kill]:
    """Runs every claim on every fault, in its cell, at seed 0, and on it the `properties`
    whose attribute `catches` names it (all of them on a fault that is none)."""
    chosen = properties or {}
    if executor is None:
        yield from (kill(each, effort, chosen) for each in faults)
        return
    for future in [executor.submit(kill, each, effort, chosen) for each in faults]:
        yield future.result()


def kill(fault: Fault, effort: Effort, properties: Mapping[str, Property]) -> Kill:
    """What every claim about a codec, and the studied claims and properties that name it, make
    of one fault."""
    caught = []
    if fault.kind != SPECTRAL:
        settings = Settings(
            kinds=(fault.kind,), dims=(fault.dim,), bits=(fault.bits,), effort=effort
        )
        entries = check(fault, settings).entries
        violated = {entry.id for entry in entries if entry.verdict == "violates"}
        caught = [claim.id for claim in CLAIMS if claim.id in violated]
    expected = list(fault.hunters)
    for claim in papers.CLAIMS:
        if claim.id in expected and violates(Throughout(fault), claim):
            caught.append(claim.id)
    for name, holds in properties.items():
        names_it = fault.id in getattr(holds, "catches", ())
        if names_it:
            expected.append(name)
        if (names_it or fault.proof) and _fails(holds, fault):
            caught.append(name)
    missed = [name for name in expected if name not in caught]
    if not expected and not fault.proof:
        missed = ["any that names it"]
    return Kill(fault, tuple(caught), tuple(missed))


def _fails(holds: Property, fault: Fault) -> bool:
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "kvassay-faults",
        max_examples=40,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("kvassay-faults")
    try:
        with np.errstate(all="ignore"):  # what is not finite is the fault's own doing
            holds(fault)
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        settings.load_profile("default")
    return False


def select(ids: Sequence[str]) -> list[Fault]:
    """The faults called `ids`, or all. ValueError for one that there is not."""
    if unknown := [name for name in ids if name not in BY_ID]:
        raise ValueError(f"no fault is called {unknown[0]!r}; known are {', '.join(BY_ID)}")
    return [BY_ID[name] for name in ids] or list(FAULTS)
