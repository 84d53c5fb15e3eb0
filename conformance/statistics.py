"""Intervals, verdicts and sample sizes.

One rule: a claim conforms when the whole interval lies in its band, is violated when the
whole interval lies outside, and needs more seeds otherwise. The interval holds the true
value with probability 1 - alpha over all looks together, so alpha bounds the false alarms.
"""

from collections.abc import Callable, Sequence
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


def rank_interval(x: ArrayLike, y: ArrayLike, alpha: float) -> tuple[Interval, float]:
    """Rank-biserial correlation with its interval, and the p-value of Mann-Whitney's U.

    With theta = (r + 1)/2 the variance of its estimate is at most theta (1 - theta) / min(n, m)
    (van Dantzig 1951); two pairs are added, one of each outcome, so that complete separation
    has an interval too.
    """
    r, p = rank_biserial(x, y)
    fewer = min(np.size(x), np.size(y))
    theta = ((r + 1) / 2 * fewer + 1) / (fewer + 2)
    half = 2 * float(-special.ndtri(alpha / 2)) * sqrt(theta * (1 - theta) / fewer)
    centre = 2 * theta - 1
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return Interval(r, min(r, low), max(r, high)), p


def distance_interval(x: ArrayLike, y: ArrayLike, alpha: float) -> tuple[Interval, float]:
    """Kolmogorov-Smirnov distance of two laws with its interval, and the p-value of the test.

    By Dvoretzky-Kiefer-Wolfowitz each empirical CDF is within sqrt(log(4/alpha) / 2n) of its
    law with probability 1 - alpha/2, hence their distance within the sum of both.
    """
    distance, p = two_sample_distance(x, y)
    margin = sum(sqrt(log(4 / alpha) / (2 * np.size(sample))) for sample in (x, y))
    return Interval(distance, max(0.0, distance - margin), min(1.0, distance + margin)), p


def rank_biserial(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Rank-biserial correlation of samples (n,) and (m,), and the p-value of Mann-Whitney's U.

    r = 2U/(nm) - 1 in -1..1: the share of pairs with x above y less that with x below, so
    +1 when every x exceeds every y. Two-sided p. Finite values, at least one a sample,
    else ValueError. (Kerby 2014; paper A reports it for its KL gap.)

    >>> rank_biserial([5.0, 6.0, 7.0], [1.0, 2.0, 6.5])[0]  # 7 of 9 pairs above, 2 below
    0.5555555555555556
    """
    from scipy import stats  # here, because its import would double every start

    x, y = _sample("x", x, 1), _sample("y", y, 1)
    result = stats.mannwhitneyu(x, y, alternative="two-sided")
    p = 1.0 if np.isnan(result.pvalue) else float(result.pvalue)  # all values are equal
    return float(2 * result.statistic / (len(x) * len(y)) - 1), p


def two_sample_distance(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Sup distance between the empirical CDFs of samples (n,) and (m,), and its p-value.

    Kolmogorov-Smirnov, two-sided. Finite values, at least one a sample, else ValueError.
    (Paper A, "CDF separation"; paper B compares two generators by it.)

    >>> two_sample_distance([1.0, 2.0, 3.0, 4.0], [3.5, 5.0])[0]
    0.75
    """
    from scipy import stats  # here, because its import would double every start

    result = stats.ks_2samp(_sample("x", x, 1), _sample("y", y, 1))
    return float(result.statistic), float(result.pvalue)


def energy(x: ArrayLike, y: ArrayLike) -> float:
    """2E|X-Y| - E|X-X'| - E|Y-Y'| between samples (n, d) and (m, d), columns as they are.

    >>> energy([[0.0], [0.0]], [[1.0], [1.0]])
    2.0
    """
    from scipy.spatial import distance  # here, as it takes long to import

    x, y = _sample("x", x, 2), _sample("y", y, 2)
    between = distance.cdist(x, y).mean()
    return float(2 * between - distance.cdist(x, x).mean() - distance.cdist(y, y).mean())


def energy_distance(
    x: ArrayLike, y: ArrayLike, rng: np.random.Generator, permutations: int = 999
) -> tuple[float, float]:
    """2E|X-Y| - E|X-X'| - E|Y-Y'| between samples (n, d) and (m, d), and its p-value.

    This is the squared distance, from the empirical laws (V-statistic), so never negative;
    0 only where the two are the same law. Each column is first divided by its standard
    deviation over both samples together, and a column that never changes is dropped. The
    p-value is the share of random relabellings, the given one counted, with a distance at
    least as large: uniform where x and y have one law, and at least 1/(1 + permutations).
    Finite values, at least one row a sample, else ValueError. (Szekely and Rizzo 2013,
    "Energy statistics"; paper A takes it over the 6-D error.)

    >>> rng = np.random.default_rng(0)
    >>> energy_distance([[0.0], [0.0]], [[1.0], [1.0]], rng, 9)[0]  # standard deviation 1/2
    4.0
    """
    from scipy.spatial import distance  # here, as it takes long to import

    x, y = _sample("x", x, 2), _sample("y", y, 2)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"y must have the {x.shape[1]} columns of x, got {y.shape[1]}")
    if permutations < 1:
        raise ValueError(f"permutations must be at least 1, got {permutations}")
    pooled = np.concatenate([x, y])
    pooled = pooled[:, np.ptp(pooled, axis=0) > 0]
    pooled = pooled / np.std(pooled, axis=0)
    distances = distance.cdist(pooled, pooled)
    # with 1/n for the rows of x and -1/m for those of y it is the quadratic form -w D w
    weights = np.repeat([1 / len(x), -1 / len(y)], [len(x), len(y)])
    labels = np.vstack([weights, rng.permuted(np.tile(weights, (permutations, 1)), axis=1)])
    values = np.maximum(-np.einsum("pi,pi->p", labels @ distances, labels), 0.0)
    at_least = values[1:] >= values[0] - 1e-12  # equal ones differ by rounding
    return float(values[0]), float((1 + np.sum(at_least)) / (1 + permutations))


def _sample(name: str, value: ArrayLike, axes: int) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != axes or len(array) == 0:
        rule = "one value" if axes == 1 else "one row and two axes"
        raise ValueError(f"{name} must have at least {rule}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array
