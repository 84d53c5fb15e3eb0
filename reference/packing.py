"""Bit packing of code indices.

Layout: row by row, coordinate by coordinate, the lowest bit of an index first, filling
each byte from its lowest bit; a row starts on a new byte and its last byte is filled up
with zeros. A row of d indices at b bits takes ceil(d b / 8) bytes. At b = 4 the first
coordinate is the low nibble; at b = 3 the third straddles bytes 0 and 1.

>>> pack(np.array([[1, 2, 7]], dtype=np.uint8), 3).tolist()  # 111 010 001, from the right
[[209, 1]]
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from kvassay.reference._checks import require_integer

Bytes = NDArray[np.uint8]


def row_bytes(count: int, bits: int) -> int:
    """Bytes that a row of `count` indices of `bits` bits takes."""
    return -(-count * bits // 8)


def pack(indices: Bytes, bits: int) -> Bytes:
    """(N, d) indices below 2^bits, bits in 1..8, to (N, ceil(d bits / 8)) bytes."""
    require_integer("bits", bits, 1, 8)
    if indices.dtype != np.uint8 or indices.ndim != 2:
        raise ValueError(
            f"indices must be uint8 of shape (N, d), got {indices.dtype} of shape {indices.shape}"
        )
    if indices.size and int(indices.max()) >= 2**bits:
        raise ValueError(f"indices must be below 2^{bits}, got {int(indices.max())}")
    count, dim = indices.shape
    if 8 % bits == 0:  # whole indices fill each byte
        per_byte = 8 // bits
        padded = np.zeros((count, row_bytes(dim, bits) * per_byte), dtype=np.uint8)
        padded[:, :dim] = indices
        packed = padded[:, ::per_byte].copy()
        for place in range(1, per_byte):
            packed |= padded[:, place::per_byte] << (place * bits)
        return packed
    planes = np.empty((count, dim, bits), dtype=np.uint8)
    for place in range(bits):
        np.bitwise_and(indices >> place, 1, out=planes[:, :, place])
    return np.packbits(planes.reshape(count, dim * bits), axis=1, bitorder="little")


def unpack(packed: Bytes, dim: int, bits: int) -> Bytes:
    """The inverse of `pack`: (N, ceil(dim bits / 8)) bytes to (N, dim) indices."""
    require_integer("bits", bits, 1, 8)
    expected = row_bytes(dim, bits)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != expected:
        raise ValueError(
            f"packed must be uint8 of shape (N, {expected}) for {dim} indices of {bits} bits, "
            f"got {packed.dtype} of shape {packed.shape}"
        )
    if 8 % bits == 0:
        indices = np.take(_byte_contents(bits), packed, axis=0)
        return indices.reshape(len(packed), expected * (8 // bits))[:, :dim]
    planes = np.unpackbits(packed, axis=1, count=dim * bits, bitorder="little")
    planes = planes.reshape(len(packed), dim, bits)
    indices = planes[:, :, 0].copy()
    for place in range(1, bits):
        indices |= planes[:, :, place] << place
    return indices


@cache
def _byte_contents(bits: int) -> Bytes:
    """The 8 / bits indices that each of the 256 bytes holds."""
    shifts = np.arange(0, 8, bits)
    contents = np.arange(256)[:, None] >> shifts & (2**bits - 1)
    return np.asarray(contents, dtype=np.uint8)
