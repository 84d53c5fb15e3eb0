"""Published packages: what the TOML file beside each adapter says of one.

[package]
name = "turboquant-py"              # of the backend, of its extra and of its environment in tox
kinds = "mse, prod"                 # this and the next two are words for docs/packages.md
violates = "sketch claims, size"
cause = "a byte an index"
options = ["--dim", "64"]           # optional: of `kvassay check`, where the whole grid takes hours

Behind it stand the known deviations, as `evidence.deviations` reads them.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("adapters")
WORDS = ("name", "kinds", "violates", "cause")


@dataclass(frozen=True)
class Package:
    """A published package that has an adapter, and in words what was found of it."""

    path: Path
    name: str
    kinds: str
    violates: str
    cause: str
    options: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """Its adapter, the module of the same stem, as "module:factory"."""
        return f"kvassay.conformance.adapters.{self.path.stem}:backend"


@cache
def packages() -> tuple[Package, ...]:
    """All of them, by name. No adapter is imported. ValueError for a file that cannot be meant."""
    return tuple(sorted(map(read, FOLDER.glob("*.toml")), key=lambda package: package.name))


def read(path: Path) -> Package:
    """The package that a TOML file is about. ValueError, with the file, if it says too little."""
    import tomllib  # here: Pythons that have none may serve a backend to --python

    content = tomllib.loads(path.read_text(encoding="utf-8"))
    if "package" not in content:
        raise ValueError(f"{str(path)!r} must have a [package] table")
    return described(content["package"], path)


def described(table: Any, path: Path) -> Package:
    """The package that a [package] table describes. ValueError, with the file, if none."""
    place = f"{str(path)!r}, package"
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table, got {table!r}")
    if unknown := [key for key in table if key not in (*WORDS, "options")]:
        raise ValueError(f"{place}: no key is called {unknown[0]!r}")
    for key in WORDS:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise ValueError(f"{place} must have a {key}, a text")
    options = table.get("options", [])
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        raise ValueError(f"{place}: options must be a list of texts, got {options!r}")
    words = {key: table[key] for key in WORDS}
    return Package(path, **words, options=tuple(options))
