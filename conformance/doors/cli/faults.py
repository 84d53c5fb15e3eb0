"""`kvassay faults`."""

import sys
from typing import Literal

import click

from kvassay.conformance.doors.cli.options import Refusal, progress_bar
from kvassay.conformance.measure import EFFORTS


@click.command()
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
    and the equivalent changes by nobody, 1 otherwise.
    """
    import json

    from kvassay.conformance.doors.terminal.faults import show_kills
    from kvassay.conformance.evidence.schema import plain
    from kvassay.conformance.evidence.write import suite
    from kvassay.conformance.faults import select
    from kvassay.conformance.faults.kills import kill_table
    from kvassay.conformance.run.execution import cores, process_pool
    from kvassay.properties.test_codec import PROPERTIES

    try:
        chosen = select(ids)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    with (
        process_pool(workers or cores()) as executor,
        progress_bar(len(chosen)) as advance,
    ):
        kills = []
        for kill in kill_table(chosen, effort, executor, PROPERTIES):
            kills.append(kill)
            advance(kill.id)
    if as_json:
        rows = [plain(kill) for kill in kills]
        click.echo(json.dumps({**suite(), "effort": effort, "faults": rows}, indent=1))
    else:
        show_kills(kills, effort)
    sys.exit(0 if all(kill.ok for kill in kills) else 1)
