"""The pytest door, loaded by pytest wherever kvassay is installed:

    pytest --pyargs kvassay.properties kvassay.conformance --backend my_package.adapter:backend

Nothing heavy is imported until it is used.
"""

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = {"ci": 40, "thorough": 500}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvassay")
    group.addoption("--backend", help="the backend to hold against kvassay's claims and properties")
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
    if config.getoption("--backend"):
        config.pluginmanager.register(_Executed())


class _Executed:
    """Makes a run in which nothing was judged fail."""

    def __init__(self) -> None:
        self._count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ours = "test_codec.py::" in report.nodeid or "test_claims.py::" in report.nodeid
        judged = not report.skipped or hasattr(report, "wasxfail")
        self._count += ours and report.when == "call" and judged

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self._count and not session.exitstatus and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Properties that are known not to hold are expected to fail."""
    for item in items:
        if hasattr(getattr(item, "function", None), "catches"):  # a property
            from kvassay.properties.strategies import property_name

            for known in deviations(config):
                if known.claim == property_name(item.name):
                    item.add_marker(pytest.mark.xfail(reason=known.why, strict=True))


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
    """The backend named by --backend, made once."""
    from kvassay.conformance import discovery

    spec = config.getoption("--backend")
    if not spec:
        raise pytest.UsageError("--backend must name the backend to hold against the suite")
    if _BACKEND not in config.stash:
        try:
            config.stash[_BACKEND] = discovery.load(spec)
        except ValueError as problem:
            raise pytest.UsageError(str(problem)) from None
    return config.stash[_BACKEND]


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Any:
    """The backend named by --backend, and Hypothesis as --kvassay-profile says."""
    from hypothesis import HealthCheck, settings

    made = loaded(request.config)
    profile = request.config.getoption("--kvassay-profile")
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
    return made
