import os
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

from kvassay.conformance.evidence import deviations

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"lint", "opencl", "pocl", "reports", "types"}
NAMES = sorted(set(PROJECT["optional-dependencies"]) - OWN)
RUN = ROOT / "tests" / "packages" / "run.py"


def test_there_are_nineteen():
    assert len(NAMES) == 19


@pytest.mark.parametrize("name", NAMES)
def test_a_package_has_an_adapter_that_says_what_it_must_and_known_deviations(name):
    module = PROJECT["entry-points"]["kvassay.backends"][name].split(":")[0].split(".")[-1]
    text = (ROOT / "conformance" / "adapters" / f"{module}.py").read_text()
    for word in (
        "b counts",
        "rotates",
        "normalises",
        "decode",
        "sketch",
        "table",
        "seed",
        "stored",
    ):
        assert f"\n{word} " in text, word
    for known in deviations.load(ROOT / "tests" / "packages" / f"{name}.toml"):
        assert known.reason.endswith(".")


def test_each_package_has_an_environment_with_the_label():
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    labelled = tox["tox"]["labels"].split("=", 1)[1].split(",")
    assert sorted(name.strip() for name in labelled) == NAMES
    (section,) = [name for name in tox.sections() if "turboquant" in name]
    assert sorted(section.split("{")[1].rstrip("}").split(",")) == NAMES


def test_a_package_that_is_gone_is_reported_and_fails_nothing():
    gone = {**os.environ, "PIP_NO_INDEX": "1"}
    done = subprocess.run(
        [sys.executable, str(RUN), "tqdb"], env=gone, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "NOT CHECKED: tqdb==0.9.1 cannot be installed: " in done.stdout


def test_a_package_that_nobody_knows_is_refused():
    done = subprocess.run([sys.executable, str(RUN), "nobody"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no extra called nobody" in done.stderr
