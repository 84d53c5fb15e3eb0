"""`kvassay reproduce`."""

import signal
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
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

if TYPE_CHECKING:
    from kvassay.conformance.run.reproduce import Results


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    papers: tuple[str, ...]
    claims: tuple[str, ...]
    effort: Literal["quick", "standard", "thorough"]
    seed: int
    workers: int | None
    record: Path | None
    tensors: Path | None
    device: str | None
    variant: str | None
    report_to: Path | None
    as_json: bool


@click.command()
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
def reproduce(backend: str, **options: Any) -> None:
    """Decide the claims of both papers with the codecs of BACKEND, the reference by default.

    Claims about attention, regimes and SpectralQuant run on synthetic populations and on real
    tensors. Exit code: 0 every theorem and derived claim conforms, whatever became of what a
    paper only reports, 1 one violates, 2 bad input, 3 one is inconclusive or failed.
    """
    import json

    from kvassay.conformance.doors.terminal.papers import show_results

    asked = chosen(Asked, options)
    if asked.record is not None and not asked.record.name:
        raise Refusal("--record must name a file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    with reporting(asked.report_to, asked.record) as (kept, write_report):
        results = _reproduced(backend, asked, kept)
        if asked.as_json:
            click.echo(json.dumps(_for_json(results), allow_nan=False, indent=1))
        else:
            show_results(results)
        write_report(None, False)  # last: if it cannot be written, the outcomes are there
    sys.exit(results.exit_code)


def _reproduced(backend: str, asked: Asked, record: Path | None) -> "Results":
    from kvassay.conformance import discovery
    from kvassay.conformance.run import reproduce as run
    from kvassay.conformance.run.execution import cores

    done = total = 0
    try:
        settings = run.Settings(
            asked.papers, asked.claims, asked.effort, asked.seed, str(asked.tensors or "")
        )
        set_device(asked.device, asked.variant)
        with redirect_stdout(sys.stderr):
            loaded = discovery.load(backend)
        require_device_backend(loaded, asked.device, asked.variant)
        total = len(run.plan(backend, loaded, settings))
        with refusing_records(record), progress_bar(total) as advance:

            def on_task(what: str) -> None:
                nonlocal done
                done += 1
                advance(what)

            workers = asked.workers or cores()
            return run.reproduce(backend, settings, workers=workers, path=record, on_task=on_task)
    except KeyboardInterrupt:
        kept = f"{asked.record} keeps them: the same command goes on from there"
        hint = kept if asked.record else "with --record FILE they would have been kept"
        click.echo(f"stopped after {done} of {total} tasks; {hint}", err=True)
        sys.exit(130)
    except ValueError as problem:
        raise Refusal(str(problem)) from None


def _for_json(results: "Results") -> dict[str, Any]:
    from kvassay.conformance.evidence.schema import plain

    return {
        "backend": results.backend,
        "settings": asdict(results.settings),
        "entries": [plain(entry) for entry in results.entries],
        "findings": [plain(finding) for finding in results.findings],
        "outcomes": [plain(outcome) for outcome in results.outcomes],
    }
