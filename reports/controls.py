"""The controls of a report: backends and faults whose verdict is known beforehand.

A suite that lets the all-zero codec pass, or fails the reference, says nothing about anybody
else; so a page shows what it said about them, or that nobody asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvassay.conformance import words
from kvassay.conformance.evidence.lines import RecordError
from kvassay.conformance.evidence.read import read
from kvassay.conformance.evidence.runs import CheckRun, KillTable, Source

WANTED = {
    "reference": "must conform to everything",
    "identity": "keeps the vectors: must violate",
    "zero": "answers zeros: must violate",
}
FAULTS = "faults caught"


@dataclass(frozen=True)
class Control:
    """One control: what must come out, what did, and whether that is right (None if it was not
    run, and then `command` runs it)."""

    name: str
    must: str
    found: str
    right: bool | None
    where: str
    command: str


@dataclass(frozen=True)
class Controls:
    """The evidence of the controls that were given."""

    runs: dict[str, CheckRun]
    kills: KillTable | None


def read_controls(paths: Sequence[Path], partial: bool = False) -> Controls:
    """The controls in these files: records of `kvassay check` on a control, or a kill table.
    RecordError for anything else, and for two of a kind."""
    runs: dict[str, CheckRun] = {}
    kills = None
    for path in paths:
        record = read(path, partial)
        if isinstance(record, KillTable) and kills is None:
            kills = record
        elif isinstance(record, CheckRun) and record.name in WANTED and record.name not in runs:
            runs[record.name] = record
        elif isinstance(record, KillTable) or record.name in runs:
            raise RecordError(f"{str(path)!r} is the second control of its kind; give one of each")
        else:
            raise RecordError(
                f"{str(path)!r} is about {record.label}, which is no control: those are "
                f"{', '.join(WANTED)} and the output of `kvassay faults --json`"
            )
    return Controls(runs, kills)


def shown(controls: Controls, about: Sequence[CheckRun]) -> list[Control]:
    """A row for each control, beside the runs that the page is about."""
    efforts = {run.effort for run in about}
    effort = about[0].effort if len(efforts) == 1 else "standard"
    rows = []
    for name, must in WANTED.items():
        command = f"kvassay check {name} --effort {effort} --record {name}.jsonl"
        run = controls.runs.get(name)
        if run is None:
            rows.append(Control(name, must, "not run", None, "", command))
            continue
        word, sentence = words.verdict(run)
        right = not run.problems and word == ("conforms" if name == "reference" else "violates")
        how = f"{words.plural(len(run.entries), 'entry')}, {run.effort} effort, seed {run.seed}"
        where = _where(how, run.sources[0], about)
        if run.problems:
            where += f"; not whole: {run.problems[0]}"
        rows.append(Control(name, must, sentence, right, where, command))
    must = "each seeded fault must be caught, and no equivalent change"
    command = "kvassay faults --json > faults.json"
    if (table := controls.kills) is None:
        rows.append(Control(FAULTS, must, "not run", None, "", command))
    else:
        right = not table.source.problems and all(kill.ok for kill in table.kills)
        where = _where(f"{table.effort} effort", table.source, about)
        found = words.kills_sentence(table.kills)
        rows.append(Control(FAULTS, must, found, right, where, command))
    return rows


def _where(how: str, source: Source, about: Sequence[CheckRun]) -> str:
    """Whether a control ran as the backends did."""
    others = [other for each in about for other in each.sources]
    parts = [how]
    same = all(other.machine == source.machine for other in others)
    parts.append("the same machine and libraries" if same else "another machine or other libraries")
    if any(other.suite != source.suite for other in others):
        parts.append(f"kvassay {source.suite}")
    return "; ".join(parts)


def failed(rows: Sequence[Control]) -> list[str]:
    """The names of the controls that came out wrong."""
    return [row.name for row in rows if row.right is False]
