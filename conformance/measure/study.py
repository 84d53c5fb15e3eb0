"""Studies: what is measured to decide the claims about attention, regimes and SpectralQuant.

A study draws a population of (Q, K, V), quantizes it and returns figures, once a trial. The
sampling unit is a trial: fresh data, rotation and sketch, all from one seed. Figures are means
over the queries or vectors of the trial; the claims say what must hold of their means over the
trials. Studies, claims and reports name a figure by the same record, a `Figure`. What a backend
does not offer is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.measure import Effort
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.measure.trial import CheckedCodec, StudyTrial
from kvassay.reference.kinds import SKETCHES
from kvassay.reference.regimes import Sample
from kvassay.reference.schemes import TURBOQUANT, Half, Scheme, scheme

Array = NDArray[np.float64]
TRIALS: dict[Effort, int] = {"quick": 10, "standard": 40, "thorough": 200}
BITS = (2, 3, 4, 5, 6)


SCALAR, MSE = Half("scalar"), Half("turboquant-mse")


PROD = {sketch: Half("turboquant-prod", sketch) for sketch in SKETCHES}
ROTATED_HALVES = (MSE, *PROD.values())


UNIFORM, FILLED = Half("spectral", "", "uniform"), Half("spectral", "", "water-filling")


TOGETHER = replace(UNIFORM, together=True)


def _compared() -> Iterator[Scheme]:
    """Each scheme that the population studies compare, by a name that is its own."""
    for sketch in SKETCHES:
        for name in TURBOQUANT:
            made = scheme(name, sketch)
            if made.k.sketch or made.v.sketch:
                yield replace(made, name=f"{name}/{sketch}")
            elif sketch == SKETCHES[0]:
                yield made
    for name in ("SQU-KV", "SQW-KV", "SQU-QKV", "SQU-KQV"):
        yield scheme(name)
    yield replace(scheme("SQU-KV", together=True), name="SQU-KV/together")


SCHEMES = {made.name: made for made in _compared()}
CODECS: dict[str, Half | Scheme] = {
    **{str(half): half for made in SCHEMES.values() for half in (made.k, made.v)},
    **SCHEMES,
}
"""What figures can be of, by its name in them: what is done with one tensor, or a scheme."""


METRICS = ("kl", "phi-k", "relmse-v", "relmse-t", "phi-t")  # of the generators
FIGURES = {
    "kl": "mean KL divergence of the attention weights over the queries",
    "kl eden": "the same with keys scaled to be unbiased (EDEN)",
    "score-error": "mean squared error of the scores",
    "score-error eden": "the same with keys scaled to be unbiased (EDEN)",
    "kl-max": "largest KL divergence of a query",
    "kl-predicted": "mean KL divergence if score errors are as theory says",
    "half-variance": "mean of half the variance of the score error under the exact weights",
    "inflation": "mean of exp(JENSEN z) where z is the score error over its predicted deviation",
    "shifts": "share of the queries whose dominant key changes",
    "recall": "mean share of the five largest weights that stay among the five largest",
    "predicted-max": "kl-max with Gaussian noise of the predicted variance for the score error",
    "predicted-shifts": "shifts with the same noise",
    "relmse-k": "relative squared error of K",
    "relmse-v": "relative squared error of V",
    "relmse-t": "relative squared error of the attention output T",
    "phi-k": "direction error of K, the mean angle over pi",
    "phi-v": "direction error of V",
    "phi-t": "direction error of T",
    "d2-t": "d^2 of T: the squares of its relative and of its cosine error",
    "cosine-k": "mean cosine between K and its reconstruction",
    "cosine-t": "mean cosine between T and what the codes give",
    "nonlinear": "largest departure of T from a linear effect of V's error, over that effect",
    "averaged": "squared change of T by the error of V",
    "independent": "the same if the errors of different tokens were independent",
    "attended": "mean number of tokens that a query attends to, 1 / sum p^2",
    "bytes": "bytes of a key",
    "d-eff": "effective dimension of a spectral codec; its number can be the calibration tokens",
    "marginal": "largest distance of the CDF of rotated coordinates from the Beta law",
    "density given": "density of a vector's coordinates in the bin that the number says",
    "density rotated": "the same after the rotation",
}
"""What a figure can be, and the sentence that says what it is."""

GENERATORS = {
    "own": "of the backend, with its own generator",
    "peer": "of the reference with MT19937, on data of its own",
    "gap": "of the backend less that of the reference with MT19937, on the same data",
}


FIGURES |= {
    f"{whose} {metric}": f"{FIGURES[metric]}, {meaning}"
    for metric in METRICS
    for whose, meaning in GENERATORS.items()
}


@dataclass(frozen=True)
class Figure:
    """The name of one number that a study gives: `what` (a key of FIGURES) of which `codec`, if
    it is of one that its study does not imply, at which `number` of bits (or what else FIGURES
    says that it is), and `where` in the study. ValueError if there is no such `what`.

    >>> str(Figure("kl", MSE, 4, "low-rank"))
    'kl turboquant-mse 4, low-rank'
    """

    what: str
    codec: Half | Scheme | None = None
    number: int | None = None
    where: str = ""

    def __post_init__(self) -> None:
        if self.what not in FIGURES:
            raise ValueError(f"what must be one of {', '.join(FIGURES)}, got {self.what!r}")

    def __str__(self) -> str:
        codec = self.codec.name if isinstance(self.codec, Scheme) else self.codec
        parts = (self.what, codec, self.number)
        text = " ".join(str(part) for part in parts if part is not None)
        return f"{text}, {self.where}" if self.where else text

    @classmethod
    def parse(cls, text: str) -> "Figure":
        """The figure that is written so. ValueError if none is."""
        head, _, where = text.partition(", ")
        words = head.split(" ")
        number = int(words.pop()) if words[-1].isdecimal() else None
        codec = CODECS[words.pop()] if words and words[-1] in CODECS else None
        figure = cls(" ".join(words), codec, number, where)
        if str(figure) != text:
            raise ValueError(f"a figure is written {str(figure)!r}, got {text!r}")
        return figure


Figures = dict[Figure, float]


@dataclass(frozen=True)
class Study:
    """`measure(trial)` gives the figures of one trial; `repeats` trials for each of an
    effort's, where a trial is small."""

    id: str
    measure: Callable[["StudyTrial"], Figures]
    repeats: int = 1

    @property
    def about(self) -> str:
        """What is measured, in a sentence."""
        measure = self.measure.func if isinstance(self.measure, partial) else self.measure
        return " ".join((measure.__doc__ or "").split("\n\n")[0].split())

    def trials(self, effort: Effort) -> int:
        """How many trials an effort has."""
        return TRIALS[effort] * self.repeats


def run(study: Study, trial: StudyTrial) -> Figures:
    """The figures of one trial, to nine digits; none where the backend offers less than the
    study needs. BackendFault if one is not finite."""
    try:
        figures = study.measure(trial)
    except NotImplementedError:
        return {}
    for figure, value in figures.items():
        if not isfinite(value):
            raise BackendFault(f"the answers make {str(figure)!r} infinite or undefined")
    return {figure: float(f"{value:.9g}") for figure, value in figures.items()}


@dataclass(frozen=True)
class Coded:
    """A tensor and what a codec made of it."""

    codec: CheckedCodec
    code: Any
    decoded: Array


def encoded(codec: CheckedCodec, x: Array) -> Coded:
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
