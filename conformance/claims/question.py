"""The claims that studies decide: attention, regimes and SpectralQuant.

A claim asks one or more questions, and a question is a list of quantities: means of a study's
figures over its trials, each with a band that the claim says it lies in. Quantities of
theorem and derived claims are judged at a share of the run's false-alarm budget and make a
verdict; those of a reported or contested question share 5 % and make an outcome, which no
backend can fail.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.claims.claim import Standing
from kvassay.conformance.measure.studies import STUDIES
from kvassay.conformance.measure.study import BITS, Figure
from kvassay.conformance.statistics.intervals import (
    Band,
    Interval,
    exponential,
    jackknife_interval,
    least_ratio_interval,
    ratio_interval,
    worst_interval,
)
from kvassay.conformance.statistics.samples import (
    distance_interval,
    energy,
    energy_distance,
    rank_interval,
)
from kvassay.reference import regimes
from kvassay.reference.kinds import SKETCHES

Array = NDArray[np.float64]
Method = Literal[
    "mean",
    "ratio",
    "geometric",
    "difference",
    "worst",
    "squares",
    "least",
    "jackknife",
    "rank",
    "distance",
    "energy",
]


POPULATIONS = (*regimes.REGIMES, "tensors")
SCATTERED = ("isotropic", "heavy-tailed", "very-heavy-tailed")
OTHERS = tuple(name for name in POPULATIONS if name not in SCATTERED)


AT_LEAST_1 = Band(1, inf)


TIED = Band(0.9, inf)  # no better, but for a tie: 10 % in d^2 are 5 % in the size of the error


@dataclass(frozen=True)
class Quantity:
    """One number that the claim makes a statement about.

    `figures` are figures of the study, `method` what is made of them:
      "mean"       mean of the one
      "ratio"      mean of the first over mean of the second
      "geometric"  the same of the means of their logarithms
      "difference" mean of the first less the second
      "worst"      the largest of the one
      "squares"    mean square of the first over mean square of the second
      "least"      the least "geometric" of the others over the first
      "jackknife"  `function` of them all over the trials, with a jackknife interval
      "rank"       two samples: rank-biserial correlation (Mann-Whitney)
      "distance"   two samples: Kolmogorov-Smirnov distance and its test
      "energy"     two 6-D samples: energy distance and its permutation test
    It lies in `band` if the claim holds. `predicted` is what theory says, `paper` the figure
    that the paper gives.
    """

    where: str
    study: str
    method: Method
    figures: tuple[Figure, ...]
    band: Band
    predicted: float | None = None
    paper: float | None = None
    function: Callable[[Array], float] | None = None

    def interval(self, columns: list[Array], alpha: float) -> tuple[Interval, float | None]:
        """Estimate and 1 - alpha interval from the figures over the trials, and the p-value
        of the two-sample methods."""
        first, second = columns[0], columns[-1]
        ones = np.ones(len(first))
        if self.method == "mean":
            return ratio_interval(first, ones, alpha), None
        if self.method == "ratio":
            return ratio_interval(first, second, alpha), None
        if self.method == "geometric":
            logs = np.log(first) - np.log(second)
            return exponential(ratio_interval(logs, ones, alpha)), None
        if self.method == "difference":
            return ratio_interval(first - second, ones, alpha), None
        if self.method == "worst":
            return worst_interval([float(value) for value in first]), None
        if self.method == "squares":
            return ratio_interval(first**2, second**2, alpha), None
        if self.method == "least":
            return least_ratio_interval(columns[1:], first, alpha), None
        if self.method == "distance":
            return distance_interval(first, second, alpha)
        if self.method == "rank":
            # Every other trial of either, since both share a trial's data.
            return rank_interval(first[::2], second[1::2], alpha)
        if self.method == "energy":
            return energy_interval(np.stack(columns), alpha)
        assert self.function is not None
        return jackknife_interval(self.function, np.stack(columns), alpha), None


@dataclass(frozen=True)
class Question:
    """One thing that the claim says. It is so if all its quantities lie in their bands
    ("everywhere"), more than half ("mostly"), or one ("somewhere"). An `aside` is shown and
    does not count."""

    text: str
    quantities: tuple[Quantity, ...]
    holds: Literal["everywhere", "mostly", "somewhere"] = "everywhere"
    standing: Standing | None = None
    aside: bool = False


@dataclass(frozen=True)
class PaperClaim:
    """One sentence of a paper that studies decide. A question's standing is the claim's, or
    its own where the paper only reports that part. Faults that name the claim must be caught
    by the first study with a judged quantity."""

    id: str
    sentence: str
    source: str
    standing: Standing
    needs: tuple[str, ...]
    meaning: str
    questions: tuple[Question, ...] = field(repr=False)
    unit: str = "a trial: fresh data, rotation and sketch"

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that it takes, in their order."""
        used = {item.study for question in self.questions for item in question.quantities}
        return tuple(name for name in STUDIES if name in used)

    def standing_of(self, question: Question) -> Standing:
        """The standing of one question."""
        return question.standing or self.standing


def within(value: float, share: float) -> Band:
    """The values within a share of `value`."""
    return Band(value * (1 - share), value * (1 + share))


def place_name(name: str) -> str:
    return "real tensors" if name == "tensors" else name


def over_populations(
    make: Callable[[str], tuple[Quantity, ...]], names: tuple[str, ...] = POPULATIONS
) -> tuple[Quantity, ...]:
    return tuple(quantity for name in names for quantity in make(name))


def by_sketch(
    name: str,
    method: Method,
    figures: Callable[[str, int], tuple[Figure, Figure]],
    band: Band,
    bits: tuple[int, ...] = BITS,
    *,
    predicted: Callable[[str, int], float] | None = None,
    paper: float | None = None,
) -> tuple[Quantity, ...]:
    """A quantity of one population for each sketch and width. `figures` and `predicted` are
    those of a sketch at a width; theory's hold where queries are not in the keys' directions.
    """
    known = predicted if name in SCATTERED else None
    return tuple(
        Quantity(
            f"{place_name(name)}, {sketch}" + f", n={width}" * (len(bits) > 1),
            f"population/{name}",
            method,
            figures(sketch, width),
            band,
            known(sketch, width) if known else None,
            paper,
        )
        for sketch in SKETCHES
        for width in bits
    )


def energy_interval(columns: Array, alpha: float) -> tuple[Interval, float]:
    """Energy distance of two clouds, row by row from one trial; the low end is 0 where the
    permutation test does not reject. The permutations are the same each time."""
    first, second = _cloud(columns[:6]), _cloud(columns[6:])
    distance, p = energy_distance(first, second, np.random.default_rng(0), paired=True)
    spread = jackknife_interval(_energy_of_two, columns, alpha)
    low = max(spread.low, 1e-9) if p < alpha else 0.0
    return Interval(distance, min(low, distance), max(spread.high, distance)), p


def _energy_of_two(columns: Array) -> float:
    first, second = _clouds(columns)
    return energy(first, second)


def energy_ratio(columns: Array) -> float:
    """6-D energy distance of the first cloud from the third over that of the second."""
    first, second, fine = _clouds(columns)
    return energy(first, fine) / energy(second, fine)


def _clouds(columns: Array) -> Array:
    """The clouds of six columns each, on one scale: all have a standard deviation of 1."""
    clouds = np.stack([_cloud(columns[i : i + 6]) for i in range(0, len(columns), 6)])
    return np.asarray(clouds / np.std(clouds, axis=(0, 1)))


def _cloud(columns: Array) -> Array:
    snr = -10 * np.log10(columns[:3])
    return np.vstack([snr, columns[3:]]).T


SPECTRAL = ("spectral",)
ROTATED = ("turboquant-mse", "turboquant-prod")
