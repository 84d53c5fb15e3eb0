"""Attention and its error measures against loops, extended precision and closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kvassay.reference import attention

RNG = np.random.default_rng(20260714)
VECTORS = arrays.arrays(
    np.float64, (4, 3), elements=st.floats(-100, 100).filter(lambda t: t == 0 or abs(t) > 1e-3)
)


def _softmax(row):
    largest = max(row)
    weights = [math.exp(t - largest) for t in row]
    return [w / math.fsum(weights) for w in weights]


def _attend_by_loops(q, k, v, last):
    """Query i over the keys 0..last(i), one product at a time."""
    output = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(q):
        visible = range(last(i) + 1)
        row = [math.fsum(query * k[j]) / math.sqrt(len(query)) for j in visible]
        for j, weight in zip(visible, _softmax(row), strict=True):
            output[i] += weight * v[j]
    return output


def test_scores_are_products_over_root_d():
    """Red: d instead of its root, the transpose, the wrong operand's d."""
    assert attention.scores([[1.0, 2, 3, 4]], [[1.0, 1, 1, 1], [0, 0, 0, 2]]).tolist() == [[5, 4]]


def test_attend_agrees_with_a_loop():
    """Red: softmax over queries instead of keys, missing scale."""
    q, k, v = (RNG.standard_normal((n, 8)) * 2 for n in (5, 11, 11))
    expected = _attend_by_loops(q, k, v, lambda i: 10)
    np.testing.assert_allclose(attention.attend(q, k, v), expected, rtol=1e-13, atol=1e-14)


def test_causal_attention_agrees_with_a_loop_over_the_visible_keys():
    """Red: off by one at either end, a mask that leaves a weight behind, -inf - -inf."""
    q, k, v = (RNG.standard_normal((n, 8)) for n in (4, 9, 9))
    positions = [0, 8, 3, 5]
    expected = _attend_by_loops(q, k, v, lambda i: positions[i])
    output = attention.attend(q, k, v, positions)
    np.testing.assert_allclose(output, expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(output[0], v[0])
    log_weights = attention.log_softmax(attention.scores(q, k), positions)
    for row, position in zip(log_weights, positions, strict=True):
        assert np.isneginf(row[position + 1 :]).all()
        assert np.isfinite(row[: position + 1]).all()


@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("heads", (3, 6))
def test_grouped_attention_repeats_each_kv_head_for_neighbours(heads, causal):
    """Red: head h reading kv head h % H_kv, queries aligned with the first tokens."""
    q = RNG.standard_normal((heads, 4, 8))
    k, v = RNG.standard_normal((2, 3, 7, 8))
    output = attention.grouped(q, k, v, causal)
    repeated = (np.repeat(part, heads // 3, axis=0) for part in (k, v))
    for got, query, keys, values in zip(output, q, *repeated, strict=True):
        expected = _attend_by_loops(query, keys, values, lambda i: 3 + i if causal else 6)
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scale", (1e-300, 1.0, 1e3, 1e8, 1e300))
def test_log_softmax_is_exact_at_any_magnitude(scale):
    """Red: exp before the shift (overflow), s - logsumexp(s) (total off by 1e-16 |s|)."""
    s = scale * (1e3 + RNG.standard_normal((3, 50)))
    log_weights = attention.log_softmax(s)
    for row, got in zip(s, log_weights, strict=True):
        largest = Fraction(max(row))
        shifted = [float(Fraction(t) - largest) for t in row]
        total = math.fsum(math.exp(t) for t in shifted)
        expected = [t - math.log(total) for t in shifted]
        np.testing.assert_allclose(got, expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(np.exp(log_weights).sum(axis=1), 1, rtol=1e-14)


@given(arrays.arrays(np.float64, (2, 6), elements=st.floats(-50, 50)), st.floats(-1000, 1000))
def test_attention_weights_ignore_a_constant_in_the_scores(s, shift):
    """Red: any use of a score by itself. The sum s + shift rounds by up to 1.2e-13."""
    moved = attention.log_softmax(s + shift)
    np.testing.assert_allclose(moved, attention.log_softmax(s), atol=1e-12)


def _kl_exactly(log_p, log_q):
    """In extended precision, for weights that are normalised in it first."""
    p, q = (np.longdouble(part) for part in (log_p, log_q))
    p, q = p - np.log(np.sum(np.exp(p))), q - np.log(np.sum(np.exp(q)))
    return float(np.sum(np.exp(p) * (p - q)))


@pytest.mark.parametrize("size", (1e-2, 1e-1, 1.0, 10.0))
def test_kl_agrees_with_the_definition_in_extended_precision(size):
    """Red: KL(q || p), bits instead of nats, a missing term."""
    s = 3 * RNG.standard_normal((4, 40))
    log_p = attention.log_softmax(s)
    log_q = attention.log_softmax(s + size * RNG.standard_normal(s.shape))
    expected = [_kl_exactly(*pair) for pair in zip(log_p, log_q, strict=True)]
    np.testing.assert_allclose(attention.kl_divergence(log_p, log_q), expected, rtol=1e-12)


@pytest.mark.parametrize("size", (1e-4, 1e-6, 1e-8))
def test_kl_of_small_score_errors_is_half_their_variance(size):
    """Red: sum p (log p - log q), which at 1e-6 has lost 4 digits and at 1e-8 all."""
    s = 20 + 3 * RNG.standard_normal((5, 60))
    error = RNG.standard_normal(s.shape)
    log_p, log_q = attention.log_softmax(s), attention.log_softmax(s + size * error)
    p = np.exp(log_p)
    centred = error - np.sum(p * error, axis=1, keepdims=True)
    half_variance = size**2 * np.sum(p * centred**2, axis=1) / 2
    # the next term is size^3; scores of 30 round by 4e-15, which is 4e-15 / size of an error
    allowed = 10 * size + 4e-15 / size
    np.testing.assert_allclose(
        attention.kl_divergence(log_p, log_q), half_variance, rtol=max(allowed, 1e-5)
    )


def test_kl_forgives_weights_that_are_not_quite_normalised():
    """Red: sum p (log p - log q), which moves by the whole 1e-7 (a backend's float32)."""
    s = RNG.standard_normal((3, 20))
    log_p, log_q = attention.log_softmax(s), attention.log_softmax(s + 1e-5)
    assert (np.abs(attention.kl_divergence(log_p + 1e-7, log_q)) < 1e-14).all()
    assert (np.abs(attention.kl_divergence(log_p, log_q - 1e-7)) < 1e-14).all()


def test_kl_over_weights_of_zero_and_extremes():
    """Red: 0 * inf = NaN for hidden keys, expm1 overflow where q dwarfs p."""
    p, q = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.75, 0.0]])
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p), np.log(q)
    expected = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert attention.kl_divergence(log_p, log_q)[0] == pytest.approx(expected, rel=1e-14)
    half = np.log([[0.5, 0.5]])
    alone = np.array([[0.0, -np.inf]])
    assert attention.kl_divergence(alone, half)[0] == pytest.approx(math.log(2), rel=1e-14)
    assert attention.kl_divergence(half, alone)[0] == np.inf
    far, farther = attention.log_softmax([[0.0, 1e3], [0.0, 1e5]])
    assert attention.kl_divergence([far], [far[::-1]])[0] == pytest.approx(1e3, rel=1e-12)
    assert attention.kl_divergence([farther], [far[::-1]])[0] == pytest.approx(1e3, rel=1e-12)
    assert attention.kl_divergence([far], [farther[::-1]])[0] == pytest.approx(1e5, rel=1e-12)


@given(
    arrays.arrays(np.float64, (3, 5), elements=st.floats(-30, 30)),
    arrays.arrays(np.float64, (3, 5), elements=st.floats(-30, 30)),
    st.permutations(range(5)),
)
def test_kl_is_never_negative_and_ignores_the_order_of_keys(s, t, order):
    """Red: a sign, a sum over the wrong axis, rounding below zero."""
    log_p, log_q = attention.log_softmax(s), attention.log_softmax(t)
    kl = attention.kl_divergence(log_p, log_q)
    assert (kl >= -1e-30).all()
    assert (attention.kl_divergence(log_p, log_p) == 0).all()
    reordered = attention.kl_divergence(log_p[:, order], log_q[:, order])
    np.testing.assert_allclose(reordered, kl, rtol=1e-12, atol=1e-30)


def test_top_recall_counts_the_keys_that_stay():
    """Red: the smallest instead of the largest, division by N, by the keys of q."""
    s, t = RNG.standard_normal((2, 30, 20))
    log_p, log_q = attention.log_softmax(s), attention.log_softmax(t)
    for count in (1, 5, 20, 50):
        expected = []
        for a, b in zip(s, t, strict=True):
            best = [set(sorted(range(20), key=row.__getitem__)[-count:]) for row in (a, b)]
            expected.append(len(best[0] & best[1]) / min(count, 20))
        assert attention.top_recall(log_p, log_q, count).tolist() == pytest.approx(expected)
    assert attention.top_recall(log_p, log_p).tolist() == [1] * 30


def test_top_recall_with_few_visible_keys_takes_all_of_them():
    """Red: hidden keys counted as kept or as lost."""
    s, t = RNG.standard_normal((2, 4, 8))
    log_p, log_q = (attention.log_softmax(x, [0, 1, 4, 7]) for x in (s, t))
    assert attention.top_recall(log_p, log_q)[:3].tolist() == [1, 1, 1]
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log([[0.5, 0.5, 0, 0]]), np.log([[1.0, 0, 0, 0]])
    assert attention.top_recall(log_p, log_q, 3).tolist() == [0.5]
    assert attention.top_recall(log_q, log_p, 3).tolist() == [1]


def test_equal_weights_rank_by_position():
    """Red: an unstable sort, which takes any five of a thousand equal keys."""
    level = np.tile([0.0, 1.0], 1000)[None]
    flat = attention.log_softmax(level)
    slanted = attention.log_softmax(level - np.arange(2000.0) / 1e4)
    assert attention.top_recall(flat, slanted).tolist() == [1]
    assert attention.argmax_shifts(flat, slanted).tolist() == [False]


def test_argmax_shifts_where_the_dominant_key_changes():
    """Red: argmax over queries, the complement."""
    log_p = np.log([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])
    log_q = np.log([[0.4, 0.3, 0.3], [0.4, 0.5, 0.1], [0.6, 0.3, 0.1]])
    assert attention.argmax_shifts(log_p, log_q).tolist() == [False, True, True]


def test_scale_errors_of_known_vectors():
    """Red: a mean of ratios (1/8 here) for the ratio of sums, the norm for its square."""
    x, x_hat = [[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.5], [0.0, 3.0]]
    assert attention.relative_mse(x, x_hat) == pytest.approx(0.025, rel=1e-14)
    assert attention.snr_db(x, x_hat) == pytest.approx(10 * math.log10(40), rel=1e-14)
    assert attention.snr_db(x, x) == np.inf
    zero = np.zeros((2, 2))
    assert attention.relative_mse(zero, zero) == 0
    assert attention.relative_mse(zero, x) == np.inf
    assert attention.snr_db(zero, x) == -np.inf


@pytest.mark.parametrize("angle", (1e-12, 1e-6, 0.1, 1.0, np.pi / 2, 3.0, np.pi - 1e-6, np.pi))
def test_direction_error_is_the_angle_whatever_its_size(angle):
    """Red: arccos (1e-6 comes out with 4 digits, 1e-12 as 0), arcsin near pi, no /pi,
    1 - cos."""
    x_hat = [[5 * math.cos(angle), 5 * math.sin(angle)]]
    assert attention.direction_error([[2.0, 0.0]], x_hat) * np.pi == pytest.approx(
        angle, rel=1e-12, abs=0
    )
    expected = 2 * math.sin(angle / 2) ** 2
    error = attention.cosine_error([[2.0, 0.0]], x_hat)
    assert error == pytest.approx(expected, rel=1e-12, abs=0)


def test_direction_errors_are_means_over_rows_and_define_zero_rows():
    """Red: the angle of flattened arrays, rows weighted by their norm, 0/0."""
    x = [[1e6, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    x_hat = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 3.0]]
    assert attention.direction_error(x, x_hat) == pytest.approx(1.5 / 5, rel=1e-14)
    assert attention.cosine_error(x, x_hat) == pytest.approx(3 / 5, rel=1e-14)


def test_cosine_error_agrees_with_the_cosines():
    x, x_hat = RNG.standard_normal((2, 50, 7))
    cosines = [
        math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b))
        for a, b in zip(x, x_hat, strict=True)
    ]
    assert attention.cosine_error(x, x_hat) == pytest.approx(1 - np.mean(cosines), rel=1e-12)


@given(VECTORS, VECTORS, st.floats(0.01, 100))
def test_errors_ignore_what_they_should(x, x_hat, scale):
    """Red: scale leaking into direction, a scale of both into the ratio, an asymmetric angle."""
    phi = attention.direction_error(x, x_hat)
    assert 0 <= phi <= 1
    assert attention.direction_error(x, scale * x_hat) == pytest.approx(phi, abs=1e-14)
    assert attention.direction_error(x_hat, x) == pytest.approx(phi, abs=1e-14)
    both = attention.relative_mse(scale * x, scale * x_hat)
    assert both == pytest.approx(attention.relative_mse(x, x_hat), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize("scale", (1e-200, 1e200))
def test_errors_hold_where_squares_leave_float64(scale):
    """Red: sums of squares taken without scaling."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    x_hat = np.array([[1.0, 1.0], [0.0, 2.0]])
    assert attention.relative_mse(scale * x, scale * x_hat) == pytest.approx(0.2, rel=1e-12)
    phi = attention.direction_error(scale * x, scale * x_hat)
    assert phi == pytest.approx(1 / 8, rel=1e-12)


def test_squared_distance_joins_both_errors():
    """Red: a sum without squares, phi in place of the cosine."""
    x, x_hat = [[1.0, 0.0]], [[0.0, 1.0]]
    assert attention.squared_distance(x, x_hat) == pytest.approx(2**2 + 1**2, rel=1e-14)
    assert attention.squared_distance(x, [[1.5, 0.0]]) == pytest.approx(0.25**2, rel=1e-14)


def test_six_dimensional_error_is_scale_then_direction_of_k_v_t():
    """Red: the places interleaved with the kinds, or K, V and T in another order."""
    x = np.eye(2)
    errors = attention.six_dimensional_error(x, 0.9 * x, x, 0.99 * x, x[:1], [[1.0, 1.0]])
    np.testing.assert_allclose(errors, [20, 40, 0, 0, 0, 1 / 4], atol=1e-12)


X, W = np.ones((2, 3)), np.log(np.full((2, 4), 0.25))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention.scores(X, np.ones((2, 4))), r"k must have shape \(N, 3\), got \(2, 4\)"),
        (lambda: attention.scores(X[0], X), r"q must be a matrix .*, got \(3,\)"),
        (lambda: attention.scores(X[:, :0], X), r"q must be a matrix .*, got \(2, 0\)"),
        (lambda: attention.scores(np.ones((2, 3), int), X), "q must be floating point"),
        (lambda: attention.scores(X * np.nan, X), "q must be finite"),
        (lambda: attention.log_softmax(-np.inf * X), "s must be finite"),
        (lambda: attention.log_softmax(X, [0, 3]), r"positions must be in 0\.\.2, got 3"),
        (lambda: attention.log_softmax(X, [-1, 0]), r"positions must be in 0\.\.2, got -1"),
        (lambda: attention.log_softmax(X, [0]), r"positions must be 2 integers, got shape \(1,\)"),
        (lambda: attention.log_softmax(X, [0.0, 1.0]), "positions must be 2 integers"),
        (lambda: attention.attend(X, X, X[:1]), r"v must have the shape \(2, 3\) of k, got \(1,"),
        (lambda: attention.attend(X, X, X * np.inf), "v must be finite"),
        (lambda: attention.attend(X, X[:0], X[:0]), r"s must be a matrix .*, got \(2, 0\)"),
        (lambda: attention.grouped(X, X[None], X[None]), r"q must have shape \(heads, tokens, d\)"),
        (
            lambda: attention.grouped(np.ones((3, 2, 3)), np.ones((2, 2, 3)), np.ones((2, 2, 3))),
            "q must have a multiple of 2 heads, got 3",
        ),
        (
            lambda: attention.grouped(X[None], X[None, :1], X[None, :1], causal=True),
            "q must have at most 1 tokens when causal, got 2",
        ),
        (lambda: attention.kl_divergence(W, W[:1]), r"log_q must have the shape \(2, 4\) of log_p"),
        (lambda: attention.kl_divergence(W, np.exp(W)), "log_q must have rows of total weight 1"),
        (lambda: attention.kl_divergence(W * np.nan, W), "log_p must have rows of total weight 1"),
        (lambda: attention.argmax_shifts(W[0], W[0]), r"log_p must have shape \(M, N\), got \(4,"),
        (lambda: attention.top_recall(W, W, 0), "count must be at least 1, got 0"),
        (lambda: attention.relative_mse(X, X[:1]), r"x_hat must have the shape \(2, 3\) of x"),
        (lambda: attention.direction_error(X[:0], X[:0]), "x must have at least one row, got 0"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
