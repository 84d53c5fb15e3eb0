import subprocess
import sys
from contextlib import contextmanager

import mutants
import pytest
from hypothesis import HealthCheck, Phase, settings

from kvassay.properties import test_codec as module

# Which property must fail on which fault; those not in kvassay.conformance.faults are in mutants.
VICTIMS = {
    "EmptyBatch": "test_shape_and_dtype",
    "ZeroBecomesNaN": "test_zero_vectors",
    "D01": "test_scale_equivariance",
    "D06": "test_scale_equivariance",
    "B05": "test_batch_is_singles",
    "E06": "test_batch_is_singles",
    "E02": "test_order_of_tokens",
    "StridesIgnored": "test_memory_layout",
    "InPlace": "test_input_is_left_alone",
    "H-workspace": "test_code_outlives_the_next_encode",
    "A06": "test_one_seed_one_codec",
    "B12": "test_one_seed_one_codec",
    "A18": "test_estimates_are_linear_in_the_query",
    "WidthCropped": "test_wrong_width_is_refused",
}


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [*command, "kvassay.properties", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_reference_has_all_properties(tmp_path):
    done = run(tmp_path, "--backend", "reference")
    assert done.returncode == 0, done.stdout
    assert f"{len(names())} passed" in done.stdout


@pytest.mark.parametrize(("victim", "name"), VICTIMS.items())
def test_each_property_catches_its_fault(victim, name):
    caught = (AssertionError, ValueError, pytest.fail.Exception, BaseExceptionGroup)
    with unshrunk(), pytest.raises(caught):
        getattr(module, name)(mutants.BY_NAME[victim])


@contextmanager
def unshrunk():
    """Hypothesis without the search for the smallest failure, which nobody reads here."""
    settings.register_profile(
        "unshrunk",
        phases=[Phase.generate],
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("unshrunk")
    try:
        yield
    finally:
        settings.load_profile("default")


def test_a_failure_fails_the_command_and_can_be_reproduced(tmp_path):
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    done = run(tmp_path, "--backend", "own:backend", "--kvassay-examples", "5", *ONLY)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "@reproduce_failure" in done.stdout


ONLY = ("-k", "test_batch_is_singles")


def names():
    return {name for name in vars(module) if name.startswith("test_")}


def test_every_property_has_a_victim_and_says_so():
    assert set(VICTIMS.values()) == names()
    assert all(getattr(module, name).__doc__ for name in names())


def test_without_a_backend_nothing_passes(tmp_path):
    done = run(tmp_path)
    assert done.returncode != 0
    assert "--backend must name the backend" in done.stdout + done.stderr


def test_an_unknown_backend_is_refused(tmp_path):
    done = run(tmp_path, "--backend", "nobody")
    assert done.returncode != 0
    assert "no backend is called 'nobody'" in done.stdout + done.stderr
