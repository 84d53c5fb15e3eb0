import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvassay.conformance.statistics import design
from kvassay.conformance.statistics.design import FEWEST_SEEDS, needed, smallest_violation
from kvassay.conformance.statistics.intervals import (
    Band,
    Interval,
    compare,
    dkw_interval,
    outermost,
    ratio_interval,
)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.95, 1.05, "conforms"),
        (0.9, 1.1, "conforms"),
        (0.89, 1.0, "undecided"),
        (1.0, 1.2, "undecided"),
        (0.5, 2.0, "undecided"),
        (1.11, 1.2, "violates"),
        (0.1, 0.89, "violates"),
    ],
)
def test_compare(low, high, expected):
    assert compare(Interval(1, low, high), Band(0.9, 1.1)) == expected


def test_ratio_interval_covers_as_often_as_it_says():
    """At alpha = 5 %, of 2000 intervals for a ratio about 100 miss; 4.5 sigma is 44."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        bottom = rng.uniform(1, 2, 20)
        interval = ratio_interval(3 * bottom + rng.normal(0, 1, 20), bottom, 0.05)
        missed += not interval.low <= 3 <= interval.high
    assert 56 < missed < 144


def test_dkw_interval_covers_and_finds_a_shift():
    rng = np.random.default_rng(1)
    for _ in range(200):
        counts = np.bincount((rng.random(5000) * 1024).astype(int), minlength=1024)
        assert dkw_interval(counts, 0.05).low <= 0.01
    shifted = np.bincount((rng.random(5000) ** 1.3 * 1024).astype(int), minlength=1024)
    # sup |u^(1/1.3) - u| = 0.0957
    interval = dkw_interval(shifted, 0.05)
    assert interval.low > 0.05
    assert interval.low <= 0.0957 <= interval.high


@given(st.integers(1, 5000), st.floats(1e-9, 0.1))
def test_looks_increase_and_spend_alpha_once(count, alpha):
    looks = design.looks(count, alpha)
    seeds = [look.seeds for look in looks]
    assert seeds == sorted(set(seeds))
    assert seeds[-1] >= 4 * count
    assert seeds[0] >= FEWEST_SEEDS >= 20
    assert sum(look.alpha + look.beyond for look in looks) == pytest.approx(alpha)
    assert next(look.alpha for look in looks if look.seeds >= count) >= 0.4 * alpha * 0.999


@pytest.mark.parametrize(
    ("count", "share"), [(1, 0.95), (20, 0.1391), (200, 0.01487), (300, 0.00994)]
)
def test_the_share_of_bad_seeds_that_good_ones_exclude_is_clopper_pearsons(count, share):
    from scipy import stats

    found = design.share_excluded(count)
    assert found == pytest.approx(share, rel=1e-3)
    assert found == pytest.approx(stats.binomtest(0, count).proportion_ci(0.9).high)


def test_needed_gives_the_power_it_promises():
    """A true value at the prediction conforms, one at `smallest_violation` violates."""
    rng = np.random.default_rng(2)
    delta, scatter, alpha, beta = 0.02, 0.05, 1e-3, 0.05
    count = needed(delta, scatter, alpha, beta)
    shift = smallest_violation(count, delta, scatter, alpha * design.PLANNED_SHARE, beta)
    ones = np.ones(count)
    verdicts = {"at": [], "off": []}
    for _ in range(400):
        noise = rng.normal(0, scatter, count)
        for name, centre in (("at", 1.0), ("off", 1.0 + shift)):
            interval = ratio_interval(centre + noise, ones, alpha * design.PLANNED_SHARE)
            verdicts[name].append(compare(interval, Band(1 - delta, 1 + delta)))
    # 95 % expected; 4.5 sigma at n = 400 is 4.9 %
    assert verdicts["at"].count("conforms") > 360
    assert verdicts["off"].count("violates") > 360
    assert verdicts["at"].count("violates") == 0


def test_what_cannot_be_resolved_is_refused():
    with pytest.raises(ValueError, match="delta must be resolvable"):
        needed(1e-6, 1.0, 1e-6, 0.01)
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        ratio_interval([1.0], [1.0], 0.1)


def test_the_outermost_value_is_the_one_farthest_in_units_of_the_band():
    band = Band(0.8, 2.0)
    assert outermost([1.0, 1.5, 0.85], 1.0, band).estimate == 0.85
    assert outermost([1.0, 1.9, 0.85], 1.0, band).estimate == 1.9
