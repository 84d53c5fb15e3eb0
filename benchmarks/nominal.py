"""How far the intervals can be trusted in the far tail: nominal and real rates of missing.

    python benchmarks/nominal.py --seeds 2000

The intervals are Student-t, which is exact for normal values only. For each statistic of some
cells at quick effort, whose batches are smallest, this measures the values of many seeds and then
the probability that the interval of 20 seeds, drawn from just those values, misses their mean: to
either side, at the alpha of a planned look, about 1e-7. Such rates cannot be counted, so draws come
from a tilted law, p_i exp(a x_i - b x_i^2), that misses half the time, and are weighted back
(importance sampling). The line `normal` does the same with normal values, whose rate is alpha.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import optimize, stats

from kvassay.conformance.adapters.reference import backend
from kvassay.conformance.claims.claim import ENTRY_ALPHA
from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.measure.codec import EXPERIMENTS
from kvassay.conformance.measure.trial import CellTrial
from kvassay.conformance.statistics import design
from kvassay.conformance.statistics.intervals import student_quantile

Array = NDArray[np.float64]
COUNT = design.FEWEST_SEEDS
CELLS = (
    Cell("scalar", "", 64, 6),
    Cell("turboquant-mse", "", 64, 4),
    Cell("turboquant-mse", "", 576, 2),
    Cell("turboquant-prod", "gaussian", 64, 3),
    Cell("turboquant-prod", "orthogonal", 128, 4),
)


def values(cell: Cell, seeds: int) -> Iterator[tuple[str, Array]]:
    """The deviations from the mean of each statistic that is judged by Student's t."""
    parts = [
        (claim.id, part)
        for claim in CLAIMS
        if claim.method in ("ratio", "geometric")
        for part in claim.parts_for(cell)
    ]
    made: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for index in range(seeds):
        trial = CellTrial(backend(), cell, 77, index, "quick")
        for experiment in sorted({part.experiment for _, part in parts}):
            made.setdefault(experiment, []).append(dict(EXPERIMENTS[experiment](trial)))
    for claim, part in parts:
        pairs = np.array([answer[part.statistic] for answer in made[part.experiment]])
        top, bottom = pairs.T
        deviation = top - top.sum() / bottom.sum() * bottom
        yield f"{claim}, {part.name}", deviation / np.std(deviation)


def missing_rate(x: Array, alpha: float, rng: np.random.Generator, draws: int) -> float:
    """P(Student's t of COUNT draws from `x` exceeds the quantile for alpha to the upper side)."""
    reach = student_quantile(alpha, COUNT) / np.sqrt(COUNT)  # of mean over standard deviation
    x = x - x.mean()

    def tilted(a: float, b: float) -> Array:
        exponent = a * x - b * x**2
        weight = np.exp(exponent - exponent.max())
        return np.asarray(weight / weight.sum())

    def moments(p: Array) -> tuple[float, float]:
        mean = float(p @ x)
        return mean, float(np.sqrt(p @ (x - mean) ** 2))

    def cost(b: float) -> tuple[float, Array]:
        """The relative entropy of the tilt with this b whose mean lies `reach` deviations out."""

        def short(a: float) -> float:
            mean, deviation = moments(tilted(a, b))
            return mean - reach * deviation

        p = tilted(float(optimize.brentq(short, 0.0, 400.0)), b)
        return float(np.sum(p[p > 0] * np.log(p[p > 0] * len(x)))), p

    costs = []
    for b in np.linspace(0.0, 4.0, 17):
        try:
            costs.append(cost(float(b)))
        except ValueError:  # no tilt with this b reaches so far
            continue
    if not costs:
        return 0.0  # these values are bounded: so far out there is none
    p = min(costs, key=lambda each: each[0])[1]
    chosen = rng.choice(len(x), size=(draws, COUNT), p=p)
    drawn = x[chosen]
    t = drawn.mean(axis=1) / drawn.std(axis=1, ddof=1) * np.sqrt(COUNT)
    log_weight = -np.sum(np.log(p[chosen] * len(x)), axis=1)
    return float(np.mean(np.exp(log_weight) * (t > reach * np.sqrt(COUNT))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=200_000)
    arguments = parser.parse_args()
    alpha = ENTRY_ALPHA * design.PLANNED_SHARE
    rng = np.random.default_rng(0)
    table = Table(title=f"Rate of missing over nominal, {COUNT} seeds, alpha {alpha:.2g}")
    for heading in ("cell", "statistic", "skew", "excess kurtosis", "low", "high"):
        table.add_column(heading)

    def row(cell: str, name: str, x: Array) -> None:
        rates = [missing_rate(side * x, alpha, rng, arguments.draws) for side in (1, -1)]
        low, high = (f"{rate / (alpha / 2):.2g}" for rate in rates)
        skew, kurtosis = stats.skew(x), stats.kurtosis(x)
        table.add_row(cell, name, f"{skew:+.2f}", f"{kurtosis:+.2f}", low, high)

    row("normal", f"{arguments.seeds} quantiles", normal_values(arguments.seeds))
    for cell in CELLS:
        for name, x in values(cell, arguments.seeds):
            row(str(cell), name, x)
    Console(width=110).print(table)


def normal_values(count: int) -> Array:
    """Evenly spaced quantiles of a normal law."""
    return np.asarray(stats.norm.ppf((np.arange(count) + 0.5) / count))


if __name__ == "__main__":
    main()
