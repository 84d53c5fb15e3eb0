"""The claims as pytest tests, one for each claim in each cell of the grid.

    pytest --pyargs kvassay.conformance --kvassay-backend mine:Backend

What conforms passes, a known deviation is an expected failure, and what cannot be judged
because the backend does not offer it is skipped with the reason.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from kvassay.conformance.doors.pytest_plugin import deviations, loaded
from kvassay.conformance.evidence.deviations import DEVIANT, compare
from kvassay.conformance.evidence.schema import Entry
from kvassay.conformance.run.cell import run_cell
from kvassay.conformance.run.execution import one_thread
from kvassay.conformance.run.plan import BITS, DIMS, Settings, Task, plan

pytestmark = pytest.mark.kvassay


@dataclass
class Run:
    """The plan, and what was found in the cells that were asked for."""

    tasks: list[Task]
    found: dict[int, list[Entry]] = field(default_factory=dict)

    def entries(self, number: int) -> list[Entry]:
        if number not in self.found:
            with one_thread():
                self.found[number] = run_cell(self.tasks[number])
        return self.found[number]

    def all_entries(self) -> list[Entry]:
        return [entry for number in range(len(self.tasks)) for entry in self.entries(number)]


_RUN = pytest.StashKey[Run]()


def _run(config: pytest.Config) -> Run:
    if _RUN not in config.stash:
        backend, option = loaded(config), config.getoption
        try:
            settings = Settings(
                dims=tuple(option("--kvassay-dim") or DIMS),
                bits=tuple(option("--kvassay-bits") or BITS),
                effort=option("--kvassay-effort"),
                seed=option("--kvassay-seed"),
            )
            in_process = not hasattr(backend, "arguments")  # a backend apart says how it is named
            spec = option("--kvassay-backend") if in_process else backend
            config.stash[_RUN] = Run(plan(spec, backend, settings))
        except ValueError as problem:
            raise pytest.UsageError(str(problem)) from None
    return config.stash[_RUN]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "claim" in metafunc.fixturenames:
        try:
            tasks = _run(metafunc.config).tasks
        except pytest.UsageError as problem:  # this error alone is shown without a traceback
            raise pytest.Collector.CollectError(str(problem)) from None
        cases = [
            pytest.param(number, claim, id=f"{claim}-{task.cell}".replace(" ", "-"))
            for number, task in enumerate(tasks)
            for claim in dict.fromkeys(name for name, _ in task.planned)
        ]
        metafunc.parametrize(("number", "claim"), cases)


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Run:
    return _run(request.config)


def test_claim(run: Run, number: int, claim: str, pytestconfig: pytest.Config) -> None:
    entries = [entry for entry in run.entries(number) if entry.id == claim]
    deviant = [entry for entry in entries if entry.verdict in DEVIANT]
    agreement = compare(deviations(pytestconfig), deviant)
    if agreement.unexpected:
        pytest.fail("\n".join(map(_line, agreement.unexpected)), pytrace=False)
    if deviant:
        pytest.xfail("; ".join({known.why for _, known in agreement.expected}))
    if all(entry.verdict == "not applicable" for entry in entries):
        pytest.skip(f"not applicable: {entries[0].reason}")


def test_no_known_deviation_is_stale(run: Run, pytestconfig: pytest.Config) -> None:
    known: Any = deviations(pytestconfig)
    stale = compare(known, run.all_entries()).stale if known else ()
    if stale:
        names = ", ".join(map(str, stale))
        pytest.fail(f"conform now, remove them from the file: {names}", pytrace=False)


def test_something_was_judged(run: Run) -> None:
    if not any(entry.verdict in ("conforms", "violates") for entry in run.all_entries()):
        pytest.fail("no claim could be judged at all", pytrace=False)


def _line(entry: Entry) -> str:
    if entry.verdict == "error":
        found = entry.reason
    else:
        found = f"{entry.estimate:.6g} in {entry.interval}, should be in {entry.band}"
    return f"{entry.id} ({entry.part}) {entry.verdict}: {found}, {entry.n} seeds\n{entry.reproduce}"
