"""Experiments: what is done with a codec for one seed, and the numbers that come out.

An experiment gets a `CellTrial` and returns named statistics. A statistic is a pair (numerator,
denominator), whose sums over the seeds make a ratio; or a single value that must hold every
time; or a histogram. Claims name the statistic they judge.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kvassay.conformance.measure import edges, inputs
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.measure.memory import held_bytes
from kvassay.conformance.measure.trial import (
    Array,
    CellTrial,
    CheckedCodec,
    Statistics,
    relative_error,
)
from kvassay.reference import sphere, theory

BINS = 1024
EVERY_SEED_VECTORS = 8
SAME_ROTATION = 0.1  # of the squared error that the bits allow; two rotations make about 2
SLOPE_FAMILIES = ("one-hot", "loud-channel")


def isotropic(trial: CellTrial) -> Statistics:
    """Isotropic vectors, each correlated with one of the queries, and all products with all
    queries. All pairs count for the slope; only independent ones for the variance, since the
    error of a correlated pair depends on its angle.

    Products are divided by |x|, so that loud vectors weigh no more than others.
    """
    rng = trial.rng("isotropic")
    count, queries = trial.batch.vectors, trial.batch.queries
    q = inputs.unit_queries(rng, queries, trial.cell.dim)
    x = inputs.correlated(rng, q, count)
    norms = np.linalg.norm(x.astype(np.float64), axis=1)
    truth = q @ x.astype(np.float64).T / norms
    independent = np.ones(truth.shape, dtype=bool)
    independent[np.arange(count) % queries, np.arange(count)] = False

    def estimates(codec: CheckedCodec, code: Any) -> Array:
        return np.asarray(codec.inner_products(q, code, count) / norms)

    def squared_error(estimate: Array) -> float:
        return float(np.sum(((estimate - truth) ** 2)[independent]))

    codec, cell = trial.codec, trial.cell
    code = codec.encode(x)
    statistics: dict[str, Any] = {}
    if trial.wants("distortion"):
        error = relative_error(x, codec.decode(code, count))
        statistics["distortion"] = (float(np.sum(error)), float(count))
    if not _estimates(trial) or not trial.wants("slope", "variance", "pi_over_2", "two_pi"):
        return statistics
    estimate = estimates(codec, code)
    variance = squared_error(estimate)
    pairs = float(np.sum(independent)) / cell.dim
    statistics["slope"] = (float(np.sum(estimate * truth)), float(np.sum(truth**2)))
    statistics["variance"] = (variance, pairs)
    plain, offered = cell.record.without_sketch, trial.backend.capabilities
    for name, bits in (("pi_over_2", cell.bits - 1), ("two_pi", cell.bits)):
        if (
            plain
            and bits
            and trial.wants(name)
            and offered.has(plain, "", cell.dim, bits)
            and offered.design_of(plain).plain  # the claims are about the papers' two codecs
        ):
            try:
                peer = trial.other(plain, bits)
            except NotImplementedError:
                continue
            peer_variance = squared_error(estimates(peer, peer.encode(x)))
            if peer_variance:  # else there is no ratio
                statistics[name] = (variance, peer_variance)
    return statistics


def _estimates(trial: CellTrial) -> bool:
    """Whether there is an estimate of <q, x> that has all that the code holds."""
    return trial.cell.sketch_decoded or hasattr(trial.codec.codec, "inner_products")


def structured(trial: CellTrial) -> Statistics:
    """How much larger the distortion is on each structured family than on isotropic vectors, as
    a logarithm. All families stand in one batch."""
    count, dim = trial.batch.structured, trial.cell.dim
    families = {"isotropic": inputs.isotropic, **inputs.STRUCTURED}
    parts = [family(trial.rng(name), count, dim) for name, family in families.items()]
    x = np.concatenate(parts)
    error = np.log(relative_error(x, trial.codec.roundtrip(x)) + 1e-12).reshape(-1, count)
    excess = np.sum(error[1:] - np.mean(error[0]), axis=1)
    return {
        f"log_excess {name}": (float(total), float(count))
        for name, total in zip(inputs.STRUCTURED, excess, strict=True)
    }


def pure(trial: CellTrial) -> Statistics:
    """The distortion of vectors that are nothing but constant, one coordinate, or one aligned
    block: all three families stand in one batch."""
    count, dim = trial.batch.structured, trial.cell.dim
    x = np.concatenate([inputs.PURE[name](trial.rng(name), count, dim) for name in inputs.PURE])
    error = relative_error(x, trial.codec.roundtrip(x)).reshape(-1, count).sum(axis=1)
    return {
        f"distortion {name}": (float(total), float(count))
        for name, total in zip(inputs.PURE, error, strict=True)
    }


def structured_slopes(trial: CellTrial) -> Statistics:
    """The slope on vectors with one coordinate alone and with one loud channel, in one batch, at
    queries near each of them."""
    if not _estimates(trial):
        return {}
    count, dim = trial.batch.structured, trial.cell.dim
    families = {name: inputs.STRUCTURED[name] for name in SLOPE_FAMILIES}
    rngs = {name: trial.rng(f"slope {name}") for name in families}
    parts = [family(rngs[name], count, dim) for name, family in families.items()]
    queries = [inputs.queries_near(rng, x) for rng, x in zip(rngs.values(), parts, strict=True)]
    x, q = np.concatenate(parts).astype(np.float64), np.concatenate(queries)
    norms = np.linalg.norm(x, axis=1)
    code = trial.codec.encode(np.concatenate(parts))
    estimate = np.diag(trial.codec.inner_products(q, code, len(x))) / norms
    truth = np.sum(q * x, axis=1) / norms
    return {
        f"slope {name}": (float(top), float(bottom))
        for name, top, bottom in zip(
            families,
            (estimate * truth).reshape(-1, count).sum(axis=1),
            (truth**2).reshape(-1, count).sum(axis=1),
            strict=True,
        )
    }


def one_seed(trial: CellTrial) -> Statistics:
    """Mean distortion and slope of a few isotropic vectors, each asked for its own direction, and
    the share of answers that are not finite, on those and on a vector of another family in turn.
    """
    rng = trial.rng("one seed")
    dim, count = trial.cell.dim, EVERY_SEED_VECTORS
    families = (inputs.scales, *inputs.STRUCTURED.values())
    other = families[trial.index % len(families)](rng, 1, dim)
    x = np.concatenate([inputs.isotropic(rng, count, dim), other])
    codec = trial.codec
    code = codec.encode(x)
    decoded = codec.decode(code, len(x), finite=False)
    answers = {"decode": decoded}
    statistics: dict[str, Any] = {}
    error = relative_error(x[:count], decoded[:count])
    if _estimates(trial):
        exact = x.astype(np.float64)
        norms = np.linalg.norm(exact, axis=1)
        products = codec.inner_products(exact / norms[:, None], code, len(x), finite=False)
        answers["inner_products"] = products
        slopes = np.diag(products)[:count] / norms[:count]
        if np.isfinite(slopes).all():
            statistics["slope"] = float(np.mean(slopes))
    if np.isfinite(error).all():
        statistics["distortion"] = float(np.mean(error))
    unfit = {name: float(np.mean(~np.isfinite(answer))) for name, answer in answers.items()}
    return statistics | {f"not finite in {name}": share for name, share in unfit.items()}


def scales(trial: CellTrial) -> Statistics:
    """Distortion of vectors whose norms span six orders of magnitude."""
    x = inputs.scales(trial.rng("scales"), trial.batch.vectors, trial.cell.dim)
    return {"distortion": (float(np.sum(relative_error(x, trial.codec.roundtrip(x)))), len(x))}


def coordinates(trial: CellTrial) -> Statistics:
    """Histogram of F(coordinate), one coordinate of each of many rotated isotropic vectors:
    a fresh vector for each, so that they are independent given the rotation."""
    count = trial.batch.rotated
    x = inputs.isotropic(trial.rng("coordinates"), count, trial.cell.dim)
    rotated = trial.codec.rotate(x)
    norms = np.linalg.norm(x.astype(np.float64), axis=1)
    rows = np.arange(len(x))
    picked = rotated[rows, (rows + trial.index * count) % rotated.shape[1]] / norms
    uniform = sphere.cdf(picked, rotated.shape[1])
    counts = np.bincount(np.minimum((uniform * BINS).astype(int), BINS - 1), minlength=BINS)
    return {"histogram": counts}


def isometry(trial: CellTrial) -> Statistics:
    """Norms, inner products, singular values and the inverse of the rotation, each as the
    largest relative error over a batch with structure."""
    rng = trial.rng("isometry")
    dim = trial.cell.dim
    low_rank = rng.standard_normal((24, 4)) @ rng.standard_normal((4, dim))
    x = np.vstack(
        [
            inputs.isotropic(rng, 24, dim),
            inputs.dc(rng, 8, dim),
            inputs.one_hot(rng, 8, dim),
            low_rank.astype(np.float32),
        ]
    )
    rotated = trial.codec.rotate(x)
    exact = x.astype(np.float64)
    norms = np.linalg.norm(exact, axis=1)
    gram = (rotated @ rotated.T - exact @ exact.T) / np.outer(norms, norms)
    before = np.linalg.svd(exact[-24:], compute_uv=False)
    after = np.linalg.svd(rotated[-24:], compute_uv=False)
    size = min(len(before), len(after))
    spectrum = np.max(np.abs(after[:size] - before[:size])) / before[0]
    statistics = {"gram": float(np.max(np.abs(gram))), "spectrum": float(spectrum)}
    try:
        back = trial.codec.unrotate(rotated) - exact
    except NotImplementedError:
        return statistics
    return {**statistics, "inverse": float(np.max(np.linalg.norm(back, axis=1) / norms))}


def table(trial: CellTrial) -> Statistics:
    """The codebook under the exact law: its distortion over the least possible, less 1, and
    its distance from the Gaussian table in probability."""
    cell = trial.cell
    bits = cell.scalar_bits
    if bits == 0:
        raise NotImplementedError("at 1 bit the sketch stands alone, without a codebook")
    levels = trial.codec.codebook()
    try:  # a codec that pads has the law, and the table, of the padded dimension
        dim = trial.codec.rotate(np.ones((1, cell.dim), dtype=np.float32)).shape[1]
    except NotImplementedError:
        dim = cell.dim
    if len(levels) != 2**bits:
        raise BackendFault(f"codebook returned {len(levels)} levels, should be {2**bits}")
    return {
        "excess": theory.table_distortion(levels, dim) / theory.lloyd_max_distortion(dim, bits) - 1,
        "gap": theory.table_gap(levels, dim, bits),
    }


def contract(trial: CellTrial) -> Statistics:
    """Batch invariance, determinism and use of the seed, on a small batch with structure."""
    cell = trial.cell
    rng = trial.rng("contract")
    x = np.vstack(
        [
            inputs.isotropic(rng, 6, cell.dim),
            inputs.dc(rng, 1, cell.dim),
            inputs.one_hot(rng, 1, cell.dim),
        ]
    )
    codec = trial.codec
    decoded = codec.roundtrip(x)
    energy = np.sum(x.astype(np.float64) ** 2, axis=1)

    def deviation(other: Array) -> Array:
        """Squared difference of each vector's reconstruction, over the squared error that
        the bits allow."""
        difference = np.sum((other - decoded) ** 2, axis=1) / energy
        return np.asarray(difference / theory.lloyd_max_distortion(cell.dim, cell.bits))

    singles = np.vstack([codec.roundtrip(x[row : row + 1]) for row in range(len(x))])
    loud = len(x) // 2
    disturbed = x.copy()
    disturbed[loud] *= np.float32(1000)
    # A one-hot vector lies on the lattice: its projections may be 0, and rounding decides.
    free = slice(len(x) - 1)
    neighbours = np.delete(deviation(codec.roundtrip(disturbed))[free], loud)

    twin = trial.other(cell.kind, cell.bits, twin=1)
    crossed = twin.decode(codec.encode(x), len(x))
    first = codec.encode(x)
    codec.encode(x[::-1])  # must leave the first code alone
    again = [codec.decode(first, len(x)), codec.roundtrip(x), twin.roundtrip(x), crossed]
    unequal = max(float(np.mean(np.any(other != decoded, axis=1))) for other in again)

    statistics = {
        "singles": float(np.mean(deviation(singles)[free])),
        "neighbours": float(np.mean(neighbours)),
        "repeats": unequal,
    }
    if (cell.record.rotated or cell.sketch) and trial.wants("seed_unused"):
        statistics["seed_unused"] = _same_for_other_seeds(trial, x, deviation)
    return statistics


def _same_for_other_seeds(
    trial: CellTrial, x: inputs.Vectors, deviation: Callable[[Array], Array]
) -> float:
    """The share of vectors whose reconstruction is the same under another seed.

    Two rotations make independent errors, whose difference has twice the energy of one. Isotropic
    rows only: a one-hot vector may well decode alike under two rotations. A third seed is asked
    where two agree: 16 signs do, up to a symmetry, in 1 of 2000 pairs.
    """
    same = 0.0
    for twin in (2, 4):
        stranger = trial.other(trial.cell.kind, trial.cell.bits, twin).roundtrip(x)
        same = float(np.mean(deviation(stranger)[:6] < SAME_ROTATION))
        if not same:
            break
    return same


def sizes(trial: CellTrial) -> Statistics:
    """Bytes a further vector takes: as declared, and as found in the code object."""
    few, many = 16, 48
    codec = trial.codec
    x = inputs.isotropic(trial.rng("sizes"), many, trial.cell.dim)
    codes = [codec.encode(x[:few]), codec.encode(x)]
    declared = (codec.nbytes(codes[1]) - codec.nbytes(codes[0])) / (many - few)
    held = (held_bytes(codes[1]) - held_bytes(codes[0])) / (many - few)
    return {"taken": max(held, declared), "undeclared": held - declared}


EXPERIMENTS: dict[str, Callable[[CellTrial], Statistics]] = {
    "isotropic": isotropic,
    "scales": scales,
    "one seed": one_seed,
    "coordinates": coordinates,
    "isometry": isometry,
    "table": table,
    "contract": contract,
    "sizes": sizes,
    "structured": structured,
    "structured slopes": structured_slopes,
    "pure": pure,
    **edges.EXPERIMENTS,
}
