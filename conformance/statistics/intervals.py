"""Intervals, verdicts and sample sizes.

One rule: a claim conforms when the whole interval lies in its band, is violated when the
whole interval lies outside, and needs more seeds otherwise. The interval holds the true
value with probability 1 - alpha over all looks together, so alpha bounds the false alarms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


@dataclass(frozen=True)
class Band:
    """The values that conform, ends included."""

    low: float
    high: float


@dataclass(frozen=True)
class Interval:
    """An estimate and the values that the data leave possible."""

    estimate: float
    low: float
    high: float


def compare(interval: Interval, band: Band) -> str:
    """ "conforms", "violates" or "undecided".

    >>> compare(Interval(1.0, 0.99, 1.01), Band(0.98, 1.02))
    'conforms'
    """
    if band.low <= interval.low and interval.high <= band.high:
        return "conforms"
    if interval.high < band.low or band.high < interval.low:
        return "violates"
    return "undecided"


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike, alpha: float) -> Interval:
    """Student-t interval for the ratio of two means from one (numerator, denominator) a seed.

    The ratio of the sums, with the scatter of numerator - ratio x denominator over the
    seeds (delta method). Each is a mean over hundreds of vectors, hence nearly normal.
    Needs two seeds.
    """
    top = np.asarray(numerators, dtype=np.float64)
    bottom = np.asarray(denominators, dtype=np.float64)
    if len(top) < 2:
        raise ValueError(f"numerators must have at least 2 seeds, got {len(top)}")
    estimate = float(top.sum() / bottom.sum())
    deviation = top - estimate * bottom
    error = float(np.std(deviation, ddof=1) / sqrt(len(top)) / abs(bottom.mean()))
    half = student_quantile(alpha, len(top)) * error
    return Interval(estimate, estimate - half, estimate + half)


def exponential(interval: Interval) -> Interval:
    """The interval of exp(quantity)."""
    return Interval(
        *(float(np.exp(end)) for end in (interval.estimate, interval.low, interval.high))
    )


def dkw_interval(counts: NDArray[np.int64], alpha: float) -> Interval:
    """Interval for the sup distance of a CDF from the uniform one.

    `counts` is the histogram over equal bins of independent values F(x), F the predicted
    CDF. Dvoretzky-Kiefer-Wolfowitz (Massart's constant): the empirical CDF is within
    sqrt(log(2/alpha) / 2n) of the true one everywhere. Between bin edges both CDFs are
    monotone, so the distance there exceeds that at an edge by at most a bin's width.
    """
    total = int(counts.sum())
    edges = np.arange(1, len(counts) + 1) / len(counts)
    distance = float(np.max(np.abs(np.cumsum(counts) / total - edges)))
    margin = sqrt(log(2 / alpha) / (2 * total))
    return Interval(distance, max(0.0, distance - margin), distance + margin + 1 / len(counts))


def student_quantile(alpha: float, count: int) -> float:
    """Half-width of a two-sided 1 - alpha interval in standard errors, from `count` seeds."""
    return float(-special.stdtrit(count - 1, alpha / 2))


def worst_interval(values: Sequence[float]) -> Interval:
    """For a quantity that must hold every time: the largest value seen, as a point."""
    return Interval(max(values), max(values), max(values))


def outermost(values: Sequence[float], predicted: float, band: Band) -> Interval:
    """The value farthest from its prediction, in units of the band's reach to that side."""

    def position(value: float) -> float:
        reach = band.high - predicted if value > predicted else predicted - band.low
        return abs(value - predicted) / reach

    farthest = max(values, key=position)
    return Interval(farthest, farthest, farthest)


def jackknife_interval(
    function: Callable[[NDArray[np.float64]], float], columns: NDArray[np.float64], alpha: float
) -> Interval:
    """Interval for a function of several figures, (figures, trials), by the delete-a-group
    jackknife: ten groups of trials, Student-t with nine degrees of freedom.

    >>> jackknife_interval(lambda both: both[0].mean() / both[1].mean(), np.ones((2, 20)), 0.05)
    Interval(estimate=1.0, low=1.0, high=1.0)
    """
    groups = min(10, columns.shape[1])
    if groups < 2:
        raise ValueError(f"columns must have at least 2 trials, got {columns.shape[1]}")
    member = np.arange(columns.shape[1]) % groups
    estimate = float(function(columns))
    others = np.array([function(columns[:, member != group]) for group in range(groups)])
    error = sqrt((groups - 1) / groups * float(np.sum((others - others.mean()) ** 2)))
    half = student_quantile(alpha, groups) * error
    return Interval(estimate, estimate - half, estimate + half)


def least_ratio_interval(
    rivals: Sequence[NDArray[np.float64]], own: NDArray[np.float64], alpha: float
) -> Interval:
    """Interval for the least of the ratios of geometric means, rival over own, trials paired.

    Each ratio has its interval at alpha over their number; the least of the ratios lies
    between the least of the low ends and the least of the high ends.
    """
    ones = np.ones(len(own))
    found = [
        exponential(ratio_interval(np.log(rival) - np.log(own), ones, alpha / len(rivals)))
        for rival in rivals
    ]
    ends = ([getattr(each, end) for each in found] for end in ("estimate", "low", "high"))
    return Interval(*(min(values) for values in ends))


def ends(span: Band | Interval) -> tuple[float | None, float | None]:
    """Low and high end, None where there is none."""
    low, high = span.low, span.high
    return (low if isfinite(low) else None, high if isfinite(high) else None)
