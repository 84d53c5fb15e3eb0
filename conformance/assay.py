"""The function door of `kvassay check`: cells checked, violations diagnosed, all of it recorded."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path

from kvassay.conformance import discovery
from kvassay.conformance.evidence.schema import CheckAsked, Diagnosis, Entry, Report
from kvassay.conformance.evidence.write import Record, header
from kvassay.conformance.faults.diagnosis import diagnose as diagnosed
from kvassay.conformance.protocol import Backend
from kvassay.conformance.run import check as run
from kvassay.conformance.run.plan import Settings


def check(
    backend: str | Backend,
    settings: Settings | None = None,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    record: Path | None = None,
    diagnose: bool = False,
    on_entry: Callable[[Entry], None] = lambda entry: None,
) -> Report:
    """Holds `backend`, a name, a "module:factory" or an object, against the claims.

    If `executor` is given, cells go there (the backend must then be a name, or pickle);
    else if `workers` is, to that many processes, which a crash of the backend does not
    leave; else they run here. With `diagnose` the report says which known faults the violations
    look like. If `record` is given, evidence is appended to that file as it comes in; where it
    exists, it must be of the same run, which then goes on from there, and one that is complete
    is only read.

    `on_entry` is called with each entry as soon as its cell is done, in the order of the plan.
    ValueError for a backend, settings or record that cannot be used.

    >>> from kvassay.conformance import Settings, check
    >>> report = check("zero", Settings(dims=(64,), bits=(2,), claims=("distortion",)))
    >>> report.counts["violates"], report.exit_code
    (8, 1)
    """
    settings = settings or Settings()
    loaded = discovery.load(backend) if isinstance(backend, str) else backend
    asked = CheckAsked(**asdict(settings), diagnose=diagnose)
    with Record(record, header(backend, loaded, asked)) as kept:
        report = run.check(
            backend, settings, executor=executor, workers=workers, record=kept, on_entry=on_entry
        )
        made = [line for line in kept.made if isinstance(line, Diagnosis)]
        if diagnose and report.counts["violates"] and not kept.complete:
            made = diagnosed(report.entries)
        kept.finish(made, report.counts)
    return replace(report, diagnoses=tuple(made))
