"""`kvassay report`."""

from pathlib import Path

import click

from kvassay.conformance.doors.cli.options import FILE, Refusal, reports_writer


@click.command()
@click.argument(
    "records",
    metavar="RECORD...",
    nargs=-1,
    required=True,
    type=FILE,
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
    type=FILE,
    help="The record of reference, identity or zero, or the output of `kvassay faults --json`.",
)
@click.option(
    "--deviations",
    type=FILE,
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
    write = reports_writer()
    declared = None
    try:
        if deviations:
            from kvassay.conformance.evidence import deviations as known
            from kvassay.properties.test_codec import PROPERTIES

            declared = known.load(deviations, PROPERTIES)
        written = write(records, out, controls=controls, known=declared, partial=partial)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    for path in written:
        click.echo(path)
