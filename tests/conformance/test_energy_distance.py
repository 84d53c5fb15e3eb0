"""The two-sample tools against pairwise loops, closed forms and their behaviour under H0."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvassay.conformance.statistics.samples import (
    energy_distance,
    rank_biserial,
    two_sample_distance,
)


def _energy_by_loops(x, y):
    pooled = np.concatenate([x, y])
    deviations = []
    for column in pooled.T:
        mean = math.fsum(column) / len(column)
        deviations.append(math.sqrt(math.fsum((t - mean) ** 2 for t in column) / len(column)))

    def mean_distance(a, b):
        return math.fsum(
            math.sqrt(
                math.fsum(((s - t) / c) ** 2 for s, t, c in zip(u, w, deviations, strict=True))
            )
            for u in a
            for w in b
        ) / (len(a) * len(b))

    return 2 * mean_distance(x, y) - mean_distance(x, x) - mean_distance(y, y)


@pytest.mark.parametrize(("n", "m"), [(9, 9), (7, 12)])
def test_energy_distance_agrees_with_the_sums_over_all_pairs(n, m):
    """Red: weights 1/n and 1/m exchanged, a U-statistic, a missing factor or root."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 6))
    y = rng.standard_normal((m, 6)) * 3 + np.arange(6)
    got, _ = energy_distance(x, y, rng, 1)
    assert got == pytest.approx(_energy_by_loops(x, y), rel=1e-12)


def test_energy_distance_in_one_dimension_is_twice_cramers():
    """Red: as above. In one dimension it is 2 integral (F - G)^2 (Szekely 2002)."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(30), rng.standard_normal(20) + 0.5
    scale = np.std(np.concatenate([x, y]))
    got, _ = energy_distance(x[:, None], y[:, None], rng, 1)
    assert got == pytest.approx(stats.energy_distance(x / scale, y / scale) ** 2, rel=1e-10)


def test_permutation_p_agrees_with_all_relabellings():
    """Red: relabelling with replacement, relabelling within a sample, p of the other tail.

    All 252 splits of 5 and 5 are enumerated; 20,000 random ones are within 4.5 sigma.
    """
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((5, 2)), rng.standard_normal((5, 2)) + 0.7
    pooled, observed = np.concatenate([x, y]), _energy_by_loops(x, y)
    splits = [list(chosen) for chosen in itertools.combinations(range(10), 5)]
    values = [_energy_by_loops(pooled[s], np.delete(pooled, s, axis=0)) for s in splits]
    exact = np.mean(np.array(values) >= observed - 1e-12)
    assert 0.02 < exact < 0.5
    _, p = energy_distance(x, y, rng, 20_000)
    assert abs(p - exact) < 4.5 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4


def test_permutation_p_is_uniform_under_the_null():
    """Red: the observed value left out, or a p that is too small or too large throughout.

    With 19 relabellings p is uniform over 1/20, ..., 1: of 400, each of the 20 values has 20
    expected; chi-squared of 19 freedoms.
    """
    rng = np.random.default_rng(3)
    counts = np.zeros(20, dtype=int)
    for _ in range(400):
        x, y = rng.standard_normal((8, 3)), rng.standard_normal((6, 3))
        _, p = energy_distance(x, y, rng, 19)
        counts[round(20 * p) - 1] += 1
    assert counts.sum() == 400
    assert stats.chisquare(counts).pvalue > 1e-4


def test_permutation_p_is_small_under_a_shift_or_a_change_of_scale():
    """Red: a statistic that sees means alone, or columns that drown in the loudest."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 6)) * 10.0 ** np.arange(6)
    shifted = rng.standard_normal((50, 6)) * 10.0 ** np.arange(6)
    shifted[:, 0] += 1.5  # the column a million times quieter than the last
    wider = 2 * rng.standard_normal((50, 6)) * 10.0 ** np.arange(6)
    for y in (shifted, wider):
        assert energy_distance(x, y, rng)[1] == pytest.approx(0.001)


def test_equal_values_count_as_at_least_as_large():
    """Red: > for >=, which makes p 1/3001; columns divided by a deviation of 0."""
    rng = np.random.default_rng(5)
    distance, p = energy_distance([[0.1], [0.1]], [[0.7], [0.7]], rng, 3000)
    assert distance == pytest.approx(4, rel=1e-12)
    assert p == pytest.approx(1 / 3, abs=0.04)  # 2 of the 6 splits
    same = np.full((3, 2), 0.5)
    assert energy_distance(same, same, rng) == (0, 1)


@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 100),
    st.floats(-100, 100),
    st.permutations(range(4)),
)
def test_energy_distance_invariances(seed, scale, shift, order):
    """Red: no standardising, or one by a sample alone; columns or samples treated apart.

    A constant column changes nothing, and a seed fixes p. A sample against itself reaches
    p = 1 only if equal distances that differ by rounding count as equal.
    """
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((6, 4)), rng.standard_normal((5, 4)) + 1

    def result(x, y):
        return energy_distance(x, y, np.random.default_rng(seed), 20)

    quiet = [0.3, 0.5]  # their computed standard deviations: rounding, and exactly 0
    expected = pytest.approx(result(x, y), rel=1e-9)
    assert result(scale * x + shift, scale * y + shift) == expected
    assert result(x[:, order], y[:, order]) == expected
    assert result(np.c_[x, np.full((6, 2), quiet)], np.c_[y, np.full((5, 2), quiet)]) == expected
    assert result(x[::-1], y[::-1])[0] == pytest.approx(expected.expected[0], rel=1e-9)
    assert result(y, x)[0] == pytest.approx(expected.expected[0], rel=1e-9)
    assert result(x, x)[0] < 1e-12
    assert result(x, x)[1] == 1


def test_rank_biserial_counts_pairs():
    """Red: the other sign, ties as losses, U of y."""
    rng = np.random.default_rng(6)
    x, y = rng.integers(0, 8, 40).astype(float), rng.integers(2, 10, 30).astype(float)
    pairs = [np.sign(a - b) for a in x for b in y]
    r, p = rank_biserial(x, y)
    assert r == pytest.approx(np.mean(pairs), rel=1e-12)
    assert rank_biserial(y, x) == pytest.approx((-r, p))
    assert rank_biserial([3.0, 4.0, 5.0], [0.0, 1.0, 2.0]) == pytest.approx((1, 0.1))
    assert rank_biserial(np.ones(20), np.ones(20)) == (0, 1)
    assert rank_biserial(np.arange(90.0), np.arange(90.0) + 100)[1] < 1e-23


def test_two_sample_distance_is_the_largest_gap():
    """Red: one-sided (either order must see the gap), the pooled CDF."""
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal(40), rng.standard_normal(25) + 1
    gap = max(abs(np.mean(x <= t) - np.mean(y <= t)) for t in np.concatenate([x, y]))
    distance, p = two_sample_distance(x, y)
    assert distance == pytest.approx(gap, rel=1e-12)
    assert two_sample_distance(y, x) == pytest.approx((distance, p))
    # complete separation: 2 of the C(8, 4) = 70 orders
    assert two_sample_distance(range(4), range(10, 14)) == pytest.approx((1, 2 / 70))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: rank_biserial([], [1.0]), r"x must have at least one value, got"),
        (lambda r: rank_biserial([1.0], [np.nan]), "y must be finite, got NaN or inf"),
        (lambda r: two_sample_distance([[1.0]], [1.0]), r"got shape \(1, 1\)"),
        (lambda r: energy_distance([1.0], [[1.0]], r), "at least one row and two axes"),
        (lambda r: energy_distance([[np.inf]], [[1.0]], r), "x must be finite"),
        (
            lambda r: energy_distance([[1.0]], [[1.0, 2.0]], r),
            "y must have the 1 columns of x, got 2",
        ),
        (
            lambda r: energy_distance([[1.0]], [[1.0]], r, 0),
            "permutations must be at least 1, got 0",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0))


def test_a_shift_within_pairs_is_found_where_trials_differ_more():
    """Pairs that share 0.8 of their variance, a shift of 0.2, 60 samples of 200 pairs: swapped
    within pairs it is found 57 times, permuted as if independent 20 times."""
    rng = np.random.default_rng(5)
    found = {True: 0, False: 0}
    for _ in range(60):
        shared = rng.standard_normal((200, 1))
        x, y = (
            np.sqrt(0.8) * shared + np.sqrt(0.2) * rng.standard_normal((200, 1)) for _ in range(2)
        )
        for paired in found:
            _, p = energy_distance(x + 0.2, y, rng, 199, paired=paired)
            found[paired] += p < 0.05
    assert found[True] >= 50
    assert found[False] <= 30


def test_the_paired_test_rejects_one_law_as_often_as_it_says():
    """At 5 %, of 200 samples about 10 are rejected; 4.5 sigma is 14."""
    rng = np.random.default_rng(6)
    rejected = 0
    for _ in range(200):
        shared = rng.standard_normal((40, 2))
        x, y = (shared + 0.5 * rng.standard_normal((40, 2)) for _ in range(2))
        rejected += energy_distance(x, y, rng, 99, paired=True)[1] <= 0.05
    assert rejected <= 24


def test_pairs_must_be_as_many():
    with pytest.raises(ValueError, match="to be paired, got 3"):
        energy_distance(np.zeros((2, 1)), np.ones((3, 1)), np.random.default_rng(0), paired=True)
