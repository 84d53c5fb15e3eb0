"""How far the intervals can be trusted in the far tail: nominal and real rates.

    python benchmarks/nominal.py --seeds 2000

The intervals are Student-t, which is exact for normal values only. For each statistic of some
cells at quick effort, whose batches are smallest, this measures the values of many seeds, and then
two probabilities for 20 seeds that are drawn from just those values, over the alpha of a planned
look, about 1e-7: that their interval misses the mean, and that it lies wholly outside of the band
around it, which is what accuses a correct codec. Such rates cannot be counted, so draws come from
a tilted law, p_i exp(a x_i - b x_i^2), that does so half the time, and are weighted back
(importance sampling). The line `normal` does the same with normal values: they miss at alpha.
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


def values(cell: Cell, seeds: int) -> Iterator[tuple[str, Array, float, bool]]:
    """Each statistic that is judged by Student's t: its name, the deviations of the seeds from
    their mean in standard deviations, the band's half-width in the same unit, and whether only too
    much violates."""
    parts = [
        (claim, part)
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
        mean = bottom.mean() * (top.sum() / bottom.sum() if claim.method == "ratio" else 1)
        width = claim.delta(cell, part.name, "quick") * abs(mean) / np.std(deviation)
        yield f"{claim.id}, {part.name}", deviation / np.std(deviation), width, claim.at_most


def rate_beyond(
    x: Array, width: float, alpha: float, rng: np.random.Generator, draws: int
) -> float:
    """P(the interval of COUNT draws from `x` lies wholly above its mean and `width` more)."""
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
        """The relative entropy of the tilt with this b whose mean lies so far out."""

        def short(a: float) -> float:
            mean, deviation = moments(tilted(a, b))
            return mean - width - reach * deviation

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
    low = drawn.mean(axis=1) - reach * drawn.std(axis=1, ddof=1)
    log_weight = -np.sum(np.log(p[chosen] * len(x)), axis=1)
    return float(np.mean(np.exp(log_weight) * (low > width)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=200_000)
    arguments = parser.parse_args()
    alpha = ENTRY_ALPHA * design.PLANNED_SHARE
    rng = np.random.default_rng(0)
    table = Table(title=f"Rates over nominal, {COUNT} seeds, alpha {alpha:.2g}")
    for heading in ("cell", "statistic", "skew", "kurtosis", "misses", "accuses"):
        table.add_column(heading)

    def row(cell: str, name: str, x: Array, width: float, at_most: bool) -> None:
        sides = (1,) if at_most else (1, -1)
        rates = [
            sum(rate_beyond(side * x, beyond, alpha, rng, arguments.draws) for side in which)
            for beyond, which in ((0.0, (1, -1)), (width, sides))
        ]
        shape = (f"{measure(x):+.2f}" for measure in (stats.skew, stats.kurtosis))
        table.add_row(cell, name, *shape, *(f"{rate / alpha:.2g}" for rate in rates))

    row("normal", f"{arguments.seeds} quantiles", normal_values(arguments.seeds), 0.0, False)
    for cell in CELLS:
        for name, x, width, at_most in values(cell, arguments.seeds):
            row(str(cell), name, x, width, at_most)
    Console(width=110).print(table)


def normal_values(count: int) -> Array:
    """Evenly spaced quantiles of a normal law."""
    return np.asarray(stats.norm.ppf((np.arange(count) + 0.5) / count))


if __name__ == "__main__":
    main()
