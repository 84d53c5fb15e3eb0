"""What a correct codec does: every prediction that a claim uses, with its derivation.

Distortion is the relative squared error E|x - x_hat|^2 / |x|^2. "Isotropic" means that
the pair (query, vector) has a law that no rotation changes; with a random rotation every
input is as good as isotropic. d is the dimension, b the bits per coordinate, m the rows of
the sketch, D_b(d) the Lloyd-Max distortion.
"""

from functools import cache

import numpy as np
from scipy import special

from kvassay.reference import sphere
from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference._names import SKETCHES
from kvassay.reference.lloyd_max import MAX_BITS, codebook
from kvassay.reference.sphere import Array


def lloyd_max_distortion(dim: int, bits: int) -> float:
    """D_b(d): distortion of `scalar` (isotropic input) and `turboquant-mse` (any input).

    Every coordinate of x / |x| follows the coordinate law, the levels c are optimal for it,
    and the errors of d coordinates add up: D = d E(t - c(t))^2. D_0 = 1 (nothing stored).
    (TurboQuant, theorem 1, exact at finite d.)

    >>> [round(lloyd_max_distortion(64, b), 6) for b in (1, 2, 3)]
    [0.358387, 0.114526, 0.033391]
    """
    require_integer("bits", bits, 0, MAX_BITS)
    return codebook(dim, bits).distortion if bits else 1.0


def rate_distortion_bound(bits: int) -> float:
    """4^-b: no code of b bits per coordinate does better on an isotropic Gaussian source.

    Shannon's distortion-rate function of a Gaussian. D_b lies above it at every b and d.
    """
    return float(4.0**-bits)


def mse_slope(dim: int, bits: int) -> float:
    """Slope of <q, x_hat> on <q, x> without a sketch: 1 - D_b(d).

    A level is the mean of its cell, so E[c t] = E c^2, hence E<x_hat, x> = E|x_hat|^2 =
    (1 - D)|x|^2. The part of q across x adds nothing on average. (TurboQuant, section 3.2;
    paper A, section 1.)
    """
    return 1 - lloyd_max_distortion(dim, bits)


def prod_slope(dim: int, bits: int) -> float:
    """Slope of the estimate of <q, x> with a sketch: 1. QJL is unbiased (QJL, lemma 3.2)."""
    return 1.0


def sketch_noise(dim: int, sketch: str, rows: int | None = None) -> float:
    """E|r_hat - r|^2 / |r|^2 of the QJL reconstruction r_hat = k |r| S^T sign(S r).

    It is unbiased, so this is E|r_hat|^2 / |r|^2 - 1.

    Gaussian: summing `sketch_variance` over d orthonormal queries gives ((pi/2) d - 1)/m.
    Orthogonal: the rows of one block are orthonormal, so |S^T s|^2 is its number of rows,
    whatever the signs; two blocks are independent, so their parts have the inner product
    of their means. With m <= d it is 1/(m a^2) - 1 where a = E|u_1|, which for m = d tends
    to pi/2 - 1.

    >>> round(sketch_noise(128, "gaussian"), 4), round(sketch_noise(128, "orthogonal"), 4)
    (1.563, 0.5647)
    """
    require_choice("sketch", sketch, SKETCHES)
    rows = dim if rows is None else require_integer("rows", rows, 1)
    if sketch == "gaussian":
        return (np.pi / 2 * dim - 1) / rows
    mean_abs = sphere.mean_abs(dim)
    whole, rest = divmod(rows, dim)
    sum_of_squares = whole * dim**2 + rest**2
    energy = rows + (rows**2 - sum_of_squares) * mean_abs**2
    return float(energy / (rows * mean_abs) ** 2 - 1)


def sketch_variance(dim: int, cosine: float, sketch: str, rows: int | None = None) -> float:
    """Var<q, r_hat> / (|q|^2 |r|^2) for fixed q and r at an angle of the given `cosine`.

    Gaussian, exact: each of m independent rows contributes
    (pi/2) E[<g,q>^2] = (pi/2)|q|^2, less the squared mean, so (pi/2 - cosine^2)/m
    (QJL, lemma 3.5).

    Orthogonal (Haar), exact, m <= d: let v be the components of the rows along r, A = sum
    |v_i|, and w those along the part of q across r. Given v, w is uniform in the space
    orthogonal to v, so the across part has variance (m - E A^2)/(d - 1), and
    E A^2 = m/d + m(m-1) 2/(pi d). With k = 1/(m E|u_1|):
    k^2 [cosine^2 Var A + (1 - cosine^2)(m - E A^2)/(d - 1)], about (pi/2 - 1)/d at m = d.
    """
    require_choice("sketch", sketch, SKETCHES)
    rows = dim if rows is None else require_integer("rows", rows, 1)
    if sketch == "gaussian":
        return (np.pi / 2 - cosine**2) / rows
    if rows > dim:
        raise ValueError(f"rows must be at most dim = {dim} for this formula, got {rows}")
    mean = rows * sphere.mean_abs(dim)
    second = rows / dim + rows * (rows - 1) * 2 / (np.pi * dim)
    along = second - mean**2
    across = (rows - second) / (dim - 1)
    return float((cosine**2 * along + (1 - cosine**2) * across) / mean**2)


def prod_distortion(dim: int, bits: int, sketch: str) -> float:
    """Distortion of `turboquant-prod` decoded with its sketch: D_{b-1} times `sketch_noise`.

    The residual has D_{b-1}|x|^2 of energy and QJL replaces it by its noise. (From
    TurboQuant, theorem 2, exact at finite d.)
    """
    require_integer("bits", bits, 1, MAX_BITS)
    return lloyd_max_distortion(dim, bits - 1) * sketch_noise(dim, sketch)


def product_variance(dim: int, bits: int, sketch: str = "") -> float:
    """d E(estimate - <q, x>)^2 / (|q|^2 |x|^2) for an isotropic q independent of x.

    Given the error e = x_hat - x, E<q, e>^2 = |q|^2 |e|^2 / d, so this is the distortion of
    the reconstruction that the estimate stands for. Without a sketch D_b, with one D_{b-1}
    times `sketch_noise`. Of codecs on a Lloyd-Max grid; `kinds` says which those are. (Paper A,
    section 1; TurboQuant, theorem 2.)
    """
    if sketch:
        return prod_distortion(dim, bits, sketch)
    return lloyd_max_distortion(dim, bits)


def pi_over_2(dim: int, sketch: str) -> float:
    """Variance with QJL on the (n-1)-bit residual over variance with nothing on it.

    Both are the residual's energy, with and without `sketch_noise`, so their ratio is that:
    pi/2 - 1/d for the gaussian sketch, 1/(d a^2) - 1, about pi/2 - 1, for the orthogonal
    one. (Paper A, section 1, gives pi/2.)
    """
    return sketch_noise(dim, sketch)


def two_pi(dim: int, bits: int, sketch: str) -> float:
    """Variance of (n-1)-bit + QJL over that of n-bit scalar: `pi_over_2` D_{n-1} / D_n.

    D falls by 4 a bit in the limit (Panter and Dite), which makes it 2 pi for the gaussian
    sketch and 4 (pi/2 - 1) = 2.283 for the orthogonal one. (Paper A, section 1, gives 2 pi.)

    >>> round(two_pi(128, 4, "gaussian"), 3), round(two_pi(128, 4, "orthogonal"), 3)
    (5.699, 2.059)
    """
    require_integer("bits", bits, 2, MAX_BITS)
    ratio = lloyd_max_distortion(dim, bits - 1) / lloyd_max_distortion(dim, bits)
    return pi_over_2(dim, sketch) * ratio


def one_hot_distortion(dim: int, bits: int) -> float:
    """Distortion of a one-hot vector behind one randomized Hadamard round.

    Every rotated coordinate is +-1/sqrt(d), so the error is that of the single value
    1/sqrt(d): d (1/sqrt(d) - c)^2 with c the nearest level. It can lie far below D_b
    (b = 1: 0.11x) or above (b = 2: 2.2x, b = 3: 1.8x at d = 128). A Haar rotation gives D_b.
    """
    book = codebook(dim, bits)
    value = np.array([1 / np.sqrt(dim)])
    return float(dim * (value - book.levels[book.quantize(value)])[0] ** 2)


def worst_one_hot_distortion(dim: int, bits: int) -> float:
    """The most that `one_hot_distortion` can be for a table that differs a little.

    Where in its cell the value 1/sqrt(d) falls is chance at high b: the Gaussian table and
    the exact one put it at different places. Between two levels it is at most half their
    gap from one of them; beyond the outermost, where it lies at b = 1, there is one place.
    """
    levels = codebook(dim, bits).levels
    above = int(np.searchsorted(levels, 1 / np.sqrt(dim)))
    if above == len(levels):
        return one_hot_distortion(dim, bits)
    return float(dim * ((levels[above] - levels[above - 1]) / 2) ** 2)


def gaussian_table_gap(dim: int, bits: int) -> float:
    """Largest |F_d(t_i) - Phi(s_i)| over the thresholds t_i of the codebook for dimension d
    and s_i of the Gaussian one: how far the table is from its limit, in probability.

    Falls like c/d with c at most 0.37 (b <= 8): the coordinate law tends to N(0, 1/d) at
    that rate, and the table with it. (Paper A, section 1.)
    """
    return table_gap(codebook(dim, bits).levels, dim, bits)


def table_gap(levels: Array, dim: int, bits: int) -> float:
    """The same gap for any increasing `levels`, 2^bits of them, in units of a unit vector."""
    thresholds = (levels[:-1] + levels[1:]) / 2
    limit = special.ndtr(_gaussian_thresholds(bits))
    return float(np.max(np.abs(sphere.cdf(thresholds, dim) - limit)))


def table_distortion(levels: Array, dim: int) -> float:
    """Distortion of increasing `levels` with nearest-level assignment under the law of `dim`.

    At its least, D_b(d), exactly when both Lloyd-Max conditions hold.
    """
    edges = np.concatenate([[-1.0], np.clip((levels[:-1] + levels[1:]) / 2, -1, 1), [1.0]])
    mass, first = sphere.partial_moments(edges, dim)
    return float(1 - dim * np.sum(2 * levels * first - levels**2 * mass))


@cache
def _gaussian_thresholds(bits: int) -> Array:
    dim = 2**22  # the law differs from its limit by 3e-8 here
    return np.asarray(codebook(dim, bits).thresholds * np.sqrt(dim))


# How much one seed's statistic scatters around its prediction. These set sample sizes, not
# error rates: they are first-order, and the intervals use the scatter that is measured.


@cache
def error_kurtosis(dim: int, bits: int) -> float:
    """Var(e^2) / (E e^2)^2 of the quantization error e of one coordinate; 2 for b = 0."""
    if bits == 0:
        return 2.0
    book = codebook(dim, bits)
    # In the angle, t = sin(a), the law has the density cos(a)^(d-2): no pole at d = 2. The
    # grid goes far out, since rare overloads carry much of the fourth moment.
    angle = np.linspace(0, np.arcsin(min(1.0, 12 / np.sqrt(dim))), 2**16)
    t, weight = np.sin(angle), np.cos(angle) ** (dim - 2)
    squared = (t - book.levels[book.quantize(t)]) ** 2
    mean = np.average(squared, weights=weight)
    return float(np.average(squared**2, weights=weight) / mean**2 - 1)


def distortion_scatter(dim: int, bits: int, count: int) -> float:
    """Relative standard deviation of the mean distortion of `count` vectors, one seed.

    The d coordinates' errors are nearly independent: sqrt(kurtosis / (d count)).
    """
    return float(np.sqrt(error_kurtosis(dim, bits) / (dim * count)))


def sketch_scatter(dim: int, bits: int, sketch: str, count: int) -> float:
    """The same for `turboquant-prod` decoded with its sketch.

    |S^T s|^2 is constant for an orthogonal sketch. For a gaussian one it is m^2 times the
    squared length of a mean of m half-normal vectors, of which the part that all vectors
    share is the mean of |g_i|^2 over rows: relative variance 2/(d m) and a cross term of
    the same size.
    """
    own = error_kurtosis(dim, bits - 1) / (dim * count)
    if sketch == "orthogonal":
        return float(np.sqrt(own + 2 / (dim * count)))
    return float(np.sqrt(own + 4 / dim**2 + 8 / (dim * count)))


def slope_scatter(
    dim: int,
    bits: int,
    sketch: str,
    count: int,
    queries: int,
    cosine2: float,
    distortion: float | None = None,
) -> float:
    """Standard deviation of the slope of one seed, from `count` vectors, each with a query of
    its own at a mean squared cosine `cosine2`, and `queries` others that are independent.

    The error e of a vector has <q, e> of variance v/d, v its `distortion`, by default that of the
    papers' codec. The slope is the sum of <q, e><q, x>
    over the sum of <q, x>^2, which for a vector is cosine2 from its own query and
    g = queries/d from the others. Those together are g <e, x> and a remainder of variance
    g v/d, so the variance is (v/d)(g^2 + g + cosine2) / (count (g + cosine2)^2). With a
    gaussian sketch the lengths of its rows scale all estimates of the residual's share
    D_{b-1} alike: their mean over d rows has relative variance 1/(2 d^2).
    """
    others = queries / dim
    if distortion is None:
        distortion = product_variance(dim, bits, sketch)
    variance = distortion / dim
    variance *= (others**2 + others + cosine2) / (count * (others + cosine2) ** 2)
    if sketch == "gaussian":
        variance += lloyd_max_distortion(dim, bits - 1) ** 2 / (2 * dim**2)
    return float(np.sqrt(variance))


def variance_scatter(dim: int, sketch: str, queries: int, count: int) -> float:
    """Relative standard deviation of the mean squared error of queries x count products.

    A squared normal has relative variance 2. It averages over all pairs; over the queries
    (times count) and vectors apart only as far as their lengths differ, 2/d; and for a
    gaussian sketch over the m lengths |S q|^2 of each query and all rows.
    """
    variance = 2 / (queries * count) + 2 / (dim * count)
    if sketch == "gaussian":
        variance += 2 / (dim * queries) + 2 / dim**2
    return float(np.sqrt(variance))


def jensen_inflation(variance: float) -> float:
    """E exp(e) for a Gaussian error e of mean 0 and the given variance: exp(variance / 2).

    The score error of a rotated codec is nearly Gaussian: excess kurtosis -6/(d+2) from the
    angle between query and error, and what the errors' lengths vary. (Paper A, section 1;
    paper B, section 2.)

    >>> round(jensen_inflation(0.49), 4)
    1.2776
    """
    return float(np.exp(variance / 2))


def mse_direction_error(dim: int, bits: int) -> float:
    """About the mean angle between x and its reconstruction without a sketch, over pi.

    E<x_hat, x> = E|x_hat|^2 = (1 - D)|x|^2, so the cosine is sqrt(1 - D) and the angle
    asin(sqrt(D)). The D of single vectors varies with a squared coefficient of variation of
    `error_kurtosis` / d, of which an eighth comes off the mean of its root. (Paper A, results,
    reports 0.027 at 4 bits.)

    >>> round(mse_direction_error(128, 4), 4)
    0.0305
    """
    root = np.sqrt(lloyd_max_distortion(dim, bits))
    return float(np.arcsin(root) / np.pi * (1 - error_kurtosis(dim, bits) / dim / 8))


def prod_direction_error(dim: int, bits: int, sketch: str) -> float:
    """The same with a sketch, about atan(sqrt(D_{b-1} `sketch_noise`)) / pi.

    The reconstruction is x plus an error that is nearly across it, whose energy varies as
    that of the residual does. (Paper A, section 4.)

    >>> round(prod_direction_error(128, 4, "orthogonal"), 4)
    0.0435
    """
    angle = np.arctan(np.sqrt(prod_distortion(dim, bits, sketch))) / np.pi
    return float(angle * (1 - error_kurtosis(dim, bits - 1) / dim / 8))


def score_error(dim: int, bits: int, cosine: Array, sketch: str = "") -> tuple[Array, Array]:
    """Mean and variance of (estimate - <q, x>) / (|q| |x|) at the given cosines of q and x.

    With a sketch the estimate is unbiased and the variance is that of QJL on a residual of
    energy D_{b-1}, whose cosine with x is the root of that (`sketch_variance`).

    Without one, the error f(u) = c(u) - u of the rotated coordinates u has <u, f> of mean -D:
    the slope is 1 - D. Its variance, V = d Var(u f) less what the sphere holds fixed, is larger
    than a coordinate's share, since levels are sparse where u is large; across x remains
    (D - D^2 - V)/(d - 1). A query along its key so meets more noise, and the bias. (From
    TurboQuant, section 3; exact up to 1/d.)

    >>> mean, variance = score_error(128, 4, np.array([0.0, 1.0]))
    >>> (128 * variance / lloyd_max_distortion(128, 4)).round(2).tolist()
    [0.98, 2.65]
    """
    cosine = np.asarray(cosine, dtype=np.float64)
    if sketch:
        residual = lloyd_max_distortion(dim, bits - 1)
        along = sketch_variance(dim, float(np.sqrt(residual)), sketch)
        across = sketch_variance(dim, 0.0, sketch)
        variance = residual * (across + cosine**2 * (along - across))
        return np.zeros_like(cosine), variance
    distortion = lloyd_max_distortion(dim, bits)
    along = _along_variance(dim, bits)
    across = (distortion - distortion**2 - along) / (dim - 1)
    return -distortion * cosine, cosine**2 * along + (1 - cosine**2) * across


@cache
def _along_variance(dim: int, bits: int) -> float:
    """Var <u, c(u) - u> for u uniform on the sphere: d Var(u f), less its regression on u^2,
    whose sum is fixed."""
    book = codebook(dim, bits)
    angle = np.linspace(0, np.arcsin(min(1.0, 12 / np.sqrt(dim))), 2**16)
    u, weight = np.sin(angle), np.cos(angle) ** (dim - 2)
    product = u * (book.levels[book.quantize(u)] - u)
    squares = np.stack([product, u**2])
    centred = squares - np.average(squares, axis=1, weights=weight)[:, None]
    (own, shared), (_, fixed) = np.average(centred[:, None] * centred, axis=2, weights=weight)
    return float(dim * (own - shared**2 / fixed))


def largest_squared_norm(dim: int, count: int) -> float:
    """E max |q|^2 / d over `count` standard normal queries of dimension `dim`.

    The largest of independent chi^2_d / d: the integral of 1 - F(t)^count over t >= 0.

    >>> round(largest_squared_norm(128, 256), 3)
    1.391
    """
    t = np.linspace(0, 1 + 20 / np.sqrt(dim) + 100 / dim, 2**16)
    beyond = 1 - special.gammainc(dim / 2, t * dim / 2) ** count
    return float(np.sum(beyond[:-1] + beyond[1:]) / 2 * t[1])


def calibrated_dim(rank: int, tokens: int) -> float:
    """Participation ratio of the second moments of N unit tokens, uniform in r dimensions:
    r N / (N + r - 1).

    tr S = 1 and E tr S^2 = 1/N + (1 - 1/N)/r, since E<u, w>^2 = 1/r for two of them; this is
    the inverse. It is N where N is small and r only where it is large. (Paper B, section 3.)

    >>> [round(calibrated_dim(128, tokens), 1) for tokens in (16, 64, 256, 1024)]
    [14.3, 42.9, 85.6, 113.9]
    """
    return rank * tokens / (tokens + rank - 1)
