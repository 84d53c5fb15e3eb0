"""Studies: what is measured to decide the claims about attention, regimes and SpectralQuant.

A study draws a population of (Q, K, V), quantizes it and returns named figures, once a trial.
The sampling unit is a trial: fresh data, rotation and sketch, all from one seed. Figures are
means over the queries or vectors of the trial; the claims in `papers` say what must hold of
their means over the trials.

Names of figures read "what, codec, bits[, where]": `kl turboquant-mse 4` is the mean KL
divergence of a trial whose keys were coded so. What a backend does not offer is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.measure import Effort
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.measure.trial import Bench, Judged
from kvassay.reference.kinds import SKETCHES
from kvassay.reference.regimes import Sample
from kvassay.reference.schemes import Half

Array = NDArray[np.float64]


Figures = dict[str, float]


TRIALS: dict[Effort, int] = {"quick": 10, "standard": 40, "thorough": 200}


BITS = (2, 3, 4, 5, 6)


SCALAR, MSE = Half("scalar"), Half("turboquant-mse")


PROD = {sketch: Half("turboquant-prod", sketch) for sketch in SKETCHES}


ROTATED_HALVES = (MSE, *PROD.values())


UNIFORM, FILLED = Half("spectral", "", "uniform"), Half("spectral", "", "water-filling")


@dataclass(frozen=True)
class Study:
    """`measure(bench)` gives the figures of one trial; `repeats` trials for each of an
    effort's, where a trial is small."""

    id: str
    measure: Callable[["Bench"], Figures]
    repeats: int = 1

    @property
    def about(self) -> str:
        """What is measured, in a sentence."""
        measure = self.measure.func if isinstance(self.measure, partial) else self.measure
        return " ".join((measure.__doc__ or "").split("\n\n")[0].split())

    def trials(self, effort: Effort) -> int:
        """How many trials an effort has."""
        return TRIALS[effort] * self.repeats


def run(study: Study, bench: Bench) -> Figures:
    """The figures of one trial, to nine digits; none where the backend offers less than the
    study needs. BackendFault if one is not finite."""
    try:
        figures = study.measure(bench)
    except NotImplementedError:
        return {}
    for name, value in figures.items():
        if not isfinite(value):
            raise BackendFault(f"the answers make {name!r} infinite or undefined")
    return {name: float(f"{value:.9g}") for name, value in figures.items()}


@dataclass(frozen=True)
class Coded:
    """A tensor and what a codec made of it."""

    codec: Judged
    code: Any
    decoded: Array


def encoded(codec: Judged, x: Array) -> Coded:
    vectors = x.astype(np.float32)
    code = codec.encode(vectors)
    return Coded(codec, code, codec.decode(code, len(x)))


def estimated_scores(coded: Coded, q: Array) -> Array:
    """Scores from the code, (M, N)."""
    count, dim = coded.decoded.shape
    return np.asarray(coded.codec.inner_products(q, coded.code, count) / np.sqrt(dim))


def calibration_of(half: Half, sample: Sample, tensor: str) -> dict[str, Array]:
    if half.kind != "spectral":
        return {}
    if half.together:
        return {"calibration": np.vstack([sample.calibration_k, sample.calibration_v])}
    return {"calibration": getattr(sample, f"calibration_{tensor}")}
