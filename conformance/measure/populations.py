"""Heavy tails and low rank: the direction of K, and KL at d = 1024."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kvassay.conformance.measure.study import (
    BITS,
    MSE,
    ROTATED_HALVES,
    SCALAR,
    UNIFORM,
    Array,
    Figure,
    Figures,
    calibration_of,
    encoded,
    estimated_scores,
)
from kvassay.conformance.measure.trial import CheckedCodec, StudyTrial
from kvassay.reference import attention, regimes, sphere
from kvassay.reference.regimes import Regime

DIRECTION_DIMS = (64, 128, 256, 1024)


def direction(trial: StudyTrial, dim: int, populations: Mapping[str, Regime]) -> Figures:
    """Direction error of K, angle / pi, of all codecs without calibration at 2 to 6 bits, over
    tails and ranks.

    At the smallest dimension also how coordinates are distributed before and after rotation.
    """
    figures: Figures = {}
    for where, regime in populations.items():
        sample = trial.draw(regime, where)
        for bits in BITS:
            for half in (SCALAR, *ROTATED_HALVES):
                codec = trial.codec(half, dim, bits, f"k {where}")
                if codec is not None and codec.decode_complete:
                    decoded = encoded(codec, sample.k).decoded
                    figures[Figure("phi-k", half, bits, where)] = attention.direction_error(
                        sample.k, decoded
                    )
        if dim == DIRECTION_DIMS[0] and (codec := trial.codec(MSE, dim, 4, f"k {where}")):
            figures |= _marginals(where, codec, sample.k)
    return figures


TAILS = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.05)


def direction_populations(dim: int) -> dict[str, Regime]:
    """The populations of K whose direction error is measured at `dim`."""
    sizes: dict[str, Any] = {"dim": dim, "tokens": 128, "queries": 1, "calibration": 1}
    tails, ranks = (TAILS, (2, 4, 16, 64)) if dim == 128 else ((2.0, 1.05), (4,))
    return {
        "isotropic": regimes.Isotropic(**sizes),
        **{f"nu={nu:g}": regimes.HeavyTailed(nu=nu, **sizes) for nu in tails},
        **{f"rank={rank}": regimes.LowRank(rank=rank, **sizes) for rank in ranks},
    }


def pathology(trial: StudyTrial) -> Figures:
    """Low-rank against heavy-tailed K at d = 1024 and 4 bits, queries in the keys' subspace: KL
    (mean and maximum), argmax shifts, and how far rotated coordinates are from their law.

    With norms of sqrt(d) low-rank scores are sqrt(d / rank) times as wide. "product" makes them
    those of K = Z B with Gaussian Z (N, rank), B (rank, d) and queries alike, whose norms are
    sqrt(rank) times as large; "narrow" has the spread of heavy-tailed scores, and "wide" gives
    heavy-tailed ones that of low-rank scores.
    """
    dim, rank, bits = 1024, 8, 4
    sizes: dict[str, Any] = {"dim": dim, "tokens": 256, "queries": 64, "calibration": 256}
    wide = float(np.sqrt(dim / rank))
    cases: dict[str, tuple[Regime, dict[str, float]]] = {
        "low-rank": (
            regimes.LowRank(rank=rank, **sizes),
            {"": 1.0, " product": float(rank), " narrow": 1 / wide},
        ),
        "heavy-tailed": (regimes.HeavyTailed(nu=3.0, **sizes), {"": 1.0, " wide": wide}),
    }
    figures: Figures = {}
    for where, (regime, factors) in cases.items():
        sample = trial.draw(regime, where)
        exact = attention.scores(sample.q, sample.k)
        exact_weights = {
            label: attention.log_softmax(factor * exact) for label, factor in factors.items()
        }
        for half in (*ROTATED_HALVES, UNIFORM):
            options = calibration_of(half, sample, "k")
            codec = trial.codec(half, dim, bits, f"k {where}", **options)
            if codec is None:
                continue
            coded = encoded(codec, sample.k)
            estimates = estimated_scores(coded, sample.q)
            for label, factor in factors.items():
                log_p = exact_weights[label]
                log_q = attention.log_softmax(factor * estimates)
                kl = attention.kl_divergence(log_p, log_q)
                shifts = attention.argmax_shifts(log_p, log_q)
                figures[Figure("kl", half, bits, where + label)] = float(kl.mean())
                figures[Figure("kl-max", half, bits, where + label)] = float(kl.max())
                figures[Figure("shifts", half, bits, where + label)] = float(shifts.mean())
            if half == MSE:
                figures |= _marginals(where, codec, sample.k)
    return figures


DENSITY_EDGES = 0.3 * np.arange(-13, 14)  # of coordinates of unit vectors, times sqrt(d)


def _marginals(where: str, codec: CheckedCodec, x: Array) -> Figures:
    """Largest distance of the CDF of all rotated coordinates of unit vectors from the law, and
    the density of coordinates before and after the rotation, in bins."""
    try:
        rotated = codec.rotate(x.astype(np.float32))
    except NotImplementedError:
        return {}
    norms = np.linalg.norm(x, axis=1)[:, None]
    uniform = np.sort(sphere.cdf((rotated / norms).ravel(), x.shape[1]))
    steps = np.arange(1, uniform.size + 1) / uniform.size
    figures = {Figure("marginal", where=where): float(np.max(np.abs(uniform - steps)))}
    for name, vectors in (("given", x), ("rotated", rotated)):
        counts, _ = np.histogram(vectors / norms * np.sqrt(x.shape[1]), DENSITY_EDGES)
        shares = counts / vectors.size / np.diff(DENSITY_EDGES)
        figures |= {
            Figure(f"density {name}", None, place, where): float(share)
            for place, share in enumerate(shares)
        }
    return figures
