"""Judged vectors on the terminal."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kvassay.conformance.faults import BY_ID
from kvassay.conformance.faults.families import family_of
from kvassay.conformance.vectors.judge import (
    GROUPS,
    STATUSES,
    Judged,
    compared,
    looks_like,
    wrong_alike,
)

MOST = 12  # wrong answers in full


def show_vectors(judged: Sequence[Judged]) -> None:
    """A row for each group, the wrong answers, and the faults that would give them."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    for status in STATUSES:
        table.add_column(status, justify="right")
    for group in GROUPS:
        counts = Counter(each.status for each in judged if each.group == group)
        if counts:
            table.add_row(group, *(str(counts[status] or "·") for status in STATUSES))
    console.print(table)
    wrong = [each for each in judged if each.status == "wrong"]
    suspects = looks_like(judged)
    for each in wrong[:MOST]:
        console.print(Text(f"{each.group} {each.id}: {each.about}", style="bold red"))
        console.print(f"  {escape(each.text)}", highlight=False)
        if like := [fault for fault in suspects if fault in each.suggests]:
            console.print(f"  the answer of fault {', '.join(like[:4])}", highlight=False)
    if len(wrong) > MOST:
        console.print(f"and {len(wrong) - MOST} more; --json has all")
    if wrong:
        _show_suspects(console, judged, suspects)
    counts = Counter(each.status for each in judged)
    text = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    style = "bold red" if wrong else "bold yellow" if counts["missing"] else "bold green"
    console.print(Text(f"{len(judged)} vectors: {text}", style=style))


def _show_alike(console: Console, alike: dict[str, float]) -> None:
    """What would be wrong in the same places, and as likely."""
    if not alike:
        console.print("No known fault gives such answers.")
        return
    best = max(alike.values())
    families = {family_of(fault).sentence for fault, share in alike.items() if share == best}
    console.print("No known fault gives such answers. The same vectors are wrong where:")
    for sentence in sorted(families):
        console.print(f"  {escape(sentence)}", highlight=False)


def _show_suspects(console: Console, judged: Sequence[Judged], suspects: dict[str, int]) -> None:
    if not suspects:
        _show_alike(console, wrong_alike(judged))
    for fault, count in list(suspects.items())[:2]:
        what = escape(BY_ID[fault].text)
        console.print(
            f"Looks like {fault}, which gives {count} of {compared(judged)} wrong answers: {what}",
            highlight=False,
        )
