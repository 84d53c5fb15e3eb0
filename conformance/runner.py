"""The runner: plans the entries, draws seeds until each is decided, and collects.

A cell (kind, sketch, dim, bits) is one task: its claims share the trials. Tasks go to any
`concurrent.futures.Executor`; the results do not depend on which.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from math import isfinite
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from kvassay.conformance import discovery, worker
from kvassay.conformance.catalogue import BY_ID, CLAIMS
from kvassay.conformance.claims import EFFORTS, Claim, Part
from kvassay.conformance.experiments import (
    EXPERIMENTS,
    BackendFault,
    BackendHung,
    Cell,
    Effort,
    Trial,
)
from kvassay.conformance.protocol import KINDS, Backend
from kvassay.conformance.record import Entry, tally
from kvassay.conformance.statistics import Band, Interval

DIMS = (64, 80, 128, 576)
BITS = (1, 2, 3, 4, 5, 6)
SMALLEST_DIM = 16  # below, two seeds may well share their signs, and limits are far off
ALPHA = 1e-3  # false alarms a run
T = TypeVar("T")
R = TypeVar("R")
SPLIT = 3000  # entries that share it, so that a part of a run repeats the same intervals


@dataclass(frozen=True)
class Settings:
    """What a run does: the grid, the claims, the effort and the seed.

    Empty `kinds` or `sketches` mean all that the backend has, empty `claims` all there are.
    """

    kinds: tuple[str, ...] = ()
    sketches: tuple[str, ...] = ()
    dims: tuple[int, ...] = DIMS
    bits: tuple[int, ...] = BITS
    claims: tuple[str, ...] = ()
    effort: Effort = "standard"
    seed: int = 0

    def __post_init__(self) -> None:
        if unknown := [name for name in self.claims if name not in BY_ID]:
            raise ValueError(f"no claim is called {unknown[0]!r}; `kvassay claims` lists them")
        if wrong := [dim for dim in self.dims if dim < SMALLEST_DIM]:
            raise ValueError(f"dim must be at least {SMALLEST_DIM}, got {wrong[0]}")
        if wrong := [bits for bits in self.bits if not 1 <= bits <= 8]:
            raise ValueError(f"bits must be in 1..8, got {wrong[0]}")
        if self.effort not in EFFORTS:
            raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, got {self.effort!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")


@dataclass(frozen=True)
class Task:
    """One cell and what is planned for it."""

    spec: str | Backend
    cell: Cell
    planned: tuple[tuple[str, Part], ...]
    effort: Effort
    alpha: float
    seed: int


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


def check(
    backend: str | Backend,
    settings: Settings | None = None,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    on_entry: Callable[[Entry], None] = lambda entry: None,
) -> Report:
    """Holds `backend`, a name, a "module:factory" or an object, against the claims.

    If `executor` is given, cells go there (the backend must then be a name, or pickle);
    else if `workers` is, to that many processes, which a crash of the backend does not
    leave; else they run here. `on_entry` is called with each entry as soon as its cell is
    done, in the order of the plan.

    >>> from kvassay.conformance import Settings, check
    >>> report = check("zero", Settings(dims=(64,), bits=(2,), claims=("distortion",)))
    >>> report.counts["violates"], report.exit_code
    (8, 1)
    """
    settings = settings or Settings()
    loaded = discovery.load(backend) if isinstance(backend, str) else backend
    tasks = plan(backend, loaded, settings)
    results: Iterator[list[Entry]]
    if executor is not None:
        results = submitted(executor, run_cell, tasks, window=64)
    elif workers is not None:
        results = in_processes(run_cell, tasks, workers, failed)
    else:
        results = map(run_cell, tasks)
    entries = []
    with one_thread():
        for result in results:
            for entry in result:
                entries.append(entry)
                on_entry(entry)
    planned = sum(len(task.planned) for task in tasks)
    return Report(loaded.name, loaded.version, planned, tuple(entries))


def planned_entries(backend: Backend, settings: Settings) -> int:
    """How many entries a run will have."""
    return sum(len(task.planned) for task in plan(backend, backend, settings))


def plan(spec: str | Backend, backend: Backend, settings: Settings) -> list[Task]:
    """The cells of the grid and the parts of claims planned for each, dearest cells first.

    ValueError where the backend has none of the kinds or sketches asked for, or where a
    claim's delta cannot be resolved at a dimension asked for.
    """
    capabilities = backend.capabilities
    for what, asked, offered in (
        ("kind", settings.kinds, capabilities.kinds),
        ("sketch", settings.sketches, capabilities.sketches),
    ):
        if missing := [name for name in asked if name not in offered]:
            raise ValueError(
                f"{what} {missing[0]!r} is not among what {backend.name} offers: "
                f"{', '.join(offered) or 'none'}"
            )
    cells = [
        Cell(kind, sketch, dim, bits, not sketch or capabilities.decode_includes_sketch)
        for kind in dict.fromkeys(settings.kinds or capabilities.kinds)
        if kind in KINDS
        for sketch in (
            dict.fromkeys(settings.sketches or capabilities.sketches)
            if kind == "turboquant-prod"
            else ("",)
        )
        for dim in sorted(set(settings.dims), reverse=True)
        for bits in sorted(set(settings.bits))
    ]
    cells.sort(key=lambda cell: (-cell.dim, cell.kind != "turboquant-prod"))
    claims = [BY_ID[name] for name in dict.fromkeys(settings.claims)] or list(CLAIMS)
    chosen = [
        (
            cell,
            tuple((claim.id, part) for claim in claims for part in claim.parts_for(cell)),
        )
        for cell in cells
    ]
    alpha = ALPHA / max(SPLIT, sum(len(planned) for _, planned in chosen))
    tasks = [
        Task(spec, cell, planned, settings.effort, alpha, settings.seed)
        for cell, planned in chosen
        if planned
    ]
    for task in tasks:
        for claim_id, part in task.planned:
            BY_ID[claim_id].needed(task.cell, part.name, task.effort, alpha)
    return tasks


@dataclass
class _Open:
    """An entry in the making."""

    claim: Claim
    part: Part
    looks: list[int]
    alpha: float
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
        target = min(next(look for look in item.looks if look > done) for item in pending)
        for index in range(done, target):
            trial = Trial(backend, task.cell, task.seed, index, task.effort)
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
            if item.undecided and done in item.looks:
                _look(item, values.get((item.part.experiment, item.part.statistic)), task, done)
    return [item.entry for item in opened]


def _settle(items: Sequence[_Open], experiment: str, verdict: str, reason: str) -> None:
    for item in items:
        if item.undecided and item.part.experiment == experiment:
            item.settle(verdict, reason)


def _look(item: _Open, values: list[Any] | None, task: Task, count: int) -> None:
    claim, name, cell = item.claim, item.part.name, task.cell
    if values is None:
        item.settle("not applicable", f"needs {', '.join(claim.needs)}")
        return
    verdict, interval = claim.judge(values, cell, name, task.effort, item.alpha)
    if not all(map(isfinite, (interval.estimate, interval.low, interval.high))):
        item.settle("error", "the answers are too large to be judged")
        return
    if verdict == "undecided":
        verdict = "inconclusive" if count == item.looks[-1] else ""
    item.entry = replace(
        item.entry,
        verdict=verdict,
        estimate=interval.estimate,
        interval=ends(interval),
        n=count,
        smallest_violation=claim.smallest_violation(count, cell, name, task.effort, item.alpha),
    )


def _open(task: Task) -> list[_Open]:
    opened = []
    for claim_id, part in task.planned:
        claim = BY_ID[claim_id]
        looks = claim.looks(task.cell, part.name, task.effort, task.alpha)
        entry = Entry(
            id=claim.id,
            part=part.name,
            kind=task.cell.kind,
            sketch=task.cell.sketch,
            dim=task.cell.dim,
            bits=task.cell.bits,
            verdict="",
            estimate=None,
            interval=None,
            predicted=claim.prediction(task.cell, part.name),
            band=ends(claim.band(task.cell, part.name, task.effort)),
            n=0,
            alpha=task.alpha,
            beta=claim.beta,
            smallest_violation=None,
            seed=task.seed,
            reason="",
            reproduce=_command(task, claim),
        )
        # Shared over the looks: by the union bound, whatever the dependence between them.
        opened.append(_Open(claim, part, looks, task.alpha / len(looks), entry))
    return opened


def _command(task: Task, claim: Claim) -> str:
    cell = task.cell
    name = task.spec if isinstance(task.spec, str) else task.spec.name
    name = getattr(task.spec, "arguments", name)
    return f"kvassay check {name}{cell_options(claim.id, cell, task.effort, task.seed)}"


def cell_options(claim: str, cell: Cell | Entry, effort: str, seed: int) -> str:
    """The options of `kvassay check` that run one claim in one cell."""
    sketch = f" --sketch {cell.sketch}" if cell.sketch else ""
    return (
        f" --claim {claim} --kind {cell.kind}{sketch} --dim {cell.dim} --bits {cell.bits} "
        f"--effort {effort} --seed {seed}"
    )


def ends(span: Band | Interval) -> tuple[float | None, float | None]:
    """Low and high end, None where there is none."""
    low, high = span.low, span.high
    return (low if isfinite(low) else None, high if isfinite(high) else None)


def submitted(
    executor: Executor, function: Callable[[T], R], tasks: Sequence[T], window: int
) -> Iterator[R]:
    """Results in the order of the tasks, with at most `window` tasks in flight."""
    flying: deque[Future[R]] = deque()
    for task in tasks:
        flying.append(executor.submit(function, task))
        if len(flying) >= window:
            yield flying.popleft().result()
    while flying:
        yield flying.popleft().result()


def in_processes(
    function: Callable[[T], R],
    tasks: Sequence[T],
    workers: int,
    failed: Callable[[T, str], R],
) -> Iterator[R]:
    """The same in processes of our own. Where one dies, the tasks that were in flight run again
    one by one, so that only the one that kills its process has failed."""
    done = 0
    while done < len(tasks):
        with process_pool(workers) as pool:
            try:
                for result in submitted(pool, function, tasks[done:], window=4 * workers):
                    yield result
                    done += 1
                return
            except BrokenExecutor:
                pass
            except (KeyboardInterrupt, GeneratorExit):  # tasks in flight may take long, or hang
                _end_now(pool)
                raise
        for task in tasks[done : done + 4 * workers]:  # one of these it was
            with process_pool(1) as pool:
                try:
                    yield pool.submit(function, task).result()
                except BrokenExecutor:
                    yield failed(task, "the backend ended the process it ran in (a crash)")
                except (KeyboardInterrupt, GeneratorExit):
                    _end_now(pool)
                    raise
            done += 1


def _end_now(pool: ProcessPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    for child in active_children():
        child.kill()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Processes for `check(executor=...)`: fresh interpreters, since a forked one inherits
    locks and threads of the libraries in use here."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_process)


def _start_process() -> None:
    """In a child: what is printed, by C code too, goes to stderr; Ctrl-C is the parent's, and
    so is its end."""
    worker.die_with_parent()
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def one_thread() -> Iterator[None]:
    """Libraries loaded in here, or in processes started in here, use one thread."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
