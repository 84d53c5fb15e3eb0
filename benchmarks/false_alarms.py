"""How often the suite accuses a correct codec: many runs on the reference, one seed each.

    python benchmarks/false_alarms.py --seeds 100 --effort quick --workers 2
    python benchmarks/false_alarms.py --seeds 300 --dim 64 --bits 1 --bits 3 --bits 6

Prints a line for each run that is not all conforming and, at the end, the number of runs
with a violation and its 95 % upper bound (Clopper-Pearson). The budget is 1 run in 1000.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from scipy.stats import beta

from kvassay.conformance import Settings, check
from kvassay.conformance.run.plan import BITS, DIMS


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--dim", type=int, action="append", help="of the grid; default: all")
    parser.add_argument("--bits", type=int, action="append", help="of the grid; default: all")
    arguments = parser.parse_args()
    accused = undecided = entries = 0
    dims, bits = tuple(arguments.dim or DIMS), tuple(arguments.bits or BITS)
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as executor:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            settings = Settings(dims=dims, bits=bits, effort=arguments.effort, seed=seed)
            report = check("reference", settings, executor=executor)
            counts = report.counts
            entries += counts["planned"] - counts["not_applicable"]
            accused += bool(counts["violates"])
            undecided += bool(counts["inconclusive"] or counts["error"])
            for entry in report.entries:
                if entry.verdict not in ("conforms", "not applicable"):
                    print(seed, entry, flush=True)
    bound = beta.ppf(0.95, accused + 1, arguments.seeds - accused)
    print(
        f"{arguments.seeds} runs, {entries} judged entries: {accused} runs with a violation "
        f"(95 % upper bound {bound:.3g} a run), {undecided} with something undecided"
    )


if __name__ == "__main__":
    main()
