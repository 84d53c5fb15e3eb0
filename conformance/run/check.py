"""`check`: all cells of a plan, wherever they run."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from kvassay.conformance import discovery
from kvassay.conformance.evidence.schema import Entry, Report
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run.cell import failed, run_cell
from kvassay.conformance.run.execution import in_processes, one_thread, submitted
from kvassay.conformance.run.plan import Settings, plan


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
