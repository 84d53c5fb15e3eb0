"""Attention on the compressed cache against the reference, decoded, and softmax in float64."""

import numpy as np
import pyopencl.array as cl_array
import pytest
from comparing import Case, attention_of, in_float32, in_reference, normal, on_device, to_device

from kvassay.accel import Runtime, attention, codec
from kvassay.accel.codecs import TILE

# Codecs of K and V, and the number of queries. Without odd factors, a work-item of
# 64 coordinates and more has registers.
PLAIN = Case("turboquant-mse", 128, 3), Case("turboquant-prod", 128, 3, "gaussian", seed=5), 9
SKETCHED = Case("turboquant-mse", 12, 4), Case("turboquant-prod", 12, 1, "orthogonal", seed=8), 3
SMALL = Case("scalar", 12, 5), Case("turboquant-mse", 12, 3, seed=10), 1
PAIRS = (
    PLAIN,
    SKETCHED,
    SMALL,
)
FOR_ITEMS = (
    (Case("turboquant-prod", 5, 4, "gaussian"), Case("turboquant-mse", 5, 8, seed=9), 9),
    (Case("turboquant-mse", 64, 4), Case("turboquant-mse", 64, 2, seed=4), 1),
    (Case("turboquant-prod", 64, 2, "orthogonal"), Case("turboquant-mse", 64, 4, seed=6), 3),
    (Case("turboquant-prod", 80, 2, "gaussian"), Case("turboquant-prod", 80, 3, "orthogonal"), 3),
    (Case("turboquant-mse", 576, 1), Case("turboquant-mse", 576, 3, seed=7), 3),
)
each_pair = pytest.mark.parametrize(
    ("key_case", "value_case", "query_count"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.item) for pair in FOR_ITEMS)],
    ids=str,
)


def tokens(runtime):
    """No multiple of a tile, and more than one."""
    return TILE + 5 if runtime.device.platform == "Oclgrind" else 2 * TILE + 21


def codes(key_case, value_case, count):
    """Of K and V, made by the reference."""
    return tuple(
        in_reference(case).encode(normal(count, case.dim, seed=seed))
        for seed, case in enumerate((key_case, value_case))
    )


def assert_right(runtime, q, key_case, keys, value_case, values, **options):
    one, other = on_device(runtime, key_case), on_device(runtime, value_case)
    got = attention(q, one, keys, other, values, **options)
    expected = attention_of(q, key_case, keys, value_case, values, **options)
    assert got.dtype == np.float32
    assert np.max(abs(got - expected)) <= 1e-5 * np.max(abs(expected))


@each_pair
@pytest.mark.parametrize("causal", (False, True))
def test_outputs_are_those_of_decoded_k_and_v(runtime, key_case, value_case, query_count, causal):
    q = normal(query_count, key_case.dim, seed=11)
    keys, values = codes(key_case, value_case, tokens(runtime))
    assert_right(runtime, q, key_case, keys, value_case, values, causal=causal)


@pytest.mark.parametrize("pair", (pytest.param(PLAIN, marks=pytest.mark.long), SKETCHED))
@pytest.mark.parametrize("causal", (False, True))
def test_keys_may_come_in_pieces(runtime, monkeypatch, pair, causal):
    monkeypatch.setattr(Runtime, "chunk_bytes", 1)  # a tile at a time
    key_case, value_case, query_count = pair
    q = normal(query_count, key_case.dim, seed=12)
    keys, values = codes(key_case, value_case, tokens(runtime))
    assert_right(runtime, q, key_case, keys, value_case, values, causal=causal)


@pytest.mark.long
@pytest.mark.parametrize("count", (1, 9, TILE, TILE + 1))
def test_tokens_may_be_any_number(runtime, count):
    key_case, value_case, _ = PLAIN
    keys, values = codes(key_case, value_case, count)
    for causal in (False, True):
        q = normal(min(count, 9), key_case.dim, seed=13)
        # One QUERIES for all, so that no program is built for each count.
        q = np.repeat(q, 9, axis=0)[:9] if not causal or count >= 9 else q[:1]
        assert_right(runtime, q, key_case, keys, value_case, values, causal=causal)


@pytest.mark.parametrize("scale", (0.0, 0.01, 3.0))
def test_the_scale_may_be_chosen(runtime, scale):
    key_case, value_case, query_count = SMALL
    keys, values = codes(key_case, value_case, tokens(runtime))
    q = normal(query_count, key_case.dim, seed=14)
    assert_right(runtime, q, key_case, keys, value_case, values, scale=scale)


def test_scores_far_beyond_what_exp_can_hold_are_no_trouble(runtime):
    key_case, value_case, query_count = SMALL
    keys, values = codes(key_case, value_case, tokens(runtime))
    q = 1e4 * normal(query_count, key_case.dim, seed=15)
    got = attention(q, on_device(runtime, key_case), keys, on_device(runtime, value_case), values)
    expected = attention_of(q, key_case, keys, value_case, values)
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.max(abs(expected)))


def test_device_arrays_stay_there_and_give_the_same(runtime):
    key_case, value_case, query_count = SKETCHED
    one, other = on_device(runtime, key_case), on_device(runtime, value_case)
    keys, values = (in_float32(code) for code in codes(key_case, value_case, 20))
    q = normal(query_count, key_case.dim, seed=16)
    got = attention(q, one, to_device(runtime, keys), other, to_device(runtime, values))
    again = attention(
        cl_array.to_device(runtime.queue, q), one, to_device(runtime, keys), other,
        to_device(runtime, values)[:20],
    )  # fmt: skip
    assert isinstance(got, cl_array.Array)
    expected = attention(q, one, keys, other, values)
    assert isinstance(expected, np.ndarray)
    np.testing.assert_array_equal(got.get(), expected)
    np.testing.assert_array_equal(again.get(), expected)


def test_without_queries_there_is_nothing(runtime):
    key_case, value_case, _ = SMALL
    keys, values = codes(key_case, value_case, 5)
    one, other = on_device(runtime, key_case), on_device(runtime, value_case)
    none = np.zeros((0, key_case.dim), np.float32)
    assert attention(none, one, keys, other, values).shape == (0, key_case.dim)


def test_what_does_not_fit_together_is_refused(runtime):
    key_case, value_case, _ = SMALL
    one, other = on_device(runtime, key_case), on_device(runtime, value_case)
    keys, values = codes(key_case, value_case, 5)
    q = normal(7, key_case.dim)
    with pytest.raises(ValueError, match="as many tokens, got 5 and 3"):
        attention(q, one, keys, other, values[:3])
    with pytest.raises(ValueError, match="as many tokens, got 0 and 0"):
        attention(q, one, keys[:0], other, values[:0])
    with pytest.raises(ValueError, match="at most 5 rows where causal, got 7"):
        attention(q, one, keys, other, values, causal=True)
    with pytest.raises(ValueError, match="one dimension and one runtime"):
        attention(q, one, keys, codec(runtime, "scalar", 5, 2, 0), values)
    elsewhere = codec(Runtime(runtime.device, runtime.variant), "scalar", key_case.dim, 2, 0)
    with pytest.raises(ValueError, match="one dimension and one runtime"):
        attention(q, one, keys, elsewhere, values)
    with pytest.raises(ValueError, match="q must have shape"):
        attention(q[:, :5], one, keys, other, values)
