"""The reports in docs/reports, from records.

    python docs/make.py [FOLDER]

Pages are made from the records in FOLDER (build/records unless said). A record that is not there
is measured first, which takes two hours on two cores for all of them: `kvassay reproduce
--effort thorough`, `kvassay faults`, and `kvassay check` over the reference, the controls and
the packages, each in an environment of its own. To measure one again, remove it. Needs
`kvassay[reports]` and tox.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from kvassay.conformance.evidence.deviations import load
from kvassay.conformance.packages import packages
from kvassay.reports.write import report

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "reports"
CONTROLS = ("reference", "identity", "zero")
SHOWN = "turboquant-py"  # the package that has a page of its own


def main() -> int:
    records = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "records").resolve()
    records.mkdir(parents=True, exist_ok=True)
    cli = [sys.executable, "-m", "kvassay.conformance.doors.cli"]
    paths = {package.name: package.path for package in packages()}
    for name in CONTROLS:
        measured(records / f"{name}.jsonl", [*cli, "check", name, "--record"])
    for name in paths:
        tox = [sys.executable, "-m", "tox", "run", "-q", "-e", name, "--", "--record"]
        measured(records / f"{name}.jsonl", tox)
    measured(records / "papers.jsonl", [*cli, "reproduce", "--effort", "thorough", "--record"])
    kills = records / "faults.json"
    if not kills.exists():
        found = subprocess.run([*cli, "faults", "--json"], stdout=subprocess.PIPE, check=True)
        kills.write_bytes(found.stdout)

    controls = [*(records / f"{name}.jsonl" for name in CONTROLS), kills]
    there = [records / f"{name}.jsonl" for name in paths]
    there = [path for path in there if path.exists()]  # one may be gone from the index
    known = load(paths[SHOWN])
    PAGES.mkdir(exist_ok=True)
    for ending in ("html", "md", "xml"):
        report(
            [records / f"{SHOWN}.jsonl"],
            PAGES / f"conformance.{ending}",
            controls=controls,
            known=known,
        )
    for ending in ("html", "md"):
        report([controls[0], *there], PAGES / f"comparison.{ending}", controls=controls)
        report([records / "papers.jsonl"], PAGES / f"papers.{ending}")
    picture(PAGES / "conformance.html", PAGES / "conformance.png")
    return 0


def picture(page: Path, out: Path) -> None:
    """What the README shows: the top of a page, as Debian's chromium draws it, if it is here."""
    if chromium := shutil.which("chromium"):
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        view = ["--window-size=1280,1500", f"--screenshot={out}", page.as_uri()]
        subprocess.run([chromium, *options, *view], stderr=subprocess.DEVNULL, check=True)


def measured(record: Path, command: list[str]) -> None:
    """Runs the command that writes the record, if it is not there. What it finds is the record's
    to say, so its exit code is not; one that it leaves unwritten is reported."""
    if record.exists():
        return
    unfinished = record.with_suffix(".part")
    print("+", *command, unfinished, file=sys.stderr, flush=True)
    ran = subprocess.run([*command, str(unfinished)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if unfinished.exists():
        unfinished.rename(record)
    else:
        print(f"no {record.name}:", *ran.stdout.splitlines()[-3:], sep="\n", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
