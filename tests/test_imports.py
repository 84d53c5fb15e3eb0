"""The order of the rooms: who may import whom, type-only imports included."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = ("reference", "accel", "conformance", "properties", "reports")

# A room may import those of the rows above it, and modules of its own.
ORDER = (
    "reference",
    "conformance.protocol",
    "conformance.packages",
    "conformance.discovery",
    "conformance.statistics",
    "conformance.measure",
    "conformance.isolation",
    "conformance.adapters",
    "conformance.claims",
    "conformance.evidence",
    "conformance.words",
    "conformance.run",
    "conformance.faults",
    "conformance.vectors",
    "conformance.assay",
    "conformance.reproduce",
    "conformance",
    "accel",
    "properties",
    "reports",
    "conformance.doors",
)


def _modules() -> dict[str, Path]:
    found = {}
    for top in TOP:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _imports(path: Path) -> set[str]:
    """The modules of ours that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("kvassay.")
                names.add(inner if inner in MODULES else node.module)
    return {name.removeprefix("kvassay.") for name in names} & set(MODULES)


def _room(module: str) -> str:
    return max((room for room in ORDER if f"{module}.".startswith(f"{room}.")), key=len)


GRAPH = {module: _imports(path) for module, path in MODULES.items()}


def test_every_room_has_a_place_and_every_place_a_room():
    assert {_room(module) for module in MODULES} == set(ORDER)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_imports_only_what_stands_above_it(module):
    above = ORDER[: ORDER.index(_room(module)) + 1]
    wrong = {other for other in GRAPH[module] if _room(other) not in above}
    assert not wrong, f"{module} must not import {', '.join(sorted(wrong))}"


def test_no_imports_run_in_a_circle():
    # A package is no module of its own in a circle: its parts are imported through it.
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    graph = {
        module: {other for other in imported if not f"{module}.".startswith(f"{other}.")}
        for module, imported in GRAPH.items()
        if module not in packages
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as problem:
        pytest.fail(" -> ".join(problem.args[1]))


def test_reading_a_record_loads_no_faults():
    loaded, waiting = set(), ["conformance.evidence.read"]
    while waiting:
        module = waiting.pop()
        if module not in loaded:
            loaded.add(module)
            waiting.extend(GRAPH[module])
    assert not {module for module in loaded if "faults" in module or "doors" in module}
