"""E, F. Packing, memory layout, shapes and tails."""

from dataclasses import replace

import numpy as np

from kvassay.conformance.faults.fault import fault, signs_of
from kvassay.reference import hadamard, packing
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE
from kvassay.reference.sphere import Array


@fault(
    "E02",
    "TheTom/turboquant_plus turbo4-resurrection.md",
    caught_by=("distortion", "batch-invariance"),
)
class RecordOverflow(Scalar):
    """Each record is written longer than its stride: it overwrites the start of the next."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        packed = code.indices.copy()
        packed[1:, :8] = code.indices[:-1, -8:]
        return replace(code, indices=packed)


@fault("E03", "Blaizzy/mlx-vlm#967", caught_by=("distortion", "qjl-unbiased"))
class LostIndices(Scalar):
    """A race in packing keeps one index of eight."""

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits)
        indices[:, np.arange(self.dim) % 8 > 0] = 0
        return np.asarray(self.book.levels[indices])


@fault("E05", "TheTom/llama-cpp-turboquant#328", caught_by=("distortion", "qjl-unbiased"))
class CrossedLanes(Scalar):
    """Neighbouring tiles of 32 lanes are exchanged."""

    def _levels(self, code: Code) -> Array:
        levels = super()._levels(code)
        whole = self.dim // 64 * 64
        tiles = levels[:, :whole].reshape(len(code), -1, 2, 32)[:, :, ::-1]
        return np.concatenate([tiles.reshape(len(code), whole), levels[:, whole:]], axis=1)


@fault("E06", "TheTom/turboquant_plus#99", caught_by=("batch-invariance",))
class ShortInnerLoop(Scalar):
    """Decoding a single token reads four of eight values; the others are zero."""

    def decode(self, code: Code) -> Array:
        decoded = super().decode(code)
        if len(code) == 1:
            decoded[:, np.arange(self.dim) % 8 > 3] = 0
        return decoded


@fault("E09", "openvinotoolkit/openvino#32144", caught_by=("distortion", "qjl-unbiased"))
class NibbleOrder(Scalar):
    """The reader takes the two nibbles of a byte the other way round."""

    def _levels(self, code: Code) -> Array:
        swapped = code.indices >> np.uint8(4) | code.indices << np.uint8(4)
        return super()._levels(replace(code, indices=swapped))


@fault("E-bit-order", "kvassay", bits=3, caught_by=("distortion", "qjl-unbiased"))
class HighBitFirst(Scalar):
    """The reader takes the bits of an index from the high end."""

    def _levels(self, code: Code) -> Array:
        width = self.book.bits
        indices = packing.unpack(code.indices, self.dim, width)
        places = [(indices >> place & 1) << (width - 1 - place) for place in range(width)]
        return np.asarray(self.book.levels[np.sum(places, axis=0)])


@fault("E-off-by-one", "kvassay", caught_by=("distortion", "qjl-unbiased"))
class OffByOne(Scalar):
    """The reader starts one coordinate late."""

    def _levels(self, code: Code) -> Array:
        return np.roll(super()._levels(code), 1, axis=1)


@fault("E-strides", "kvassay", caught_by=("any-input",))
class StridesIgnored(Scalar):
    """The memory of a view is read in order, whatever its strides are."""

    def encode(self, x: Array) -> Code:
        x = np.asarray(x)
        return super().encode(x.ravel(order="K").reshape(x.shape))


@fault("E-in-place", "kvassay", caught_by=("any-input",))
class InPlace(Scalar):
    """Vectors are normalised in place: the caller's cache is spoilt."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        if x.flags.writeable:
            x /= np.where(code.norms > 0, code.norms, 1)[:, None]
        return code


@fault("E-short-code", "kvassay", caught_by=("refusals",))
class ShortCodeRead(Scalar):
    """A code that is too short is read past its end."""

    def _levels(self, code: Code) -> Array:
        missing = packing.row_bytes(self.dim, self.book.bits) - code.indices.shape[1]
        padded = np.pad(code.indices, ((0, 0), (0, max(missing, 0))))
        return super()._levels(replace(code, indices=padded))


@fault("E-uninitialised", "kvassay", caught_by=("codecs-apart",))
class Uninitialised(Scalar):
    """The tail of the code is not written, so it holds what the memory held before."""

    def encode(self, x: Array) -> Code:
        code = super().encode(x)
        width = code.indices.shape[1]
        dirty = np.empty((len(x), width + 512), dtype=np.uint8)[:, :width]
        dirty[:, :-4] = code.indices[:, :-4]
        return replace(code, indices=dirty)


@fault("E10", "llmmanorg/llmman#56", bits=5, caught_by=("size-accounting",))
class ByteAnIndex(Scalar):
    """Indices take a byte each, and that is what is declared."""

    def _encode(self, x: Array) -> Code:
        code = super()._encode(x)
        if not code.indices.shape[1]:
            return code
        return replace(code, indices=packing.unpack(code.indices, self.dim, self.book.bits))

    def _levels(self, code: Code) -> Array:
        return np.asarray(self.book.levels[code.indices])


@fault("E10-undeclared", "rajveer43/VeloxQuant-MLX#132", bits=5, caught_by=("size-accounting",))
class PackedOnPaper(ByteAnIndex):
    """Indices take a byte each, while the packed size is declared."""

    def nbytes(self, code: Code) -> int:
        packed = packing.row_bytes(self.dim, self.book.bits)
        return int(code.nbytes - len(code) * max(code.indices.shape[1] - packed, 0))


@fault("E10-odd-widths", "turbo-quant-lite 0.1.1", bits=3, caught_by=("size-accounting",))
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


@fault("F01", "TheTom/llama-cpp-turboquant#4", dim=96, caught_by=("distortion", "qjl-unbiased"))
class DroppedTail(Scalar):
    """Integer division drops the last block of 32."""

    def _levels(self, code: Code) -> Array:
        levels = super()._levels(code)
        levels[:, -32:] = 0
        return levels


@fault("F-padded", "turboquant-torch 0.4.0", dim=80, caught_by=("distortion",))
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


@fault("F02", "TheTom/llama-cpp-turboquant#13", dim=80, caught_by=("rotation-spreads",))
class RawTail(TurboQuantMSE):
    """The first 64 coordinates are rotated, the tail is quantized as it is."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._head(x * signs_of(self), x)

    def _from_coordinates(self, y: Array) -> Array:
        return self._head(y, y) * np.where(np.arange(self.dim) < 64, signs_of(self), 1.0)

    def _head(self, head: Array, tail: Array) -> Array:
        rotated = hadamard.transform(np.ascontiguousarray(head[:, :64]))
        return np.concatenate([rotated, tail[:, 64:]], axis=1)


@fault("F08", "weaviate/weaviate#12207", caught_by=("refusals",))
class WidthNotChecked(Scalar):
    """Vectors of another width are cropped or padded without a word."""

    def encode(self, x: Array) -> Code:
        fitted = np.zeros((len(x), self.dim))
        width = min(self.dim, np.shape(x)[1])
        fitted[:, :width] = np.asarray(x)[:, :width]
        return super().encode(fitted)
