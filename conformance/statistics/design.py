"""How many seeds: sample sizes, looks, and what a number of seeds can detect."""

from functools import cache
from math import ceil, sqrt

from scipy import special

from kvassay.conformance.statistics.intervals import student_quantile

FEWEST_SEEDS = 10


MOST_SEEDS = 20_000


def smallest_violation(
    count: int, delta: float, scatter: float, alpha: float, beta: float
) -> float:
    """The least deviation from the prediction that `count` seeds call a violation with
    probability 1 - beta: the band's half-width, the interval's, and a margin for chance."""
    reach = student_quantile(alpha, count) + float(-special.ndtri(beta))
    return delta + reach * scatter / sqrt(count)


@cache  # a plan asks twice for each entry, and most cells ask alike
def needed(delta: float, scatter: float, alpha: float, beta: float) -> int:
    """Seeds after which a value equal to its prediction conforms with probability 1 - beta.

    That takes an interval that fits the band from wherever chance puts its centre:
    (t + z) scatter / sqrt(n) <= delta. At least 10. ValueError where 20,000 are not enough.

    >>> needed(delta=0.01, scatter=0.01, alpha=1e-6, beta=0.01)
    64
    """
    chance = float(-special.ndtri(beta / 2))

    def resolves(count: int) -> bool:
        reach = student_quantile(alpha, count) + chance
        return reach * scatter <= delta * sqrt(count)

    low, high = FEWEST_SEEDS - 1, MOST_SEEDS
    if not resolves(high):
        raise ValueError(
            f"delta must be resolvable: {delta:g} at scatter {scatter:g} takes over {high} seeds"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resolves(middle) else (middle, high)
    return high


def looks(count: int) -> list[int]:
    """When to look: from a quarter to four times the seeds that should be enough.

    They are enough for a codec that is exactly right; the later looks are for one that is
    only nearly so, and for scatter that turns out larger than predicted.
    """
    shares = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4)
    return sorted({max(FEWEST_SEEDS, ceil(count * share)) for share in shares})
