"""One cell: draws seeds until every planned entry has a verdict."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from msgspec.structs import replace
from threadpoolctl import threadpool_limits

from kvassay.conformance import discovery
from kvassay.conformance.claims.claim import Claim, Part
from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.evidence.schema import Entry
from kvassay.conformance.measure.cell import BackendFault, BackendHung
from kvassay.conformance.measure.codec import EXPERIMENTS
from kvassay.conformance.measure.trial import CellTrial
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run.plan import Task
from kvassay.conformance.statistics.design import Look
from kvassay.conformance.statistics.intervals import ends


@dataclass
class _Open:
    """An entry in the making."""

    claim: Claim
    part: Part
    looks: list[Look]
    entry: Entry

    def settle(self, verdict: str, reason: str = "") -> None:
        self.entry = replace(self.entry, verdict=verdict, reason=reason)

    @property
    def undecided(self) -> bool:
        return not self.entry.verdict


def run_cell(task: Task) -> list[Entry]:
    """Draws seeds for one cell until every planned entry has a verdict.

    One BLAS thread: small products are faster so, and round the same everywhere. What a
    backend prints goes to stderr.
    """
    quiet = np.errstate(all="ignore")  # what is not finite is judged, not printed
    with threadpool_limits(limits=1), redirect_stdout(sys.stderr), quiet:
        try:
            backend = discovery.load(task.spec) if isinstance(task.spec, str) else task.spec
        except ValueError as problem:
            return failed(task, str(problem))
        return _run(task, backend)


def own_entries(task: Task, lines: Sequence[object]) -> list[Entry]:
    """Lines of a record as the entries of this task. ValueError if they are another's."""
    found = [line for line in lines if isinstance(line, Entry)]
    planned = [(claim, part.name, task.cell) for claim, part in task.planned]
    if [entry.place for entry in found] != planned or {entry.seed for entry in found} - {task.seed}:
        raise ValueError(f"these are not the entries of {task.cell}")
    return found


def failed(task: Task, reason: str) -> list[Entry]:
    """The entries of a cell that could not run at all."""
    opened = _open(task)
    for item in opened:
        item.settle("error", reason)
    return [item.entry for item in opened]


def _run(task: Task, backend: Backend) -> list[Entry]:
    opened = _open(task)
    values: dict[tuple[str, str], list[Any]] = {}
    done = 0
    while pending := [item for item in opened if item.undecided]:
        target = min(item.looks[0].seeds for item in pending)
        for index in range(done, target):
            trial = CellTrial(backend, task.cell, task.seed, index, task.effort)
            wanted: dict[str, set[str]] = {}
            for item in pending:
                if item.undecided:
                    wanted.setdefault(item.part.experiment, set()).add(item.part.statistic)
            for name in sorted(wanted):
                trial.wanted = frozenset(wanted[name])
                try:
                    answers = EXPERIMENTS[name](trial)
                except NotImplementedError as problem:
                    _settle(pending, name, "not applicable", str(problem) or "not offered")
                except BackendHung as problem:
                    for item in pending:
                        if item.undecided:
                            item.settle("error", str(problem))
                    return [item.entry for item in opened]
                except BackendFault as problem:
                    _settle(pending, name, "error", str(problem))
                except (Exception, SystemExit) as problem:
                    _settle(pending, name, "error", discovery.described(problem))
                else:
                    for statistic, value in answers.items():
                        values.setdefault((name, statistic), []).append(value)
        done = target
        for item in pending:
            if item.undecided and item.looks[0].seeds == done:
                found = values.get((item.part.experiment, item.part.statistic), [])
                _judge(item, found, task, item.looks.pop(0))
    return [item.entry for item in opened]


def _settle(items: Sequence[_Open], experiment: str, verdict: str, reason: str) -> None:
    for item in items:
        if item.undecided and item.part.experiment == experiment:
            item.settle(verdict, reason)


def _judge(item: _Open, values: list[Any], task: Task, look: Look) -> None:
    """The verdict of an entry after a look, if it leaves one."""
    claim, name, cell = item.claim, item.part.name, task.cell
    if not values:
        item.settle("not applicable", f"needs {', '.join(claim.needs)}")
        return
    try:
        verdict, interval = claim.judge(values, cell, name, task.effort, look.alpha)
    except ValueError as problem:
        item.settle("error", f"{len(values)} of {look.seeds} seeds gave a value: {problem}")
        return
    if not all(map(isfinite, (interval.estimate, interval.low, interval.high))):
        item.settle("error", "the answers are too large to be judged")
        return
    if verdict == "undecided" and claim.beyond_all(values, cell, name, task.effort, look.beyond):
        verdict = "violates"
    if verdict == "undecided":
        verdict = "" if item.looks else "inconclusive"
    count = len(values)
    item.entry = replace(
        item.entry,
        verdict=verdict,
        estimate=interval.estimate,
        interval=ends(interval),
        n=count,
        smallest_violation=claim.smallest_violation(count, cell, name, task.effort, look.alpha),
    )


def _open(task: Task) -> list[_Open]:
    opened = []
    for claim_id, part in task.planned:
        claim = BY_ID[claim_id]
        looks = claim.looks(task.cell, part.name, task.effort)
        entry = Entry(
            id=claim.id,
            part=part.name,
            cell=task.cell,
            verdict="",
            estimate=None,
            interval=None,
            predicted=claim.prediction(task.cell, part.name),
            band=ends(claim.band(task.cell, part.name, task.effort)),
            n=0,
            alpha=claim.alpha,
            beta=claim.beta,
            smallest_violation=None,
            seed=task.seed,
            reason="",
            reproduce=task.command(claim.id),
        )
        opened.append(_Open(claim, part, looks, entry))
    return opened
