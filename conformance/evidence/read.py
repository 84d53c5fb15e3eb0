"""Records into evidence. A record is read as if a stranger had written it.

Everything is checked for type, length and range, text is cleaned of what could steer a
terminal or turn the line around, and the verdicts and counts must follow from the numbers
beside them. What does not is refused; with `partial` it becomes one of the run's `problems`,
which a page shows at its top.
"""

import json
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.question import PaperClaim
from kvassay.conformance.evidence.outcome import codec_outcome, outcome
from kvassay.conformance.evidence.schema import (
    COUNTED,
    KNOWN,
    SCHEMA,
    Diagnosis,
    Entry,
    Finding,
    Match,
    Outcome,
    as_it_must,
    tally,
)
from kvassay.conformance.measure.cell import EFFORTS, cell_options
from kvassay.conformance.statistics.intervals import Band, Interval, compare

LARGEST_FILE = 256 * 2**20
LONGEST_TEXT = 2_000  # characters; the rest is cut off
MOST_ENTRIES = 20_000
MOST_NAMES = 5_000  # figures of a study

DECIDED = {"conforms": "conforms", "agrees": "conforms"}
DECIDED |= {"violates": "violates", "differs": "violates"}
DECIDED |= {"inconclusive": "undecided", "undecided": "undecided"}
FOUND = (*DECIDED, "not applicable", "error")

Line = dict[str, Any]


class RecordError(ValueError):
    """A record that cannot be reported on. The message is for the user."""


@dataclass(frozen=True)
class Source:
    """Where a run's evidence comes from: the record's file name, what made it, and what is
    wrong with it."""

    file: str
    suite: str
    machine: dict[str, str]
    device: dict[str, str]
    started: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """What the header of a record says. `spec` is how the command line names the backend."""

    spec: str
    name: str
    version: str
    kinds: tuple[str, ...]
    sketches: tuple[str, ...]
    decode_includes_sketch: bool
    effort: str
    seed: int
    claims: tuple[str, ...]
    sources: tuple[Source, ...]
    entries: tuple[Entry, ...]

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for source in self.sources for problem in source.problems)


@dataclass(frozen=True)
class CheckRun(Run):
    """The evidence of one run of `kvassay check`, or of several that were merged."""

    dims: tuple[int, ...]
    bits: tuple[int, ...]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def counts(self) -> dict[str, int]:
        return tally(len(self.entries), self.entries)


@dataclass(frozen=True)
class Trials:
    """The figures of one study, a column each, over its trials."""

    columns: dict[str, list[float]]
    failed: int = 0


@dataclass(frozen=True)
class PapersRun(Run):
    """The evidence of one run of `kvassay reproduce`, or of several that were merged."""

    papers: tuple[str, ...]
    tensors: dict[str, str]
    measured_by: str
    studies: dict[str, Trials] = field(repr=False)
    findings: tuple[Finding, ...] = field(repr=False)
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Kill:
    """One row of the kill table: a seeded fault and who caught it. One with a `proof` is a
    change that is no fault, which nobody may catch."""

    fault: str
    text: str
    source: str
    proof: str
    caught: tuple[str, ...]
    missed: tuple[str, ...]
    ok: bool


@dataclass(frozen=True)
class KillTable:
    """The output of `kvassay faults --json`."""

    source: Source
    effort: str
    kills: tuple[Kill, ...]


Record = CheckRun | PapersRun | KillTable


def read(path: Path, partial: bool = False) -> Record:
    """The evidence in a file: a record of `check` or `reproduce`, or a kill table.

    RecordError, in one sentence, for a file that is none of these, and unless `partial` for
    a record that was cut off, has no footer, comes from a newer kvassay, or does not add up.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RecordError(f"{path.name!r} is larger than {LARGEST_FILE // 2**20} MB")
        raw = path.read_bytes()
    except OSError as problem:
        raise RecordError(f"{str(path)!r} cannot be read: {problem.strerror}") from None
    reader = _Reader(clean(path.name), partial)
    if table := reader.kill_table(raw):
        return table
    return reader.record(raw)


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """One line without control characters, lone surrogates or marks that turn the direction of
    writing, at most `longest` characters of it."""
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text
    kept = "".join(
        " " if char in "\t\n\r" else "\ufffd" if unicodedata.category(char) in _UNSAFE else char
        for char in text[: longest + 1]
    )
    return kept if len(text) <= longest else kept[: longest - 1] + "…"


_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class _Malformed(ValueError):
    """A line that is not what its kind must be."""


class _Reader:
    """One file. `_objection` raises for what is wrong, or keeps it for a partial page."""

    def __init__(self, file: str, partial: bool) -> None:
        self.file = file
        self.partial = partial
        self.problems: list[str] = []

    def _objection(self, what: str) -> None:
        if not self.partial:
            raise RecordError(
                f"{self.file!r} {what}; --partial makes a page of what is there, which says so"
            )
        if len(self.problems) < 20:
            self.problems.append(f"{self.file} {what}.")

    def kill_table(self, raw: bytes) -> KillTable | None:
        """The kill table, if the file as a whole is one JSON object that looks like it."""
        try:
            whole = _parsed(raw)
        except _Malformed:
            return None
        if not isinstance(whole, dict) or "faults" not in whole:
            return None
        self._schema(whole)
        try:
            table = KillTable(
                self._source(whole),
                _one_of(whole["effort"], EFFORTS),
                tuple(map(_kill, _list(whole["faults"], MOST_NAMES))),
            )
        except (_Malformed, KeyError, TypeError) as problem:
            raise RecordError(
                f"{self.file!r} is not a kill table as `kvassay faults --json` prints it: "
                f"{_why(problem)}"
            ) from None
        if not table.kills:
            raise RecordError(f"{self.file!r} is a kill table without faults")
        return table

    def record(self, raw: bytes) -> CheckRun | PapersRun:
        lines = self._lines(raw)
        number, first = next(lines, (0, {}))
        if number != 1 or first.get("record") != "header":
            raise RecordError(f"{self.file!r} is not a record of kvassay")
        self._schema(first)
        body = _Body()
        for number, line in lines:
            if body.footer is not None:
                self._objection(f"goes on after its footer, in line {number}")
                break
            try:
                body.take(line)
            except (_Malformed, KeyError, TypeError) as problem:
                self._objection(
                    f"has something else than kvassay writes in line {number}: {_why(problem)}"
                )
        if body.footer is None:
            self._objection("has no footer: the run was stopped before its end")
        try:
            return self._run(first, body)
        except (_Malformed, KeyError, TypeError) as problem:
            raise RecordError(
                f"{self.file!r} has a header that kvassay does not write: {_why(problem)}"
            ) from None

    def _schema(self, first: Line) -> None:
        if type(first.get("schema")) is not int or first["schema"] < 1:
            raise RecordError(f"{self.file!r} has no schema in its header")
        if first["schema"] > SCHEMA:
            self._objection(
                f"was written by a newer kvassay (schema {min(first['schema'], 10**6)}; "
                f"this one reads {SCHEMA})"
            )

    def _source(self, first: Line) -> Source:
        return Source(
            file=self.file,
            suite=_text(first["suite"], 80),
            machine=_pairs(first.get("machine", {})),
            device=_pairs(first.get("device", {})),
            started=_text(first.get("started", ""), 40),
            problems=tuple(self.problems),
        )

    def _lines(self, raw: bytes) -> Iterator[tuple[int, Line]]:
        pieces = raw.split(b"\n")
        cut = pieces.pop()
        for number, piece in enumerate(pieces, 1):
            try:
                line = _parsed(piece)
                if not isinstance(line, dict):
                    raise _Malformed("it is no object")
            except _Malformed as problem:
                if number == 1:
                    return
                self._objection(f"cannot be read in line {number}: {problem}")
            else:
                yield number, line
        if cut and pieces:
            self._objection("is cut off in its last line")

    def _run(self, first: Line, body: "_Body") -> CheckRun | PapersRun:
        backend, run = _object(first["backend"]), _object(first["run"])
        reproduced = run.get("command") == "reproduce"
        self._add_up(body, reproduced)
        self._repeatable(run, body)
        common: dict[str, Any] = {
            "spec": _text(backend["spec"], 400),
            "name": _text(backend["name"], 200),
            "version": _text(backend["version"], 100),
            "kinds": _texts(backend["kinds"]),
            "sketches": _texts(backend["sketches"]),
            "decode_includes_sketch": _flag(backend["decode_includes_sketch"]),
            "effort": _one_of(run["effort"], EFFORTS),
            "seed": _whole(run["seed"], 2**64),
            "claims": _texts(run["claims"]),
            "sources": (self._source(first),),
            "entries": tuple(body.entries.values()),
        }
        if reproduced:
            return PapersRun(
                **common,
                papers=_texts(run["papers"]),
                tensors=_pairs(run["tensors"]),
                measured_by=_text(first["measured_by"], 80),
                studies={name: study.trials() for name, study in body.studies.items()},
                findings=tuple(body.findings),
                outcomes=tuple(body.outcomes.values()),
            )
        return CheckRun(
            **common,
            dims=tuple(_whole(dim, 2**20) for dim in _list(run["dims"], 100)),
            bits=tuple(_whole(bits, 64) for bits in _list(run["bits"], 100)),
            diagnoses=tuple(body.diagnoses),
        )

    def _add_up(self, body: "_Body", reproduced: bool) -> None:
        """Whether the footer, and the outcomes of claims, follow from the lines before."""
        footer = body.footer
        if footer is None:
            return
        if not reproduced:
            if not body.entries:
                self._objection("holds no entries: nothing was run")
            if footer != tally(len(body.entries), body.entries.values()):
                self._objection("was changed: the counts in its footer are not those of its lines")
            return
        counts = Counter(outcome.outcome for outcome in body.outcomes.values())
        if footer != {"claims": len(body.outcomes), "outcomes": dict(counts)}:
            self._objection("was changed: the counts in its footer are not those of its lines")
        differing = [
            item.id
            for item in body.outcomes.values()
            if _should_be(item.id, body) not in (None, item)
        ]
        if differing:
            self._objection(
                f"was changed: the outcome of {differing[0]} does not follow from its findings"
            )

    def _repeatable(self, run: Line, body: "_Body") -> None:
        """Whether the command of each entry repeats that entry, and is one command."""
        for entry in body.entries.values():
            cell = cell_options(entry.id, entry, run["effort"], run["seed"])
            start = entry.reproduce.removesuffix(cell)
            if start + cell != entry.reproduce or not (_one_command(start) and _one_command(cell)):
                self._objection(
                    f"was changed: the command of an entry of {entry.id} does not repeat it"
                )
                return


@cache
def _one_command(text: str) -> bool:
    """Whether a shell takes the text for words and nothing else."""
    try:
        return shlex.join(shlex.split(text)) == text.strip()
    except ValueError:
        return False


def _should_be(claim_id: str, body: "_Body") -> Outcome | None:
    """The outcome that the entries or findings of a claim make, None if it is not known."""
    claim = ALL.get(claim_id)
    if isinstance(claim, PaperClaim):
        findings = [item for item in body.findings if item.id == claim_id]
        return outcome(
            claim,
            [(q, [item for item in findings if item.question == q.text]) for q in claim.questions],
        )
    return codec_outcome(claim, list(body.entries.values())) if claim else None


@dataclass
class _Study:
    names: list[str]
    rows: list[list[float]] = field(default_factory=list)
    failed: int = 0

    def trials(self) -> Trials:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.names)
        return Trials(dict(zip(self.names, map(list, columns), strict=True)), self.failed)


@dataclass
class _Body:
    """The lines between header and footer."""

    entries: dict[tuple[Any, ...], Entry] = field(default_factory=dict)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    studies: dict[str, _Study] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    footer: Line | None = None

    def take(self, line: Line) -> None:
        """Takes one line. KeyError, TypeError or _Malformed if kvassay does not write such."""
        kind = line.get("record")
        if kind == "entry":
            entry = _entry(line)
            if place_of(entry) in self.entries:
                raise _Malformed("it repeats an entry")
            if len(self.entries) == MOST_ENTRIES:
                raise _Malformed(f"there are more than {MOST_ENTRIES} entries")
            self.entries[place_of(entry)] = entry
        elif kind == "diagnosis":
            found = _diagnosis(line)
            if any(
                (item.kind, item.sketch, item.sizes) == (found.kind, found.sketch, found.sizes)
                for item in self.diagnoses
            ):
                raise _Malformed("it repeats a diagnosis")
            self.diagnoses.append(found)
        elif kind == "study":
            name = _text(line["study"], 200)
            if name in self.studies:
                raise _Malformed("it repeats a study")
            names = [_text(figure, 200) for figure in _list(line["figures"], MOST_NAMES)]
            if len(set(names)) < len(names):
                raise _Malformed("two of its figures have one name")
            self.studies[name] = _Study(names)
        elif kind == "trial":
            study = self.studies[_text(line["study"], 200)]
            if "error" in line:
                study.failed += 1
                return
            values = [_number(value) for value in _list(line["values"], MOST_NAMES)]
            if len(values) != len(study.names):
                raise _Malformed("it has other figures than its study")
            study.rows.append(values)
        elif kind == "finding":
            if len(self.findings) == MOST_ENTRIES:
                raise _Malformed(f"there are more than {MOST_ENTRIES} findings")
            self.findings.append(_finding(line))
        elif kind == "outcome":
            told = _outcome(line)
            if told.id in self.outcomes:
                raise _Malformed("it repeats an outcome")
            self.outcomes[told.id] = told
        elif kind == "footer":
            self.footer = {name: value for name, value in line.items() if name != "record"}
        else:
            raise _Malformed("it is of a kind that is not known")


def place_of(entry: Entry) -> tuple[Any, ...]:
    """What no two entries of a run share."""
    return (entry.id, entry.part, entry.kind, entry.sketch, entry.dim, entry.bits)


def _entry(line: Line) -> Entry:
    entry = Entry(
        id=_text(line["id"], 80),
        part=_text(line["part"], 80),
        kind=_text(line["kind"], 80),
        sketch=_text(line["sketch"], 80),
        dim=_whole(line["dim"], 2**20),
        bits=_whole(line["bits"], 64),
        verdict=_one_of(line["verdict"], COUNTED),
        estimate=_perhaps(line["estimate"]),
        interval=_ends(line["interval"]),
        predicted=_perhaps(line["predicted"]),
        band=_ends(line["band"]),
        n=_whole(line["n"], 10**9),
        alpha=_share(line["alpha"]),
        beta=_share(line["beta"]),
        smallest_violation=_perhaps(line["smallest_violation"]),
        seed=_whole(line["seed"], 2**64),
        reason=_text(line["reason"]),
        reproduce=_text(line["reproduce"]),
    )
    _follows(entry)
    return entry


def _finding(line: Line) -> Finding:
    finding = Finding(
        id=_text(line["id"], 80),
        question=_text(line["question"], 400),
        where=_text(line["where"], 400),
        study=_text(line["study"], 200),
        method=_text(line["method"], 40),
        figures=_texts(line["figures"]),
        verdict=_one_of(line["verdict"], FOUND),
        estimate=_perhaps(line["estimate"]),
        interval=_ends(line["interval"]),
        band=_ends(line["band"]) or (None, None),
        predicted=_perhaps(line["predicted"]),
        paper=_perhaps(line["paper"]),
        p=_perhaps(line["p"]),
        n=_whole(line["n"], 10**9),
        alpha=_share(line["alpha"]),
        reason=_text(line["reason"]),
    )
    _follows(finding)
    return finding


def _outcome(line: Line) -> Outcome:
    return Outcome(
        id=_text(line["id"], 80),
        standing=_text(line["standing"], 40),
        outcome=_text(line["outcome"], 80),
        detail=_text(line["detail"]),
        holds=_whole(line["holds"], 10**6),
        of=_whole(line["of"], 10**6),
    )


def _kill(row: Line) -> Kill:
    kill = Kill(
        fault=_text(row["id"], 80),
        text=_text(row["text"]),
        source=_text(row["source"]),
        proof=_text(row["proof"]),
        caught=_texts(row["caught"]),
        missed=_texts(row["missed"]),
        ok=_flag(row["ok"]),
    )
    if kill.ok != as_it_must(kill.proof, kill.caught, kill.missed):
        raise _Malformed(f"what it says of {kill.fault} is not what caught and missed it")
    return kill


def _diagnosis(line: Line) -> Diagnosis:
    def match(item: Line) -> Match:
        return Match(_text(item["fault"], 80), _share(item["fit"]))

    diagnosis = Diagnosis(
        kind=_text(line["kind"], 80),
        sketch=_text(line["sketch"], 80),
        sizes=_flag(line["sizes"]),
        cells=_texts(line["cells"]),
        matches=tuple(match(item) for item in _list(line["matches"], 1000)),
        nearest=None if line["nearest"] is None else match(line["nearest"]),
    )
    fits = [item.fit for item in diagnosis.matches]
    if fits != sorted(fits, reverse=True) or (fits and fits[-1] < KNOWN):
        raise _Malformed("it names faults that do not explain enough, or not the best first")
    return diagnosis


def _follows(item: Entry | Finding) -> None:
    """Whether the verdict is what the interval and the band say, and none where there are none."""
    if item.verdict not in DECIDED:
        if item.estimate is not None or item.interval is not None:
            raise _Malformed(f"it says {item.verdict!r} beside an estimate")
        return
    if item.n < 1:
        raise _Malformed("it has an estimate from nothing")
    if item.estimate is None or item.interval is None or item.band is None:
        raise _Malformed(f"it says {item.verdict!r} without an estimate, interval or band")
    low, high = item.interval
    least, most = item.band
    interval = Interval(item.estimate, -inf if low is None else low, inf if high is None else high)
    band = Band(-inf if least is None else least, inf if most is None else most)
    if not interval.low <= interval.estimate <= interval.high:
        raise _Malformed("its estimate lies outside of its interval")
    if compare(interval, band) != DECIDED[item.verdict]:
        raise _Malformed(f"it says {item.verdict!r}, which its interval and band do not")


# Values -----------------------------------------------------------------------------------


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except RecursionError:
        raise _Malformed("it is nested too deeply") from None
    except ValueError:
        raise _Malformed("it is no JSON") from None


def _why(problem: BaseException) -> str:
    if isinstance(problem, KeyError):
        return f"it lacks {clean(str(problem.args[0]), 80)!r}"
    return str(problem) if isinstance(problem, _Malformed) else "a value has another type"


def _text(value: Any, longest: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str):
        raise _Malformed("a text has another type")
    return clean(value, longest)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item, 400) for item in _list(value, 1000))


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise _Malformed("a list has another type")
    if len(value) > most:
        raise _Malformed(f"a list has more than {most} items")
    return value


def _object(value: Any) -> Line:
    if not isinstance(value, dict):
        raise _Malformed("an object has another type")
    return value


def _pairs(value: Any) -> dict[str, str]:
    """A flat object as texts."""
    pairs = list(_object(value).items())[:60]
    return {clean(name, 80): clean(str(item), 400) for name, item in pairs if item is not None}


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Malformed("a flag has another type")
    return value


def _number(value: Any) -> float:
    if type(value) is float and -1e300 < value < 1e300:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Malformed("a number has another type")
    if abs(value) > 1e300 or not isfinite(value):
        raise _Malformed("a number is infinite, undefined or beyond 1e300")
    return float(value)


def _perhaps(value: Any) -> float | None:
    return None if value is None else _number(value)


def _whole(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise _Malformed("a whole number has another type or is out of range")
    return value


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise _Malformed("a share is not in 0..1")
    return number


def _one_of(value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise _Malformed(f"a value is not among {', '.join(known)}")
    return str(value)


def _ends(value: Any) -> tuple[float | None, float | None] | None:
    if value is None:
        return None
    low, high = (_perhaps(item) for item in _list(value, 2))
    if low is not None and high is not None and low > high:
        raise _Malformed("an interval ends before it begins")
    return (low, high)
