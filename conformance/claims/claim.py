"""A claim is a record: one checkable sentence, and how evidence decides it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np

from kvassay.conformance.measure.cell import Cell, Effort, batch
from kvassay.conformance.measure.codec import BINS
from kvassay.conformance.protocol import KINDS
from kvassay.conformance.statistics import design
from kvassay.conformance.statistics.intervals import (
    Band,
    Interval,
    compare,
    dkw_interval,
    exponential,
    ratio_interval,
    worst_interval,
)

EFFORTS: tuple[Effort, ...] = ("quick", "standard", "thorough")
VERDICTS = ("conforms", "violates", "inconclusive", "not applicable", "error")
BETA = 0.01

Method = Literal["ratio", "geometric", "worst", "distance"]
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
    kinds: tuple[str, ...] = KINDS


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that evidence can decide.

    It holds in all its `parts`. `method` says how seeds make an interval:
      "ratio"     mean numerator over mean denominator, Student-t over the seeds
      "geometric" the same for a mean of logarithms, whose exponential is judged
      "distance"  sup distance of a CDF, Dvoretzky-Kiefer-Wolfowitz
      "worst"     must hold for every seed; the largest value, no chance involved
    `prediction(cell, part)` comes from reference/theory.py. `delta(cell, part, effort)` is
    the band's half-width, relative to the prediction for the first two and absolute otherwise;
    if `at_most`, the band has no lower end. `scatter(cell, part, effort)` is one seed's expected
    relative standard deviation, from which the number of seeds follows.
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
    at_most: bool = False
    fewest_bits: int = 1
    beta: float = BETA

    def parts_for(self, cell: Cell) -> list[Part]:
        """The parts that say anything about a codec of this kind and width."""
        if cell.kind not in self.kinds or cell.bits < self.fewest_bits:
            return []
        return [part for part in self.parts if cell.kind in part.kinds]

    def band(self, cell: Cell, part: str, effort: Effort) -> Band:
        """The values that conform."""
        predicted = self.prediction(cell, part)
        delta = self.delta(cell, part, effort)
        if self.method in ("ratio", "geometric"):
            delta *= abs(predicted)
        return Band(-inf if self.at_most else predicted - delta, predicted + delta)

    def interval(self, values: Sequence[Any], alpha: float) -> Interval:
        """The interval that the values of one statistic over the seeds leave."""
        if self.method in ("ratio", "geometric"):
            top, bottom = zip(*values, strict=True)
            interval = ratio_interval(top, bottom, alpha)
            return interval if self.method == "ratio" else exponential(interval)
        if self.method == "distance":
            return dkw_interval(np.sum(values, axis=0), alpha)
        return worst_interval(values)

    def judge(
        self, values: Sequence[Any], cell: Cell, part: str, effort: Effort, alpha: float
    ) -> tuple[str, Interval]:
        """ "conforms", "violates" or "undecided", and the interval that says so."""
        interval = self.interval(values, alpha)
        return compare(interval, self.band(cell, part, effort)), interval

    def smallest_violation(
        self, count: int, cell: Cell, part: str, effort: Effort, alpha: float
    ) -> float:
        """The least deviation that `count` seeds call a violation with probability 1 - beta,
        in the unit of `delta`. A violation of any size above delta where chance has no part."""
        delta = self.delta(cell, part, effort)
        if self.method == "worst":
            return delta
        if self.method == "distance":
            return delta + 2 * _margin(count * batch(cell.dim, effort).rotated, alpha)
        scatter = self.scatter(cell, part, effort)
        return design.smallest_violation(count, delta, scatter, alpha, self.beta)

    def needed(self, cell: Cell, part: str, effort: Effort, alpha: float) -> int:
        """Seeds after which a correct codec conforms with probability 1 - beta. ValueError
        where no affordable number resolves delta."""
        delta = self.delta(cell, part, effort)
        if self.method == "worst":
            return 2
        if self.method == "distance":
            size = batch(cell.dim, effort).rotated
            return next(n for n in range(1, 1000) if 2 * _margin(n * size, alpha) <= delta)
        try:
            return design.needed(delta, self.scatter(cell, part, effort), alpha, self.beta)
        except ValueError as problem:
            raise ValueError(f"claim {self.id} on {cell}: {problem}") from None

    def looks(self, cell: Cell, part: str, effort: Effort, alpha: float) -> list[int]:
        """The numbers of seeds after which the evidence is judged."""
        count = self.needed(cell, part, effort, alpha)
        if self.method == "worst":
            return [count]
        return [count, 4 * count] if self.method == "distance" else design.looks(count)


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
