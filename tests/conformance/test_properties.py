import subprocess
import sys

import pytest

from kvassay.properties import test_codec as module

pytestmark = pytest.mark.once


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [*command, "kvassay.properties", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_reference_has_all_properties(tmp_path):
    done = run(tmp_path, "--backend", "reference")
    assert done.returncode == 0, done.stdout
    assert f"{len(module.PROPERTIES)} passed" in done.stdout


def test_a_failure_fails_the_command_and_can_be_reproduced(tmp_path):
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    done = run(tmp_path, "--backend", "own:backend", *ONLY)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "@reproduce_failure" in done.stdout


ONLY = ("-k", "test_batch_is_singles")


def test_without_a_backend_nothing_passes(tmp_path):
    done = run(tmp_path)
    assert done.returncode != 0
    assert "--backend must name the backend" in done.stdout + done.stderr


def test_an_unknown_backend_is_refused(tmp_path):
    done = run(tmp_path, "--backend", "nobody")
    assert done.returncode != 0
    assert "no backend is called 'nobody'" in done.stdout + done.stderr
