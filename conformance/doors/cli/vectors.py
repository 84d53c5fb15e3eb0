"""`kvassay vectors`."""

import sys
from pathlib import Path
from typing import Any

import click

from kvassay.conformance.doors.cli.options import AS_JSON, Refusal


@click.command()
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make the vectors anew and write them into this folder.",
)
@click.option(
    "--verify",
    "answers",
    type=click.Path(exists=True, path_type=Path),
    help="Judge the answers in this file, or in all .json files of this folder.",
)
@click.option(
    "--exec",
    "command",
    help="Judge the answers of a command, called as COMMAND VECTORS.json ANSWERS.json.",
)
@click.option("--group", "groups", multiple=True, help="Only this group.  [default: all]")
@AS_JSON
def vectors(
    folder: Path | None,
    answers: Path | None,
    command: str | None,
    groups: tuple[str, ...],
    as_json: bool,
) -> None:
    """Golden vectors: inputs with their right answers, to find a wrong bit before any statistics.

    Everything random is given, so that any language can answer; docs/vectors.md has the format.
    Exit code: 0 all answers are right, 1 one is wrong, 2 bad input, 3 none is wrong but some are
    missing. An answer that says why it is "skipped" counts as neither.
    """
    if sum(option is not None for option in (folder, answers, command)) != 1:
        raise Refusal("name one of --write, --verify and --exec")
    from kvassay.conformance.vectors import judge, make

    if unknown := [group for group in groups if group not in judge.GROUPS]:
        raise Refusal(f"no group is called {unknown[0]!r}; known are {', '.join(judge.GROUPS)}")
    if folder is not None:
        if groups or as_json:
            raise Refusal("--write makes all groups, and no JSON: leave --group and --json out")
        try:
            written = make.write(folder)
        except OSError as problem:
            raise Refusal(f"{str(folder)!r} cannot be written: {problem.strerror}") from None
        for path in written:
            click.echo(path)
        return
    try:
        if answers is not None:
            judged = judge.judge(judge.asked(groups), judge.answer_files(answers))
        else:
            assert command is not None
            judged = judge.asked_of(command, groups)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    if as_json:
        _print_json(judged)
    else:
        from kvassay.conformance.doors.terminal.vectors import show_vectors

        show_vectors(judged)
    sys.exit(judge.exit_code(judged))


def _print_json(judged: list[Any]) -> None:
    import json
    from collections import Counter
    from dataclasses import asdict

    from kvassay.conformance.vectors.judge import STATUSES, looks_like, wrong_alike

    counts = Counter(each.status for each in judged)
    result = {status: counts[status] for status in STATUSES}
    found = {
        "looks_like": looks_like(judged),
        "wrong_alike": wrong_alike(judged),
        "vectors": [asdict(each) for each in judged],
    }
    click.echo(json.dumps({**result, **found}, indent=1))
