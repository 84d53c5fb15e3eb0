"""How many seeds: sample sizes, looks, and what a number of seeds can detect."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, sqrt

from scipy import special

from kvassay.conformance.statistics.intervals import student_quantile

FEWEST_SEEDS = 20  # with fewer, a Student-t quantile this far out says little about real laws
MOST_SEEDS = 20_000

# When to look, in shares of the planned seeds, and the share of an entry's alpha spent there.
# Most is kept for the planned look. Earlier ones, with few seeds and wide quantiles, get little;
# later ones are for a codec that is only nearly right, or scatters more than predicted.
SCHEDULE = ((0.5, 0.05), (0.75, 0.15), (1, 0.4), (1.5, 0.1), (2, 0.1), (3, 0.1), (4, 0.099))
BEYOND_SHARE = 0.001  # of alpha, at the last look: that every seed lies beyond the band
PLANNED_SHARE = dict(SCHEDULE)[1]


@dataclass(frozen=True)
class Look:
    """After how many seeds the evidence is judged, and at which alpha: that of its interval, and
    that of `beyond_all`."""

    seeds: int
    alpha: float
    beyond: float = 0.0


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
    (t + z) scatter / sqrt(n) <= delta, at the alpha of the look that judges it. At least
    FEWEST_SEEDS. ValueError where MOST_SEEDS are not enough.

    >>> needed(delta=0.01, scatter=0.01, alpha=1e-6, beta=0.01)
    68
    """
    chance = float(-special.ndtri(beta / 2))

    def resolves(count: int) -> bool:
        reach = student_quantile(alpha * PLANNED_SHARE, count) + chance
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


def looks(count: int, alpha: float) -> list[Look]:
    """The looks for `count` planned seeds. Their alphas add up to `alpha`: by the union bound
    the intervals of all looks hold together, whatever the dependence between them; the last one
    leaves a share to `beyond_all`."""
    spent: dict[int, float] = defaultdict(float)
    for share, part in SCHEDULE:
        spent[max(FEWEST_SEEDS, ceil(count * share))] += alpha * part
    last = max(spent)
    return [
        Look(seeds, part, alpha * BEYOND_SHARE if seeds == last else 0.0)
        for seeds, part in sorted(spent.items())
    ]


def beyond_all(values: Sequence[float], high: float, alpha: float) -> bool:
    """Whether every one of these values, one a seed, lies so far above `high` that their mean
    cannot be `high` or less: an exact test at level `alpha` for values that are never negative.

    By Markov's inequality a value that is never negative and has a mean of at most `high` exceeds
    c high with probability 1/c at most. n independent ones all do with probability c^-n at most,
    which is alpha for c = alpha^(-1/n). Nothing else is assumed of their law: an interval may be
    wider than its estimate where the values scatter over orders of magnitude.

    >>> beyond_all([40.0, 5000.0, 90.0] * 20, high=1.0, alpha=2e-10)
    True
    >>> beyond_all([1.2] * 60, high=1.0, alpha=2e-10)
    False
    """
    return bool(min(values) > high * alpha ** (-1 / len(values)))


def share_excluded(count: int, miss: float = 0.05) -> float:
    """The share of bad seeds above which `count` good ones in a row have a probability below
    `miss`: the upper end of the Clopper-Pearson interval for 0 of `count`.

    >>> round(share_excluded(300), 4)
    0.0099
    """
    return float(1 - miss ** (1 / count))
