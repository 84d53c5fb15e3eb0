"""N. Edges: sizes of a call, codecs side by side, types, values and sizes that few try."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from kvassay.conformance.faults.fault import fault
from kvassay.reference import packing
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE
from kvassay.reference.sphere import Array


@fault("N-whole-numbers", "kvassay", caught_by=("distortion", "any-count"))
class WholeNumbers(Scalar):
    """Reconstructions are cast to whole numbers."""

    def decode(self, code: Code) -> Any:
        return np.round(super().decode(code)).astype(np.int32)

    inner_products = property()


@fault("N-tail", "kvassay", caught_by=("call-sizes",))
class TailOfBlock(Scalar):
    """Blocks of 16 vectors are decoded, and the rest of a longer batch is left out."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        if len(decoded) > 16:
            decoded[len(decoded) - len(decoded) % 16 :] = 0
        return decoded

    inner_products = property()


@fault("N-queries", "kvassay", caught_by=("call-sizes",))
class QueriesBeyondTile(Scalar):
    """Query 32 and those after it are scored as those of the first tile."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code)[np.arange(len(q)) % 32]


@fault("N-one-query", "kvassay", caught_by=("call-sizes",))
class OneQuery(Scalar):
    """A query alone takes a path of its own, which scores 2 % too high."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code) * (1.02 if len(q) == 1 else 1.0)


@fault("N-many-keys", "kvassay", caught_by=("call-sizes",))
class KeysBeyondTile(Scalar):
    """Key 1024 and those after it are scored as the first ones."""

    def inner_products(self, q: Array, code: Code) -> Array:
        return super().inner_products(q, code)[:, np.arange(len(code)) % 1024]


@fault("N-many-rows", "kvassay", dim=16, caught_by=("call-sizes",))
class RowsInSixteenBits(Scalar):
    """Rows are counted in 16 bits: row 65,536 is read from row 0."""

    def decode(self, code: Code) -> Array:
        return super().decode(code)[np.arange(len(code)) % 2**16]

    inner_products = property()


@fault("N-last-codec", "kvassay", caught_by=("codecs-apart",))
class RotationOfTheProcess(TurboQuantMSE):
    """The rotation lives once a process: the codec that was built last sets it for all."""

    _last: ClassVar[dict[int, Any]] = {}

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, seed, **options)
        self._last[dim] = self.rotation

    def _to_coordinates(self, x: Array) -> Array:
        return np.asarray(self._last[self.dim].forward(x))

    def _from_coordinates(self, y: Array) -> Array:
        return np.asarray(self._last[self.dim].inverse(y))


@fault("N-keeps", "kvassay", caught_by=("codecs-apart",))
class KeepsWhatItSaw(Scalar):
    """The codec keeps every vector that it has encoded, where no code counts it."""

    def encode(self, x: Array) -> Code:
        self.__dict__.setdefault("_seen", []).append(np.array(x))
        return super().encode(x)


@fault("N-gaps", "kvassay", caught_by=("codecs-apart",))
class GapsIgnored(Scalar):
    """A code that is a view with gaps is read as if it had none."""

    alone = True

    def decode(self, code: Code) -> Array:
        indices, base = code.indices, code.indices.base
        if base is not None and not indices.flags.c_contiguous:
            indices = base.reshape(-1)[: indices.size].reshape(indices.shape)
        return super().decode(replace(code, indices=indices))


@fault("N-query-type", "kvassay", caught_by=("any-input",))
class QueryReadAsSingle(Scalar):
    """The bytes of a query are read as float32, whatever they are."""

    def inner_products(self, q: Array, code: Code) -> Array:
        read = np.resize(np.frombuffer(np.ascontiguousarray(q).tobytes(), np.float32), q.shape)
        return super().inner_products(np.nan_to_num(read, posinf=0.0, neginf=0.0), code)


@fault("N-query-bfloat16", "kvassay", caught_by=("linear-scores",))
class QueryInBfloat16(Scalar):
    """Queries are rounded to bfloat16, and nothing says so."""

    def inner_products(self, q: Array, code: Code) -> Array:
        bits = np.ascontiguousarray(q, dtype=np.float32).view(np.uint32)
        rounded = ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
        return super().inner_products(rounded.astype(np.float64), code)


@fault("N-nan", "kvassay", caught_by=("refusals",))
class NotFiniteMadeFinite(Scalar):
    """NaN and infinity are taken for 0: a broken key looks like any other."""

    def encode(self, x: Array) -> Code:
        x = np.asarray(x)
        return super().encode(np.where(np.isfinite(x), x, np.zeros_like(x)))


@fault("N-half-norm", "kvassay", caught_by=("any-scale",))
class NormInHalfPrecision(Scalar):
    """Norms are kept in float16: above 65,504 they saturate, below 6e-8 they vanish."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        norms = np.minimum(code.norms, 65_504).astype(np.float16)
        return replace(code, norms=norms.astype(np.float64))


@fault("N-stale-norm", "kvassay", caught_by=("zero-and-constant",))
class StaleNorm(Scalar):
    """A norm of 0 is not written: a zero vector gets the norm of what lay there before."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        before = self.__dict__.setdefault("_norms", np.zeros(0))
        norms = code.norms.copy()
        there = np.flatnonzero(norms[: len(before)] == 0)
        norms[there] = before[there]
        self._norms = code.norms.copy()
        unit = np.where(code.norms == 0, norms, code.norms)
        return replace(code, norms=unit)


@fault("N-no-range", "kvassay", caught_by=("zero-and-constant",))
class NoRange(Scalar):
    """The scale is the range of a vector's coordinates: where all are equal it is 0."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        return replace(code, norms=np.where(np.ptp(x, axis=1) > 0, code.norms, 0.0))


@fault(
    "N-seven-bits", "kvassay", dim=64, bits=8, caught_by=("distortion", "every-seed", "every-size")
)
class SevenUsableBits(Scalar):
    """An index has seven usable bits: at eight, its highest is lost."""

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits) & np.uint8(0x7F)
        return np.asarray(self.book.levels[indices])


@fault("N-one-size", "kvassay", dim=192, caught_by=("distortion", "every-seed", "every-size"))
class OneSize(TurboQuantMSE):
    """At dimension 192 the last 64 coordinates are left as zeros."""

    def _from_coordinates(self, y: Array) -> Array:
        if self.dim == 192:
            y = np.concatenate([y[:, :128], np.zeros_like(y[:, 128:])], axis=1)
        return super()._from_coordinates(y)
