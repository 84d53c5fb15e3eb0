"""Known deviations: what an implementer has found, and keeps a list of.

A TOML file of theirs, a table for each:

    [[deviation]]
    claim = "size-accounting"            # or a property, like "zero-vectors"
    reason = "Indices take a byte each in memory."
    issue = "https://..."                # optional, as are the next six, which narrow a claim
    kind = "turboquant-prod"             # one or a list, as all of them
    sketch = "orthogonal"
    dim = [64, 128]
    bits = 3
    part = "taken"
    options = {group = 32}               # further coordinates of a cell, by name

Those of a published package stand behind its [package] table (kvassay.conformance.packages).
Verdicts stay what they are; a run is *as expected* when each entry that does not conform is
covered by a deviation, and each deviation that was looked at still covers one.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.evidence.schema import Entry, Report
from kvassay.conformance.packages import described

NARROWING: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "sketch": (str,),
    "dim": (int,),
    "bits": (int,),
    "part": (str,),
}
OPTION = (int, float, str)  # what an option of a cell may be
DEVIANT = ("violates", "inconclusive", "error")


@dataclass(frozen=True)
class Deviation:
    """One known deviation. `only` holds, for a coordinate of a cell or for the part, the values
    it is about."""

    claim: str
    reason: str
    issue: str = ""
    only: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def why(self) -> str:
        """The reason, and the issue if there is one."""
        return f"{self.reason} {self.issue}".strip()

    def is_about(self, entry: Entry) -> bool:
        """Whether the entry is one that this deviation speaks of, whatever its verdict."""
        where = entry.cell.coordinates | {"part": entry.part}
        return self.claim == entry.id and all(
            where.get(name) in values for name, values in self.only.items()
        )

    def __str__(self) -> str:
        where = [f"{name} {', '.join(map(str, values))}" for name, values in self.only.items()]
        return " ".join([self.claim, *where])


@dataclass(frozen=True)
class Agreement:
    """How a run and the known deviations agree.

    `expected` entries do not conform and are known not to; `unexpected` ones are not known.
    `stale` deviations were looked at and nothing deviates any more.
    """

    expected: tuple[tuple[Entry, Deviation], ...]
    unexpected: tuple[Entry, ...]
    stale: tuple[Deviation, ...]

    def exit_code(self, report: Report) -> int:
        """0 all as expected, 1 an unexpected violation or a stale deviation, 3 something
        unexpectedly undecided or failed, or nothing judged."""
        if self.stale or any(entry.verdict == "violates" for entry in self.unexpected):
            return 1
        missing = len(report.entries) != report.planned
        return 3 if self.unexpected or not report.judged or missing else 0

    @property
    def summary(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "expected": len(self.expected),
            "unexpected": len(self.unexpected),
            "stale": [str(deviation) for deviation in self.stale],
        }


def compare(deviations: Sequence[Deviation], entries: Iterable[Entry]) -> Agreement:
    """Holds the entries of a run against the known deviations."""
    expected, unexpected = [], []
    looked_at: set[int] = set()
    found: set[int] = set()
    for entry in entries:
        about = [i for i, known in enumerate(deviations) if known.is_about(entry)]
        if entry.verdict != "not applicable":
            looked_at.update(about)
        if entry.verdict in DEVIANT:
            found.update(about)
            if about:
                expected.append((entry, deviations[about[0]]))
            else:
                unexpected.append(entry)
    stale = tuple(deviations[i] for i in sorted(looked_at - found))
    return Agreement(tuple(expected), tuple(unexpected), stale)


def load(path: Path, properties: Iterable[str] = ()) -> tuple[Deviation, ...]:
    """The deviations in a file. ValueError, with the place, for anything it cannot mean.

    `properties` are the names of properties, which may stand in place of a claim.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ValueError(f"{str(path)!r} cannot be read: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{str(path)!r} must be TOML: {problem}") from None
    if "package" in content:
        described(content.pop("package"), path)  # refuses what it cannot mean
    tables = content.pop("deviation", [])
    if content or not isinstance(tables, list):
        raise ValueError(f"{str(path)!r} must hold [[deviation]] tables and nothing else")
    return tuple(
        _deviation(table, f"{str(path)!r}, deviation {number}", set(properties))
        for number, table in enumerate(tables, 1)
    )


def _deviation(table: Any, place: str, properties: set[str]) -> Deviation:
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table, got {table!r}")
    known = ("claim", "reason", "issue", "options", *NARROWING)
    if unknown := [name for name in table if name not in known]:
        raise ValueError(f"{place}: no key is called {unknown[0]!r}")
    for name in ("claim", "reason"):
        if not isinstance(table.get(name), str) or not table[name].strip():
            raise ValueError(f"{place} must have a {name}, a text")
    narrowed = [name for name in (*NARROWING, "options") if name in table]
    if table["claim"] in properties and narrowed:
        raise ValueError(f"{place}: a property cannot be narrowed to a {narrowed[0]}")
    if not isinstance(table.get("issue", ""), str):
        raise ValueError(f"{place}: issue must be a text, got {table['issue']!r}")
    if table["claim"] not in BY_ID and table["claim"] not in properties:
        raise ValueError(
            f"{place}: no claim or property is called {table['claim']!r}; `kvassay claims` lists "
            "the claims"
        )
    options = table.get("options", {})
    if not isinstance(options, dict):
        raise ValueError(f"{place}: options must be a table of names and values, got {options!r}")
    only = {
        name: _values(table[name], wanted, f"{place}: {name}")
        for name, wanted in NARROWING.items()
        if name in table
    }
    for name, value in options.items():
        if name in NARROWING:
            raise ValueError(f"{place}: {name} is no option; write it without options")
        only[name] = _values(value, OPTION, f"{place}: {name}")
    return Deviation(table["claim"], table["reason"], table.get("issue", ""), only)


def _values(value: Any, wanted: tuple[type, ...], place: str) -> tuple[Any, ...]:
    """One value or a list of them."""
    values = value if isinstance(value, list) else [value]
    if not values or not all(type(each) in wanted for each in values):
        names = " or ".join(each.__name__ for each in wanted)
        raise ValueError(f"{place} must be {names} or a list of them, got {value!r}")
    return tuple(values)
