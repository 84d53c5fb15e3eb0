"""The command line. Imports what is heavy only where it is needed."""

import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvassay.conformance.deviations import Agreement
    from kvassay.conformance.diagnosis import Diagnosis
    from kvassay.conformance.protocol import Capabilities
    from kvassay.conformance.record import Entry, RecordWriter
    from kvassay.conformance.runner import Report, Settings

KINDS = ("scalar", "turboquant-mse", "turboquant-prod")
SKETCHES = ("gaussian", "orthogonal")
EFFORTS = ("quick", "standard", "thorough")

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


class Refusal(click.ClickException):
    """Bad input: one sentence on stderr, exit code 2."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96})
@click.version_option(package_name="kvassay")
def main() -> None:
    """Holds KV-cache quantizers against the claims of the papers.

    kvassay check BACKEND is the main job: a verdict with an interval for each claim.
    """


@main.command()
@click.argument("backend", required=False)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="[default: all]")
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
    from kvassay.conformance import deviations as known
    from kvassay.conformance import discovery, runner
    from kvassay.conformance.terminal import show_report

    if record is not None and not record.name:
        raise Refusal("--record must name a file")
    if (backend is None) == (command is None):
        raise Refusal("name a BACKEND or --exec" + ", not both" * (backend is not None))
    apart = isolate or python is not None or command is not None
    limits = {"startup_limit": startup_limit, "request_limit": request_limit}
    limits = {name: value for name, value in limits.items() if value is not None}
    if limits and not apart:
        option = "--" + min(limits).replace("_", "-")
        raise Refusal(f"{option} needs --isolate, --python or --exec")
    spec: Any = backend
    _set_device(device, variant)
    try:
        declared = None
        if deviations:
            from kvassay.properties.test_codec import PROPERTIES

            declared = known.load(deviations, PROPERTIES)
        if apart:
            spec = loaded = _child(backend, python, command, limits)
        else:
            with redirect_stdout(sys.stderr):
                loaded = discovery.load(spec)
            _heeds_device(loaded, device, variant)
        workers = workers or runner.cores()
        settings = runner.Settings(kinds, sketches, dims, bits, claims, effort, seed)
        planned = runner.planned_entries(loaded, settings)
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
    with _reporting(report_to, record) as (kept, write_report):
        with (
            _recording(kept, arguments, loaded, settings) as writer,
            _progress(planned) as advance,
        ):
            found: list[Entry] = []

            def on_entry(entry: "Entry") -> None:
                if writer:
                    writer.add(entry)
                found.append(entry)
                advance(f"d={entry.dim} {entry.kind}")

            try:
                report = runner.check(spec, settings, workers=workers, on_entry=on_entry)
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


@main.command()
@click.argument("backend", default="reference")
@click.option(
    "--paper", "papers", multiple=True, type=click.Choice(["A", "B"]), help="[default: both]"
)
@CLAIMS
@click.option(
    "--effort",
    type=click.Choice(EFFORTS),
    default="standard",
    show_default=True,
    help="10, 40 or 200 trials a study, more of the small ones.",
)
@SEED
@WORKERS
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the evidence to this file; a run that was stopped goes on from it.",
)
@click.option(
    "--tensors",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Q, K and V of your own (.safetensors or .npz) instead of those that ship.",
)
@DEVICE
@VARIANT
@REPORT
@AS_JSON
def reproduce(
    backend: str,
    papers: tuple[str, ...],
    claims: tuple[str, ...],
    effort: Literal["quick", "standard", "thorough"],
    seed: int,
    workers: int | None,
    record: Path | None,
    tensors: Path | None,
    device: str | None,
    variant: str | None,
    report_to: Path | None,
    as_json: bool,
) -> None:
    """Decide the claims of both papers with the codecs of BACKEND, the reference by default.

    Claims about attention, regimes and SpectralQuant run on synthetic populations and on real
    tensors. Exit code: 0 every theorem and derived claim conforms, whatever became of what a
    paper only reports, 1 one violates, 2 bad input, 3 one is inconclusive or failed.
    """
    import json
    from dataclasses import asdict

    from kvassay.conformance import discovery, runner
    from kvassay.conformance import reproduce as run
    from kvassay.conformance.terminal_papers import show_results

    if record is not None and not record.name:
        raise Refusal("--record must name a file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    done = total = 0
    try:
        settings = run.Settings(papers, claims, effort, seed, str(tensors or ""))
        _set_device(device, variant)
        with redirect_stdout(sys.stderr):
            loaded = discovery.load(backend)
        _heeds_device(loaded, device, variant)
        total = len(run.plan(backend, loaded, settings))
        with _reporting(report_to, record) as (kept, write_report):
            with _progress(total) as advance:

                def on_task(what: str) -> None:
                    nonlocal done
                    done += 1
                    advance(what)

                cores = workers or runner.cores()
                results = run.reproduce(
                    backend, settings, workers=cores, path=kept, on_task=on_task
                )
            if as_json:
                click.echo(json.dumps(asdict(results), allow_nan=False, indent=1))
            else:
                show_results(results)
            write_report(None)  # last: if it cannot be written, the outcomes are there
    except KeyboardInterrupt:
        goes_on = f"{record} keeps them: the same command goes on from there" if record else ""
        hint = goes_on or "with --record FILE they would have been kept"
        click.echo(f"stopped after {done} of {total} tasks; {hint}", err=True)
        sys.exit(130)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    except OSError as problem:
        if record is None:
            raise
        raise Refusal(f"{str(record)!r} cannot be used: {problem.strerror}") from None
    sys.exit(results.exit_code)


@main.command()
@click.argument(
    "records",
    metavar="RECORD...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="What to write: .html, .md, .xml (JUnit), or a folder for all of them.",
)
@click.option(
    "--controls",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The record of reference, identity or zero, or the output of `kvassay faults --json`.",
)
@click.option(
    "--deviations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Known deviations (TOML): the page says apart whether the result was expected.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="Report on records that were cut off or do not add up; the page says so at its top.",
)
def report(
    records: tuple[Path, ...],
    out: Path,
    controls: tuple[Path, ...],
    deviations: Path | None,
    partial: bool,
) -> None:
    """Make a page of the evidence in RECORDs. Nothing is run.

    One record of `check` makes the page of a backend, several a comparison; one of `reproduce`
    the page of the papers' claims. Parts of one run are put together.
    """
    write = _reports()
    declared = None
    try:
        if deviations:
            from kvassay.conformance import deviations as known
            from kvassay.properties.test_codec import PROPERTIES

            declared = known.load(deviations, PROPERTIES)
        written = write(records, out, controls=controls, known=declared, partial=partial)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    for path in written:
        click.echo(path)


@main.command()
def backends() -> None:
    """List the backends that installed distributions announce."""
    from kvassay.conformance.terminal import show_backends

    show_backends()


@main.command()
@AS_JSON
def devices(as_json: bool) -> None:
    """List the OpenCL devices that the backend opencl can use."""
    import json

    from kvassay.conformance.terminal import show_devices

    try:
        from kvassay.accel import devices as opencl
    except ImportError as problem:
        raise Refusal(str(problem)) from None
    there = opencl.found()
    chosen, why_none = None, ""
    if there:
        try:
            chosen = there.index(opencl.choose(devices=there))
        except ValueError as problem:  # a list is what helps then
            why_none = str(problem)
    facts = [device.facts() for device in there]
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        show_devices(facts, chosen, why_none)


@main.command()
def claims() -> None:
    """List the claims."""
    from kvassay.conformance.terminal import show_claims

    show_claims()


@main.command()
@click.argument("claim")
def explain(claim: str) -> None:
    """Explain CLAIM: what it says, where from, how it is judged, what a violation means."""
    from kvassay.conformance import catalogue, papers
    from kvassay.conformance.terminal import show_claim
    from kvassay.conformance.terminal_papers import show_paper_claim

    if claim in catalogue.BY_ID:
        show_claim(catalogue.BY_ID[claim])
    elif claim in papers.BY_ID:
        show_paper_claim(papers.BY_ID[claim])
    else:
        raise Refusal(f"no claim is called {claim!r}; `kvassay claims` lists them")


@main.command()
@click.option("--fault", "ids", multiple=True, help="Only this fault.  [default: all]")
@click.option("--effort", type=click.Choice(EFFORTS), default="standard", show_default=True)
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: one a core]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def faults(
    ids: tuple[str, ...],
    effort: Literal["quick", "standard", "thorough"],
    workers: int | None,
    as_json: bool,
) -> None:
    """Show that the suite catches known faults: the kill table.

    Each fault that implementations had is put into the reference, and every claim and the
    properties that name it run on it. Exit code: 0 each is caught by all that must catch it
    and the changes that are no faults by nobody, 1 otherwise.
    """
    import json

    from kvassay.conformance import runner
    from kvassay.conformance.faults import kill_table, select
    from kvassay.conformance.record import suite
    from kvassay.conformance.terminal import show_kills
    from kvassay.properties.test_codec import PROPERTIES

    try:
        chosen = select(ids)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    with (
        runner.process_pool(workers or runner.cores()) as executor,
        _progress(len(chosen)) as advance,
    ):
        kills = []
        for kill in kill_table(chosen, effort, executor, PROPERTIES):
            kills.append(kill)
            advance(kill.fault.id)
    if as_json:
        rows = [
            {
                "id": kill.fault.id,
                "text": kill.fault.text,
                "source": kill.fault.source,
                "proof": kill.fault.proof,
                "caught": kill.caught,
                "missed": kill.missed,
                "ok": kill.ok,
            }
            for kill in kills
        ]
        click.echo(json.dumps({**suite(), "effort": effort, "faults": rows}, indent=1))
    else:
        show_kills(kills, effort)
    sys.exit(0 if all(kill.ok for kill in kills) else 1)


def _set_device(device: str | None, variant: str | None) -> None:
    """Tells the backend, in this process and its children, which device is meant."""
    import os

    for name, value in (("KVASSAY_DEVICE", device), ("KVASSAY_VARIANT", variant)):
        if value is not None:
            os.environ[name] = value


def _heeds_device(backend: Any, device: str | None, variant: str | None) -> None:
    option = "--device" if device is not None else "--variant"
    if (device or variant) is not None and not hasattr(backend, "device"):
        raise Refusal(f"{option} is for backends that run on a device; {backend.name} names none")


def _reports() -> "Callable[..., list[Path]]":
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
def _reporting(
    out: Path | None, record: Path | None
) -> "Iterator[tuple[Path | None, Callable[[Any], None]]]":
    """The record that a run keeps, of its own if a report is wanted and no record, and what
    writes the report. What would make it impossible is refused before the run."""
    if out is None:
        yield record, lambda known: None
        return
    from tempfile import TemporaryDirectory

    write = _reports()
    from kvassay.reports.write import format_of

    try:
        format_of(out)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    with TemporaryDirectory() as folder:
        kept = record or Path(folder, "run.jsonl")

        def write_report(known: Any) -> None:
            try:
                write([kept], out, known=known)
            except ValueError as problem:
                raise Refusal(f"no report: {problem}") from None

        yield kept, write_report


@contextmanager
def _recording(
    path: Path | None, spec: str, backend: Any, settings: "Settings"
) -> "Iterator[RecordWriter | None]":
    from dataclasses import asdict

    from kvassay.conformance.record import RecordWriter, header

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


@contextmanager
def _progress(total: int) -> "Iterator[Callable[[str], None]]":
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


def _child(
    backend: str | None, python: str | None, command: str | None, limits: dict[str, Any]
) -> Any:
    """The backend in a process of its own."""
    import shlex

    from kvassay.conformance.isolation import isolated, served

    if command is None:
        assert backend is not None
        return isolated(backend, sys.executable if python is None else python, **limits)
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise Refusal(f"--exec cannot be read: {problem}") from None
    return served(words or [""], ["--exec", command], **limits)


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

    from kvassay.conformance.diagnosis import diagnose
    from kvassay.conformance.runner import process_pool

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


if __name__ == "__main__":
    main()
