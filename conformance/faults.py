"""Faults that real implementations had, each as a mutation of the reference.

A fault is a codec with one thing wrong, in a few lines: its docstring says what is wrong
and what that costs, the decorator where it was seen and the cell in which it shows. Which
claims must catch it stands in the claims (`kills`); `kvassay faults` holds them to it.
Faults that stand for one another in the literature share the first three characters of
their id.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvassay.conformance.catalogue import CLAIMS
from kvassay.conformance.experiments import Effort
from kvassay.conformance.protocol import Capabilities
from kvassay.conformance.runner import Settings, check
from kvassay.reference import hadamard, packing, qjl
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd, normalize
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.sphere import Array

SCALAR, MSE, PROD = "scalar", "turboquant-mse", "turboquant-prod"


@dataclass(frozen=True)
class Fault:
    """One fault, and a backend that has it. `source` names the tracker it was seen in."""

    id: str
    text: str
    source: str
    kind: str
    sketch: str
    dim: int
    bits: int
    codec_class: type

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

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        """The faulty codec for its kind; the correct one beside it for the others."""
        if kind != self.kind:
            return TurboQuantMSE(dim, bits, seed)
        if kind == SCALAR:
            return self.codec_class(dim, bits)
        return self.codec_class(dim, bits, seed, **options)


FAULTS: list[Fault] = []


def fault(
    id: str, source: str, kind: str = MSE, *, sketch: str = "", dim: int = 128, bits: int = 4
) -> Callable[[type], type]:
    """Registers the class below as the fault `id`, to be looked for in one cell."""

    def register(codec_class: type) -> type:
        text = " ".join((codec_class.__doc__ or "").split())
        FAULTS.append(Fault(id, text, source, kind, sketch, dim, bits, codec_class))
        return codec_class

    return register


# A. QJL, the residual and the estimator


class _Scaled(TurboQuantProd):
    """A sketch whose scale is off by `factor`."""

    def factor(self) -> float:
        raise NotImplementedError

    def __init__(self, dim: int, bits: int, seed: int, sketch: str) -> None:
        super().__init__(dim, bits, seed, sketch=sketch)
        self._sketch.scale *= self.factor()


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
        indices = packing.unpack(code.indices, self.dim, self.bits - 1)
        scale = self._sketch.scale * _present(code.residual_norms)
        return np.asarray(self._book.levels[indices] + signs * scale[:, None])


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
        itself.scale = self._sketch.scale
        itself.blocks = [([], np.arange(dim))]  # the residual is in rotated coordinates
        self._sketch = itself


@fault("A15", "cyberlife-coder/VelesDB#2104", PROD, sketch="gaussian", bits=1)
class AgreementOnly(TurboQuantProd):
    """The estimate counts agreeing signs and never uses the correction: it follows
    1 - 2 angle / pi instead of the cosine."""

    def inner_products(self, q: Array, code: Code) -> Array:
        signs = np.where(packing.unpack(_present(code.signs), self.dim, 1), 1.0, -1.0)
        rotated = self.rotate(np.asarray(q, dtype=np.float64))
        own = qjl.signs(self._sketch, rotated)
        return np.asarray(own @ signs.T / self.dim * code.norms)


@fault("A18", "lance-format/lance#9452", PROD, sketch="gaussian", bits=4)
class NotLinearInQuery(TurboQuantProd):
    """A constant is added to every estimate: scaling the query changes the ranking."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) + 0.05 * code.norms


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
    """Random signs come after the transform, where they do nothing: a constant offset
    becomes one loud coordinate."""

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
        return hadamard.transform((x * _signs(self)).reshape(-1, 64)).reshape(len(x), self.dim)

    def _from_coordinates(self, y: Array) -> Array:
        return hadamard.transform(y.reshape(-1, 64)).reshape(len(y), self.dim) * _signs(self)


@fault("B12", "RyanCodrai/turbovec#206")
class UnstableRotation(TurboQuantMSE):
    """The rotation differs from one instance to the next by rounding: codes written by one
    are read a little wrong by another."""

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(y) * (1 + 1e-6 * np.random.random())  # noqa: NPY002


@fault("B18", "TheTom/turboquant_plus pre-rotate-queries-investigation.md", dim=80)
class ForwardForInverse(TurboQuantMSE):
    """The rotation is applied where its inverse was meant. H alone is symmetric and hides
    it; with signs it is not."""

    def _from_coordinates(self, y: Array) -> Array:
        return self._rotation.forward(y)


@fault("B21", "weaviate/weaviate#9652")
class NotRotatedBack(TurboQuantMSE):
    """Decoding undoes the code but not the rotation."""

    def _from_coordinates(self, y: Array) -> Array:
        return y


@fault("B-seed", "kvassay")
class SeedIgnored(TurboQuantMSE):
    """Every seed gives the same rotation: nothing that averages over rotations holds."""

    def __init__(self, dim: int, bits: int, seed: int) -> None:
        super().__init__(dim, bits, 7)


# C. Codebook and grid


class _Table(TurboQuantMSE):
    """Other levels, with nearest-level assignment."""

    def __init__(self, dim: int, bits: int, seed: int) -> None:
        super().__init__(dim, bits, seed)
        levels = self.table(codebook(dim, bits).levels)
        thresholds = (levels[1:] + levels[:-1]) / 2
        self._book = replace(self._book, levels=levels, thresholds=thresholds)

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


@fault("C09", "vllm-project/vllm#38479", bits=3)
class FourCentroids(TurboQuantMSE):
    """The kernel knows four centroids though eight are configured."""

    def _coordinates(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.bits) & np.uint8(3)
        return np.asarray(self._book.levels[indices])


@fault("C10", "workglow-dev/libs#713")
class OffsetKept(TurboQuantMSE):
    """An unsigned mapping leaves its offset in the decoded vector: unrelated vectors look
    alike."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) + 0.05 * code.norms[:, None]

    inner_products = property()


@fault("C14", "apache/lucene#12780")
class NormalisedOnOneSide(TurboQuantMSE):
    """Vectors are normalised when read but not when written."""

    def _encode(self, x: Array) -> Code:
        indices = self._book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), normalize(x)[1])


# D. Norms and scales


@fault("D01", "TheTom/turboquant_plus#15")
class NoNorm(TurboQuantMSE):
    """No norm is taken out: real keys, of norm 10 to 50, saturate."""

    def _encode(self, x: Array) -> Code:
        indices = self._book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), np.ones(len(x)))


@fault("D02", "qdrant/qdrant#9437")
class ShrinkingCycle(TurboQuantMSE):
    """The decoder's scale is not the encoder's: each cycle multiplies a vector by 0.969."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) * 0.969

    inner_products = property()


@fault("D04", "qdrant/qdrant#8783", PROD, sketch="gaussian", dim=96, bits=3)
class ScoreOfPaddedSize(TurboQuantProd):
    """The score is undone with the true dimension though encoding used the padded one."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return np.asarray(super().inner_products(q, code) * np.sqrt(128 / self.dim))


@fault("D06", "workglow-dev/libs#757")
class HalfPrecisionSquares(TurboQuantMSE):
    """The sum of squares is kept in float16: norms above 256 saturate."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.minimum(code.norms, 255.9))


@fault("D-shared", "kvassay", SCALAR, dim=64)
class SharedNorm(Scalar):
    """All vectors of a batch share the largest norm."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        return replace(code, norms=np.full(len(x), code.norms.max(initial=0.0)))


# E. Packing and memory layout


@fault("E02", "TheTom/turboquant_plus turbo4-resurrection.md")
class RecordOverflow(TurboQuantMSE):
    """Each record is written longer than its stride: it overwrites the start of the next."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        packed = code.indices.copy()
        packed[1:, :8] = code.indices[:-1, -8:]
        return replace(code, indices=packed)


@fault("E03", "Blaizzy/mlx-vlm#967")
class LostIndices(TurboQuantMSE):
    """A race in packing keeps one index of eight."""

    def _coordinates(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.bits)
        indices[:, np.arange(self.dim) % 8 > 0] = 0
        return np.asarray(self._book.levels[indices])


@fault("E05", "TheTom/llama-cpp-turboquant#328")
class CrossedLanes(TurboQuantMSE):
    """Neighbouring tiles of 32 lanes are exchanged."""

    def _coordinates(self, code: Code) -> Array:
        levels = super()._coordinates(code).reshape(len(code), -1, 2, 32)
        return np.ascontiguousarray(levels[:, :, ::-1]).reshape(len(code), self.dim)


@fault("E06", "TheTom/turboquant_plus#99")
class ShortInnerLoop(TurboQuantMSE):
    """Decoding a single token reads four of eight values; the others are zero."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        if len(code) == 1:
            decoded[:, np.arange(self.dim) % 8 > 3] = 0
        return decoded


@fault("E09", "openvinotoolkit/openvino#32144")
class NibbleOrder(TurboQuantMSE):
    """The reader takes the two nibbles of a byte the other way round."""

    def _coordinates(self, code: Code) -> Array:
        swapped = code.indices >> np.uint8(4) | code.indices << np.uint8(4)
        return super()._coordinates(replace(code, indices=swapped))


class _WithExtra(TurboQuantMSE):
    """A code that holds something beside what is declared."""

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
class ByteAnIndex(_WithExtra):
    """Codes of 5 to 7 bits take a byte each, while the packed size is declared."""

    def extra(self, x: Array, code: Code) -> Any:
        return np.zeros((len(x), self.dim), dtype=np.uint8)


# F. Shapes and tails


@fault("F01", "TheTom/llama-cpp-turboquant#4", dim=96)
class DroppedTail(TurboQuantMSE):
    """Integer division drops the last block of 32."""

    def _coordinates(self, code: Code) -> Array:
        levels = super()._coordinates(code)
        levels[:, -32:] = 0
        return levels


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


# H. Batches and state


@fault("H06", "rajveer43/VeloxQuant-MLX#162")
class FlushOfOne(_WithExtra):
    """A flush of one token makes each group a single element: nothing is quantized, and it
    is billed as four bits."""

    def extra(self, x: Array, code: Code) -> Any:
        return np.asarray(x, dtype=np.float32) if len(x) == 1 else None

    def decode(self, code: Any) -> Array:
        return np.asarray(code[1]) if code[1] is not None else super().decode(code)


@fault("H-workspace", "kvassay")
class ReusedWorkspace(TurboQuantMSE):
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
class MissingBarrier(TurboQuantMSE):
    """A tile is read before it is written: some vectors come out as another's, now and
    then."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        stale = np.random.random(len(decoded)) < 0.1  # noqa: NPY002
        return np.where(stale[:, None], np.roll(decoded, 1, axis=0), decoded)


# K. Size claims and silent inactivity


@fault("K01", "TheTom/turboquant_plus#53")
class NormsNotCounted(TurboQuantMSE):
    """The declared size leaves the norms out."""

    def nbytes(self, code: Code) -> int:
        return code.indices.nbytes


@fault("K03", "sgl-project/sglang#22777")
class DecodedCopy(_WithExtra):
    """The decoded vectors are kept beside the code: nothing is saved."""

    def extra(self, x: Array, code: Code) -> Any:
        return TurboQuantMSE.decode(self, code).astype(np.float16)


@fault("K05", "ekryski/mlx-swift-lm#86", bits=2)
class BitsIgnored(TurboQuantMSE):
    """The setting is ignored and eight bits are stored: the error is far too good."""

    def __init__(self, dim: int, bits: int, seed: int) -> None:
        super().__init__(dim, 8, seed)


@fault("K10", "TheTom/llama-cpp-turboquant#13", dim=80)
class SilentFallback(TurboQuantMSE):
    """Head sizes that are no multiple of 128 fall back to eight bits; only a log tells."""

    def __init__(self, dim: int, bits: int, seed: int) -> None:
        super().__init__(dim, 8 if dim % 128 else bits, seed)


def _signs(codec: TurboQuantMSE) -> Array:
    return np.asarray(codec._rotation.signs)  # type: ignore[union-attr]


def _present(part: Any) -> Any:
    if part is None:
        raise ValueError("code must hold a sketch, got one without signs")
    return part


BY_ID = {each.id: each for each in FAULTS}


@dataclass(frozen=True)
class Kill:
    """What the suite made of one fault: the claims it violates, and those that had to catch
    it but did not."""

    fault: Fault
    caught: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return bool(self.caught) and not self.missed


def kill_table(
    faults: Sequence[Fault], effort: Effort = "standard", executor: Executor | None = None
) -> Iterator[Kill]:
    """Runs every claim on every fault, in its cell, at seed 0."""
    for each in faults:
        settings = Settings(kinds=(each.kind,), dims=(each.dim,), bits=(each.bits,), effort=effort)
        report = check(each, settings, executor=executor)
        violated = {entry.id for entry in report.entries if entry.verdict == "violates"}
        expected = [claim.id for claim in CLAIMS if each.id in claim.kills]
        yield Kill(
            each,
            tuple(claim.id for claim in CLAIMS if claim.id in violated),
            tuple(name for name in expected if name not in violated) if expected else ("any",),
        )


def select(ids: Sequence[str]) -> list[Fault]:
    """The faults called `ids`, or all. ValueError for one that there is not."""
    if unknown := [name for name in ids if name not in BY_ID]:
        raise ValueError(f"no fault is called {unknown[0]!r}; known are {', '.join(BY_ID)}")
    return [BY_ID[name] for name in ids] or list(FAULTS)
