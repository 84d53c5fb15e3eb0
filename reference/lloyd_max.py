"""The optimal scalar codebook for the coordinate law (Lloyd 1982, Max 1960; TurboQuant).

A codebook of 2^b levels is optimal when
  1. each threshold lies midway between its two levels (nearest level), and
  2. each level is the mean of the law over its cell (centroid).
Both conditions hold here to 1e-10 of the coordinates' standard deviation 1/sqrt(d).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import solve_banded

from kvassay.reference import sphere
from kvassay.reference._checks import require_integer
from kvassay.reference.sphere import Array

MAX_BITS = 8


@dataclass(frozen=True)
class Codebook:
    """Levels and thresholds for the coordinates of a unit vector of dimension `dim`.

    `levels` has 2^bits increasing values, antisymmetric about 0; `thresholds` has one less;
    `distortion` is D_b(d), the relative squared error E|x - x_hat|^2 / |x|^2.
    """

    dim: int
    bits: int
    levels: Array
    thresholds: Array
    distortion: float

    def quantize(self, coordinates: Array) -> np.ndarray:
        """Index of the nearest level, uint8, same shape; a tie goes to the upper level."""
        return _count_below(coordinates, self.thresholds)


def codebook(dim: int, bits: int) -> Codebook:
    """The Lloyd-Max codebook of `bits` in 1..8 for dimension `dim` >= 2.

    >>> round(codebook(128, 4).distortion, 6)
    0.009315
    """
    return _codebook(require_integer("dim", dim, 2), require_integer("bits", bits, 1, MAX_BITS))


@cache
def _codebook(dim: int, bits: int) -> Codebook:
    upper = _solve(dim, 2 ** (bits - 1))
    levels = np.concatenate([-upper[::-1], upper])
    thresholds = (levels[:-1] + levels[1:]) / 2
    mass, first = sphere.partial_moments(np.concatenate([[-1.0], thresholds, [1.0]]), dim)
    # E(t-c)^2 = E t^2 - 2 c m1 + c^2 m0 over the cells, times d coordinates.
    distortion = 1 - dim * float(np.sum(2 * levels * first - levels**2 * mass))
    for array in (levels, thresholds):
        array.setflags(write=False)
    return Codebook(dim, bits, levels, thresholds, distortion)


def optimality_gap(levels: Array, dim: int) -> float:
    """Largest violation of the centroid condition, in units of 1/sqrt(d), when the
    thresholds lie midway (so that the other condition holds by construction)."""
    edges = np.concatenate([[-1.0], (levels[:-1] + levels[1:]) / 2, [1.0]])
    mass, first = sphere.partial_moments(edges, dim)
    return float(np.max(np.abs(levels - first / mass)) * np.sqrt(dim))


def _solve(dim: int, count: int) -> Array:
    """The `count` positive levels.

    Starts from the Panter-Dite point density f^(1/3), which for this law is the coordinate
    law of dimension d/3 + 2: every level starts where there is mass, at any d. (Levels
    spread over [-1, 1] would start where there is none and never move.) Lloyd's iteration
    then makes the start safe and Newton's method finishes.
    """
    from scipy.special import betaincinv

    shape = (dim + 3) / 6
    quantiles = 0.5 + (np.arange(count) + 0.5) / (2 * count)
    levels = 2 * betaincinv(shape, shape, quantiles) - 1
    for _ in range(20):
        levels = _centroids(levels, dim)[0]
    for _ in range(50):
        centroids, slopes = _centroids(levels, dim)
        residual = levels - centroids
        if np.max(np.abs(residual)) * np.sqrt(dim) < 1e-13:
            break
        step = _newton_step(slopes, residual)
        candidate = levels - step
        ordered = np.all(np.diff(candidate, prepend=0.0) > 0) and candidate[-1] < 1
        levels = candidate if ordered else centroids
    return np.asarray(levels)


def _centroids(levels: Array, dim: int) -> tuple[Array, tuple[Array, Array]]:
    """Cell means for the positive half, and their slopes in the lower and upper threshold."""
    inner = (levels[:-1] + levels[1:]) / 2
    edges = np.concatenate([[0.0], inner, [1.0]])
    mass, first = sphere.partial_moments(edges, dim)
    means = first / mass
    density = sphere.pdf(edges[1:-1], dim)
    by_lower = np.concatenate([[0.0], density * (means[1:] - inner) / mass[1:]])
    by_upper = np.concatenate([density * (inner - means[:-1]) / mass[:-1], [0.0]])
    return means, (by_lower, by_upper)


def _newton_step(slopes: tuple[Array, Array], residual: Array) -> Array:
    """Solves J step = residual for the tridiagonal Jacobian J of level - cell mean; each
    inner threshold moves by half of either neighbouring level."""
    by_lower, by_upper = slopes
    count = len(residual)
    if count == 1:
        return residual
    bands = np.zeros((3, count))
    bands[1] = 1 - (by_lower + by_upper) / 2
    bands[0, 1:] = -by_upper[:-1] / 2
    bands[2, :-1] = -by_lower[1:] / 2
    return np.asarray(solve_banded((1, 1), bands, residual))


def _count_below(values: Array, thresholds: Array) -> np.ndarray:
    """How many thresholds are <= each value. A pass for each of few thresholds is faster
    than a search for each value; the result is the same."""
    if len(thresholds) > 16:
        return np.searchsorted(thresholds, values, side="right").astype(np.uint8)
    count = np.zeros(values.shape, dtype=np.uint8)
    for threshold in thresholds:
        count += values >= threshold
    return count
