"""What a record holds: entries, findings, outcomes, diagnoses, kills."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SCHEMA = 1


COUNTED = ("conforms", "violates", "inconclusive", "not applicable", "error")


KNOWN = 0.95  # the least share that a fault must explain to be named


@dataclass(frozen=True)
class Entry:
    """What was found for one part of one claim in one cell.

    `interval` and `band` are [low, high] with None for no end; `n` counts seeds; `alpha` is
    this entry's share of the run's false-alarm budget; `smallest_violation` is what n seeds
    detect with probability 1 - beta, relative to the prediction where that is not 0.
    `reason` explains "not applicable" and "error".
    """

    id: str
    part: str
    kind: str
    sketch: str
    dim: int
    bits: int
    verdict: str
    estimate: float | None
    interval: tuple[float | None, float | None] | None
    predicted: float | None
    band: tuple[float | None, float | None] | None
    n: int
    alpha: float
    beta: float
    smallest_violation: float | None
    seed: int
    reason: str
    reproduce: str


def tally(planned: int, entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries were planned, and how many have each verdict."""
    counts = Counter(entry.verdict for entry in entries)
    return {"planned": planned} | {
        verdict.replace(" ", "_"): counts[verdict] for verdict in COUNTED
    }


@dataclass(frozen=True)
class Report:
    """The outcome of a run. `counts` has "planned" and a number for each verdict."""

    name: str
    version: str
    planned: int
    entries: tuple[Entry, ...]

    @property
    def counts(self) -> dict[str, int]:
        return tally(self.planned, self.entries)

    @property
    def judged(self) -> bool:
        """Whether any claim could be judged at all."""
        counts = self.counts
        return bool(counts["conforms"] + counts["violates"] + counts["inconclusive"])

    @property
    def exit_code(self) -> int:
        """0 all that applies conforms, 1 something violates, 3 something is undecided,
        failed or missing, or nothing was judged at all."""
        counts = self.counts
        if counts["violates"]:
            return 1
        if counts["inconclusive"] or counts["error"] or not counts["conforms"]:
            return 3
        if len(self.entries) != self.planned:
            return 3
        return 0


@dataclass(frozen=True)
class Match:
    """A known fault and the share of the deviation that it explains."""

    fault: str
    fit: float


@dataclass(frozen=True)
class Diagnosis:
    """What is known about the violations of one kind, in its answers or in its `sizes`.

    `matches`, best first, are all faults that explain at least KNOWN; none if the fault is
    unknown, and then `nearest` still names the one that comes closest. `cells` are those
    that were compared.
    """

    kind: str
    sketch: str
    sizes: bool
    cells: tuple[str, ...]
    matches: tuple[Match, ...]
    nearest: Match | None

    @property
    def near(self) -> Match | None:
        """The nearest fault, if it explains as much as a rounded hundredth."""
        return self.nearest if self.nearest and self.nearest.fit >= 0.005 else None


@dataclass(frozen=True)
class Finding:
    """What was found for one quantity of a question.

    `verdict` is "conforms", "violates" or "inconclusive" where a backend can fail it,
    "agrees", "differs" or "undecided" where it cannot, else "not applicable" or "error" with a
    `reason`. `interval` holds the true value with probability 1 - `alpha`, from `n` trials;
    `band` is what the claim says; `predicted` is theory's figure, `paper` the paper's.
    """

    id: str
    question: str
    where: str
    study: str
    method: str
    figures: tuple[str, ...]
    verdict: str
    estimate: float | None
    interval: tuple[float | None, float | None] | None
    band: tuple[float | None, float | None]
    predicted: float | None
    paper: float | None
    p: float | None
    n: int
    alpha: float
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What became of one claim: a verdict or, where no backend can fail, "reproduced", "not
    reproduced", "undecided" or "contested"; and for how many of its quantities it is so."""

    id: str
    standing: str
    outcome: str
    detail: str
    holds: int
    of: int

    @property
    def words(self) -> list[str]:
        """The verdict and what became of what is only reported, where a claim has both."""
        return self.outcome.split("; ")


def as_it_must(proof: str, caught: Sequence[str], missed: Sequence[str]) -> bool:
    """Whether a fault was caught by all that must catch it, or an equivalent change, which has
    a `proof`, by nobody."""
    return not caught if proof else bool(caught) and not missed
