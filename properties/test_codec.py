"""What holds for every single input. Each docstring begins with the fault it exists for."""

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from kvassay.conformance.protocol import Backend
from kvassay.properties.strategies import (
    ROUNDING,
    Choice,
    catches,
    differ,
    for_all,
    has_levels,
    holds_at_the_edge,
    property_name,
    roundtrip,
)
from kvassay.reference import theory

pytestmark = pytest.mark.kvassay


@catches("G14")
def test_shape_and_dtype(kvassay_backend: Backend) -> None:
    """G14: empty batches mishandled. Any count, 0 and 1 among them,
    gives finite floating-point vectors of the shape that went in."""
    holds_at_the_edge("shape-and-dtype", kvassay_backend)


@catches("A20", "D09")
def test_zero_vectors(kvassay_backend: Backend) -> None:
    """D09, A20: a zero norm or residual divided by makes NaN. A zero vector decodes to zero,
    and its neighbours do not notice."""
    holds_at_the_edge("zero-vectors", kvassay_backend)


@catches("C14", "D01", "D06", "D-squared")
def test_scale_equivariance(kvassay_backend: Backend) -> None:
    """C14, D01, D06, D-squared: a norm that is missing, overflows or is applied on one side.
    For a power of two, which rounds nothing, a x gives a times the reconstruction of x."""
    holds_at_the_edge("scale-equivariance", kvassay_backend)


@catches("B05", "E06", "G04", "H04", "H06")
def test_batch_is_singles(kvassay_backend: Backend) -> None:
    """B05, E06, G04, H04, H06: one token takes another path than many."""
    holds_at_the_edge("batch-is-singles", kvassay_backend)


@catches("E02")
def test_order_of_tokens(kvassay_backend: Backend) -> None:
    """E02: a record that reaches into its neighbour.
    Permuted vectors give permuted reconstructions."""
    holds_at_the_edge("order-of-tokens", kvassay_backend)


@catches("E-strides")
def test_memory_layout(kvassay_backend: Backend) -> None:
    """E-strides: strides ignored. Views that are reversed, strided or in Fortran order encode
    like a copy of them, unless they are refused."""
    holds_at_the_edge("memory-layout", kvassay_backend)


@catches("E-in-place")
def test_input_is_left_alone(kvassay_backend: Backend) -> None:
    """E-in-place: normalising in place spoils the caller's cache."""
    holds_at_the_edge("input-is-left-alone", kvassay_backend)


@catches("H01", "H13")
def test_code_outlives_the_next_encode(kvassay_backend: Backend) -> None:
    """H01, H13: codes that are views of a workspace, or state kept from the last batch."""
    holds_at_the_edge("code-outlives-the-next-encode", kvassay_backend)


@catches("A06", "B12")
def test_one_seed_one_codec(kvassay_backend: Backend) -> None:
    """B12, A06: randomness from elsewhere than the seed. A code written by one instance is
    read by another."""
    holds_at_the_edge("one-seed-one-codec", kvassay_backend)


@catches("A15", "A18")
def test_estimates_are_linear_in_the_query(kvassay_backend: Backend) -> None:
    """A15, A18: a constant in the estimate, or only signs of the query: scaling the query
    changes the ranking."""
    holds_at_the_edge("estimates-are-linear-in-the-query", kvassay_backend)


@catches("F08")
def test_wrong_width_is_refused(kvassay_backend: Backend) -> None:
    """F08: vectors of another width are padded, cropped or read past their end. They must
    raise; what they raise is up to the implementation."""
    holds_at_the_edge("wrong-width-is-refused", kvassay_backend)


@catches("C10", "C-floor")
def test_sign_equivariance(kvassay_backend: Backend) -> None:
    """C10, C-floor: an offset kept, or indices rounded down. The code of -x gives minus the
    reconstruction of x."""
    holds_at_the_edge("sign-equivariance", kvassay_backend)


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
    holds_at_the_edge("neighbours-do-not-matter", kvassay_backend)


@catches("D-overflow")
def test_extreme_norms(kvassay_backend: Backend) -> None:
    """D-overflow: squares that overflow or vanish in float32 before the norm does. Scaling by
    2^80 or 2^-80 changes no code, unless such vectors are refused."""
    holds_at_the_edge("extreme-norms", kvassay_backend)


@catches("A06", "E-uninitialised")
def test_memory_is_not_read_before_it_is_written(kvassay_backend: Backend) -> None:
    """A06, E-uninitialised: a buffer that holds what was there before. After memory was
    filled with something else, the same input gives the same reconstruction."""
    holds_at_the_edge("memory-is-not-read-before-it-is-written", kvassay_backend)


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
    holds_at_the_edge("dtypes", kvassay_backend)


@catches("E-short-code")
def test_short_code_is_refused(kvassay_backend: Backend) -> None:
    """E-short-code: a code that was cut off is read past its end. It must raise."""
    holds_at_the_edge("short-code-is-refused", kvassay_backend)


@catches("G14")
def test_no_queries_no_tokens(kvassay_backend: Backend) -> None:
    """G14: nothing to encode or no query fails. No tokens give no scores, and no
    queries give none."""
    holds_at_the_edge("no-queries-no-tokens", kvassay_backend)


@catches("N-no-range")
def test_constant_vectors(kvassay_backend: Backend) -> None:
    """N-no-range: a range of 0. A vector whose coordinates are all equal keeps
    its direction."""
    holds_at_the_edge("constant-vectors", kvassay_backend)


@catches("D-squared")
def test_odd_factors(kvassay_backend: Backend) -> None:
    """D-squared: the norm goes in squared. A vector times a factor that rounds gives
    the reconstruction times that factor."""
    holds_at_the_edge("odd-factors", kvassay_backend)


@catches("N-half-norm")
def test_norms_beyond_half(kvassay_backend: Backend) -> None:
    """N-half-norm: norms in half precision saturate or vanish. Norms from 1e-8 to
    1e6 come back, unless they are refused."""
    holds_at_the_edge("norms-beyond-half", kvassay_backend)


@catches("N-nan")
def test_non_finite_input(kvassay_backend: Backend) -> None:
    """N-nan: NaN and infinity made finite. They are refused, or show in that vector's
    answer alone."""
    holds_at_the_edge("non-finite-input", kvassay_backend)


@catches("N-tail")
def test_rows_of_a_call(kvassay_backend: Backend) -> None:
    """N-tail: the end of a block is left out. A vector comes out the same in a call of
    any number of vectors."""
    holds_at_the_edge("rows-of-a-call", kvassay_backend)


@catches("N-one-query", "N-queries")
def test_queries_of_a_call(kvassay_backend: Backend) -> None:
    """N-one-query, N-queries: a query alone, or beyond a tile, takes another path. A
    query is scored the same in a call of any number of queries."""
    holds_at_the_edge("queries-of-a-call", kvassay_backend)


@catches("N-many-keys")
def test_keys_of_a_call(kvassay_backend: Backend) -> None:
    """N-many-keys: keys beyond a tile are scored as others. A key is scored the same among
    any number of keys."""
    holds_at_the_edge("keys-of-a-call", kvassay_backend)


@catches("A15")
def test_plain_queries(kvassay_backend: Backend) -> None:
    """A15: a constant in the estimate. A zero query scores 0, and one with equal
    coordinates what linearity says."""
    holds_at_the_edge("plain-queries", kvassay_backend)


@catches("N-query-type")
def test_query_dtypes(kvassay_backend: Backend) -> None:
    """N-query-type: a query is read as of another type. A query in float16, float64 or
    bfloat16 scores like its values in float32, unless it is refused."""
    holds_at_the_edge("query-dtypes", kvassay_backend)


@catches("N-last-codec")
def test_codecs_together(kvassay_backend: Backend) -> None:
    """N-last-codec: a rotation or a table that lives once a process. A codec goes on as
    before while another is built and used."""
    holds_at_the_edge("codecs-together", kvassay_backend)


@catches("N-keeps")
def test_codec_keeps_nothing(kvassay_backend: Backend) -> None:
    """N-keeps: vectors kept in the codec. A codec does not grow with what it
    encodes."""
    holds_at_the_edge("codec-keeps-nothing", kvassay_backend)


@catches("N-gaps")
def test_code_with_gaps(kvassay_backend: Backend) -> None:
    """N-gaps: strides of a code ignored. A code that is a view with gaps decodes like its
    copy, unless it is refused."""
    holds_at_the_edge("code-with-gaps", kvassay_backend)


PROPERTIES = {
    property_name(name): test for name, test in list(globals().items()) if name.startswith("test_")
}
