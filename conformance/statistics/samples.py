"""Two samples: ranks, distances of laws, energy distance."""

from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from kvassay.conformance.statistics.intervals import Interval


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
    x: ArrayLike,
    y: ArrayLike,
    rng: np.random.Generator,
    permutations: int = 999,
    *,
    paired: bool = False,
) -> tuple[float, float]:
    """2E|X-Y| - E|X-X'| - E|Y-Y'| between samples (n, d) and (m, d), and its p-value.

    This is the squared distance, from the empirical laws (V-statistic), so never negative;
    0 only where the two are the same law. Each column is first divided by its standard
    deviation over both samples together, and a column that never changes is dropped. The
    p-value is the share of random relabellings, the given one counted, with a distance at
    least as large: uniform where x and y have one law, and at least 1/(1 + permutations).
    If `paired`, row i of x and row i of y come from one trial, and a relabelling swaps the two of
    a trial or not: what a trial does to both is then no evidence for or against a difference.
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
    if paired:
        if len(x) != len(y):
            raise ValueError(f"y must have the {len(x)} rows of x to be paired, got {len(y)}")
        swaps = rng.choice([-1.0, 1.0], size=(permutations, len(x)))
        relabelled = np.tile(swaps, 2) * weights
    else:
        relabelled = rng.permuted(np.tile(weights, (permutations, 1)), axis=1)
    labels = np.vstack([weights, relabelled])
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
