"""What each design does: predictions for codecs that differ from the papers' on purpose.

Notation: u is a unit vector, uniform on the sphere of dimension d (a random rotation makes it so,
and isotropic input is), c its reconstruction on the grid, D the distortion. Everything is exact at
finite d, but for the scaled reconstructions, whose error is of the order d^-2 of their value
(`scaled`).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special, stats

from kvassay.reference import sphere, theory
from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference.designs import SCALES, Design
from kvassay.reference.lloyd_max import MAX_BITS, codebook
from kvassay.reference.sphere import Array

FAMILIES = ("constant", "one-hot", "loud-block")


@dataclass(frozen=True)
class Outcome:
    """What a reconstruction is like: `distortion` E|x_hat - x|^2 / |x|^2, the `slope` of <q, x_hat>
    on <q, x>, and `scatter`, the relative standard deviation of one vector's distortion."""

    distortion: float
    slope: float
    scatter: float


def outcome(dim: int, bits: int, design: Design) -> Outcome:
    """What theory says of `design` on isotropic vectors, without a sketch.

    ValueError where `dim` is no multiple of the design's group or block.
    """
    for name, size in (("group", design.group), ("block", design.block)):
        if size and dim % size:
            raise ValueError(f"dim must be a multiple of the {name} of {size}, got {dim}")
    if design.grid == "uniform":
        return uniform(dim, bits, design.group)
    return scaled(dim, bits, design.scale)


def scaled(dim: int, bits: int, scale: str) -> Outcome:
    """A Lloyd-Max reconstruction c of u that is scaled: "unit" c / |c|, "unbiased" c / <u, c>.

    With X = <u, c> and Y = |c|^2, that is p = X - 1 and r = |c - u|^2 = Y - 2 X + 1, the angle
    between u and c has cos^2 = (1 + p)^2 / (1 + 2p + r), so that

        unit:      |c / |c| - u|^2 = 2 - 2 cos                          slope E cos
        unbiased:  |c / X - u|^2 = 1 / cos^2 - 1 = (r - p^2) / (1 + p)^2     slope 1

    Across u, c has no direction of its own, which gives the slopes. Both errors are functions of
    (X, Y) = sums over d coordinates, with relative fluctuations of 1/sqrt(d); their mean is that
    function at (E X, E Y) and half its second derivatives times the covariance of X and Y, which is
    exact (`_sums`). Third moments add a share of the order d^-2. The limits for large d are
    2 - 2 sqrt(1 - D) and D / (1 - D), up to 2 % off at d = 128. (DRIVE, arXiv:2105.08339, has both
    scales; EDEN, arXiv:2108.08842, the unbiased one at b bits.)

    >>> round(scaled(128, 1, "unit").distortion, 3), round(scaled(128, 1, "unit").slope, 3)
    (0.401, 0.799)
    >>> round(scaled(128, 1, "unbiased").distortion, 3)
    0.567
    """
    require_choice("scale", scale, SCALES)
    require_integer("bits", bits, 1, MAX_BITS)
    if scale == "none":
        distortion = theory.lloyd_max_distortion(dim, bits)
        relative = theory.distortion_scatter(dim, bits, 1)
        return Outcome(distortion, theory.mse_slope(dim, bits), relative)
    (x, y), covariance = _sums(dim, bits)
    if scale == "unit":  # 2 - 2 x y^(-1/2)
        value = 2 - 2 * x / np.sqrt(y)
        gradient = np.array([-2 * y**-0.5, x * y**-1.5])
        hessian = np.array([[0.0, y**-1.5], [y**-1.5, -1.5 * x * y**-2.5]])
    else:  # y x^(-2) - 1
        value = y / x**2 - 1
        gradient = np.array([-2 * y / x**3, x**-2])
        hessian = np.array([[6 * y / x**4, -2 / x**3], [-2 / x**3, 0.0]])
    distortion = float(value + np.sum(hessian * covariance) / 2)
    scatter = float(np.sqrt(gradient @ covariance @ gradient)) / distortion
    return Outcome(distortion, 1 - distortion / 2 if scale == "unit" else 1.0, scatter)


@cache
def _sums(dim: int, bits: int) -> tuple[Array, Array]:
    """Mean and covariance of X = sum u_i c(u_i) and Y = sum c(u_i)^2 over the sphere.

    Given u_1 = t, the others are s v with s = sqrt(1 - t^2) and v uniform on the sphere of
    dimension d - 1, so that E[f(u_1) g(u_2)] is one integral over t of f(t) times cell moments of
    the law of d - 1. Then Cov(X, Y) = d Cov(f(u_1), g(u_1)) + d (d-1) Cov(f(u_1), g(u_2)).
    """
    book = codebook(dim, bits)
    t, weight = _nodes(dim, bits)
    level = book.levels[book.quantize(t)]
    own = np.stack([t * level, level**2])
    s = np.sqrt(1 - t**2)[:, None]
    edges = np.clip(np.concatenate([[-1.0], book.thresholds, [1.0]]) / s, -1, 1)
    shape = (dim - 2) / 2  # of the law of d - 1
    mass = np.diff(sphere.cdf(edges, dim - 1), axis=1)
    scale = (dim - 2) * special.beta(0.5, shape)
    first = np.diff(-np.exp(special.xlog1py(shape, -(edges**2))) / scale, axis=1)
    other = np.stack([s[:, 0] * (first @ book.levels), mass @ book.levels**2])
    mean = own @ weight
    same = (own * weight) @ own.T - np.outer(mean, mean)
    pair = (own * weight) @ other.T - np.outer(mean, mean)
    return dim * mean, dim * same + dim * (dim - 1) * (pair + pair.T) / 2


def _nodes(dim: int, bits: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes for the law of a coordinate, in the pieces between the thresholds of a
    codebook, and their weights; by symmetry those above 0 do, at twice the weight.

    In the angle, t = sin(a), the law has the density cos(a)^(d-2), smooth at every d >= 3.
    """
    far = np.arcsin(min(1.0, 12 / np.sqrt(dim)))
    inner = np.arcsin(codebook(dim, bits).thresholds[2 ** (bits - 1) - 1 :])  # from 0 on
    edges = np.unique(np.concatenate([inner[inner < far], np.linspace(0, far, 17)]))
    x, w = special.roots_legendre(8)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    angle = (middle[:, None] + half[:, None] * x).ravel()
    weight = (half[:, None] * w).ravel() * np.cos(angle) ** (dim - 2)
    return np.sin(angle), np.asarray(weight / weight.sum())


@cache
def uniform(dim: int, bits: int, group: int = 0) -> Outcome:
    """A grid of 2^b equidistant levels from the least coordinate to the largest, of each `group`
    neighbours or (0) of the whole vector.

    The grid scales with the vector, so its error e has E|e|^2 / E|g|^2 on a Gaussian vector g,
    whose length is independent of its direction: D = E|e|^2 / d. Given the extremes m < M of a
    group of n coordinates, the other n - 2 are independent with the Gaussian law cut to (m, M), and
    the extremes themselves are exact; m and M have the joint density
    n (n-1) phi(m) phi(M) (Phi(M) - Phi(m))^(n-2) (order statistics). The slope is 1 + E<u, c - u>.

    >>> round(uniform(128, 4).distortion, 4), round(uniform(128, 3).distortion, 4)
    (0.0099, 0.0457)
    """
    require_integer("bits", bits, 1, MAX_BITS)
    size = group or dim
    if dim % size or size < 4:
        raise ValueError(f"group must be at least 4 and divide dim = {dim}, got {size}")
    x, w = special.roots_legendre(96)
    share = (x + 1) / 2
    # Nodes at quantiles of either extreme; what the two have to do with each other is a weight.
    high = stats.norm.isf(-np.expm1(np.log(share) / size))
    low, high = np.meshgrid(-high, high, indexing="ij")
    log_product = (size - 1) * (special.log_ndtr(-low) + special.log_ndtr(high))
    between = special.ndtr(high) - special.ndtr(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_joint = np.log1p(-1 / size) + (size - 2) * np.log(between)
        weight = np.where(high > low, np.exp(log_joint - log_product), 0.0) * np.outer(w, w)
    weight = weight.ravel() / weight.sum()
    keep = weight > 1e-18
    low, high, weight = low.ravel()[keep], high.ravel()[keep], weight[keep]
    squared, product = _within(low, high, 2**bits - 1)
    inner = 1 - 2 / size
    distortion = inner * float(weight @ squared)
    slope = 1 + inner * float(weight @ product)
    between_groups = float(weight @ squared**2) * inner**2 - distortion**2
    within = 0.8 * distortion**2 / size  # a uniform error e has Var e^2 = .8 (E e^2)^2
    relative = np.sqrt((between_groups + within) / (dim / size)) / distortion
    return Outcome(distortion, slope, float(relative))


def _within(low: Array, high: Array, steps: int) -> tuple[Array, Array]:
    """E (c - t)^2 and E t (c - t) of a Gaussian t between each `low` and `high`, c the nearest of
    `steps` + 1 equidistant levels."""
    step = ((high - low) / steps)[:, None]
    levels = low[:, None] + step * np.arange(steps + 1)
    edges = np.concatenate([low[:, None], levels[:, :-1] + step / 2, high[:, None]], axis=1)
    density = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    mass = np.diff(special.ndtr(edges), axis=1)
    first = -np.diff(density, axis=1)
    second = mass - np.diff(edges * density, axis=1)
    whole = mass.sum(axis=1)
    squared = np.sum(levels**2 * mass - 2 * levels * first + second, axis=1) / whole
    product = np.sum(levels * first - second, axis=1) / whole
    return squared, product


def protection(dim: int, bits: int, design: Design, family: str, rotated: bool = True) -> float:
    """Distortion on vectors that isotropic input does not show: how far the rotation protects them.

    `family` is "constant" (all coordinates alike), "one-hot" (one alone), or "loud-block" (all
    energy in d/8 neighbours, isotropic there, that lie within one block of the rotation or fill
    some). Without a rotation, `rotated` = False. On a Lloyd-Max grid:

      Hadamard, blocks of K = d (signed or not), d a power of two: a one-hot vector becomes
        +-1/sqrt(d) everywhere; of m loud coordinates each output is sqrt(m/d) times a coordinate of
        a unit vector of dimension m; a constant becomes sums of d random signs over d, binomial,
        or without signs one coordinate of 1 and zeros.
      Blocks of K: the same within each block. Energy that one block holds stays there, so that
        its coordinates are sqrt(d/K) times too loud for the table, and the others are 0.
      Haar: D for every vector.
      None: blocks of K = 1.

    With a scale, p = <u, c> - 1 and r = |c - u|^2 are at their means in the formulas of `scaled`,
    which is exact for vectors without chance and else off by the order 1/m for m loud ones.
    ValueError for a uniform grid behind a rotation, for a K that is no power of two, and for a loud
    block that a block would cut.

    >>> unsigned = Design(rotation="hadamard-unsigned")
    >>> round(protection(128, 4, unsigned, "constant"), 3)  # D is .0093
    0.597
    """
    require_choice("family", family, FAMILIES)
    if design.grid != "lloyd-max":
        if not rotated and family != "loud-block":
            return 0.0  # all coordinates are the least or the largest of their group
        raise ValueError("rotated and loud vectors are known on a Lloyd-Max grid alone")
    if design.rotation == "haar" and rotated:
        return scaled(dim, bits, design.scale).distortion
    size = (design.block or dim) if rotated else 1
    loud = dim // 8
    signed = design.rotation != "hadamard-unsigned" and rotated
    if size & (size - 1) and not (family == "constant" and not signed):
        raise ValueError(f"one-hot and loud vectors are known behind a power of two, got {size}")
    if family == "loud-block" and (dim % 8 or (loud % size and size % loud)):
        raise ValueError(f"a loud block of {loud} is cut by blocks of {size}")
    if family == "one-hot":
        values, chances, active = np.array([size**-0.5]), np.ones(1), size
    elif family == "constant" and not rotated:
        values, chances, active = np.array([dim**-0.5]), np.ones(1), dim
    elif family == "constant" and signed:
        heads = np.arange(size + 1)
        values = (2 * heads - size) / np.sqrt(size * dim)
        chances, active = stats.binom.pmf(heads, size, 0.5), dim
    elif family == "constant":
        values, chances, active = np.array([np.sqrt(size / dim)]), np.ones(1), dim // size
    else:
        active = max(loud, size)
        values, chances = _loud(dim, bits, loud, active)
    book = codebook(dim, bits)
    levels = book.levels[book.quantize(values)]
    quiet = book.levels[2 ** (bits - 1)]  # what a coordinate of 0 becomes
    along = active * float(chances @ (values * levels))
    square = active * float(chances @ levels**2) + (dim - active) * quiet**2
    if design.scale == "unit":
        return float(2 - 2 * along / np.sqrt(square))
    if design.scale == "unbiased":
        return float(square / along**2 - 1)
    return float(square - 2 * along + 1)


def _loud(dim: int, bits: int, loud: int, active: int) -> tuple[Array, Array]:
    """Values of a coordinate that shares the energy of `loud` isotropic ones among `active`, and
    their chances."""
    ratio = np.sqrt(loud / active)
    thresholds = codebook(dim, bits).thresholds / ratio
    far = min(1.0, 12 / np.sqrt(loud))
    cuts = np.arcsin(thresholds[(thresholds > 0) & (thresholds < far)])
    edges = np.unique(np.concatenate([cuts, np.linspace(0, np.arcsin(far), 17)]))
    x, w = special.roots_legendre(8)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    angle = (middle[:, None] + half[:, None] * x).ravel()
    chance = (half[:, None] * w).ravel() * np.cos(angle) ** (loud - 2)
    return ratio * np.sin(angle), np.asarray(chance / chance.sum())


LARGEST = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.4e38}
SMALLEST = {"float32": 1.2e-38, "float16": 6.1e-5, "bfloat16": 1.2e-38}  # with full precision
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Cost:
    """One thing that a design does otherwise than the papers' codec of that kind: what it does,
    and what theirs does; None where theory does not say."""

    what: str
    own: float | None
    papers: float | None


def costs(dim: int, bits: int, design: Design, rotated: bool = True) -> list[Cost]:
    """What `design` gives up, or gains, against the papers' codec without a sketch at `bits`.

    `rotated` is whether the kind rotates. Distortions are relative squared errors.
    """
    plain = Design()
    own, theirs = outcome(dim, bits, design), outcome(dim, bits, plain)
    rows = [
        Cost("distortion, and variance of products", own.distortion, theirs.distortion),
        Cost("slope of inner products", own.slope, theirs.slope),
    ]
    words = {
        "constant": "distortion of a constant vector",
        "one-hot": "distortion of a one-hot vector",
        "loud-block": "distortion with all energy in d/8 neighbours",
    }
    for family in FAMILIES:
        answers = [_known_protection(dim, bits, each, family, rotated) for each in (design, plain)]
        rows.append(Cost(words[family], *answers))
    numbers = 2 * dim // (design.group or dim) if design.grid == "uniform" else 1
    rows += [
        Cost("bytes a vector beside its indices", numbers * BYTES[design.norm], 4.0),
        Cost("largest norm", LARGEST[design.norm], LARGEST["float32"]),
        Cost("smallest norm of full precision", SMALLEST[design.norm], SMALLEST["float32"]),
    ]
    return rows


def _known_protection(
    dim: int, bits: int, design: Design, family: str, rotated: bool
) -> float | None:
    try:
        return protection(dim, bits, design, family, rotated)
    except ValueError:
        return None
