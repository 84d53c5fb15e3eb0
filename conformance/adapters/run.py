"""The suite over a published package: what it finds must be what is known, and proved.

    python -m kvassay.conformance.adapters.run faiss [options of `kvassay check`]

Installs the package into this environment, as the extra of that name pins it, and holds it
against the claims and the deviations in the TOML file beside its adapter. A package that cannot
be installed any more is reported and fails nothing; a finding that is new, or gone, does.
"""

import subprocess
import sys
from importlib.metadata import requires

from packaging.requirements import Requirement

from kvassay.conformance.packages import packages


def main() -> int:
    name, *options = sys.argv[1:] or [""]
    known = {package.name: package for package in packages()}
    pinned = [Requirement(text) for text in requires("kvassay") or []]
    wanted = [
        f"{requirement.name}{requirement.specifier}"
        for requirement in pinned
        if requirement.marker and requirement.marker.evaluate({"extra": name})
    ]
    if name not in known:
        print(f"no package is called {name!r}; known are {', '.join(known)}", file=sys.stderr)
        return 2
    if not wanted:
        print(f"kvassay has no extra called {name}, which pins it", file=sys.stderr)
        return 2
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    package, *others = wanted  # some build against their dependencies, so those come first
    for step in ([*others, "setuptools", "wheel"], ["--no-build-isolation", package]):
        installed = subprocess.run([*pip, *step], capture_output=True, text=True)
        if installed.returncode:
            last = (installed.stderr.strip() or "no reason given").splitlines()[-1]
            print(f"NOT CHECKED: {package} cannot be installed: {last}")
            return 0
    check = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", name]
    deviations = ["--deviations", str(known[name].path)]
    return subprocess.run([*check, *deviations, *known[name].options, *options]).returncode


if __name__ == "__main__":
    sys.exit(main())
