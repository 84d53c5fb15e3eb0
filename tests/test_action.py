"""The steps of action.yml, run as the shell commands that they are."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="`tox -e reports` has PyYAML")
for needed in ("jinja2", "matplotlib"):
    pytest.importorskip(needed, reason=f"`tox -e reports` has {needed}, for the action's page")

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step.get("id", "install"): step for step in ACTION["runs"]["steps"]}
MINE = """
from kvassay.conformance import Capabilities, Offer
from kvassay.reference.codecs import codec

class Backend:
    name, version = "mine", "1"
    capabilities = Capabilities(offers=(Offer("scalar", bits=(2,), dims=(64,)),))

    def codec(self, kind, dim, bits, seed, **options):
        return Codec(codec(kind, dim, bits, seed))

class Codec:
    def __init__(self, codec):
        self.encode, self.nbytes, self._decode = codec.encode, codec.nbytes, codec.decode

    def decode(self, code):
        return self._decode(code) * SCALE

SCALE = 1.0
"""


def shell(step, environment, folder):
    """A step as the runner starts it: bash -eo pipefail, its own `env` on top."""
    script = folder / "step.sh"
    script.write_text(step["run"])
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


def with_inputs(step, given):
    """The variables of a step, with the inputs in their place."""
    inputs = {name: about["default"] for name, about in ACTION["inputs"].items()} | given
    return {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
        for name, value in step.get("env", {}).items()
    }


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """What a runner sets, after the step that installs. What kvassay needs comes from this
    environment, so that nothing is downloaded but the tools that build a wheel."""
    temp = tmp_path_factory.mktemp("runner")
    environment = {**os.environ, "RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(ROOT)}
    environment["PATH"] = os.pathsep.join([str(temp / "bin"), environment["PATH"]])
    environment |= {"PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    (temp / "bin").mkdir()
    (temp / "bin" / "python3").symlink_to(sys.executable)
    done = shell(STEPS["install"], environment, temp)
    assert done.returncode == 0, done.stderr
    (site,) = (temp / "kvassay" / "lib").glob("python*/site-packages")
    (site / "needs.pth").write_text(sysconfig.get_path("purelib"))
    return environment


@pytest.fixture
def check(runner, tmp_path):
    """Runs the step that checks, in a folder with mine.py; what it said, and its outputs."""

    def run(mine=MINE, **given):
        (tmp_path / "mine.py").write_text(mine)
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        environment = runner | {name: str(path) for name, path in files.items()}
        given = {"effort": "quick", "python": sys.executable, **given}
        environment |= with_inputs(STEPS["check"], given)
        done = shell(STEPS["check"], environment, tmp_path)
        texts = {name: path.read_text() if path.exists() else "" for name, path in files.items()}
        lines = texts["GITHUB_OUTPUT"].splitlines()
        return done, dict(line.split("=", 1) for line in lines), texts["GITHUB_STEP_SUMMARY"]

    return run


@pytest.mark.once
def test_a_backend_that_conforms_passes_with_a_page_and_a_badge(check):
    done, outputs, summary = check(backend="mine:Backend")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mine 1 conforms" in summary
    badge = json.loads(Path(outputs["badge"]).read_text())
    assert badge["color"] == "brightgreen"
    assert badge["message"].endswith("(quick)")
    assert Path(outputs["record"]).read_text().startswith('{"record": "header"')
    assert set(outputs) == set(ACTION["outputs"])


@pytest.mark.once
def test_one_that_violates_fails_the_job_unless_that_is_known(check, tmp_path):
    mine = MINE.replace("1.0", "1.5")
    done, outputs, summary = check(mine, backend="mine:Backend")
    assert done.returncode == 1
    assert "violates" in summary
    lines = map(json.loads, Path(outputs["record"]).read_text().splitlines())
    violated = {line["id"] for line in lines if line.get("verdict") == "violates"}
    known = "".join(f'[[deviation]]\nclaim = "{name}"\nreason = "known"\n' for name in violated)
    (tmp_path / "known.toml").write_text(known)
    done, outputs, _ = check(mine, backend="mine:Backend", deviations="known.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(Path(outputs["badge"]).read_text())["color"] == "red"


@pytest.mark.once
@pytest.mark.parametrize("given", [{}, {"backend": "absent:Backend"}, {"exec": "./absent"}])
def test_what_cannot_be_checked_fails_with_the_sentence_of_the_command(check, given):
    done, outputs, summary = check(**given)
    assert done.returncode == 2
    assert "Error:" in done.stderr
    assert (outputs, summary) == ({}, "")


def test_no_input_is_pasted_into_a_command():
    for step in STEPS.values():
        assert "${{" not in step["run"]
