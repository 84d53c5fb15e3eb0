"""`kvassay diff`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvassay.conformance.doors.cli.options import AS_JSON, FILE, Refusal

if TYPE_CHECKING:
    from kvassay.conformance.evidence.difference import Change, Difference


@click.command()
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@AS_JSON
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Say what changed from the record OLD of `check` to the record NEW. Nothing is run.

    Exit code: 0 nothing got worse, 1 something did (a new violation or error, what conformed and
    does so no more or is not judged any more, a violation further from its band), 2 bad input.
    """
    from kvassay.conformance.evidence.difference import difference
    from kvassay.conformance.evidence.read import read

    try:
        found = difference(read(old), read(new))
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    if as_json:
        _print_json(found)
    else:
        from kvassay.conformance.doors.terminal.diff import show_difference

        show_difference(found)
    sys.exit(1 if found.worse else 0)


def _print_json(found: "Difference") -> None:
    import json

    result = {
        "old": found.old.label,
        "new": found.new.label,
        "worse": found.worse,
        "compared": found.compared,
        "settings": found.settings,
        "changes": [_change(change) for change in found.changes],
    }
    click.echo(json.dumps(result, allow_nan=False, indent=1))


def _change(change: "Change") -> dict[str, Any]:
    from kvassay.conformance.evidence.schema import plain

    return {
        "what": change.what,
        "worse": change.worse,
        "old": plain(change.old) if change.old else None,
        "new": plain(change.new) if change.new else None,
    }
