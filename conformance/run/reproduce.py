"""Reproducing the papers: one run that decides every claim of both.

The claims about a single codec are decided as `check` does, those about attention, regimes
and SpectralQuant by studies. A run is a list of tasks, the cells of the former and the trials
of the latter, each with randomness of its own. Their lines are appended to the record in the
order of the plan, whatever ran them, so a run that was stopped goes on from its record and
ends in the same bytes.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvassay.conformance import discovery
from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.question import PaperClaim, Quantity, Question
from kvassay.conformance.evidence.outcome import JUDGED, codec_outcome, outcome
from kvassay.conformance.evidence.schema import (
    Entry,
    Facts,
    Finding,
    Line,
    Outcome,
    PapersAsked,
    StudyLine,
    TrialLine,
    outcome_counts,
)
from kvassay.conformance.evidence.write import Record, header
from kvassay.conformance.measure import EFFORTS, Effort, tensors
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.measure.studies import STUDIES
from kvassay.conformance.measure.study import Figure, run
from kvassay.conformance.measure.trial import StudyTrial
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run.cell import failed, own_entries, run_cell
from kvassay.conformance.run.execution import in_processes, one_thread
from kvassay.conformance.run.plan import Settings as CheckSettings
from kvassay.conformance.run.plan import Task as CellTask
from kvassay.conformance.run.plan import plan as plan_cells
from kvassay.conformance.statistics.intervals import compare, ends

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
class StudyTask:
    """One trial of a study, as a task."""

    spec: str | Backend
    study: str
    index: int
    seed: int
    tensors: str


@dataclass(frozen=True)
class Measured:
    """What one trial of a study gave: its figures by name, or the error that left none."""

    study: str
    trial: int
    figures: Mapping[Figure, float]
    error: str = ""


Task = CellTask | StudyTask


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
                StudyTask(spec, name, index, settings.seed, settings.tensors)
                for index in range(study.trials(settings.effort))
            )
    return tasks


def run_task(task: Task) -> list[Entry] | list[Measured]:
    """What one task gives."""
    if isinstance(task, CellTask):
        return run_cell(task)
    with threadpool_limits(limits=1), redirect_stdout(sys.stderr), np.errstate(all="ignore"):
        try:
            backend = discovery.load(task.spec) if isinstance(task.spec, str) else task.spec
            trial = StudyTrial(backend, task.study, task.seed, task.index, _data(task.tensors))
            figures = run(STUDIES[task.study], trial)
        except BackendFault as problem:
            return _failed(task, str(problem))
        except (Exception, SystemExit) as problem:
            return _failed(task, discovery.described(problem))
    return [Measured(task.study, task.index, figures)]


@cache
def _data(path: str) -> tensors.Tensors:
    return tensors.load(path) if path else tensors.shipped()


def _failed(task: Task, reason: str) -> list[Entry] | list[Measured]:
    if isinstance(task, CellTask):
        return failed(task, reason)
    return [Measured(task.study, task.index, {}, reason or "no reason given")]


class Evidence:
    """The lines of a run in order, and the figures in them: of each study a table with a row
    a trial, in float64."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.names: dict[str, list[str]] = {}
        self.rows: dict[str, list[NDArray[np.float64]]] = {}
        self.errors: dict[str, str] = {}
        self._tables: dict[str, NDArray[np.float64]] = {}

    def recorded(self, found: Entry | Measured) -> Iterator[Line]:
        """What a task gave as the record has it: a study's figures are named once, before its
        first trial, and have their values alone after that."""
        if isinstance(found, Entry):
            yield found
            return
        study, figures, error = found.study, found.figures, found.error
        names = _written(figures)
        if study not in self.names:
            yield StudyLine(study, tuple(names))
        if not error and names != self.names[study]:
            error = "other figures than the first trial of this study"
        values = () if error else tuple(map(float, figures.values()))
        yield TrialLine(study, found.trial, values, error)

    def take(self, line: Line) -> None:
        """Takes a line as the record has it. ValueError if it is not one that this writes."""
        if isinstance(line, Entry):
            self.entries.append(line)
        elif isinstance(line, StudyLine):
            self.names[line.study], self.rows[line.study] = list(line.figures), []
        elif isinstance(line, TrialLine) and line.error:
            self.errors.setdefault(line.study, f"trial {line.trial}: {line.error}")
        elif isinstance(line, TrialLine):
            values = np.array(line.values, dtype=np.float64)
            if values.shape != (len(self.names[line.study]),) or not np.isfinite(values).all():
                raise ValueError(f"values must be {len(self.names[line.study])} finite numbers")
            self.rows[line.study].append(values)
        else:
            raise ValueError("it is of another kind")

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
        for found in run_task(StudyTask(backend, study.id, index, 0, "")):
            for stored in evidence.recorded(found):
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

    def take(task: Task, lines: Sequence[Line]) -> None:
        for line in _own(task, lines):
            evidence.take(line)
        on_task(_described(task))

    with Record(path, header(backend, loaded, _asked(settings, data))) as kept:
        rest = tasks[kept.resume(tasks, _length, take) :]
        with one_thread():
            results = (
                in_processes(run_task, rest, workers, _failed)
                if workers is not None
                else map(run_task, rest)
            )
            for task, result in zip(rest, results, strict=True):
                for found in result:
                    for line in evidence.recorded(found):
                        evidence.take(line)
                        kept.write(line)
                on_task(_described(task))
        findings, outcomes = judge(evidence, settings)
        kept.finish([*findings, *outcomes], outcome_counts(outcomes))
    name = f"{loaded.name} {loaded.version}"
    return Results(name, settings, evidence.entries, findings, outcomes)


def _described(task: Task) -> str:
    return task.study if isinstance(task, StudyTask) else str(task.cell)


def _asked(settings: Settings, data: tensors.Tensors) -> PapersAsked:
    used: Facts = {"name": data.name, "sha256": data.sha256, "dim": data.dim}
    return PapersAsked(settings.papers, settings.claims, settings.effort, settings.seed, used)


def _length(task: Task) -> int:
    """How many lines of a record a task has: with its first trial, a study's figures, too."""
    return len(task.planned) if isinstance(task, CellTask) else 1 + (task.index == 0)


def _own(task: Task, lines: Sequence[Line]) -> Sequence[Line]:
    """The lines of a record, if they are this task's. ValueError if they are another's."""
    if isinstance(task, CellTask):
        return own_entries(task, lines)
    *named, last = lines
    if [line.study for line in named if isinstance(line, StudyLine)] != [task.study] * len(named):
        raise ValueError(f"the figures of {task.study} are not named")
    if not isinstance(last, TrialLine) or (last.study, last.trial) != (task.study, task.index):
        raise ValueError(f"this is not trial {task.index} of {task.study}")
    return lines
