"""The table of published packages in docs/packages.md, from the TOML files beside their adapters.

python docs/packages.py            # exit code 1 if the page is not what they say
python docs/packages.py --write    # makes it so
"""

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from kvassay.conformance.packages import packages

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "packages.md"
HEAD = """\
<!-- Made by `python docs/packages.py --write`. -->
# What published packages got

At standard effort on the default grid, in the versions that the extras in
[pyproject.toml](../pyproject.toml) pin. Each finding stands with its cause, and the change that
restores the prediction, in the file that the package's name leads to. `tox -e NAME` repeats it in
an environment of its own, `tox -m packages` all of them; [recipes/package.md](recipes/package.md)
adds a package. A kind in brackets is one that the package has without Lloyd-Max, by design.

| package | kinds it has | violates | cause |
|---|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = []
    for package in packages():
        pinned = Requirement(project["optional-dependencies"][package.name][0])
        title = f"{pinned.name} {str(pinned.specifier).removeprefix('==')}"
        link = f"[{title}](../conformance/adapters/{package.path.name})"
        rows.append(f"| {link} | {package.kinds} | {package.violates} | {package.cause} |\n")
    return HEAD + "".join(rows)


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print("docs/packages.md is not current: python docs/packages.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
