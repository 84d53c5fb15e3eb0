"""How long reports over many backends take.

    python benchmarks/reports.py RECORD... [--backends 25] [--rounds 3]

The records of `kvassay check` are repeated under other names until there are that many backends.
Seconds depend on the machine, so beside them stand multiples of what one core needs to parse the
same records as JSON and do no more.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kvassay.reports.write import report


def renamed(path: Path, number: int, folder: Path) -> Path:
    """The record as that of another backend."""
    first, _, rest = path.read_text().partition("\n")
    header = json.loads(first)
    header["backend"]["name"] += f" {number}"
    copy = folder / f"{number}.jsonl"
    copy.write_text(json.dumps(header) + "\n" + rest)
    return copy


def parsed(paths: list[Path]) -> None:
    """What a reader cannot do without."""
    for path in paths:
        for line in path.read_text().splitlines():
            json.loads(line)


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The least of a few."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--backends", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = islice(cycle(options.records), options.backends)
        paths = [renamed(path, number, folder) for number, path in enumerate(chosen)]
        entries = sum(path.read_text().count('"record": "entry"') for path in paths)
        base = seconds(lambda: parsed(paths), options.rounds)
        table = Table(title=f"{len(paths)} backends, {entries:,} entries")
        for heading in ("", "seconds", "times parsing", "MB"):
            table.add_column(heading, justify="right")
        table.add_row("parsing alone", f"{base:.2f}", "1", "")
        for what, out in (
            ("the comparison, HTML", folder / "page.html"),
            ("the comparison, Markdown", folder / "page.md"),
            ("a folder: all formats, a page each", folder / "all"),
        ):
            taken = seconds(lambda out=out: report(paths, out), options.rounds)
            files = out.iterdir() if out.is_dir() else [out]
            size = sum(file.stat().st_size for file in files) / 1e6
            table.add_row(what, f"{taken:.1f}", f"{taken / base:.1f}", f"{size:.1f}")
        Console().print(table)


if __name__ == "__main__":
    main()
