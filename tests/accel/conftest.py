"""The tests of kvassay.accel, on every OpenCL device of this process and both variants.

    pytest tests/accel                    no device, no tests of devices
    pytest tests/accel --require-device   no device, failure
    pytest tests/accel --gpu              only GPUs count

One driver a process: see the environments pocl, intel, oclgrind and gpu of tox.ini.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Before a driver loads. They say nothing to any but Oclgrind, whose reports go to a file; it
# lacks what the optimizer makes of shifts, and pyopencl's cache does not know these options.
LOG = Path(tempfile.mkdtemp(prefix="kvassay-")) / "oclgrind.log"
os.environ |= {
    "OCLGRIND_LOG": str(LOG),
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    "PYOPENCL_NO_CACHE": "1",
}

from comparing import Tally  # noqa: E402

from kvassay.accel import DeviceError, Runtime, choose, found  # noqa: E402
from kvassay.accel.devices import VARIANTS  # noqa: E402

_DEVICES = pytest.StashKey[list]()
_TALLIES = pytest.StashKey[dict]()


def pytest_addoption(parser):
    group = parser.getgroup("kvassay")
    group.addoption("--require-device", action="store_true", help="no OpenCL device is a failure")
    group.addoption("--gpu", action="store_true", help="only GPUs count as OpenCL devices")


def pytest_configure(config):
    for marker in (
        "item: for the variant group on GPUs only; drivers for CPUs take seconds to compile it",
        "long: not on a simulator",
    ):
        config.addinivalue_line("markers", marker)
    try:
        devices = found()
        if devices:
            choose()  # refuses two drivers in one process
    except DeviceError as problem:
        raise pytest.UsageError(str(problem)) from None
    only = config.getoption("--gpu")
    config.stash[_DEVICES] = [one for one in devices if _is_gpu(one) or not only]
    config.stash[_TALLIES] = {}


def pytest_unconfigure(config):
    shutil.rmtree(LOG.parent, ignore_errors=True)


def _is_gpu(device):
    return device.kind == "GPU" and device.platform != "Oclgrind"  # which claims to be anything


def pytest_report_header(config):
    devices = config.stash[_DEVICES]
    kind = " (GPU)" if config.getoption("--gpu") else ""
    return [f"OpenCL devices: {len(devices)}{kind}", *(f"  {device}" for device in devices)]


def pytest_generate_tests(metafunc):
    if "runtime" in metafunc.fixturenames:
        devices = metafunc.config.stash[_DEVICES]
        chosen = [(device, variant) for device in devices for variant in VARIANTS]
        names = [f"{device.name}-{variant}" for device, variant in chosen]
        metafunc.parametrize(
            "runtime",
            chosen or [None],
            indirect=True,
            ids=names or ["no device"],
            scope="session",
        )


def pytest_collection_modifyitems(config, items):
    def left_out(item):
        callspec = getattr(item, "callspec", None)
        chosen = callspec and callspec.params.get("runtime")
        if not chosen:
            return False
        device, variant = chosen
        slow = variant == "group" and not _is_gpu(device) and item.get_closest_marker("item")
        return slow or (device.platform == "Oclgrind" and item.get_closest_marker("long"))

    gone = [item for item in items if left_out(item)]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]


@pytest.fixture(scope="session")
def runtime(request):
    """A device in use, with one variant of the kernels."""
    if request.param is None:
        if request.config.getoption("--require-device"):
            pytest.fail("no OpenCL device was found, and --require-device asks for one")
        pytest.skip("no OpenCL device")
    return Runtime(*request.param)


@pytest.fixture
def tally(request, runtime, record_property):
    """Where a test counts the codes that differ from the reference's; shown at the end."""
    own = Tally()
    yield own
    record_property("coordinates", own.coordinates)
    record_property("mismatches", own.mismatches)
    name = f"{runtime.device}, {runtime.variant}"
    request.config.stash[_TALLIES].setdefault(name, Tally()).add(own)


def pytest_terminal_summary(terminalreporter, config):
    for name, tally in config.stash[_TALLIES].items():
        terminalreporter.write_line(f"{name}: {tally}")


@pytest.fixture
def simulated(runtime):
    """The file of Oclgrind's reports; skips on a device that is none of its."""
    if runtime.device.platform != "Oclgrind":
        pytest.skip("needs Oclgrind")
    return LOG


@pytest.fixture(autouse=True)
def _nothing_reported(request):
    """Under Oclgrind, a test with a report fails, unless it asks for `simulated`."""
    before = LOG.read_bytes() if LOG.exists() else b""
    yield
    after = LOG.read_bytes() if LOG.exists() else b""
    if "simulated" not in request.fixturenames and after != before:
        reports = after.removeprefix(before).strip(b"\0").decode()
        assert not reports, f"Oclgrind reports:\n{reports[:2000]}"
