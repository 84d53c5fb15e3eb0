"""The kill table on the terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kvassay.conformance.evidence.schema import Kill


def show_kills(kills: Sequence[Kill], effort: str) -> None:
    """A row for each fault: what it is and who caught it."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("what is wrong")
    table.add_column("caught by")
    for kill in kills:
        style = "green" if kill.ok else "bold red"
        caught = Text(", ".join(kill.caught) or "nobody", style=style)
        if kill.missed:
            caught.append(f"; missed by {', '.join(kill.missed)}", style="bold red")
        if kill.proof:
            caught.append(f", and equivalent: {kill.proof}", style="dim" if kill.ok else style)
        table.add_row(kill.id, escape(kill.text), caught)
    console.print(table)
    bad = [kill.id for kill in kills if not kill.ok]
    alike = sum(bool(kill.proof) for kill in kills)
    verdict = "all caught" + (f", and none of {alike} equivalent changes" if alike else "")
    if bad:
        verdict = f"NOT caught as they must be: {', '.join(bad)}"
    console.print(
        Text(
            f"{len(kills) - alike} faults at {effort} effort: {verdict}",
            style="bold red" if bad else "bold green",
        )
    )
