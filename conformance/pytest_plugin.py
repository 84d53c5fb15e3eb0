"""The pytest door: `pytest --pyargs kvassay.properties --backend NAME_OR_MODULE:FACTORY`.

Loaded by pytest wherever kvassay is installed, so nothing heavy is imported until used.
"""

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kvassay")
    group.addoption("--backend", help="the backend that kvassay's properties are held against")
    group.addoption(
        "--kvassay-examples",
        type=int,
        default=40,
        help="examples that Hypothesis tries of each property (default: 40)",
    )


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Any:
    """The backend named by --backend."""
    from hypothesis import HealthCheck, settings

    from kvassay.conformance import discovery

    spec = request.config.getoption("--backend")
    if not spec:
        raise pytest.UsageError("--backend must name the backend to hold the properties against")
    settings.register_profile(
        "kvassay",
        max_examples=request.config.getoption("--kvassay-examples"),
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("kvassay")
    return discovery.load(spec)
