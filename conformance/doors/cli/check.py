"""`kvassay check`."""

import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
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
    chosen,
    progress_bar,
    refusing_records,
    reporting,
    require_device_backend,
    set_device,
)
from kvassay.conformance.measure import EFFORTS
from kvassay.reference.kinds import JUDGED, SKETCHES

if TYPE_CHECKING:
    from kvassay.conformance.evidence.deviations import Agreement, Deviation
    from kvassay.conformance.evidence.schema import Diagnosis, Entry, Report
    from kvassay.conformance.protocol import Backend
    from kvassay.conformance.run.plan import Settings


@dataclass(frozen=True)
class Grid:
    """What is checked: the options that make the settings of a run."""

    kinds: tuple[str, ...]
    sketches: tuple[str, ...]
    dims: tuple[int, ...]
    bits: tuple[int, ...]
    claims: tuple[str, ...]
    effort: Literal["quick", "standard", "thorough"]
    seed: int


@dataclass(frozen=True)
class Place:
    """Where the backend runs: on which device, and in which process."""

    device: str | None
    variant: str | None
    isolate: bool
    python: str | None
    command: str | None
    startup_limit: float | None
    request_limit: float | None

    @property
    def apart(self) -> bool:
        """Whether it has a process of its own."""
        return self.isolate or self.python is not None or self.command is not None

    @property
    def limits(self) -> dict[str, float]:
        """The time limits that were given."""
        given = {"startup_limit": self.startup_limit, "request_limit": self.request_limit}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class Output:
    """What is made of what was found."""

    record: Path | None
    report_to: Path | None
    as_json: bool
    deviations: Path | None
    no_diagnosis: bool


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
    help="Append the evidence to this file; a run that was stopped goes on from it.",
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
def check(backend: str | None, workers: int | None, **options: Any) -> None:
    """Hold BACKEND, a name or module:factory, against the claims.

    The option of a list can be given several times. Exit code: 0 everything applicable
    conforms, 1 something violates, 2 bad input, 3 nothing violates but something is
    inconclusive or failed, 130 the run was stopped (--json then prints the entries so far, with
    "stopped": true). With --deviations: 0 all is as expected.
    """
    from kvassay.conformance.doors.terminal.codec import show_report
    from kvassay.conformance.evidence.deviations import compare
    from kvassay.conformance.run.plan import Settings

    place, output = chosen(Place, options), chosen(Output, options)
    _refuse_contradictions(backend, place, output)
    try:
        known = _known(output.deviations)
        found = _backend(backend, place)
        settings = Settings(**vars(chosen(Grid, options)))
        planned = _planned(found, settings)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    spec: Any = found if place.apart else backend
    with reporting(output.report_to, output.record) as (kept, write_report):
        run = _Run(spec, found, settings, planned, workers)
        report = run.checked(output, kept)
        agreement = compare(known, report.entries) if known is not None else None
        others = [] if output.no_diagnosis or settings.claims else _undeclared(report, settings)
        if output.as_json:
            _print_json(report, agreement, undeclared=others)
        else:
            show_report(report, settings, report.diagnoses, agreement, others)
        write_report(known, run.stopped)  # last: if it cannot be written, the verdict is there
    sys.exit(report.exit_code if agreement is None else agreement.exit_code(report))


def _refuse_contradictions(backend: str | None, place: Place, output: Output) -> None:
    if output.record is not None and not output.record.name:
        raise Refusal("--record must name a file")
    if (backend is None) == (place.command is None):
        raise Refusal("name a BACKEND or --exec" + ", not both" * (backend is not None))
    if place.python is not None and place.command is not None:
        raise Refusal("--python is for a BACKEND, not for --exec")
    if place.limits and not place.apart:
        option = "--" + min(place.limits).replace("_", "-")
        raise Refusal(f"{option} needs --isolate, --python or --exec")


def _known(path: Path | None) -> "tuple[Deviation, ...] | None":
    """The known deviations, if there is a list."""
    if path is None:
        return None
    from kvassay.conformance.evidence.deviations import load
    from kvassay.properties.test_codec import PROPERTIES

    return load(path, PROPERTIES)


def _backend(spec: str | None, place: Place) -> "Backend":
    from kvassay.conformance import discovery

    set_device(place.device, place.variant)
    if place.apart:
        from kvassay.conformance.isolation.backend import apart

        return apart(spec, place.python, place.command, **place.limits)
    assert spec is not None
    with redirect_stdout(sys.stderr):
        loaded = discovery.load(spec)
    require_device_backend(loaded, place.device, place.variant)
    return loaded


def _planned(backend: "Backend", settings: "Settings") -> int:
    """How many entries the run will have."""
    from kvassay.conformance.run.plan import planned_entries

    planned = planned_entries(backend, settings)
    if not planned:
        raise Refusal(
            f"nothing is planned: {', '.join(settings.claims)} says nothing about "
            f"{', '.join(backend.capabilities.kinds)} at these bits"
        )
    return planned


class _Run:
    """A run that shows how far it is, and can be stopped."""

    def __init__(
        self, spec: Any, backend: "Backend", settings: "Settings", planned: int, workers: int | None
    ) -> None:
        self.spec, self.backend, self.settings = spec, backend, settings
        self.planned, self.workers = planned, workers
        self.stopped = False
        self._found: list[Entry] = []

    def checked(self, output: Output, record: Path | None) -> "Report":
        """What was found, and what it looks like: a single claim looks like many faults."""
        from concurrent.futures import BrokenExecutor

        from kvassay.conformance import check
        from kvassay.conformance.run.execution import cores

        with refusing_records(record), progress_bar(self.planned) as advance:

            def on_entry(entry: "Entry") -> None:
                self._found.append(entry)
                advance(f"d={entry.dim} {entry.kind}")

            try:
                return check(
                    self.spec,
                    self.settings,
                    workers=self.workers or cores(),
                    record=record,
                    diagnose=not (output.no_diagnosis or self.settings.claims),
                    on_entry=on_entry,
                )
            except (KeyboardInterrupt, BrokenExecutor):
                return self._what_is_left(output)

    def _what_is_left(self, output: Output) -> "Report":
        """The verdict, if it was the diagnosis that was stopped; else this ends here."""
        from kvassay.conformance.evidence.schema import Report

        record = output.record
        hint = f"; {record} keeps them: the same command goes on from there" if record else ""
        entries = tuple(self._found)
        report = Report(self.backend.name, self.backend.version, self.planned, entries)
        if len(self._found) < self.planned:
            if output.as_json:
                _print_json(report, None, stopped=True)
            text = f"stopped after {len(self._found)} of {self.planned} entries{hint}"
            click.echo(text, err=True)
            sys.exit(130)
        self.stopped = True
        click.echo("no diagnosis: it was stopped", err=True)
        return report


def _undeclared(report: "Report", settings: "Settings") -> list[str]:
    """What the backend could declare of its design so that less violates, as sentences."""
    from kvassay.conformance.faults.declared import undeclared

    return [str(other) for other in undeclared(report.entries, settings.effort)]


def _print_json(
    report: "Report",
    agreement: "Agreement | None",
    stopped: bool = False,
    undeclared: Sequence[str] = (),
) -> None:
    """The report as one JSON object; `stopped` says that entries that were planned are missing."""
    import json

    from kvassay.conformance.evidence.schema import plain

    result: dict[str, Any] = {"backend": report.name, "version": report.version, **report.counts}
    result["stopped"] = stopped
    result["diagnoses"] = [_diagnosis(diagnosis) for diagnosis in report.diagnoses]
    result["undeclared"] = list(undeclared)
    if agreement is not None:
        result["deviations"] = agreement.summary
    result["claims"] = [plain(entry) for entry in report.entries]
    click.echo(json.dumps(result, allow_nan=False, indent=1))


def _diagnosis(diagnosis: "Diagnosis") -> dict[str, Any]:
    """A diagnosis with what its families say: the families first, then their faults."""
    from kvassay.conformance.evidence.schema import plain
    from kvassay.conformance.faults.families import likely

    families = [
        {
            "family": each.family.id,
            "fit": each.fit,
            "sentence": each.family.sentence,
            "look_first_at": each.family.look,
            "faults": [match.fault for match in each.matches],
        }
        for each in likely(diagnosis.matches)
    ]
    return {"families": families, **plain(diagnosis)}
