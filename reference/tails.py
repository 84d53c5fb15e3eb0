"""How far one seed can lie from the mean: ranges that chance leaves with a known rate.

`theory` predicts means over seeds. A fault that only some seeds have hides in such a mean; here
are the ranges in which the mean distortion and the mean slope of `count` isotropic vectors under
one seed lie, but for a probability of at most `alpha`. Sums over coordinates are bounded by
Chernoff's method: for any rate s > 0 and N independent coordinates u_i

    P(sum f(u_i) >= a) <= exp(N K(s) - s a),   K(s) = log E exp(s f(u_1)).

The coordinates of one unit vector are taken as independent under their exact law. They are not
quite: their squares add up to 1, which narrows the sums that are used here
(tests/reference/test_tails.py counts how often seeds lie outside).
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import special

from kvassay.reference import sphere
from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference._names import SKETCHES
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.sphere import Array

Range = tuple[float, float]


def distortion_range(dim: int, bits: int, sketch: str, count: int, alpha: float) -> Range:
    """Lowest and highest mean of |x_hat - x|^2 / |x|^2 over `count` vectors and one seed.

    Without a sketch ("") it is a mean over coordinates of (c(u) - u)^2. With one it is the
    energy of the residual at one bit less times that of the sketch's error, each at half of
    alpha; all vectors share the sketch, so its error is bounded for each of them.

    >>> low, high = distortion_range(128, 4, "", 8, 1e-9)
    >>> low < 0.0093 < high < 0.03  # a decoder of zeros has 1
    True
    """
    require_integer("count", count, 1)
    if not sketch:
        return _squared_error_range(dim, bits, count, alpha)
    require_choice("sketch", sketch, SKETCHES)
    residual = _squared_error_range(dim, bits - 1, count, alpha / 2)
    noise = _noise_range(dim, sketch, alpha / (2 * count))
    return residual[0] * noise[0], residual[1] * noise[1]


def slope_range(dim: int, bits: int, sketch: str, count: int, alpha: float) -> Range:
    """The same for the mean of <x_hat, x> / |x|^2: what the estimate makes of the vector itself.

    With r the residual, <x_hat, x> / |x|^2 = 1 - <r, u> without a sketch. With one it is 1 plus
    <r, u> (H - 1) + |r| sin(phi) w, where H is the scaled sum of the sketch's components along r
    and w a component across it. For a gaussian sketch both together are |r| times a Lipschitz
    function of independent normal variables with constant sqrt(pi / 2 d), hence below t times
    that but for 2 exp(-t^2 / 2). For an orthogonal one H - 1 and w are bounded one by one.

    >>> low, high = slope_range(128, 4, "gaussian", 8, 1e-9)
    >>> 0.5 < low < 1 < high < 1.5
    True
    """
    require_integer("count", count, 1)
    if not sketch:
        low, high = _kept_range(dim, bits, count, alpha)
        return 1 + low, 1 + high
    require_choice("sketch", sketch, SKETCHES)
    root = np.sqrt(_squared_error_range(dim, bits - 1, count, alpha / 2)[1])
    if sketch == "gaussian":
        reach = root * np.sqrt(np.pi / 2 / dim * 2 * np.log(4 * count / alpha))
    else:
        along = -_kept_range(dim, bits - 1, count, alpha / 8)[0]
        sums = _scaled_sum_range(dim, alpha / (8 * count))
        across = -float(sphere.ppf(alpha / (8 * count), dim - 1)) / sphere.mean_abs(dim) / dim**0.5
        reach = along * max(1 - sums[0], sums[1] - 1) + root * across
    return 1 - float(reach), 1 + float(reach)


@cache
def _squared_error_range(dim: int, bits: int, count: int, alpha: float) -> Range:
    if bits == 0:
        return 1.0, 1.0
    book = codebook(dim, bits)
    low, high = _mean_range(dim, lambda u: (book.levels[book.quantize(u)] - u) ** 2, count, alpha)
    return max(0.0, low), high


@cache
def _kept_range(dim: int, bits: int, count: int, alpha: float) -> Range:
    """Mean of <c(u) - u, u>, whose expectation is -D."""
    if bits == 0:
        return -1.0, -1.0
    book = codebook(dim, bits)
    return _mean_range(dim, lambda u: (book.levels[book.quantize(u)] - u) * u, count, alpha)


def _noise_range(dim: int, sketch: str, alpha: float) -> Range:
    """|r_hat - r|^2 / |r|^2 of a sketch of d rows for one residual r.

    Gaussian: (H - 1)^2 along r, Lipschitz as above, and across it (pi / 2 d) times a chi-squared
    variable of d - 1 degrees. Orthogonal: |S^T s|^2 is d whatever the signs, so with the scale k
    it is k^2 d + 1 - 2 H.
    """
    if sketch == "gaussian":
        along = np.pi / 2 / dim * 2 * np.log(4 / alpha)
        low, high = (float(special.chdtri(dim - 1, tail)) for tail in (1 - alpha / 4, alpha / 4))
        return np.pi / 2 / dim * low, along + np.pi / 2 / dim * high
    low, high = _scaled_sum_range(dim, alpha)
    energy = 1 / (dim * sphere.mean_abs(dim) ** 2)
    return max(0.0, energy + 1 - 2 * high), energy + 1 - 2 * low


@cache
def _scaled_sum_range(dim: int, alpha: float) -> Range:
    """H = sum |v_i| over its expectation, for a unit vector v."""
    low, high = _mean_range(dim, np.abs, 1, alpha)
    scale = 1 / (dim * sphere.mean_abs(dim))
    return scale * max(1.0, low), scale * min(dim**0.5, high)  # 1 <= sum |v_i| <= sqrt(d)


def _mean_range(dim: int, function: Callable[[Array], Array], count: int, alpha: float) -> Range:
    """The range of the mean over `count` unit vectors of sum_i f(u_i), f even, alpha / 2 to a
    side.

    Any rate gives a valid bound: the best of a coarse scale is refined once. The law is taken at
    2^12 points of the angle a, u = sin(a), where it has no pole.
    """
    angle = (np.arange(2**12) + 0.5) / 2**12 * np.pi / 2
    log_weight = (dim - 2) * np.log(np.cos(angle))
    kept = log_weight > -200  # what is rarer has no part in any bound
    weight = np.exp(log_weight[kept])
    weight /= weight.sum()
    values = function(np.sin(angle[kept]))
    mean = float(weight @ values)
    spread = float(np.sqrt(weight @ (values - mean) ** 2))
    budget = np.log(2 / alpha)

    def reach(sign: int, log_rates: Array) -> tuple[float, float]:
        """The smallest bound on the deviation that these rates give, and its rate."""
        rates = np.exp(log_rates) / spread
        exponents = sign * rates[:, None] * (values - mean)
        largest = exponents.max(axis=1)
        sums = np.exp(exponents - largest[:, None]) @ weight
        bounds = (dim * count * (largest + np.log(sums)) + budget) / rates
        best = int(np.argmin(bounds))
        return float(bounds[best]) / count, float(log_rates[best])

    ends = []
    for sign in (-1, 1):
        _, coarse = reach(sign, np.linspace(np.log(1e-5), np.log(1e2), 24))
        deviation, _ = reach(sign, coarse + np.linspace(-0.7, 0.7, 9))
        ends.append(dim * mean + sign * deviation)
    return ends[0], ends[1]
