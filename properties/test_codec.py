"""What holds for every single input. Each docstring begins with the fault it exists for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from kvassay.conformance.protocol import Backend
from kvassay.properties.strategies import (
    ROUNDING,
    Array,
    Choice,
    catches,
    cut,
    decoded,
    differ,
    fill_memory,
    for_all,
    has_levels,
    property_name,
    refusal_allowed,
    refuses,
    roundtrip,
    roundtrip_unless_refused,
)
from kvassay.reference import theory

pytestmark = pytest.mark.kvassay


@catches("G14")
def test_shape_and_dtype(kvassay_backend: Backend) -> None:
    """G14: empty batches mishandled. Any count, 0 and 1 among them,
    gives finite floating-point vectors of the shape that went in."""

    def check(choice: Choice, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, 9))
        codec = choice.codec(kvassay_backend)
        result = np.asarray(codec.decode(codec.encode(choice.sample(count))))
        assert result.shape == (count, choice.dim)
        assert result.dtype.kind == "f"
        assert np.isfinite(result).all()

    for_all(check, kvassay_backend)


@catches("A20", "D09")
def test_zero_vectors(kvassay_backend: Backend) -> None:
    """D09, A20: a zero norm or residual divided by makes NaN. A zero vector decodes to zero,
    and its neighbours do not notice."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(3)
        x[1] = 0
        result = roundtrip(codec, x)
        assert np.max(np.abs(result[1])) <= 1e-6
        assert not has_levels(kvassay_backend, choice) or np.any(result[0] != 0)

    for_all(check, kvassay_backend)


@catches("C14", "D01", "D06", "D-squared")
def test_scale_equivariance(kvassay_backend: Backend) -> None:
    """C14, D01, D06, D-squared: a norm that is missing, overflows or is applied on one side.
    For a power of two, which rounds nothing, a x gives a times the reconstruction of x."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(4)
        scale = np.float32(2.0 ** data.draw(st.sampled_from((-12, -6, -1, 3, 6))))
        assert np.all(
            differ(roundtrip(codec, x * scale) / float(scale), roundtrip(codec, x), x)
            <= choice.tolerance()
        )

    for_all(check, kvassay_backend)


@catches("B05", "E06", "G04", "H04", "H06")
def test_batch_is_singles(kvassay_backend: Backend) -> None:
    """B05, E06, G04, H04, H06: one token takes another path than many."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.isotropic(data.draw(st.integers(2, 9)))
        singles = np.vstack([roundtrip(codec, x[i : i + 1]) for i in range(len(x))])
        assert np.all(differ(roundtrip(codec, x), singles, x) <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("E02")
def test_order_of_tokens(kvassay_backend: Backend) -> None:
    """E02: a record that reaches into its neighbour.
    Permuted vectors give permuted reconstructions."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(8)
        order = np.array(data.draw(st.permutations(range(8))))
        assert np.all(
            differ(roundtrip(codec, x[order]), roundtrip(codec, x)[order], x[order])
            <= choice.tolerance()
        )

    for_all(check, kvassay_backend)


@catches("E-strides")
def test_memory_layout(kvassay_backend: Backend) -> None:
    """E-strides: strides ignored. Views that are reversed, strided or in Fortran order encode
    like a copy of them, unless they are refused."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.isotropic(6)
        views = {
            "reversed": x[::-1],
            "strided": np.repeat(x, 2, axis=0)[::2],
            "columns": np.repeat(x, 2, axis=1)[:, ::2],
            "fortran": np.asfortranarray(x),
            "read-only": np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
        }
        view = views[data.draw(st.sampled_from(sorted(views)))]
        result = roundtrip_unless_refused(codec, view)
        expected = roundtrip(codec, view.copy())
        assert np.all(differ(result, expected, view) <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("E-in-place")
def test_input_is_left_alone(kvassay_backend: Backend) -> None:
    """E-in-place: normalising in place spoils the caller's cache."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(4)
        before = x.copy()
        codec.encode(x)
        np.testing.assert_array_equal(x, before)

    for_all(check, kvassay_backend)


@catches("H01", "H13")
def test_code_outlives_the_next_encode(kvassay_backend: Backend) -> None:
    """H01, H13: codes that are views of a workspace, or state kept from the last batch."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(6)
        code = codec.encode(x)
        expected = decoded(codec, code)
        codec.encode(-3 * x[::-1])
        np.testing.assert_array_equal(decoded(codec, code), expected)

    for_all(check, kvassay_backend)


@catches("A06", "B12")
def test_one_seed_one_codec(kvassay_backend: Backend) -> None:
    """B12, A06: randomness from elsewhere than the seed. A code written by one instance is
    read by another."""

    def check(choice: Choice, data: st.DataObject) -> None:
        writer, reader = choice.codec(kvassay_backend), choice.codec(kvassay_backend)
        x = choice.sample(5)
        np.testing.assert_array_equal(
            decoded(reader, writer.encode(x)), decoded(writer, writer.encode(x))
        )

    for_all(check, kvassay_backend)


@catches("A15", "A18")
def test_estimates_are_linear_in_the_query(kvassay_backend: Backend) -> None:
    """A15, A18: a constant in the estimate, or only signs of the query: scaling the query
    changes the ranking."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        assume(hasattr(codec, "inner_products"))
        x = choice.sample(6)
        factor = 2.0 ** data.draw(st.integers(-6, 6))
        rng = np.random.default_rng([choice.seed, 1])  # not the stream that x is drawn from
        first, second = rng.standard_normal((2, 1, choice.dim)).astype(np.float32)
        code = codec.encode(x)

        def estimate(q: Any) -> Array:
            return np.asarray(codec.inner_products(q.astype(np.float32), code), dtype=np.float64)

        norms = np.linalg.norm(x, axis=1) * np.sqrt(choice.dim) * (factor + 1)
        combined = estimate(factor * first + second)
        parts = factor * estimate(first) + estimate(second)
        assert np.all(np.abs(combined - parts) <= ROUNDING * norms)

    for_all(check, kvassay_backend)


@catches("F08")
def test_wrong_width_is_refused(kvassay_backend: Backend) -> None:
    """F08: vectors of another width are padded, cropped or read past their end. They must
    raise; what they raise is up to the implementation."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        wrong = choice.dim + data.draw(st.sampled_from((-1, 1, choice.dim)))
        assert refuses(lambda: codec.encode(np.ones((2, wrong), dtype=np.float32)))

    for_all(check, kvassay_backend)


@catches("C10", "C-floor")
def test_sign_equivariance(kvassay_backend: Backend) -> None:
    """C10, C-floor: an offset kept, or indices rounded down. The code of -x gives minus the
    reconstruction of x."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.isotropic(6)
        assert np.all(differ(roundtrip(codec, -x), -roundtrip(codec, x), x) <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("C09", "E03", "K05")
def test_more_bits_less_error(kvassay_backend: Backend) -> None:
    """C09, E03, K05: a width that is ignored or not wholly used. A further
    bit lowers the squared error on isotropic vectors, by theory at least to 0.4 of it."""

    def check(choice: Choice, data: st.DataObject) -> None:
        assume(choice.bits < 8)
        x = choice.isotropic(32)
        fewer, more = (
            float(np.mean(differ(roundtrip(codec, x), x.astype(np.float64), x)))
            for codec in (choice.codec(kvassay_backend), choice.codec(kvassay_backend, more_bits=1))
        )
        assert more <= 0.7 * fewer + ROUNDING**2

    for_all(check, kvassay_backend)


@catches("D-shared")
def test_neighbours_do_not_matter(kvassay_backend: Backend) -> None:
    """D-shared: a scale or a buffer shared across the batch. A neighbour that is a
    million times louder changes nothing, nor does one that is NaN, unless it is refused."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(5)
        expected = roundtrip(codec, x)
        place = data.draw(st.integers(0, 4))
        others = np.arange(5) != place
        loud, spoilt = x.copy(), x.copy()
        loud[place] *= np.float32(2**20)
        spoilt[place] = np.nan
        results = [roundtrip(codec, loud)]
        with refusal_allowed():
            results.append(roundtrip(codec, spoilt))
        for result in results:
            assert np.all(differ(result, expected, x)[others] <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("D-overflow")
def test_extreme_norms(kvassay_backend: Backend) -> None:
    """D-overflow: squares that overflow or vanish in float32 before the norm does. Scaling by
    2^80 or 2^-80 changes no code, unless such vectors are refused."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(4)
        scale = np.float32(2.0 ** data.draw(st.sampled_from((-80, 80))))
        scaled = roundtrip_unless_refused(codec, x * scale) / float(scale)
        assert np.isfinite(scaled).all()
        assert np.all(differ(scaled, roundtrip(codec, x), x) <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("A06", "E-uninitialised")
def test_memory_is_not_read_before_it_is_written(kvassay_backend: Backend) -> None:
    """A06, E-uninitialised: a buffer that holds what was there before. After memory was
    filled with something else, the same input gives the same reconstruction."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        x = choice.sample(5)
        decoded_before = []
        for filling in (0x00, 0xFF, 0x55):
            fill_memory(filling)
            decoded_before.append(roundtrip(codec, x))
        for other in decoded_before[1:]:
            np.testing.assert_array_equal(other, decoded_before[0])

    for_all(check, kvassay_backend)


@catches("B-seed")
def test_two_seeds_two_codecs(kvassay_backend: Backend) -> None:
    """B-seed: the seed is ignored. Where there is a rotation, another seed gives another: the
    reconstructions differ by at least a tenth of the distortion.

    A reconstruction is (1 - D) x and an error across x, whose energy is D (1 - D) |x|^2. The
    errors of two independent rotations have no correlation, so that the reconstructions differ
    by 2 D (1 - D) |x|^2 on average, which is above 1.2 D |x|^2. A sketch adds to that.
    """

    def check(choice: Choice, data: st.DataObject) -> None:
        assume(choice.has_seed and has_levels(kvassay_backend, choice))
        assume(choice.dim >= 64)  # 16 signs agree up to a symmetry in 1 of 2000 pairs of seeds
        x = choice.isotropic(4)
        first, second = (
            roundtrip(choice.codec(kvassay_backend, other_seed=other), x) for other in (0, 1)
        )
        distortion = theory.lloyd_max_distortion(choice.dim, choice.bits)
        assert np.mean(differ(first, second, x)) >= 0.1 * distortion

    for_all(check, kvassay_backend)


@catches("D-half-input")
def test_dtypes(kvassay_backend: Backend) -> None:
    """D-half-input: arithmetic in the precision of the input. Vectors in float16 or float64
    encode like the same values in float32, unless they are refused."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        dtype = data.draw(st.sampled_from((np.float16, np.float64)))
        x = (64 * choice.sample(4)).astype(np.float16)
        result = roundtrip_unless_refused(codec, x.astype(dtype))
        expected = roundtrip(codec, x.astype(np.float32))
        assert np.all(differ(result, expected, x) <= choice.tolerance())

    for_all(check, kvassay_backend)


@catches("E-short-code")
def test_short_code_is_refused(kvassay_backend: Backend) -> None:
    """E-short-code: a code that was cut off is read past its end. It must raise."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(kvassay_backend)
        short = None
        with refusal_allowed():  # a code may refuse to be cut
            short = cut(codec.encode(choice.sample(3)))
        assume(short is not None)
        assert refuses(lambda: codec.decode(short))

    for_all(check, kvassay_backend)


PROPERTIES = {
    property_name(name): test for name, test in list(globals().items()) if name.startswith("test_")
}
