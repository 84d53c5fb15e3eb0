"""Reproducing the papers: one run that decides every claim of both.

The claims about a single codec are decided as `check` does, those about attention, regimes
and SpectralQuant by studies. A run is a list of tasks, the cells of the former and the trials
of the latter, each with randomness of its own. Their lines are appended to the record in the
order of the plan, whatever ran them, so a run that was stopped goes on from its record and
ends in the same bytes.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvassay import reference
from kvassay.conformance import discovery, measure
from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.question import PaperClaim, Quantity, Question
from kvassay.conformance.evidence.outcome import JUDGED, codec_outcome, outcome
from kvassay.conformance.evidence.schema import Entry, Finding, Outcome
from kvassay.conformance.evidence.write import header
from kvassay.conformance.measure import tensors
from kvassay.conformance.measure.cell import EFFORTS, BackendFault, Effort
from kvassay.conformance.measure.studies import STUDIES
from kvassay.conformance.measure.study import Figure, run
from kvassay.conformance.measure.trial import Bench
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run.cell import failed, run_cell
from kvassay.conformance.run.execution import in_processes, one_thread
from kvassay.conformance.run.plan import Settings as CheckSettings
from kvassay.conformance.run.plan import Task as CellTask
from kvassay.conformance.run.plan import plan as plan_cells
from kvassay.conformance.statistics.intervals import compare, ends

Line = dict[str, Any]


DIMS = (64, 128)  # of the claims about a single codec


BITS = (1, 2, 3, 4, 5, 6)


ALPHA = 1e-3  # false alarms a run, over all judged quantities


SPLIT = 500  # quantities that share it


REPORTED_ALPHA = 0.05  # of a question that nothing can fail, over its quantities


@dataclass(frozen=True)
class Settings:
    """What a run does. Empty `papers` ("A", "B") or `claims` mean all. If `tensors` names a
    file, it takes the place of the tensors that ship with kvassay."""

    papers: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    effort: Effort = "standard"
    seed: int = 0
    tensors: str = ""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.claims if name not in ALL]:
            raise ValueError(
                f"no claim of a paper is called {unknown[0]!r}; `kvassay claims` lists them"
            )
        if unknown := [name for name in self.papers if name not in ("A", "B")]:
            raise ValueError(f"paper must be A or B, got {unknown[0]!r}")
        if self.effort not in EFFORTS:
            raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, got {self.effort!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        if not self.chosen:
            raise ValueError(
                f"paper {' or '.join(self.papers)} does not make the claim {', '.join(self.claims)}"
            )

    @property
    def chosen(self) -> tuple[Claim | PaperClaim, ...]:
        """The claims to decide, in the order of the papers."""
        return tuple(
            claim
            for claim in ALL.values()
            if (not self.claims or claim.id in self.claims)
            and (
                not self.papers or any(f"paper {letter}" in claim.source for letter in self.papers)
            )
        )


@dataclass
class Results:
    """All that a run found."""

    backend: str
    settings: Settings
    entries: list[Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 no theorem or derived claim violates and all are decided, 1 one violates, 3 one
        is undecided or failed, or nothing applies."""
        found = {word for outcome in self.outcomes for word in outcome.words}
        if "violates" in found:
            return 1
        if found & {"inconclusive", "error"} or found <= {"not applicable"}:
            return 3
        return 0


@dataclass(frozen=True)
class Trial:
    """One trial of a study, as a task."""

    spec: str | Backend
    study: str
    index: int
    seed: int
    tensors: str


Task = CellTask | Trial


def plan(spec: str | Backend, backend: Backend, settings: Settings) -> list[Task]:
    """All tasks of a run, in the order of the record."""
    tasks: list[Task] = []
    if codec_claims := [claim.id for claim in settings.chosen if isinstance(claim, Claim)]:
        grid = CheckSettings(
            dims=DIMS,
            bits=BITS,
            claims=tuple(codec_claims),
            effort=settings.effort,
            seed=settings.seed,
        )
        tasks.extend(plan_cells(spec, backend, grid))
    wanted = {
        name for claim in settings.chosen if isinstance(claim, PaperClaim) for name in claim.studies
    }
    for name, study in STUDIES.items():
        if name in wanted:
            tasks.extend(
                Trial(spec, name, index, settings.seed, settings.tensors)
                for index in range(study.trials(settings.effort))
            )
    return tasks


def run_task(task: Task) -> list[Line]:
    """The lines of one task, without those that only the record needs."""
    if isinstance(task, CellTask):
        return [_entry(entry) for entry in run_cell(task)]
    with threadpool_limits(limits=1), redirect_stdout(sys.stderr), np.errstate(all="ignore"):
        try:
            backend = discovery.load(task.spec) if isinstance(task.spec, str) else task.spec
            bench = Bench(backend, task.study, task.seed, task.index, _data(task.tensors))
            figures = run(STUDIES[task.study], bench)
        except BackendFault as problem:
            return _failed(task, str(problem))
        except (Exception, SystemExit) as problem:
            return _failed(task, discovery.described(problem))
    return [{"record": "trial", "study": task.study, "trial": task.index, "figures": figures}]


@cache
def _data(path: str) -> tensors.Tensors:
    return tensors.load(path) if path else tensors.shipped()


def _failed(task: Task, reason: str) -> list[Line]:
    if isinstance(task, CellTask):
        return [_entry(entry) for entry in failed(task, reason)]
    return [{"record": "trial", "study": task.study, "trial": task.index, "error": reason}]


def _entry(entry: Entry) -> Line:
    return {"record": "entry", **asdict(entry)}


class Evidence:
    """The lines of a run in order, and the figures in them: of each study a table with a row
    a trial, in float64."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.names: dict[str, list[str]] = {}
        self.rows: dict[str, list[NDArray[np.float64]]] = {}
        self.errors: dict[str, str] = {}
        self._tables: dict[str, NDArray[np.float64]] = {}

    def recorded(self, line: Line) -> Iterator[Line]:
        """A task's line as the record has it: a study's figures are named once, before its
        first trial, and have their values alone after that."""
        if line["record"] == "trial":
            study, figures = line["study"], line.get("figures")
            names = _written(figures or ())
            if study not in self.names:
                yield {"record": "study", "study": study, "figures": names}
            line = {key: value for key, value in line.items() if key != "figures"}
            if figures is not None and names == self.names[study]:
                line["values"] = list(figures.values())
            elif figures is not None:
                line["error"] = "other figures than the first trial of this study"
        yield line

    def take(self, line: Line) -> None:
        """Takes a line as the record has it. KeyError, TypeError or ValueError if it is not
        one that this writes."""
        if line["record"] == "entry":
            fields = {key: value for key, value in line.items() if key != "record"}
            for name in ("interval", "band"):
                if fields[name] is not None:
                    fields[name] = tuple(fields[name])
            self.entries.append(Entry(**fields))
        elif line["record"] == "study":
            self.names[line["study"]], self.rows[line["study"]] = line["figures"], []
        elif "error" in line:
            self.errors.setdefault(line["study"], f"trial {line['trial']}: {line['error']}")
        else:
            values = np.array(line["values"], dtype=np.float64)
            if values.shape != (len(self.names[line["study"]]),) or not np.isfinite(values).all():
                raise ValueError(f"values must be {len(self.names[line['study']])} finite numbers")
            self.rows[line["study"]].append(values)

    def columns(self, study: str, figures: Sequence[Figure]) -> list[NDArray[np.float64]]:
        """The figures, each over the trials. KeyError where one is missing."""
        places = {name: place for place, name in enumerate(self.names.get(study, []))}
        chosen = [places[name] for name in _written(figures)]
        if study not in self._tables or len(self._tables[study]) != len(self.rows[study]):
            self._tables[study] = np.array(self.rows[study])
        return [self._tables[study][:, place] for place in chosen]


def _written(figures: Iterable[Figure]) -> list[str]:
    """Figures as the record has them."""
    return [str(figure) for figure in figures]


def judge(evidence: Evidence, settings: Settings) -> tuple[list[Finding], list[Outcome]]:
    """The findings and outcomes that the evidence gives, claim by claim."""
    findings: list[Finding] = []
    outcomes: list[Outcome] = []
    for claim in settings.chosen:
        if isinstance(claim, Claim):
            outcomes.append(codec_outcome(claim, evidence.entries))
            continue
        answered = []
        for question in claim.questions:
            found = [_finding(claim, question, item, evidence) for item in question.quantities]
            findings.extend(found)
            answered.append((question, found))
        outcomes.append(outcome(claim, answered))
    return findings, outcomes


def _finding(
    claim: PaperClaim, question: Question, quantity: Quantity, evidence: Evidence
) -> Finding:
    judged = claim.standing_of(question) in JUDGED and not question.aside
    alpha = ALPHA / SPLIT if judged else REPORTED_ALPHA / len(question.quantities)
    about: dict[str, Any] = {
        "id": claim.id,
        "question": question.text,
        "where": quantity.where,
        "study": quantity.study,
        "method": quantity.method,
        "figures": tuple(_written(quantity.figures)),
        "band": ends(quantity.band),
        "predicted": quantity.predicted,
        "paper": quantity.paper,
        "alpha": alpha,
    }

    def without(verdict: str, reason: str) -> Finding:
        return Finding(
            **about, verdict=verdict, estimate=None, interval=None, p=None, n=0, reason=reason
        )

    if quantity.study in evidence.errors:
        return without("error", evidence.errors[quantity.study])
    try:
        columns = evidence.columns(quantity.study, quantity.figures)
    except KeyError:
        # It cannot be told here whether the backend or the study lacks it: a backend that offers
        # the codec's kind may still lack the width, the rotation, inner products or a decoded
        # sketch. That the study has it is what a test holds against the reference.
        return without("not applicable", f"{claim.id} needs {', '.join(claim.needs)}")
    undefined = "the figures are 0 or too large for a ratio, a logarithm or a distance"
    try:
        with np.errstate(all="ignore"):
            interval, p = quantity.interval(columns, alpha)
    except ValueError:
        return without("error", undefined)
    if not all(map(isfinite, (interval.estimate, interval.low, interval.high))):
        return without("error", undefined)
    verdict = compare(interval, quantity.band)
    words = (
        {"undecided": "inconclusive"} if judged else {"conforms": "agrees", "violates": "differs"}
    )
    return Finding(
        **about,
        verdict=words.get(verdict, verdict),
        estimate=interval.estimate,
        interval=ends(interval),
        p=p,
        n=len(columns[0]),
        reason="",
    )


def violates(backend: Backend, claim: PaperClaim, trials: int = 10) -> bool:
    """Whether the claim catches `backend` in a few trials of the first of its studies that it
    is judged by. Nothing that conforms is caught: the interval widens as trials are few."""
    judged = [
        (question, item)
        for question in claim.questions
        if claim.standing_of(question) in JUDGED and not question.aside
        for item in question.quantities
    ]
    study = STUDIES[judged[0][1].study]
    evidence = Evidence()
    for index in range(trials * study.repeats):
        for line in run_task(Trial(backend, study.id, index, 0, "")):
            for stored in evidence.recorded(line):
                evidence.take(stored)
    return any(
        _finding(claim, question, item, evidence).verdict == "violates"
        for question, item in judged
        if item.study == study.id
    )


def reproduce(
    backend: str | Backend = "reference",
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    path: Path | None = None,
    on_task: Callable[[str], None] = lambda what: None,
) -> Results:
    """Decides the claims of the papers with the codecs of `backend`.

    If `workers` is given, tasks go to that many processes, else they run here. If `path` is
    given, evidence is appended to that record as it comes in; where it exists, it must be of
    the same run, which then goes on from there. `on_task` is called after each task, and once
    for each that the record had already. ValueError for a backend, tensors or record that
    cannot be used.
    """
    settings = settings or Settings()
    loaded = discovery.load(backend) if isinstance(backend, str) else backend
    data = _data(settings.tensors)
    tasks = plan(backend, loaded, settings)
    evidence = Evidence()
    first = _header(backend, loaded, settings, data)
    with _Record(path, first, tasks, evidence) as kept:
        for task in tasks[: kept.done]:
            on_task(_described(task))
        rest = tasks[kept.done :]
        with one_thread():
            results = (
                in_processes(run_task, rest, workers, _failed)
                if workers is not None
                else map(run_task, rest)
            )
            for task, lines in zip(rest, results, strict=True):
                for line in lines:
                    for stored in evidence.recorded(line):
                        evidence.take(stored)
                        kept.write(stored)
                on_task(_described(task))
        findings, outcomes = judge(evidence, settings)
        kept.finish(findings, outcomes)
    name = f"{loaded.name} {loaded.version}"
    return Results(name, settings, evidence.entries, findings, outcomes)


def _described(task: Task) -> str:
    return task.study if isinstance(task, Trial) else str(task.cell)


@cache
def _sources_hash() -> str:
    """SHA-256 over the sources that decide what is measured: a run that other sources began
    cannot go on from its record."""
    digest = hashlib.sha256()
    for package in (measure, reference):
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _header(
    spec: str | Backend, backend: Backend, settings: Settings, data: tensors.Tensors
) -> Line:
    run = {
        "command": "reproduce",
        **asdict(settings),
        "tensors": {"name": data.name, "sha256": data.sha256, "dim": data.dim},
    }
    first = header(spec if isinstance(spec, str) else backend.name, backend, run)
    del first["started"]  # a run that is resumed ends in the same bytes as one that was not
    first["measured_by"] = _sources_hash()
    plain: Line = json.loads(json.dumps(first))
    return plain


class _Record:
    """The record of a run on disk, or none. `done` tasks are in it already."""

    def __init__(
        self, path: Path | None, first: Line, tasks: Sequence[Task], evidence: Evidence
    ) -> None:
        self.done = 0
        self._file: BinaryIO | None = None
        self._complete = False
        if path is None:
            return
        if not path.exists() or path.stat().st_size == 0:
            self._file = path.open("wb")
            self.write(first)
            return
        self._file = file = path.open("r+b")
        try:
            end = self._resume(path, first, tasks, evidence)
        except ValueError:
            file.close()
            raise
        file.seek(end)
        if not self._complete:
            file.truncate()

    def __enter__(self) -> "_Record":
        return self

    def __exit__(self, *problem: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: Line) -> None:
        """Appends a line, at once, so that a killed run keeps it."""
        if self._file is not None:
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()

    def finish(self, findings: Sequence[Finding], outcomes: Sequence[Outcome]) -> None:
        """Appends what was found, and the footer: the run is complete."""
        if self._complete:
            return
        for finding in findings:
            self.write({"record": "finding", **asdict(finding)})
        for made in outcomes:
            self.write({"record": "outcome", **asdict(made)})
        counts = Counter(made.outcome for made in outcomes)
        self.write({"record": "footer", "claims": len(outcomes), "outcomes": dict(counts)})

    def _resume(self, path: Path, first: Line, tasks: Sequence[Task], evidence: Evidence) -> int:
        """Takes what the record has; the place in the file where the next task goes."""
        assert self._file is not None
        end = place = 0
        lines = self._lines(path)
        header, place = next(lines, ({}, 0))
        if header.get("record") != "header":
            raise ValueError(
                f"{str(path)!r} exists and is not a record of kvassay; name a new file"
            )
        if header != first:
            differing = sorted({name for name, _ in _flat(first).items() ^ _flat(header).items()})
            raise ValueError(
                f"{str(path)!r} is the record of another run (it differs in "
                f"{', '.join(differing) or 'its header'}); name a new file"
            )
        end = place
        for task in tasks:
            wanted = len(task.planned) if isinstance(task, CellTask) else 1
            wanted += isinstance(task, Trial) and task.index == 0  # the names of its figures
            taken = list(islice(lines, wanted))
            if len(taken) < wanted:
                return end
            for line, _ in taken:
                try:
                    if not _belongs(line, task):
                        raise ValueError("it is of another task")
                    evidence.take(line)
                except (KeyError, TypeError, ValueError):
                    raise ValueError(
                        f"{str(path)!r} does not hold what this run would have written after "
                        f"{end} bytes; name a new file"
                    ) from None
            self.done += 1
            end = taken[-1][1]
        self._complete = any(line.get("record") == "footer" for line, _ in lines)
        return end

    def _lines(self, path: Path) -> Iterator[tuple[Line, int]]:
        """Each whole line, and where it ends. One that was cut off is the end."""
        assert self._file is not None
        place = 0
        for raw in self._file:
            if not raw.endswith(b"\n"):
                return
            place += len(raw)
            try:
                line = json.loads(raw)
            except ValueError:
                raise ValueError(
                    f"{str(path)!r} exists and is not a record of kvassay; name a new file"
                ) from None
            if not isinstance(line, dict):
                raise ValueError(
                    f"{str(path)!r} exists and is not a record of kvassay; name a new file"
                )
            yield line, place


def _flat(header: Line) -> dict[str, str]:
    """The header's values by name, those of its objects as object.name."""
    flat: dict[str, str] = {}
    for part, value in header.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat |= {f"{part}.{name}".strip("."): json.dumps(each) for name, each in inner}
    return flat


def _belongs(line: Line, task: Task) -> bool:
    if isinstance(task, CellTask):
        cell = task.cell
        own: Line = {"record": "entry", "kind": cell.kind, "dim": cell.dim, "bits": cell.bits}
    elif line.get("record") == "study":
        own = {"study": task.study}
    else:
        own = {"record": "trial", "study": task.study, "trial": task.index}
    return own.items() <= line.items()
