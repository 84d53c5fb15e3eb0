"""All cells of a plan, wherever they run."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

from kvassay.conformance import discovery
from kvassay.conformance.evidence.schema import Entry, Report
from kvassay.conformance.evidence.write import Record
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run.cell import failed, own_entries, run_cell
from kvassay.conformance.run.execution import in_processes, one_thread, submitted, undisturbed
from kvassay.conformance.run.plan import Settings, Task, plan


def check(
    backend: str | Backend,
    settings: Settings | None = None,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    record: Record | None = None,
    on_entry: Callable[[Entry], None] = lambda entry: None,
) -> Report:
    """What was found in all cells of the plan; `kvassay.conformance.check` is the door to it."""
    settings = settings or Settings()
    loaded = discovery.load(backend) if isinstance(backend, str) else backend
    tasks = plan(backend, loaded, settings)
    entries: list[Entry] = []

    def keep(found: Sequence[Entry]) -> None:
        for entry in found:
            entries.append(entry)
            on_entry(entry)

    def take(task: Task, lines: Sequence[object]) -> None:
        keep(own_entries(task, lines))

    done = record.resume(tasks, lambda task: len(task.planned), take) if record else 0
    with one_thread():
        for result in _results(tasks[done:], executor, workers):
            with undisturbed():  # what stands in the record is also told
                if record:
                    for entry in result:
                        record.write(entry)
                keep(result)
    planned = sum(len(task.planned) for task in tasks)
    return Report(loaded.name, loaded.version, planned, tuple(entries))


def _results(
    tasks: Sequence[Task], executor: Executor | None, workers: int | None
) -> Iterator[list[Entry]]:
    if executor is not None:
        return submitted(executor, run_cell, tasks, window=64)
    if workers is not None:
        return in_processes(run_cell, tasks, workers, failed)
    return map(run_cell, tasks)
