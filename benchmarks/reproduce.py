"""How `reproduce` scales: two workers against one, and memory as trials grow.

    python benchmarks/reproduce.py

Each run is a process of its own. Records of one and of two workers must be the same bytes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

RUN = """
import json, resource, sys, time
from pathlib import Path
from kvassay.conformance.reproduce import Settings, reproduce
if __name__ == "__main__":
    claims, effort, workers, path = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    started = time.perf_counter()
    reproduce(settings=Settings(claims=tuple(claims), effort=effort), workers=workers, path=Path(path))
    peak = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"seconds": time.perf_counter() - started, "parent": peak[0], "worker": peak[1]}))
"""


def measured(claims: str, effort: str, workers: int, path: Path) -> dict[str, float]:
    script = path.with_suffix(".py")
    script.write_text(RUN)
    command = [sys.executable, str(script), claims, effort, str(workers), str(path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, float] = json.loads(found)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", default="sq-heavy-tail,storage")
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-claims", default="d-eff-calibration")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        table = Table(title=f"{options.claims}, {options.effort} effort")
        for heading in ("round", "one worker (s)", "two workers (s)", "ratio", "same bytes"):
            table.add_column(heading, justify="right")
        for number in range(options.rounds):
            paths = [Path(folder) / f"{number}-{workers}.jsonl" for workers in (1, 2)]
            one, two = (
                measured(options.claims, options.effort, workers, path)
                for workers, path in zip((1, 2), paths, strict=True)
            )
            ratio = one["seconds"] / two["seconds"]
            same = paths[0].read_bytes() == paths[1].read_bytes()
            table.add_row(
                str(number),
                f"{one['seconds']:.1f}",
                f"{two['seconds']:.1f}",
                f"{ratio:.2f}",
                str(same),
            )
        console.print(table)
        table = Table(title=f"peak memory, {options.memory_claims}, one worker")
        for heading in ("effort", "seconds", "parent (MiB)", "worker (MiB)"):
            table.add_column(heading, justify="right")
        for effort in ("quick", "standard", "thorough"):
            found = measured(options.memory_claims, effort, 1, Path(folder) / f"{effort}.jsonl")
            row = (found["seconds"], found["parent"], found["worker"])
            table.add_row(effort, *(f"{value:.0f}" for value in row))
        console.print(table)


if __name__ == "__main__":
    main()
