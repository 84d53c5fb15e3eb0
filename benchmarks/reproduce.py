"""How `reproduce` scales: two workers against one, and memory as trials grow.

    python benchmarks/reproduce.py

Each run is a process of its own. Records of one and of two workers must be the same bytes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kvassay.conformance.run.reproduce import Settings, reproduce


def one_run(claims: str, effort: str, workers: int, path: Path) -> dict[str, float]:
    """Seconds, and the largest memory of this process and of its workers in MiB."""
    started = time.perf_counter()
    settings = Settings(claims=tuple(claims.split(",")), effort=effort)
    reproduce(settings=settings, workers=workers, path=path)
    return {
        "seconds": time.perf_counter() - started,
        "parent": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }


def measured(claims: str, effort: str, workers: int, path: Path) -> dict[str, float]:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--run", claims, effort, str(workers), str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(options: argparse.Namespace, folder: Path) -> None:
    console = Console()
    table = Table(title=f"{options.claims}, {options.effort} effort")
    for heading in ("round", "one worker (s)", "two workers (s)", "ratio", "same bytes"):
        table.add_column(heading, justify="right")
    for number in range(options.rounds):
        paths = [folder / f"{number}-{workers}.jsonl" for workers in (1, 2)]
        seconds = [
            measured(options.claims, options.effort, workers, path)["seconds"]
            for workers, path in zip((1, 2), paths, strict=True)
        ]
        same = paths[0].read_bytes() == paths[1].read_bytes()
        ratio = f"{seconds[0] / seconds[1]:.2f}"
        table.add_row(str(number), *(f"{value:.1f}" for value in seconds), ratio, str(same))
    console.print(table)
    table = Table(title=f"peak memory, {options.memory_claims}, one worker")
    for heading in ("effort", "seconds", "parent (MiB)", "worker (MiB)"):
        table.add_column(heading, justify="right")
    for effort in ("quick", "standard", "thorough"):
        found = measured(options.memory_claims, effort, 1, folder / f"{effort}.jsonl")
        table.add_row(effort, *(f"{found[key]:.0f}" for key in ("seconds", "parent", "worker")))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", default="sq-heavy-tail,storage")
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-claims", default="d-eff-calibration")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        claims, effort, workers, path = options.run
        print(json.dumps(one_run(claims, effort, int(workers), Path(path))))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


if __name__ == "__main__":
    main()
