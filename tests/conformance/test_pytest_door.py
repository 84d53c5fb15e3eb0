import subprocess
import sys

import pytest

pytestmark = pytest.mark.once

CELL = ("--kvassay-dim=64", "--kvassay-bits=2", "--kvassay-effort=quick")


@pytest.fixture
def door(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pyargs", "-rA"]
        return subprocess.run([*command, *arguments], cwd=tmp_path, capture_output=True, text=True)

    return run


def test_reference_passes_claims(door):
    done = door("kvassay.conformance", "--backend=reference", *CELL)
    assert done.returncode == 0, done.stdout
    assert "PASSED" in done.stdout
    assert "test_claim[distortion-turboquant-prod/gaussian-d=64-b=2]" in done.stdout


def test_violation_fails_with_figures_and_the_line_that_repeats_it(door):
    done = door("kvassay.conformance", "--backend=zero", *CELL, "-k", "distortion and scalar")
    assert done.returncode == 1
    assert "distortion (isotropic) violates: 1 in" in done.stdout
    assert "kvassay check zero --claim distortion --kind scalar --dim 64 --bits 2" in done.stdout


def test_known_deviations_are_expected_failures_and_stale_ones_fail(door, tmp_path):
    known = '[[deviation]]\nclaim = "{}"\nreason = "It keeps nothing."\n'
    (tmp_path / "known.toml").write_text(known.format("distortion"))
    only = ("-k", "distortion and scalar")
    option = "--kvassay-deviations=known.toml"
    done = door("kvassay.conformance", "--backend=zero", *CELL, option, *only)
    assert done.returncode == 0, done.stdout
    assert "1 xfailed" in done.stdout
    assert "It keeps nothing." in done.stdout
    (tmp_path / "known.toml").write_text(known.format("determinism"))
    done = door("kvassay.conformance", "--backend=zero", *CELL, option, "-k", "stale")
    assert done.returncode == 1
    assert "conform now, remove them from the file: determinism" in done.stdout


def test_known_deviations_may_be_properties(door, tmp_path):
    known = '[[deviation]]\nclaim = "{}"\nreason = "Not yet."\n'
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    (tmp_path / "known.toml").write_text(known.format("batch-is-singles"))
    arguments = ("--backend=own:backend", "--kvassay-deviations=known.toml")
    done = door("kvassay.properties", *arguments, "-k", "singles or zero")
    assert done.returncode == 0, done.stdout
    assert "1 passed, " in done.stdout
    assert "1 xfailed" in done.stdout
    (tmp_path / "known.toml").write_text(known.format("zero-vectors"))
    done = door("kvassay.properties", *arguments, "-k", "zero")
    assert done.returncode == 1
    assert "XPASS(strict)" in done.stdout


def test_bad_deviations_are_refused(door, tmp_path):
    (tmp_path / "known.toml").write_text("x = 1")
    done = door("kvassay.properties", "--backend=zero", "--kvassay-deviations=known.toml")
    assert done.returncode not in (0, 1)
    assert "must hold [[deviation]] tables" in done.stdout + done.stderr


NOTHING = """
from kvassay.conformance import Capabilities
class Backend:
    name, version = "nothing", "0"
    capabilities = Capabilities(kinds=("scalar",))
    def codec(self, *arguments, **options):
        raise NotImplementedError("not written yet")
"""


@pytest.mark.parametrize("package", ["kvassay.properties", "kvassay.conformance"])
def test_a_run_in_which_nothing_was_judged_fails(door, tmp_path, package):
    (tmp_path / "own.py").write_text(NOTHING)
    done = door(package, "--backend=own:Backend", *CELL)
    assert done.returncode != 0
    assert "skipped" in done.stdout


def test_zero_collected_is_an_error(door):
    assert door("kvassay.conformance", "--backend=zero", *CELL, "-k", "nobody").returncode == 5


def test_properties_without_inner_products_skip_the_one_about_them(door):
    done = door("kvassay.properties", "--backend=identity", "-k", "linear")
    assert "1 skipped" in done.stdout
    assert done.returncode == 5
