"""The suite over a published package: what it finds must be what is known, and proved.

    python tests/packages/run.py faiss [options of `kvassay check`]

Installs the package into this environment, as the extra of that name pins it, and holds it
against the claims and NAME.toml beside this file. A package that cannot be installed any more
is reported and fails nothing; a finding that is new, or gone, does.
"""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

NARROWER = {"tqdb": ["--dim", "64"]}  # a database for each codec: its whole grid takes hours


def main() -> int:
    name, *options = sys.argv[1:]
    pinned = [Requirement(text) for text in requires("kvassay") or []]
    wanted = [
        f"{requirement.name}{requirement.specifier}"
        for requirement in pinned
        if requirement.marker and requirement.marker.evaluate({"extra": name})
    ]
    if not wanted:
        print(f"kvassay has no extra called {name}", file=sys.stderr)
        return 2
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    package, *others = wanted  # some build against their dependencies, so those come first
    for step in ([*others, "setuptools", "wheel"], ["--no-build-isolation", package]):
        installed = subprocess.run([*pip, *step], capture_output=True, text=True)
        if installed.returncode:
            last = (installed.stderr.strip() or "no reason given").splitlines()[-1]
            print(f"NOT CHECKED: {package} cannot be installed: {last}")
            return 0
    known = Path(__file__).with_name(f"{name}.toml")
    check = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", name]
    chosen = [*NARROWER.get(name, []), *options]
    return subprocess.run([*check, "--deviations", str(known), *chosen]).returncode


if __name__ == "__main__":
    sys.exit(main())
