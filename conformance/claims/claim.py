"""A claim is a record: one checkable sentence, and how evidence decides it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import numpy as np

from kvassay.conformance.measure import Effort
from kvassay.conformance.measure.cell import Cell, batch
from kvassay.conformance.measure.codec import BINS
from kvassay.conformance.statistics import design, intervals
from kvassay.conformance.statistics.design import Look
from kvassay.conformance.statistics.intervals import Band, Interval
from kvassay.reference.kinds import JUDGED

VERDICTS = ("conforms", "violates", "inconclusive", "not applicable", "error")
BETA = 0.01

# Every entry in which chance has a part has this false-alarm rate, whatever else is in the run:
# a new claim, kind or population changes no interval of another. 5000 entries make 1 in 1000.
ENTRY_ALPHA = 2e-7

Method = Literal["ratio", "geometric", "worst", "every", "distance"]
Standing = Literal["theorem", "derived", "reported", "contested"]
Delta = Callable[[Cell, str, Effort], float]


@dataclass(frozen=True)
class Part:
    """One way of holding a claim against a codec: a statistic of an experiment.

    Each part is an entry of its own, with its own share of alpha. `name` is the input
    family, or what is checked where the input does not matter.
    """

    name: str
    experiment: str
    statistic: str
    kinds: tuple[str, ...] = JUDGED


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that evidence can decide.

    It holds in all its `parts`. `method` says how seeds make an interval:
      "ratio"     mean numerator over mean denominator, Student-t over the seeds
      "geometric" the same for a mean of logarithms, whose exponential is judged
      "distance"  sup distance of a CDF, Dvoretzky-Kiefer-Wolfowitz
      "worst"     must hold for every seed; the largest value, no chance involved
      "every"     must lie in `limits` for every seed; the value nearest to a limit or beyond it
    If `of_papers`, it is a sentence of theirs, else the suite's own; `source` says which.
    `prediction(cell, part)` comes from reference/theory.py. `delta(cell, part, effort)` is
    the band's half-width, relative to the prediction for the first two and absolute otherwise;
    if `at_most`, the band has no lower end. `scatter(cell, part, effort)` is one seed's expected
    relative standard deviation, from which the number of seeds follows. `laws` are those that the
    kind must have in the design of the cell, and where `applies(cell, part)` is false the part says
    nothing about the cell. `never_negative` is a "ratio" of squares over a fixed count: where every
    seed lies far above the band, the claim is violated however wide the interval
    (design.beyond_all).
    """

    id: str
    sentence: str
    source: str
    standing: Standing
    needs: tuple[str, ...]
    kinds: tuple[str, ...]
    parts: tuple[Part, ...]
    method: Method
    prediction: Callable[[Cell, str], float]
    delta: Delta
    meaning: str
    scatter: Callable[[Cell, str, Effort], float] = lambda cell, part, effort: 0.0
    limits: Callable[[Cell, str, Effort], Band] | None = None
    seeds: Mapping[Effort, int] = field(default_factory=dict)
    at_most: bool = False
    never_negative: bool = False
    fewest_bits: int = 1
    laws: tuple[str, ...] = ()
    applies: Callable[[Cell, str], bool] = lambda cell, part: True
    beta: float = BETA
    of_papers: bool = True

    @property
    def alpha(self) -> float:
        """The false-alarm rate of one of its entries; 0 where chance has no part."""
        return 0.0 if self.method == "worst" else ENTRY_ALPHA

    def parts_for(self, cell: Cell) -> list[Part]:
        """The parts that say anything about a codec of this kind and width."""
        if cell.kind not in self.kinds or cell.bits < self.fewest_bits:
            return []
        if any(law not in cell.record.laws for law in self.laws):
            return []
        return [
            part for part in self.parts if cell.kind in part.kinds and self.applies(cell, part.name)
        ]

    def band(self, cell: Cell, part: str, effort: Effort) -> Band:
        """The values that conform."""
        if self.limits is not None:
            return self.limits(cell, part, effort)
        predicted = self.prediction(cell, part)
        delta = self.delta(cell, part, effort)
        if self.method in ("ratio", "geometric"):
            delta *= abs(predicted)
        return Band(-inf if self.at_most else predicted - delta, predicted + delta)

    def interval(self, values: Sequence[Any], alpha: float) -> Interval:
        """The interval that the values of one statistic over the seeds leave."""
        if self.method in ("ratio", "geometric"):
            top, bottom = zip(*values, strict=True)
            interval = intervals.ratio_interval(top, bottom, alpha)
            return interval if self.method == "ratio" else intervals.exponential(interval)
        if self.method == "distance":
            return intervals.dkw_interval(np.sum(values, axis=0), alpha)
        return intervals.worst_interval(values)

    def judge(
        self, values: Sequence[Any], cell: Cell, part: str, effort: Effort, alpha: float
    ) -> tuple[str, Interval]:
        """ "conforms", "violates" or "undecided", and the interval that says so. ValueError
        where the values make no interval."""
        band = self.band(cell, part, effort)
        if self.method != "every":
            interval = self.interval(values, alpha)
            return intervals.compare(interval, band), interval
        predicted = self.prediction(cell, part)
        interval = intervals.outermost(values, predicted, band)
        verdict = intervals.compare(interval, band)
        unfinished = len(values) < self.needed(cell, part, effort)
        return "undecided" if verdict == "conforms" and unfinished else verdict, interval

    def beyond_all(
        self, values: Sequence[Any], cell: Cell, part: str, effort: Effort, alpha: float
    ) -> bool:
        """Whether every seed lies too far above the band, at level `alpha`."""
        if not (self.never_negative and alpha):
            return False
        ratios = [top / bottom for top, bottom in values]
        return design.beyond_all(ratios, self.band(cell, part, effort).high, alpha)

    def smallest_violation(
        self, count: int, cell: Cell, part: str, effort: Effort, alpha: float
    ) -> float:
        """The least deviation that `count` seeds call a violation with probability 1 - beta,
        in the unit of `delta`. A violation of any size above delta where chance has no part;
        for "every" the least share of bad seeds of which one is met."""
        if self.method == "every":
            return design.share_excluded(count, self.beta)
        delta = self.delta(cell, part, effort)
        if self.method == "worst":
            return delta
        if self.method == "distance":
            return delta + 2 * _margin(count * batch(cell.dim, effort).rotated, alpha)
        scatter = self.scatter(cell, part, effort)
        return design.smallest_violation(count, delta, scatter, alpha, self.beta)

    def needed(self, cell: Cell, part: str, effort: Effort) -> int:
        """Seeds after which a correct codec conforms with probability 1 - beta. ValueError
        where no affordable number resolves delta."""
        if self.method in ("worst", "every"):
            return self.seeds.get(effort, 2)
        delta = self.delta(cell, part, effort)
        if self.method == "distance":
            size, alpha = batch(cell.dim, effort).rotated, self.alpha / 2
            return next(n for n in range(1, 1000) if 2 * _margin(n * size, alpha) <= delta)
        try:
            return design.needed(delta, self.scatter(cell, part, effort), self.alpha, self.beta)
        except ValueError as problem:
            raise ValueError(f"claim {self.id} on {cell}: {problem}") from None

    def looks(self, cell: Cell, part: str, effort: Effort) -> list[Look]:
        """When the evidence is judged, and at which alpha."""
        count = self.needed(cell, part, effort)
        if self.method == "worst":
            return [Look(count, 0.0)]
        if self.method == "every":  # the first look only stops a run that has violated already
            first = min(count, design.FEWEST_SEEDS)
            return [Look(seeds, self.alpha) for seeds in dict.fromkeys((first, count))]
        if self.method == "distance":
            return [Look(count, self.alpha / 2), Look(4 * count, self.alpha / 2)]
        return design.looks(count, self.alpha)


def _margin(count: int, alpha: float) -> float:
    return float(np.sqrt(np.log(2 / alpha) / (2 * count))) + 1 / BINS


def by_effort(quick: float, standard: float, thorough: float) -> Delta:
    """A delta that depends on the effort alone."""
    deltas: Mapping[Effort, float] = {
        "quick": quick,
        "standard": standard,
        "thorough": thorough,
    }
    return lambda cell, part, effort: deltas[effort]


def always(delta: float) -> Delta:
    """A delta that no effort changes: where chance has no part."""
    return by_effort(delta, delta, delta)
