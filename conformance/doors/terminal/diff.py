"""What changed between two records, on the terminal."""

from collections import Counter

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kvassay.conformance import words
from kvassay.conformance.evidence.difference import ORDER, Difference
from kvassay.conformance.evidence.schema import Entry

MOST = 40  # changes in full


def show_difference(found: Difference) -> None:
    """How the runs differ, then what changed, the worst first, then the sentence."""
    console = Console()
    for name, (old, new) in found.settings.items():
        console.print(f"{escape(name)}: {escape(old)} -> {escape(new)}", highlight=False)
    if found.changes:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("what", "claim", "where", "before", "now"):
            table.add_column(title)
        for change in found.changes[:MOST]:
            entry = change.entry
            where = ", ".join(filter(None, (entry.cell.label, entry.part)))
            what = Text(change.what, style="bold red" if change.worse else "green")
            row = (entry.id, where, _said(change.old), _said(change.new))
            table.add_row(what, *map(escape, row))
        console.print(table)
    if len(found.changes) > MOST:
        console.print(f"and {len(found.changes) - MOST} more; --json has all")
    counts = Counter(change.what for change in found.changes)
    parts = [f"{what}: {counts[what]}" for what in ORDER if counts[what]] or ["no change"]
    verdict = "something got WORSE" if found.worse else "nothing got worse"
    console.print(
        Text(
            f"{words.plural(found.compared, 'entry')} in both: {', '.join(parts)}; {verdict}",
            style="bold red" if found.worse else "bold green",
        )
    )


def _said(entry: Entry | None) -> str:
    if entry is None:
        return "not there"
    if entry.estimate is None:
        return entry.verdict
    return f"{entry.verdict}, {words.measured(entry.estimate, entry.interval)}"
