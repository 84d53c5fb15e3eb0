"""All claims, in the order of the papers. Predictions come from reference/theory.py.

Where a delta is wider than sampling alone would need, a comment says what it leaves room
for: the limits for large d that many implementations use, never what one of them gives.
"""

from kvassay.conformance.claims import edges
from kvassay.conformance.claims.claim import ENTRY_ALPHA, Claim, Part, always, by_effort
from kvassay.conformance.measure import Effort, inputs
from kvassay.conformance.measure.cell import Cell, batch
from kvassay.conformance.measure.codec import EVERY_SEED_VECTORS, SLOPE_FAMILIES
from kvassay.conformance.statistics.intervals import Band
from kvassay.reference import design_theory, tails, theory
from kvassay.reference.kinds import JUDGED, Law, kinds_with

ROTATED = kinds_with(rotated=True)
SKETCHED = kinds_with("variance", sketched=True)

FLOAT32 = 1e-4  # relative; rounding of a float32 rotation is a hundred times smaller
SIDE_INFORMATION = 18  # bytes a vector or group: two float64 scalars, two partly filled bytes


def _law(name: str, cell: Cell) -> float:
    """What theory predicts for the cell's kind. Claims are planned only for kinds that have
    the law."""
    law: Law | None = getattr(cell.record.laws, name)
    if law is None:
        raise ValueError(f"{cell.kind} has no law of {name}")
    return law(cell.dim, cell.bits, cell.sketch)


def _distortion(cell: Cell, part: str) -> float:
    if not cell.sketch_decoded:
        return theory.lloyd_max_distortion(cell.dim, cell.scalar_bits)
    return _law("distortion", cell)


def _variance(cell: Cell, part: str) -> float:
    return _law("variance", cell)


def _gaussian_table(cell: Cell) -> float:
    """What the Gaussian table, the limit for large d that many use, loses at most (b <= 8)."""
    return 1.3 / cell.dim + 8 / cell.dim**2


def _distortion_delta(cell: Cell, part: str, effort: Effort) -> float:
    if part == "scales":  # a norm that goes wrong at some scale goes wrong by far more
        return {"quick": 0.2, "standard": 0.05, "thorough": 0.03}[effort]
    return max({"quick": 0.2, "standard": 0.02, "thorough": 0.015}[effort], _gaussian_table(cell))


def _distortion_scatter(cell: Cell, part: str, effort: Effort) -> float:
    return _scatter_of(cell, batch(cell.dim, effort).vectors)


def _scatter_of(cell: Cell, count: int) -> float:
    scatter = cell.record.laws.distortion_scatter
    assert scatter is not None
    return scatter(cell.dim, cell.bits, cell.sketch, count)


def _spread(cell: Cell, part: str) -> float:
    if part != "one-hot" or not cell.scalar_bits or cell.design.grid != "lloyd-max":
        return 1.0
    flat = theory.worst_one_hot_distortion(cell.dim, cell.scalar_bits)
    return max(1.0, flat / theory.lloyd_max_distortion(cell.dim, cell.scalar_bits))


def _spread_delta(cell: Cell, part: str, effort: Effort) -> float:
    # A Hadamard round leaves lattice effects of a few per cent on structured input; an
    # offset is one direction a seed, so its seeds are expensive.
    if part == "dc":
        return {"quick": 1.0, "standard": 0.3, "thorough": 0.15}[effort]
    return {"quick": 0.5, "standard": 0.15, "thorough": 0.1}[effort]


def _spread_scatter(cell: Cell, part: str, effort: Effort) -> float:
    # With k loud coordinates a vector counts as k; an offset is one direction a seed, whose
    # background makes it count as four.
    count = batch(cell.dim, effort).structured
    calm = _scatter_of(cell, count)
    if part == "dc":
        return float((_scatter_of(cell, 4) ** 2 + calm**2) ** 0.5)
    return float((2 * calm**2 + 2 / (cell.dim // 8 * count)) ** 0.5)


def _slope(cell: Cell, part: str) -> float:
    return _law("slope", cell)


MEAN_SQUARED_COSINE = (0.97**3 - 0.2**3) / (3 * 0.77)


def _slope_scatter(cell: Cell, part: str, effort: Effort) -> float:
    sizes = batch(cell.dim, effort)
    count, queries = sizes.vectors, sizes.queries
    if part != "isotropic":
        count, queries = sizes.structured // 2, 0  # halved: one-hot has up to 2.2x the error
    scatter = theory.slope_scatter(
        cell.dim,
        cell.bits,
        cell.sketch,
        count,
        queries,
        MEAN_SQUARED_COSINE,
        _law("distortion", cell),
    )
    return scatter / _slope(cell, part)


def _slope_delta(cell: Cell, part: str, effort: Effort) -> float:
    if part != "isotropic":
        return {"quick": 0.3, "standard": 0.05, "thorough": 0.03}[effort]
    delta = {"quick": 0.06, "standard": 0.005, "thorough": 0.004}[effort]
    if not cell.sketch:  # the Gaussian table's slope is up to 0.2/d off
        return delta + 0.2 / cell.dim
    if cell.sketch == "orthogonal":  # the usual scale sqrt(pi/2)/sqrt(d) is 1/(4d) too large
        delta += theory.lloyd_max_distortion(cell.dim, cell.bits - 1) / (4 * cell.dim)
    return delta


def _variance_delta(cell: Cell, part: str, effort: Effort) -> float:
    delta = {"quick": 0.25, "standard": 0.02, "thorough": 0.015}[effort]
    # One Hadamard round, or the usual scale, moves an orthogonal sketch's noise by about 1/d.
    return max(delta, 1.7 / cell.dim) if cell.sketch == "orthogonal" else delta


def _variance_scatter(cell: Cell, part: str, effort: Effort) -> float:
    sizes = batch(cell.dim, effort)
    return theory.variance_scatter(cell.dim, cell.sketch, sizes.queries, sizes.vectors)


def _side_information(cell: Cell, part: str, effort: Effort) -> float:
    """Bytes a vector may take beside its indices, 0 where they are counted."""
    return SIDE_INFORMATION * (cell.dim // (cell.design.group or cell.dim)) * (part == "taken")


EVERY_SEED: dict[Effort, int] = {"quick": 20, "standard": 300, "thorough": 1000}
SEED_PARTS = ("distortion", "slope")


def _one_seed(cell: Cell, part: str) -> float:
    return _distortion(cell, part) if part == "distortion" else _slope(cell, part)


def _one_seed_limits(cell: Cell, part: str, effort: Effort) -> Band:
    """What chance leaves to a seed, wider by what `distortion` and `qjl-unbiased` allow to the
    mean at quick effort, so that this claim is about single seeds alone."""
    alpha = ENTRY_ALPHA / EVERY_SEED[effort]
    if part == "slope":
        slack = _slope_delta(cell, "isotropic", "quick")
        low, high = tails.slope_range(cell.dim, cell.bits, cell.sketch, EVERY_SEED_VECTORS, alpha)
        return Band(low - slack, high + slack)
    bits, sketch = (cell.bits, cell.sketch) if cell.sketch_decoded else (cell.scalar_bits, "")
    slack = 1 + _distortion_delta(cell, "isotropic", "quick")
    low, high = tails.distortion_range(cell.dim, bits, sketch, EVERY_SEED_VECTORS, alpha)
    return Band(low / slack, high * slack)


NOT_SPREAD = {  # what the rotation of a design gives up, by design
    "hadamard-unsigned": ("dc",),
    "block": ("one-hot", "loud-channel", "loud-tail", "loud-block"),
}


def _spreads(cell: Cell, part: str) -> bool:
    """Whether the rotation of the cell's design is one that spreads this family at all."""
    return part not in NOT_SPREAD.get("block" if cell.design.block else cell.design.rotation, ())


def _isometry_applies(cell: Cell, part: str) -> bool:
    return part != "two seeds" or cell.design.random_rotation or bool(cell.sketch)


def _protects(cell: Cell, part: str) -> bool:
    """Whether theory says what a rotation that is declared leaves of this family."""
    if "rotation" not in cell.design.changed or cell.sketch:
        return False
    try:
        _protection(cell, part)
    except ValueError:
        return False
    return True


HALF_PRECISION = 1e-6  # of the energy; the rounding of a float16 norm makes a quarter of it


def _protection(cell: Cell, part: str) -> float:
    exact = design_theory.protection(cell.dim, cell.scalar_bits, cell.design, part)
    return max(exact, HALF_PRECISION)  # one-hot at 1 bit may have no error but that


def _protection_scatter(cell: Cell, part: str, effort: Effort) -> float:
    # Constant vectors are one direction a seed, and without a random rotation always the same.
    # Loud coordinates that overload the table share one length; the rest is as elsewhere.
    if part == "constant":
        return _scatter_of(cell, 1) if cell.design.random_rotation else 0.0
    count = batch(cell.dim, effort).structured
    return float((2 / (cell.dim // 8 * count) + 2 * _scatter_of(cell, count) ** 2) ** 0.5)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="coordinate-law",
        sentence="Coordinates of a rotated isotropic unit vector follow "
        "Beta((d-1)/2, (d-1)/2) on [-1, 1].",
        source="paper A, section 1; TurboQuant, lemma 1",
        standing="theorem",
        needs=("rotate",),
        kinds=ROTATED,
        parts=(Part("isotropic", "coordinates", "histogram"),),
        method="distance",
        prediction=lambda cell, part: 0.0,
        delta=by_effort(0.15, 0.06, 0.02),
        at_most=True,
        meaning="The rotation does not keep the law that the codebook is made for: a wrong "
        "normaliser, a padded or cropped transform, or a map that is not orthogonal.",
    ),
    Claim(
        id="gaussian-limit",
        sentence="The coordinate law tends to N(0, 1/d), so the codebook's cells hold the "
        "probabilities of the Gaussian codebook's up to c/d.",
        source="paper A, section 1",
        standing="theorem",
        needs=("codebook",),
        kinds=kinds_with("table"),
        parts=(Part("table", "table", "gap"),),
        method="worst",
        prediction=lambda cell, part: (
            theory.gaussian_table_gap(cell.dim, cell.scalar_bits) if cell.scalar_bits else 0.0
        ),
        # The Gaussian table itself lies up to 0.37/d off; 0.005 is what a scale wrong by 2 %
        # makes, since x phi(x) is at most 0.242.
        delta=lambda cell, part, effort: 0.4 / cell.dim + 0.005,
        at_most=True,
        laws=("table",),
        meaning="The table belongs to another scale: multiplied by sqrt(d), copied with an "
        "error, or made for another width.",
    ),
    Claim(
        id="codebook-optimal",
        sentence="The codebook meets both Lloyd-Max conditions for the coordinate law: no "
        "other table of 2^b levels has a lower distortion.",
        source="TurboQuant, section 3.1",
        standing="theorem",
        needs=("codebook",),
        kinds=kinds_with("table"),
        parts=(Part("table", "table", "excess"),),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=lambda cell, part, effort: max(0.02, _gaussian_table(cell)),
        at_most=True,
        laws=("table",),
        meaning="The table loses more than the Gaussian limit would against the optimal one, "
        "computed exactly under the coordinate law: wrong scale, dead levels, or stopped early.",
    ),
    Claim(
        id="distortion",
        sentence="The relative squared error on isotropic vectors of any norm is D_b(d) "
        "(with a sketch D_{b-1}(d) times the sketch's noise), never below 4^-b.",
        source="TurboQuant, theorems 1 and 2",
        standing="theorem",
        needs=("decode",),
        kinds=kinds_with("distortion"),
        parts=(
            Part("isotropic", "isotropic", "distortion"),
            Part("scales", "scales", "distortion"),
        ),
        method="ratio",
        prediction=_distortion,
        delta=_distortion_delta,
        scatter=_distortion_scatter,
        never_negative=True,
        meaning="Above: the table, the scale, the norm or the inverse is wrong. Below: "
        "reconstructions are stretched to the vector's norm, which shows at few dimensions; a "
        "sketch is declared gaussian and is orthogonal (then qjl-variance is below, too: declare "
        "it so); more is stored than was counted; or nothing is quantized.",
    ),
    Claim(
        id="every-seed",
        sentence="Every single seed has a distortion and a slope, over a few isotropic vectors, "
        "within the limits that chance leaves a correct codec.",
        source="ours, of what the theorems on means say of a single seed: reference/tails.py",
        of_papers=False,
        standing="derived",
        needs=("decode",),
        kinds=kinds_with("distortion", "slope"),
        parts=tuple(Part(name, "one seed", name) for name in SEED_PARTS),
        method="every",
        prediction=_one_seed,
        limits=_one_seed_limits,
        seeds=EVERY_SEED,
        delta=always(0.0),
        laws=("single_seeds",),
        meaning="At least one seed gives a codec that does not work. If `distortion` and "
        "`qjl-unbiased` conform, only some seeds do: a rotation or a sketch that fails for some "
        "random draws, a race, or memory that is read before it is written. If they violate too, "
        "look at those first.",
    ),
    Claim(
        id="every-size",
        sentence="At further dimensions and widths, too, the distortion and the slope of a seed "
        "lie within the limits that chance leaves a correct codec.",
        source="ours, as every-seed",
        of_papers=False,
        standing="derived",
        needs=("decode",),
        kinds=kinds_with("distortion", "slope"),
        parts=tuple(Part(name, "one seed", name) for name in SEED_PARTS),
        method="every",
        prediction=_one_seed,
        limits=_one_seed_limits,
        seeds={"quick": 2, "standard": 2, "thorough": 2},
        delta=always(0.0),
        laws=("single_seeds",),
        meaning="A codec of this dimension or width does not work. If those of others do, look at "
        "what is special to it: a table or a transform of that size, the packing of that width, "
        "or a sum that its type does not hold.",
    ),
    Claim(
        id="finite-answers",
        sentence="Vectors with norms from 1e-3 to 1e3 of every family get answers without NaN "
        "or infinity.",
        source="interface",
        of_papers=False,
        standing="theorem",
        needs=("decode",),
        kinds=JUDGED,
        parts=(
            Part("decode", "one seed", "not finite in decode"),
            Part("inner products", "one seed", "not finite in inner_products"),
        ),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=always(0.0),
        seeds=EVERY_SEED,
        at_most=True,
        meaning="A norm or a residual of 0 is divided by, or a value exceeds what its type holds.",
    ),
    Claim(
        id="rotation-isometry",
        sentence="The rotation is orthogonal and invertible, and two seeds give two rotations.",
        source="TurboQuant, section 3.1",
        standing="theorem",
        needs=("rotate", "unrotate"),
        kinds=ROTATED,
        parts=(
            Part("inner products", "isometry", "gram"),
            Part("inverse", "isometry", "inverse"),
            Part("two seeds", "contract", "seed_unused"),
        ),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=lambda cell, part, effort: 0.0 if part == "two seeds" else FLOAT32,
        at_most=True,
        applies=_isometry_applies,
        meaning="The map is not orthogonal (a wrong normaliser, coordinates dropped), its "
        "inverse belongs to another rotation, or the seed has no effect.",
    ),
    Claim(
        id="rotation-spreads",
        sentence="On one-hot, offset, one-loud-channel, loud-tail and one-loud-block inputs "
        "the distortion is no worse than on isotropic ones (one-hot: than one Hadamard round "
        "makes it). CheckedCodec as the ratio of the geometric means.",
        source="paper A; TurboQuant, section 3.1",
        standing="derived",
        needs=("decode",),
        kinds=kinds_with("distortion", "table", rotated=True),
        parts=tuple(
            Part(family, "structured", f"log_excess {family}") for family in inputs.STRUCTURED
        ),
        method="geometric",
        prediction=_spread,
        delta=_spread_delta,
        scatter=_spread_scatter,
        at_most=True,
        applies=_spreads,
        meaning="The rotation is missing, leaves part of the vector alone, works in blocks, "
        "or applies its signs where they have no effect.",
    ),
    Claim(
        id="declared-rotation",
        sentence="On a constant vector, a one-hot vector and a loud block a rotation that is "
        "declared to be another than the papers' leaves no more distortion than it must.",
        source="ours, of the declared design: reference/design_theory.py, protection",
        of_papers=False,
        standing="derived",
        needs=("decode",),
        kinds=kinds_with("distortion", rotated=True, sketched=False),
        parts=tuple(
            Part(family, "pure", f"distortion {family}") for family in design_theory.FAMILIES
        ),
        method="ratio",
        prediction=_protection,
        delta=lambda cell, part, effort: _spread_delta(
            cell, "dc" if part == "constant" else part, effort
        ),
        scatter=_protection_scatter,
        at_most=True,
        laws=("table",),
        applies=_protects,
        meaning="The rotation is not the one that the backend declares: its blocks are smaller, "
        "some of the vector is left alone, or nothing is rotated.",
    ),
    Claim(
        id="rank-kept",
        sentence="The rotation leaves the singular values of K unchanged: marginals become "
        "Beta, the joint structure stays.",
        source="paper A, section 3",
        standing="theorem",
        needs=("rotate",),
        kinds=ROTATED,
        parts=(Part("low-rank", "isometry", "spectrum"),),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=always(FLOAT32),
        at_most=True,
        meaning="The map mixes vectors or is not linear: low rank in is not low rank out.",
    ),
    Claim(
        id="qjl-unbiased",
        sentence="The estimate of <q, x> has slope 1 on <q, x> with a sketch; without one the "
        "slope is 1 - D_b(d).",
        source="QJL, lemma 3.2; paper A, section 1; TurboQuant, theorem 2",
        standing="theorem",
        needs=("inner_products",),
        kinds=kinds_with("slope"),
        parts=(
            Part("isotropic", "isotropic", "slope"),
            *(
                Part(family, "structured slopes", f"slope {family}", kinds=SKETCHED)
                for family in SLOPE_FAMILIES
            ),
        ),
        method="ratio",
        prediction=_slope,
        delta=_slope_delta,
        scatter=_slope_scatter,
        meaning="The scale of the sketch, of the residual or of the norm is wrong, or (one-hot, "
        "loud-channel) its rows are too regular. Distortion and variance can look better than "
        "correct while this is off.",
    ),
    Claim(
        id="qjl-variance",
        sentence="Var<q, r_hat> = ((pi/2)|q|^2|r|^2 - <q, r>^2)/m for the gaussian sketch and "
        "about (pi/2 - 1)|q|^2|r|^2/d for the orthogonal one.",
        source="QJL, lemma 3.5; paper A, section 1",
        standing="theorem",
        needs=("inner_products",),
        kinds=SKETCHED,
        parts=(Part("isotropic", "isotropic", "variance"),),
        method="ratio",
        prediction=_variance,
        delta=_variance_delta,
        scatter=_variance_scatter,
        never_negative=True,
        meaning="The sketch is not of the family stated (an orthogonal one has about a third of a "
        "gaussian one's variance: declare what it is), has another number of rows, or its "
        "noise is not that of one sign a row.",
    ),
    Claim(
        id="pi-over-2",
        sentence="QJL on the (n-1)-bit residual multiplies the inner-product variance by pi/2 "
        "(gaussian; pi/2 - 1 for an orthogonal sketch).",
        source="paper A, section 1",
        standing="derived",
        needs=("inner_products", "turboquant-mse at that width"),
        kinds=SKETCHED,
        parts=(Part("isotropic", "isotropic", "pi_over_2"),),
        method="ratio",
        prediction=lambda cell, part: theory.pi_over_2(cell.dim, cell.sketch),
        delta=_variance_delta,
        scatter=_variance_scatter,
        fewest_bits=2,
        meaning="The sketch adds more or less noise than one sign a row must.",
    ),
    Claim(
        id="two-pi",
        sentence="Against n-bit scalar, (n-1)-bit + QJL multiplies the variance by "
        "(pi/2) D_{n-1}/D_n, tending to 2 pi (orthogonal: to 2.283).",
        source="paper A, section 1",
        standing="derived",
        needs=("inner_products", "turboquant-mse at that width"),
        kinds=SKETCHED,
        parts=(Part("isotropic", "isotropic", "two_pi"),),
        method="ratio",
        prediction=lambda cell, part: theory.two_pi(cell.dim, cell.bits, cell.sketch),
        delta=_variance_delta,
        scatter=_variance_scatter,
        fewest_bits=2,
        meaning="Sketch and scalar part do not share the bits as the kind says.",
    ),
    Claim(
        id="size-accounting",
        sentence="A further vector takes no more than d b / 8 bytes and its side information, "
        "and no more than the backend declares.",
        source="interface",
        of_papers=False,
        standing="theorem",
        needs=("nbytes",),
        kinds=JUDGED,
        parts=(
            Part("taken", "sizes", "taken"),
            Part("declared", "sizes", "undeclared"),
        ),
        method="worst",
        prediction=lambda cell, part: cell.dim * cell.bits / 8 if part == "taken" else 0.0,
        delta=_side_information,
        at_most=True,
        meaning="Taken: codes are stored unpacked, or a copy of the vectors is kept. Declared: "
        "bytes are held that the backend does not count.",
    ),
    Claim(
        id="batch-invariance",
        sentence="A vector's reconstruction is the same encoded alone, in a batch, and beside "
        "a loud neighbour.",
        source="interface",
        of_papers=False,
        standing="theorem",
        needs=("decode",),
        kinds=JUDGED,
        parts=(
            Part("alone", "contract", "singles"),
            Part("loud neighbour", "contract", "neighbours"),
        ),
        method="worst",
        prediction=lambda cell, part: 0.0,
        # A coordinate within rounding of a threshold may fall on either side of it.
        delta=always(0.05),
        at_most=True,
        meaning="One token and many tokens take two paths that disagree, or a scale or a "
        "buffer is shared across the batch.",
    ),
    Claim(
        id="determinism",
        sentence="The same seed and input give the same reconstruction, from any instance and "
        "whatever is encoded in between.",
        source="interface",
        of_papers=False,
        standing="theorem",
        needs=("decode",),
        kinds=JUDGED,
        parts=(Part("repeats", "contract", "repeats"),),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=always(0.0),
        at_most=True,
        meaning="Randomness comes from elsewhere than the seed, or memory is read before "
        "it is written.",
    ),
)

CLAIMS += edges.CLAIMS

BY_ID = {claim.id: claim for claim in CLAIMS}
