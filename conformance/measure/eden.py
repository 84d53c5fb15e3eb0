"""EDEN against QJL: two ways to an unbiased inner product."""

import numpy as np

from kvassay.conformance.measure.study import (
    MSE,
    PROD,
    Array,
    Figure,
    Figures,
    encoded,
    estimated_scores,
)
from kvassay.conformance.measure.trial import StudyTrial
from kvassay.reference import attention, regimes

EDEN_BITS = (1, 2, 3, 4)
DIM = 128


def eden(trial: StudyTrial) -> Figures:
    """Error of scores and KL of the weights with keys from turboquant-mse that are scaled so that
    each key's product with itself is exact (EDEN), at 1 to 4 bits, and with QJL at 2 to 4 bits:
    isotropic data, d = 128."""
    sample = trial.draw(regimes.Isotropic(dim=DIM, tokens=256, queries=128, calibration=1))
    exact = attention.scores(sample.q, sample.k)
    log_p = attention.log_softmax(exact)
    figures: Figures = {}

    def keep(estimated: Array, ending: str, **of: object) -> None:
        error = np.mean((estimated - exact) ** 2)  # q and k have norm sqrt(d): in units of 1/d
        kl = attention.kl_divergence(log_p, attention.log_softmax(estimated)).mean()
        figures[Figure(f"score-error{ending}", **of)] = float(error)  # type: ignore[arg-type]
        figures[Figure(f"kl{ending}", **of)] = float(kl)  # type: ignore[arg-type]

    for bits in EDEN_BITS:
        if codec := trial.codec(MSE, DIM, bits, "k"):
            decoded = encoded(codec, sample.k).decoded
            along = np.sum(decoded * sample.k, axis=1)
            factors = np.sum(sample.k**2, axis=1) / np.where(along > 0, along, np.inf)
            scaled = decoded * factors[:, None]
            keep(attention.scores(sample.q, scaled), " eden", codec=MSE, number=bits)
        for half in PROD.values():
            if bits > 1 and (codec := trial.codec(half, DIM, bits, "k")):
                coded = encoded(codec, sample.k)
                keep(estimated_scores(coded, sample.q), "", codec=half, number=bits)
    return figures
