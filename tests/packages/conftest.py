import pytest


def pytest_addoption(parser):
    parser.addoption("--package", required=True, help="the backend to check, as installed here")


@pytest.fixture(scope="session")
def package(request):
    return request.config.getoption("--package")
