"""Records into evidence. A record is read as if a stranger had written it.

Every line is held against the schema, text is cleaned of what could steer a terminal or turn
the line around, and the verdicts and counts must follow from the numbers beside them. What does
not is refused; with `partial` it becomes one of the run's `problems`, which a page shows at its
top.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.question import PaperClaim
from kvassay.conformance.evidence.lines import (
    Malformed,
    RecordError,
    clean,
    cleaned,
    meant,
    meant_line,
    parsed,
)
from kvassay.conformance.evidence.outcome import codec_outcome, outcome
from kvassay.conformance.evidence.runs import (
    CheckRun,
    Evidence,
    KillTable,
    PapersRun,
    Source,
    Trials,
)
from kvassay.conformance.evidence.schema import (
    KNOWN,
    SCHEMA,
    Diagnosis,
    Entry,
    Facts,
    Finding,
    Footer,
    Header,
    KillFile,
    Line,
    Outcome,
    PapersAsked,
    StudyLine,
    TrialLine,
    as_it_must,
    entry_options,
    outcome_counts,
    tally,
)
from kvassay.conformance.statistics.intervals import Band, Interval, compare

LARGEST_FILE = 256 * 2**20
LARGEST_SEED = 2**64
MOST_ENTRIES = 20_000
MOST_FACTS = 60

DECIDED = {"conforms": "conforms", "agrees": "conforms"}
DECIDED |= {"violates": "violates", "differs": "violates"}
DECIDED |= {"inconclusive": "undecided", "undecided": "undecided"}


def read(path: Path, partial: bool = False) -> Evidence:
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
            whole = cleaned(parsed(raw))
        except (Malformed, RecursionError):
            return None
        if not isinstance(whole, dict) or "faults" not in whole:
            return None
        self._schema(whole, "`kvassay faults --json`")
        try:
            table: KillFile = meant(whole, KillFile)
            for kill in table.faults:
                if kill.ok != as_it_must(kill.proof, kill.caught, kill.missed):
                    raise Malformed(f"what it says of {kill.id} is not what caught and missed it")
        except Malformed as problem:
            raise RecordError(
                f"{self.file!r} is not a kill table as `kvassay faults --json` prints it: {problem}"
            ) from None
        return KillTable(self._source(table), table.effort, table.faults)

    def record(self, raw: bytes) -> CheckRun | PapersRun:
        lines = self._lines(raw)
        number, whole = next(lines, (0, {}))
        if number != 1 or whole.get("record") != "header":
            raise RecordError(f"{self.file!r} is not a record of kvassay")
        self._schema(whole, "its command")
        try:
            first: Header = meant(whole, Header)
            _no_huge_seed(first.run.seed)
        except Malformed as problem:
            raise RecordError(
                f"{self.file!r} has a header that kvassay does not write: {problem}"
            ) from None
        body = _Body()
        for number, whole in lines:
            if body.footer is not None:
                self._objection(f"goes on after its footer, in line {number}")
                break
            try:
                body.take(meant_line(whole))
            except Malformed as problem:
                self._objection(
                    f"has something else than kvassay writes in line {number}: {problem}"
                )
        if body.footer is None:
            self._objection("has no footer: the run was stopped before its end")
        return self._run(first, body)

    def _schema(self, first: dict[str, Any], again: str) -> None:
        number = first.get("schema")
        if type(number) is not int or number < 1:
            raise RecordError(f"{self.file!r} has no schema in its header")
        if number < SCHEMA:
            raise RecordError(
                f"{self.file!r} was written by an older kvassay (schema {number}; this one reads "
                f"{SCHEMA}): run {again} again"
            )
        if number > SCHEMA:
            self._objection(
                f"was written by a newer kvassay (schema {min(number, 10**6)}; this one reads "
                f"{SCHEMA})"
            )

    def _source(self, first: Header | KillFile) -> Source:
        device = first.device if isinstance(first, Header) else {}
        machine = _texts(first.machine)
        return Source(self.file, first.suite, machine, _texts(device), tuple(self.problems))

    def _lines(self, raw: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
        pieces = raw.split(b"\n")
        cut = pieces.pop()
        for number, piece in enumerate(pieces, 1):
            try:
                line = _cleaned_object(piece)
            except Malformed as problem:
                if number == 1:
                    return
                self._objection(f"cannot be read in line {number}: {problem}")
            else:
                yield number, line
        if cut and pieces:
            self._objection("is cut off in its last line")

    def _run(self, first: Header, body: "_Body") -> CheckRun | PapersRun:
        backend, run = first.backend, first.run
        self._add_up(body, isinstance(run, PapersAsked))
        self._repeatable(run.effort, run.seed, body)
        common: dict[str, Any] = {
            "spec": backend.spec,
            "name": backend.name,
            "version": backend.version,
            "kinds": backend.kinds,
            "sketches": backend.sketches,
            "decode_includes_sketch": backend.decode_includes_sketch,
            "effort": run.effort,
            "seed": run.seed,
            "claims": run.claims,
            "measured_by": first.measured_by,
            "sources": (self._source(first),),
            "entries": tuple(body.entries.values()),
        }
        if isinstance(run, PapersAsked):
            return PapersRun(
                **common,
                papers=run.papers,
                tensors=_texts(run.tensors),
                studies={name: study.trials() for name, study in body.studies.items()},
                findings=tuple(body.findings),
                outcomes=tuple(body.outcomes.values()),
            )
        return CheckRun(
            **common, dims=run.dims, bits=run.bits, diagnoses=tuple(body.diagnoses.values())
        )

    def _add_up(self, body: "_Body", reproduced: bool) -> None:
        """Whether the footer, and the outcomes of claims, follow from the lines before."""
        if body.footer is None:
            return
        if not reproduced and not body.entries:
            self._objection("holds no entries: nothing was run")
        counts = (
            outcome_counts(body.outcomes.values())
            if reproduced
            else tally(len(body.entries), body.entries.values())
        )
        if body.footer.counts != counts:
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

    def _repeatable(self, effort: str, seed: int, body: "_Body") -> None:
        """Whether the command of each entry repeats that entry, and is one command."""
        for entry in body.entries.values():
            try:
                options = f" {entry_options(entry.id, entry.cell, effort, seed)}"
            except ValueError:  # no command does
                options = "\n"
            start = entry.reproduce.removesuffix(options)
            if start == entry.reproduce or not (_one_command(start) and _one_command(options)):
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
    names: tuple[str, ...]
    rows: list[tuple[float, ...]] = field(default_factory=list)
    failed: int = 0

    def trials(self) -> Trials:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.names)
        return Trials(dict(zip(self.names, map(list, columns), strict=True)), self.failed)


@dataclass
class _Body:
    """The lines between header and footer."""

    entries: dict[tuple[Any, ...], Entry] = field(default_factory=dict)
    diagnoses: dict[tuple[Any, ...], Diagnosis] = field(default_factory=dict)
    studies: dict[str, _Study] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    footer: Footer | None = None

    def take(self, line: Line) -> None:
        """Takes one line. Malformed if kvassay does not write such."""
        match line:
            case Entry():
                _follows(line)
                _put(self.entries, line.place, line, "an entry")
            case Diagnosis():
                _best_first(line)
                key = (line.kind, line.sketch, line.sizes)
                _put(self.diagnoses, key, line, "a diagnosis")
            case StudyLine():
                if len(set(line.figures)) < len(line.figures):
                    raise Malformed("two of its figures have one name")
                _put(self.studies, line.study, _Study(line.figures), "a study")
            case TrialLine():
                self._trial(line)
            case Finding():
                if len(self.findings) == MOST_ENTRIES:
                    raise Malformed(f"there are more than {MOST_ENTRIES} findings")
                _follows(line)
                self.findings.append(line)
            case Outcome():
                _put(self.outcomes, line.id, line, "an outcome")
            case Footer():
                self.footer = line
            case Header():
                raise Malformed("it is a second header")

    def _trial(self, line: TrialLine) -> None:
        study = self.studies.get(line.study)
        if study is None:
            raise Malformed("it is of a study that was not named")
        if line.error:
            study.failed += 1
        elif len(line.values) != len(study.names):
            raise Malformed("it has other figures than its study")
        else:
            study.rows.append(line.values)


def _put(there: dict[Any, Any], key: Any, item: Any, what: str) -> None:
    if key in there:
        raise Malformed(f"it repeats {what}")
    if len(there) == MOST_ENTRIES:
        raise Malformed(f"there are more than {MOST_ENTRIES} lines like it")
    there[key] = item


def _best_first(diagnosis: Diagnosis) -> None:
    fits = [item.fit for item in diagnosis.matches]
    if fits != sorted(fits, reverse=True) or (fits and fits[-1] < KNOWN):
        raise Malformed("it names faults that do not explain enough, or not the best first")


def _follows(item: Entry | Finding) -> None:
    """Whether the verdict is what the interval and the band say, and none where there are none."""
    for low, high in filter(None, (item.interval, item.band)):
        if low is not None and high is not None and low > high:
            raise Malformed("an interval ends before it begins")
    if isinstance(item, Entry):
        _no_huge_seed(item.seed)
    if item.verdict not in DECIDED:
        if item.estimate is not None or item.interval is not None:
            raise Malformed(f"it says {item.verdict!r} beside an estimate")
        return
    if item.n < 1:
        raise Malformed("it has an estimate from nothing")
    if item.estimate is None or item.interval is None or item.band is None:
        raise Malformed(f"it says {item.verdict!r} without an estimate, interval or band")
    low, high = item.interval
    least, most = item.band
    interval = Interval(item.estimate, -inf if low is None else low, inf if high is None else high)
    band = Band(-inf if least is None else least, inf if most is None else most)
    if not interval.low <= interval.estimate <= interval.high:
        raise Malformed("its estimate lies outside of its interval")
    if compare(interval, band) != DECIDED[item.verdict]:
        raise Malformed(f"it says {item.verdict!r}, which its interval and band do not")


def _no_huge_seed(seed: int) -> None:
    if seed > LARGEST_SEED:
        raise Malformed(f"a seed is above {LARGEST_SEED}")


def _cleaned_object(raw: bytes) -> dict[str, Any]:
    whole = parsed(raw)
    if not isinstance(whole, dict):
        raise Malformed("it is no object")
    try:
        clean_object: dict[str, Any] = cleaned(whole)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    return clean_object


def _texts(facts: Facts) -> dict[str, str]:
    """Facts as texts, those that are known."""
    there = list(facts.items())[:MOST_FACTS]
    return {name: clean(str(value), 400) for name, value in there if value is not None}
