"""`kvassay check`."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kvassay.conformance.doors.cli.options import (
    AS_JSON,
    CLAIMS,
    DEVICE,
    REPORT,
    SEED,
    VARIANT,
    WORKERS,
    Refusal,
    progress_bar,
    reporting,
    require_device_backend,
    set_device,
)
from kvassay.conformance.measure.cell import EFFORTS
from kvassay.reference.kinds import JUDGED, SKETCHES

if TYPE_CHECKING:
    from kvassay.conformance.evidence.deviations import Agreement
    from kvassay.conformance.evidence.schema import Diagnosis, Entry, Report
    from kvassay.conformance.evidence.write import RecordWriter
    from kvassay.conformance.protocol import Capabilities
    from kvassay.conformance.run.plan import Settings


@click.command()
@click.argument("backend", required=False)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(JUDGED), help="[default: all]")
@click.option(
    "--sketch", "sketches", multiple=True, type=click.Choice(SKETCHES), help="[default: all]"
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    type=click.IntRange(16, 8192),
    default=(64, 80, 128, 576),
    show_default=True,
)
@click.option(
    "--bits",
    multiple=True,
    type=click.IntRange(1, 8),
    default=(1, 2, 3, 4, 5, 6),
    show_default=True,
    help="Payload bits a coordinate, the sketch bit included.",
)
@CLAIMS
@click.option(
    "--effort",
    type=click.Choice(EFFORTS),
    default="standard",
    show_default=True,
    help="How small a violation must be found.",
)
@SEED
@WORKERS
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the evidence to this new file, as JSON lines.",
)
@REPORT
@AS_JSON
@click.option(
    "--deviations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Known deviations (TOML): the exit code is about others, and about stale ones.",
)
@click.option(
    "--no-diagnosis",
    is_flag=True,
    help="Do not say which known fault the violations look like (nor is it, with --claim).",
)
@DEVICE
@VARIANT
@click.option("--isolate", is_flag=True, help="Run BACKEND in child processes with time limits.")
@click.option("--python", help="The interpreter of another environment to run BACKEND in.")
@click.option("--exec", "command", help="A command that serves a backend, instead of BACKEND.")
@click.option(
    "--startup-limit", type=float, help="Seconds that a child may take to start.  [default: 120]"
)
@click.option(
    "--request-limit", type=float, help="Seconds that it may take for one answer.  [default: 30]"
)
def check(
    backend: str | None,
    kinds: tuple[str, ...],
    sketches: tuple[str, ...],
    dims: tuple[int, ...],
    bits: tuple[int, ...],
    claims: tuple[str, ...],
    effort: Literal["quick", "standard", "thorough"],
    seed: int,
    workers: int | None,
    record: Path | None,
    report_to: Path | None,
    as_json: bool,
    deviations: Path | None,
    no_diagnosis: bool,
    device: str | None,
    variant: str | None,
    isolate: bool,
    python: str | None,
    command: str | None,
    startup_limit: float | None,
    request_limit: float | None,
) -> None:
    """Hold BACKEND, a name or module:factory, against the claims.

    The option of a list can be given several times. Exit code: 0 everything applicable
    conforms, 1 something violates, 2 bad input, 3 nothing violates but something is
    inconclusive or failed. With --deviations: 0 all is as expected.
    """
    from kvassay.conformance import discovery
    from kvassay.conformance.doors.terminal.codec import show_report
    from kvassay.conformance.evidence import deviations as known
    from kvassay.conformance.isolation import backend as isolation
    from kvassay.conformance.run import check as run
    from kvassay.conformance.run import plan
    from kvassay.conformance.run.execution import cores

    if record is not None and not record.name:
        raise Refusal("--record must name a file")
    if (backend is None) == (command is None):
        raise Refusal("name a BACKEND or --exec" + ", not both" * (backend is not None))
    if python is not None and command is not None:
        raise Refusal("--python is for a BACKEND, not for --exec")
    apart = isolate or python is not None or command is not None
    given = {"startup_limit": startup_limit, "request_limit": request_limit}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    if limits and not apart:
        option = "--" + min(limits).replace("_", "-")
        raise Refusal(f"{option} needs --isolate, --python or --exec")
    spec: Any = backend
    loaded: Any
    set_device(device, variant)
    try:
        declared = None
        if deviations:
            from kvassay.properties.test_codec import PROPERTIES

            declared = known.load(deviations, PROPERTIES)
        if apart:
            spec = loaded = isolation.apart(backend, python, command, **limits)
        else:
            with redirect_stdout(sys.stderr):
                loaded = discovery.load(spec)
            require_device_backend(loaded, device, variant)
        workers = workers or cores()
        settings = plan.Settings(kinds, sketches, dims, bits, claims, effort, seed)
        planned = plan.planned_entries(loaded, settings)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    if not planned:
        kinds_there = ", ".join(loaded.capabilities.kinds)
        raise Refusal(
            f"nothing is planned: {', '.join(claims)} says nothing about {kinds_there} "
            "at these bits"
        )
    arguments = str(getattr(loaded, "arguments", backend))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    with reporting(report_to, record) as (kept, write_report):
        with (
            _recording(kept, arguments, loaded, settings) as writer,
            progress_bar(planned) as advance,
        ):
            found: list[Entry] = []

            def on_entry(entry: "Entry") -> None:
                if writer:
                    writer.add(entry)
                found.append(entry)
                advance(f"d={entry.dim} {entry.kind}")

            try:
                report = run.check(spec, settings, workers=workers, on_entry=on_entry)
            except KeyboardInterrupt:
                hint = f"; {record} keeps them, without a footer" if record else ""
                click.echo(f"stopped after {len(found)} of {planned} entries{hint}", err=True)
                sys.exit(130)
            diagnoses = []
            if not (no_diagnosis or claims):  # a single claim looks like many faults
                diagnoses = _diagnosed(report, loaded.capabilities, workers, advance)
            if writer:
                for diagnosis in diagnoses:
                    writer.add_diagnosis(diagnosis)
                writer.finish(report.counts)
        agreement = known.compare(declared, report.entries) if declared is not None else None
        if as_json:
            _print_json(report, diagnoses, agreement)
        else:
            show_report(report, settings, diagnoses, agreement)
        write_report(declared)  # last: if it cannot be written, the verdict is there
    sys.exit(report.exit_code if agreement is None else agreement.exit_code(report))


@contextmanager
def _recording(
    path: Path | None, spec: str, backend: Any, settings: "Settings"
) -> "Iterator[RecordWriter | None]":
    from dataclasses import asdict

    from kvassay.conformance.evidence.write import RecordWriter, header

    if path is None:
        yield None
        return
    try:
        writer = RecordWriter(path, header(spec, backend, asdict(settings)))
    except FileExistsError:
        raise Refusal(f"{str(path)!r} exists; name a new file or remove it") from None
    except OSError as problem:
        raise Refusal(f"{str(path)!r} cannot be written: {problem.strerror}") from None
    with writer:
        yield writer


def _diagnosed(
    report: "Report",
    capabilities: "Capabilities",
    workers: int,
    advance: "Callable[[str], None]",
) -> "list[Diagnosis]":
    """Which known faults the violations look like."""
    if not report.counts["violates"]:
        return []
    from concurrent.futures import BrokenExecutor

    from kvassay.conformance.faults.diagnosis import diagnose
    from kvassay.conformance.run.execution import process_pool

    executor = process_pool(workers)
    try:
        return diagnose(
            report.entries,
            executor,
            capabilities.decode_includes_sketch,
            advance=lambda what: advance(f"as {what}?"),
        )
    except (KeyboardInterrupt, BrokenExecutor):
        click.echo("no diagnosis: it was stopped", err=True)
        return []
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _print_json(
    report: "Report", diagnoses: "list[Diagnosis]", agreement: "Agreement | None"
) -> None:
    import json
    from dataclasses import asdict

    result: dict[str, Any] = {"backend": report.name, "version": report.version, **report.counts}
    result["diagnoses"] = [asdict(diagnosis) for diagnosis in diagnoses]
    if agreement is not None:
        result["deviations"] = agreement.summary
    result["claims"] = [asdict(entry) for entry in report.entries]
    click.echo(json.dumps(result, allow_nan=False, indent=1))
