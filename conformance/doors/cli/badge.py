"""`kvassay badge`."""

from pathlib import Path

import click

from kvassay.conformance.doors.cli.options import FILE, Refusal


@click.command()
@click.argument("record", type=FILE)
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.  [default: standard output]",
)
def badge(record: Path, out: Path | None) -> None:
    """Make a badge of the evidence in RECORD: JSON for an endpoint of shields.io.

    It says the verdict, on how many claims, and the version of the suite.
    """
    import json

    from kvassay.conformance import words
    from kvassay.conformance.evidence.read import read
    from kvassay.conformance.evidence.runs import CheckRun

    try:
        run = read(record)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    if not isinstance(run, CheckRun):
        raise Refusal(f"{str(record)!r} is no record of `kvassay check`, of which badges are made")
    text = json.dumps(words.badge(run), indent=1) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise Refusal(f"{str(out)!r} cannot be written: {problem.strerror}") from None
