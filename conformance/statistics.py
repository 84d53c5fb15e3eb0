"""Intervals, verdicts and sample sizes.

One rule: a claim conforms when the whole interval lies in its band, is violated when the
whole interval lies outside, and needs more seeds otherwise. The interval holds the true
value with probability 1 - alpha over all looks together, so alpha bounds the false alarms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FEWEST_SEEDS = 10
MOST_SEEDS = 20_000


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


def smallest_violation(
    count: int, delta: float, scatter: float, alpha: float, beta: float
) -> float:
    """The least deviation from the prediction that `count` seeds call a violation with
    probability 1 - beta: the band's half-width, the interval's, and a margin for chance."""
    reach = student_quantile(alpha, count) + float(-special.ndtri(beta))
    return delta + reach * scatter / sqrt(count)


@cache  # a plan asks twice for each entry, and most cells ask alike
def needed(delta: float, scatter: float, alpha: float, beta: float) -> int:
    """Seeds after which a value equal to its prediction conforms with probability 1 - beta.

    That takes an interval that fits the band from wherever chance puts its centre:
    (t + z) scatter / sqrt(n) <= delta. At least 10. ValueError where 20,000 are not enough.

    >>> needed(delta=0.01, scatter=0.01, alpha=1e-6, beta=0.01)
    64
    """
    chance = float(-special.ndtri(beta / 2))

    def resolves(count: int) -> bool:
        reach = student_quantile(alpha, count) + chance
        return reach * scatter <= delta * sqrt(count)

    low, high = FEWEST_SEEDS - 1, MOST_SEEDS
    if not resolves(high):
        raise ValueError(
            f"delta must be resolvable: {delta:g} at scatter {scatter:g} takes over {high} seeds"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resolves(middle) else (middle, high)
    return high


def looks(count: int) -> list[int]:
    """When to look: from a quarter to four times the seeds that should be enough.

    They are enough for a codec that is exactly right; the later looks are for one that is
    only nearly so, and for scatter that turns out larger than predicted.
    """
    shares = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4)
    return sorted({max(FEWEST_SEEDS, ceil(count * share)) for share in shares})


def worst_interval(values: Sequence[float]) -> Interval:
    """For a quantity that must hold every time: the largest value seen, as a point."""
    return Interval(max(values), max(values), max(values))
