import shlex
import subprocess
import sys
from pathlib import Path

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
    done = door("kvassay.conformance", "--kvassay-backend=reference", *CELL)
    assert done.returncode == 0, done.stdout
    assert "PASSED" in done.stdout
    assert "test_claim[distortion-turboquant-prod/gaussian-d=64-b=2]" in done.stdout


def test_violation_fails_with_figures_and_the_line_that_repeats_it(door):
    done = door(
        "kvassay.conformance", "--kvassay-backend=zero", *CELL, "-k", "distortion and scalar"
    )
    assert done.returncode == 1
    assert "distortion (isotropic) violates: 1 in" in done.stdout
    assert "kvassay check zero --claim distortion --kind scalar --dim 64 --bits 2" in done.stdout


def test_known_deviations_are_expected_failures_and_stale_ones_fail(door, tmp_path):
    known = '[[deviation]]\nclaim = "{}"\nreason = "It keeps nothing."\n'
    (tmp_path / "known.toml").write_text(known.format("distortion"))
    only = ("-k", "distortion and scalar")
    option = "--kvassay-deviations=known.toml"
    done = door("kvassay.conformance", "--kvassay-backend=zero", *CELL, option, *only)
    assert done.returncode == 0, done.stdout
    assert "1 xfailed" in done.stdout
    assert "It keeps nothing." in done.stdout
    (tmp_path / "known.toml").write_text(known.format("determinism"))
    done = door("kvassay.conformance", "--kvassay-backend=zero", *CELL, option, "-k", "stale")
    assert done.returncode == 1
    assert "conform now, remove them from the file: determinism" in done.stdout


def test_known_deviations_may_be_properties(door, tmp_path):
    known = '[[deviation]]\nclaim = "{}"\nreason = "Not yet."\n'
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    (tmp_path / "known.toml").write_text(known.format("batch-is-singles"))
    arguments = ("--kvassay-backend=own:backend", "--kvassay-deviations=known.toml")
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
    done = door("kvassay.properties", "--kvassay-backend=zero", "--kvassay-deviations=known.toml")
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
    done = door(package, "--kvassay-backend=own:Backend", *CELL)
    assert done.returncode != 0
    assert "skipped" in done.stdout


def test_zero_collected_is_an_error(door):
    assert (
        door("kvassay.conformance", "--kvassay-backend=zero", *CELL, "-k", "nobody").returncode == 5
    )


def test_properties_without_inner_products_skip_the_one_about_them(door):
    done = door("kvassay.properties", "--kvassay-backend=identity", "-k", "linear")
    assert "1 skipped" in done.stdout
    assert done.returncode == 5


PROJECT = {
    "conftest.py": """
import pytest
from hypothesis import settings

settings.register_profile("theirs", max_examples=77, derandomize=False)
settings.load_profile("theirs")

def pytest_addoption(parser):
    parser.addoption("--backend", default="theirs")

@pytest.fixture
def backend(request):
    return request.config.getoption("--backend")
""",
    "test_codec.py": """
from hypothesis import settings

def test_their_backend(backend):
    assert backend == "theirs"

def test_their_search_is_as_wide_as_ever():
    assert settings().max_examples == 77
    assert not settings().derandomize
""",
}


@pytest.fixture
def project(tmp_path):
    """A project with an option and a fixture that are called backend."""
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)


def test_a_project_may_have_a_backend_of_its_own(door, project):
    done = door("-W", "error", "--strict-markers", "test_codec.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_a_project_keeps_what_is_its_own_beside_kvassay(door, project):
    ours = "kvassay.properties.test_codec"
    done = door(ours, "test_codec.py", "--kvassay-backend=reference", "-k", "zero or their")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_only_what_kvassay_brings_counts_as_judged(door, project):
    done = door("test_codec.py", "--kvassay-backend=reference")
    assert "2 passed" in done.stdout
    assert done.returncode == 5


def test_all_that_kvassay_brings_has_its_marker(door):
    packages = ("kvassay.properties", "kvassay.conformance")
    options = ("--kvassay-backend=zero", *CELL, "--collect-only", "-m", "not kvassay")
    done = door(*packages, *options)
    assert "no tests collected" in done.stdout
    assert "deselected" in done.stdout


FAKE = shlex.join([sys.executable, str(Path(__file__).with_name("fake_child.py"))])
APART = {
    "isolate": ("--kvassay-backend=own:Backend", "--kvassay-isolate"),
    "python": ("--kvassay-backend=own:Backend", f"--kvassay-python={sys.executable}"),
}
OWN = """
import os
from kvassay.conformance.adapters.reference import Reference
class Backend(Reference):
    name = "own"
    def codec(self, *arguments, **options):
        with open("processes", "a") as file:
            print(os.getppid(), file=file)
        return super().codec(*arguments, **options)
"""


@pytest.mark.parametrize("options", APART.values(), ids=APART)
@pytest.mark.parametrize("package", ["kvassay.properties", "kvassay.conformance"])
def test_a_backend_can_run_in_a_process_of_its_own(door, tmp_path, package, options):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "conftest.py").write_text("import os\nopen('pytest', 'w').write(f'{os.getpid()}')")
    one = "test_zero_vectors or (distortion and scalar)"
    done = door(package, *options, *CELL, "-k", one)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, " in done.stdout
    parents = set((tmp_path / "processes").read_text().split())
    assert parents == {(tmp_path / "pytest").read_text()}


def test_a_command_in_any_language_can_be_held_against_claims_and_properties(door):
    done = door("kvassay.properties", f"--kvassay-exec={FAKE} none", "-k", "zero or batch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    options = (*CELL, "-k", "distortion and scalar")
    done = door("kvassay.conformance", f"--kvassay-exec={FAKE} none", *options)
    assert done.returncode == 1
    assert "kvassay check --exec '" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kvassay-exec=x", "--kvassay-backend=zero"], "and --kvassay-exec cannot be given tog"),
        (["--kvassay-exec=x", "--kvassay-python=y"], "--kvassay-python is for a --kvassay-backend"),
        (["--kvassay-exec="], "the command that serves a backend is empty"),
        (["--kvassay-exec='"], "cannot be read: No closing quotation"),
        (["--kvassay-exec=no/such"], "no/such cannot be run: No such file or directory"),
        (["--kvassay-backend=zero", "--kvassay-python=no/such"], "no/such cannot be run"),
        (["--kvassay-backend=nobody", "--kvassay-isolate"], "no backend is called 'nobody'"),
        (["--kvassay-isolate"], "--kvassay-backend must name the backend to hold against"),
    ],
)
def test_options_that_make_no_sense_are_refused_with_a_sentence(door, options, words):
    done = door("kvassay.properties", *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (sentence,) = [line for line in done.stderr.splitlines() if line]
    assert sentence.startswith("ERROR: ")
    assert words in sentence
    assert "Traceback" not in done.stdout


def test_claims_without_a_backend_are_refused_without_a_traceback(door):
    done = door("kvassay.conformance")
    assert done.returncode != 0
    assert "\n--kvassay-backend must name the backend to hold against the suite" in done.stdout
    assert "UsageError" not in done.stdout
