"""What changed between two records of `kvassay check`.

Something got worse where a violation or an error is new, where what conformed does so no more, or
is not judged at all, and where a violation lies further from its band than before, by more than
both intervals.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvassay.conformance.evidence.lines import RecordError
from kvassay.conformance.evidence.runs import CheckRun, Evidence
from kvassay.conformance.evidence.schema import Entry

What = Literal["new violation", "violation gone", "other verdict", "moved", "added", "gone"]
ORDER: tuple[What, ...] = (
    "new violation",
    "other verdict",
    "moved",
    "gone",
    "added",
    "violation gone",
)


@dataclass(frozen=True)
class Change:
    """One entry that differs: it is in one record alone, has another verdict, or has "moved": the
    intervals of its estimates do not meet."""

    what: What
    worse: bool
    old: Entry | None
    new: Entry | None

    @property
    def entry(self) -> Entry:
        """The entry, as it is now if it is there."""
        entry = self.new or self.old
        assert entry is not None
        return entry


@dataclass(frozen=True)
class Difference:
    """Two runs held against each other. `settings` has what differs in how they were made, old and
    new; `compared` is the number of entries that both have."""

    old: CheckRun
    new: CheckRun
    settings: dict[str, tuple[str, str]]
    compared: int
    changes: tuple[Change, ...]

    @property
    def worse(self) -> bool:
        """Whether anything got worse."""
        return any(change.worse for change in self.changes)


def difference(old: Evidence, new: Evidence) -> Difference:
    """What changed from the one record to the other. RecordError where either is none of `check`,
    or they have no entry in common."""
    if not (isinstance(old, CheckRun) and isinstance(new, CheckRun)):
        raise RecordError("diff compares records of `kvassay check`, and one is none of them")
    before = {entry.place: entry for entry in old.entries}
    after = {entry.place: entry for entry in new.entries}
    if not (common := before.keys() & after.keys()):
        raise RecordError("the two records have no entry in common: they are of different grids")
    places = [*before, *(place for place in after if place not in before)]
    found = (_change(before.get(place), after.get(place)) for place in places)
    changes = [change for change in found if change]
    changes.sort(key=lambda change: (not change.worse, ORDER.index(change.what)))
    return Difference(old, new, dict(_settings(old, new)), len(common), tuple(changes))


def _change(old: Entry | None, new: Entry | None) -> Change | None:
    if new is None:
        assert old is not None
        return Change("gone", old.verdict == "conforms", old, None)
    if old is None:
        return Change("added", new.verdict in ("violates", "error"), None, new)
    if new.verdict != old.verdict:
        if new.verdict == "violates":
            return Change("new violation", True, old, new)
        worse = old.verdict == "conforms" or new.verdict == "error"
        healed = (old.verdict, new.verdict) == ("violates", "conforms")
        return Change("violation gone" if healed else "other verdict", worse, old, new)
    if _apart(old, new):
        worse = new.verdict == "violates" and _beyond(new) > _beyond(old)
        return Change("moved", worse, old, new)
    return None


def _apart(old: Entry, new: Entry) -> bool:
    """Whether the intervals of two estimates do not meet."""
    if old.interval is None or new.interval is None:
        return False
    (low, high), (least, most) = old.interval, new.interval
    return (high is not None and least is not None and high < least) or (
        most is not None and low is not None and most < low
    )


def _beyond(entry: Entry) -> float:
    """How far the estimate lies outside of the band."""
    assert entry.estimate is not None
    low, high = entry.band or (None, None)
    below = low - entry.estimate if low is not None else 0.0
    above = entry.estimate - high if high is not None else 0.0
    return max(below, above, 0.0)


def _settings(old: CheckRun, new: CheckRun) -> Iterator[tuple[str, tuple[str, str]]]:
    """What differs in how two runs were made."""
    for name, values in (
        ("backend", (old.label, new.label)),
        ("suite", (old.sources[0].suite, new.sources[0].suite)),
        ("sources of the suite", (old.measured_by[:12], new.measured_by[:12])),
        ("effort", (old.effort, new.effort)),
        ("seed", (str(old.seed), str(new.seed))),
    ):
        if values[0] != values[1]:
            yield name, values
    for part in ("machine", "device"):
        before, after = getattr(old.sources[0], part), getattr(new.sources[0], part)
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                yield f"{part} {name}", (before.get(name, "none"), after.get(name, "none"))
