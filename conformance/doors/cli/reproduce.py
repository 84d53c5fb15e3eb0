"""`kvassay reproduce`."""

import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal

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

    from kvassay.conformance import discovery
    from kvassay.conformance.doors.terminal.papers import show_results
    from kvassay.conformance.run import reproduce as run
    from kvassay.conformance.run.execution import cores

    if record is not None and not record.name:
        raise Refusal("--record must name a file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    done = total = 0
    try:
        settings = run.Settings(papers, claims, effort, seed, str(tensors or ""))
        set_device(device, variant)
        with redirect_stdout(sys.stderr):
            loaded = discovery.load(backend)
        require_device_backend(loaded, device, variant)
        total = len(run.plan(backend, loaded, settings))
        with reporting(report_to, record) as (kept, write_report):
            with progress_bar(total) as advance:

                def on_task(what: str) -> None:
                    nonlocal done
                    done += 1
                    advance(what)

                processes = workers or cores()
                results = run.reproduce(
                    backend, settings, workers=processes, path=kept, on_task=on_task
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
