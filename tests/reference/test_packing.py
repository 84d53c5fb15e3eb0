import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvassay.reference import packing


@given(st.integers(1, 8), st.integers(0, 5), st.integers(0, 40), st.integers(0, 2**32))
def test_unpack_inverts_pack_in_exactly_the_stated_bytes(bits, count, dim, seed):
    indices = np.random.default_rng(seed).integers(0, 2**bits, (count, dim), dtype=np.uint8)
    packed = packing.pack(indices, bits)
    assert packed.shape == (count, -(-dim * bits // 8))
    np.testing.assert_array_equal(packing.unpack(packed, dim, bits), indices)


@given(st.integers(1, 8), st.integers(1, 40), st.integers(0, 2**32))
def test_layout_is_as_documented(bits, dim, seed):
    """Bit k of index i is bit i b + k of the row, counted from the lowest of each byte."""
    indices = np.random.default_rng(seed).integers(0, 2**bits, (1, dim), dtype=np.uint8)
    row = int.from_bytes(packing.pack(indices, bits)[0].tobytes(), "little")
    assert row == sum(int(index) << (i * bits) for i, index in enumerate(indices[0]))


@pytest.mark.parametrize(
    ("bits", "indices", "expected"),
    [
        (1, [1, 0, 0, 0, 0, 0, 0, 0, 1], [0x01, 0x01]),
        (2, [1, 2, 3, 0, 1], [0b00_11_10_01, 0b01]),
        (4, [0x3, 0xA, 0x5], [0xA3, 0x05]),
        (3, [1, 2, 7, 4], [0b11_010_001, 0b100_1 | 0b0000]),
        (8, [200, 3], [200, 3]),
    ],
)
def test_golden_rows(bits, indices, expected):
    packed = packing.pack(np.array([indices], dtype=np.uint8), bits)
    assert packed[0].tolist() == expected


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"indices must be below 2\^2, got 4"):
        packing.pack(np.array([[4]], dtype=np.uint8), 2)
    with pytest.raises(ValueError, match="indices must be uint8"):
        packing.pack(np.array([[1]]), 2)
    with pytest.raises(ValueError, match=r"bits must be in 1\.\.8, got 9"):
        packing.pack(np.array([[1]], dtype=np.uint8), 9)
    with pytest.raises(ValueError, match=r"packed must be uint8 of shape \(N, 3\)"):
        packing.unpack(np.zeros((2, 2), dtype=np.uint8), 8, 3)
