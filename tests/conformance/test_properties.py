import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kvassay.conformance.isolation.backend import served
from kvassay.conformance.isolation.child import Gone
from kvassay.conformance.measure.cell import BackendFault
from kvassay.properties import test_codec as module
from kvassay.properties.strategies import refuses

pytestmark = pytest.mark.once


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [*command, "kvassay.properties", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_reference_has_all_properties(tmp_path):
    done = run(tmp_path, "--kvassay-backend", "reference")
    assert done.returncode == 0, done.stdout
    assert f"{len(module.PROPERTIES)} passed" in done.stdout


def test_a_failure_fails_the_command_and_can_be_reproduced(tmp_path):
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    done = run(tmp_path, "--kvassay-backend", "own:backend", *ONLY)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "@reproduce_failure" in done.stdout


def fake(fault):
    child = Path(__file__).with_name("fake_child.py")
    return served((sys.executable, str(child), fault), ["--exec", "fake"], request_limit=2)


def test_a_child_that_hangs_ends_the_search():
    began = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match=r"did not answer within 2 s.*dim=") as caught:
        module.PROPERTIES["zero-vectors"](fake("hang"))
    assert caught.value.pytrace is False
    assert time.monotonic() - began < 10


def test_a_child_that_crashes_has_refused_nothing():
    with pytest.raises(Gone, match="signal 6"):
        module.PROPERTIES["extreme-norms"](fake("abort"))
    codec = fake("abort").codec("scalar", 16, 2, 0)
    code = codec.encode(np.ones((2, 16), np.float32))
    with pytest.raises(Gone, match="signal 6"):
        refuses(lambda: codec.decode(code))


def test_a_child_is_never_sent_anything_but_float32():
    codec = fake("none").codec("scalar", 16, 2, 0)
    for dtype in (np.float16, np.float64):
        with pytest.raises(BackendFault, match="the protocol sends float32 alone"):
            codec.encode(np.ones((2, 16), dtype))


ONLY = ("-k", "test_batch_is_singles")


def test_without_a_backend_nothing_passes(tmp_path):
    done = run(tmp_path)
    assert done.returncode != 0
    assert "--kvassay-backend must name the backend" in done.stdout + done.stderr


def test_an_unknown_backend_is_refused(tmp_path):
    done = run(tmp_path, "--kvassay-backend", "nobody")
    assert done.returncode != 0
    assert "no backend is called 'nobody'" in done.stdout + done.stderr
