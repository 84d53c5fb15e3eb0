"""The pytest door, loaded by pytest wherever kvassay is installed:

    pytest --pyargs kvassay.properties kvassay.conformance --kvassay-backend mine:Backend

All that it adds to a project's pytest begins with `kvassay`: options, fixture and marker.
Nothing heavy is imported until it is used.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

MARKER = "kvassay"
EXAMPLES = {"ci": 40, "thorough": 500}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvassay")
    group.addoption(
        "--kvassay-backend",
        metavar="BACKEND",
        help="the backend to hold against kvassay's claims and properties",
    )
    group.addoption(
        "--kvassay-isolate",
        action="store_true",
        help="run the backend in a child process with time limits",
    )
    group.addoption(
        "--kvassay-python",
        metavar="PATH",
        help="the interpreter of another environment to run the backend in",
    )
    group.addoption(
        "--kvassay-exec",
        metavar="COMMAND",
        help="a command that serves a backend, instead of --kvassay-backend",
    )
    group.addoption(
        "--kvassay-deviations",
        metavar="FILE",
        help="known deviations (TOML): those are expected failures",
    )
    group.addoption(
        "--kvassay-profile",
        choices=sorted(EXAMPLES),
        default="ci",
        help="how hard Hypothesis searches: ci (default) the same 40 examples of each property "
        "every time, thorough 500 random ones",
    )
    group.addoption(
        "--kvassay-effort",
        choices=("quick", "standard", "thorough"),
        default="standard",
        help="how small a violation of a claim must be found (default: standard)",
    )
    for name, what in (("dim", "dimension"), ("bits", "width")):
        group.addoption(
            f"--kvassay-{name}",
            type=int,
            action="append",
            metavar="N",
            help=f"hold the claims at this {what}; may be given several times",
        )
    group.addoption("--kvassay-seed", type=int, default=0, metavar="N", help="(default: 0)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: a claim or a property that kvassay brings")
    if _names_a_backend(config):
        config.pluginmanager.register(_Executed())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuses a backend that cannot be used before anything is collected."""
    if _names_a_backend(session.config):
        loaded(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    report.kvassay = _is_ours(item)  # with pytest-xdist, reports are all that is counted from
    return report


class _Executed:
    """Makes a run in which nothing was judged fail."""

    def __init__(self) -> None:
        self._count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ours = getattr(report, "kvassay", False)
        judged = not report.skipped or hasattr(report, "wasxfail")
        self._count += ours and report.when == "call" and judged

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._count and not session.exitstatus and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Properties that are known not to hold are expected to fail."""
    ours = [item for item in items if _is_ours(item)]
    if ours and not config.option.collectonly:
        loaded(config)
    for item in ours:
        from kvassay.properties.strategies import property_name

        for known in deviations(config):
            if known.claim == property_name(item.name):
                item.add_marker(pytest.mark.xfail(reason=known.why, strict=True))


def _is_ours(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None


_DEVIATIONS = pytest.StashKey[Any]()


def deviations(config: pytest.Config) -> Any:
    """The known deviations, read once."""
    if _DEVIATIONS not in config.stash:
        path, known = config.getoption("--kvassay-deviations"), None
        if path:
            from kvassay.conformance.evidence.deviations import load
            from kvassay.properties.test_codec import PROPERTIES

            try:
                known = load(Path(path), PROPERTIES)
            except ValueError as problem:
                raise pytest.UsageError(str(problem)) from None
        config.stash[_DEVIATIONS] = known or ()
    return config.stash[_DEVIATIONS]


_BACKEND = pytest.StashKey[Any]()


def loaded(config: pytest.Config) -> Any:
    """The backend that the options name, made once. UsageError, a sentence, if it cannot be."""
    if _BACKEND not in config.stash:
        try:
            config.stash[_BACKEND] = _made(config)
        except ValueError as problem:
            raise pytest.UsageError(str(problem)) from None
    return config.stash[_BACKEND]


def _names_a_backend(config: pytest.Config) -> bool:
    named = config.getoption("--kvassay-backend")
    return bool(named) or config.getoption("--kvassay-exec") is not None


def _made(config: pytest.Config) -> Any:
    from kvassay.conformance import discovery
    from kvassay.conformance.isolation.backend import apart

    spec, command = config.getoption("--kvassay-backend"), config.getoption("--kvassay-exec")
    python, isolate = config.getoption("--kvassay-python"), config.getoption("--kvassay-isolate")
    if spec and command is not None:
        raise ValueError("--kvassay-backend and --kvassay-exec cannot be given together")
    if python is not None and command is not None:
        raise ValueError("--kvassay-python is for a --kvassay-backend, not for --kvassay-exec")
    if not spec and command is None:
        raise ValueError(
            "--kvassay-backend must name the backend to hold against the suite, or "
            "--kvassay-exec a command that serves one"
        )
    if isolate or python is not None or command is not None:
        return apart(spec, python, command)
    return discovery.load(spec)


@pytest.fixture
def kvassay_backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The backend that the options name; Hypothesis searches as --kvassay-profile says, and as
    it did before when the test is over."""
    from hypothesis import HealthCheck, settings

    made = loaded(request.config)
    profile = request.config.getoption("--kvassay-profile")
    before = settings()
    settings.register_profile(
        f"kvassay-{profile}",
        max_examples=EXAMPLES[profile],
        derandomize=profile == "ci",
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile(f"kvassay-{profile}")
    yield made
    settings.register_profile("before-kvassay", before)
    settings.load_profile("before-kvassay")
