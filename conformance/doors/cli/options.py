"""Options and refusals that several commands share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

# Options that several commands have.
CLAIMS = click.option("--claim", "claims", multiple=True, help="Only this claim.  [default: all]")
SEED = click.option("--seed", type=click.IntRange(0), default=0, show_default=True)


WORKERS = click.option(
    "--workers", type=click.IntRange(1), help="Processes.  [default: one for each core]"
)


DEVICE = click.option(
    "--device", help="For a BACKEND on a device: which; `kvassay devices` lists them."
)


VARIANT = click.option("--variant", help="For a BACKEND on a device: which form of its kernels.")
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)


REPORT = click.option(
    "--report",
    "report_to",
    type=click.Path(path_type=Path),
    help="Write a report of this run: .html, .md, .xml (JUnit) or a folder for all.",
)


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)  # one that is read
Group = TypeVar("Group")


def chosen(group: type[Group], options: dict[str, Any]) -> Group:
    """Those of a command's options that a dataclass groups."""
    names = [field.name for field in fields(group)]  # type: ignore[arg-type]
    return group(**{name: options[name] for name in names})


class Refusal(click.ClickException):
    """Bad input: one sentence on stderr, exit code 2."""

    exit_code = 2


def set_device(device: str | None, variant: str | None) -> None:
    """Tells the backend, in this process and its children, which device is meant."""
    import os

    for name, value in (("KVASSAY_DEVICE", device), ("KVASSAY_VARIANT", variant)):
        if value is not None:
            os.environ[name] = value


def require_device_backend(backend: Any, device: str | None, variant: str | None) -> None:
    option = "--device" if device is not None else "--variant"
    if (device or variant) is not None and not hasattr(backend, "device"):
        raise Refusal(f"{option} is for backends that run on a device; {backend.name} names none")


def reports_writer() -> "Callable[..., list[Path]]":
    """`kvassay.reports.write.report`, whose libraries not everybody needs."""
    try:
        from kvassay.reports.write import report
    except ModuleNotFoundError as problem:
        raise Refusal(
            f"reports need {problem.name}, which is not installed: "
            "python -m pip install 'kvassay[reports]'"
        ) from None
    return report


@contextmanager
def reporting(
    out: Path | None, record: Path | None
) -> "Iterator[tuple[Path | None, Callable[[Any, bool], None]]]":
    """The record that a run keeps, of its own if a report is wanted and no record, and what
    writes the report. What would make it impossible is refused before the run."""
    if out is None:
        yield record, lambda known, partial: None
        return
    from tempfile import TemporaryDirectory

    write = reports_writer()
    from kvassay.reports.write import format_of

    try:
        format_of(out)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    with TemporaryDirectory() as folder:
        kept = record or Path(folder, "run.jsonl")

        def write_report(known: Any, partial: bool) -> None:
            try:
                write([kept], out, known=known, partial=partial)
            except ValueError as problem:
                raise Refusal(f"no report: {problem}") from None

        yield kept, write_report


@contextmanager
def refusing_records(record: Path | None) -> "Iterator[None]":
    """Refuses a record that a run can neither begin nor go on from."""
    from kvassay.conformance.evidence.lines import RecordError

    try:
        yield
    except RecordError as problem:
        raise Refusal(str(problem)) from None
    except OSError as problem:
        if record is None:
            raise
        raise Refusal(f"{str(record)!r} cannot be used: {problem.strerror}") from None


@contextmanager
def progress_bar(total: int) -> "Iterator[Callable[[str], None]]":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("checking", total=total)

        def advance(what: str) -> None:
            beyond = progress.tasks[bar].completed >= (progress.tasks[bar].total or 0)
            progress.update(bar, advance=not beyond, description=what)

        yield advance
