"""The examples in other languages pass the vectors, and the vectors find what is put into them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvassay.conformance.doors.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples"
GROUPS = ("--group", "encode", "--group", "decode", "--group", "scores")


def judged(command):
    result = CliRunner().invoke(main, ["vectors", "--exec", command, *GROUPS, "--json"])
    assert not isinstance(result.exception, Exception), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.fixture(params=["c", "js"])
def command(request, tmp_path):
    """What gives the command of an example with a fault, 0 for none."""
    if request.param == "js":
        if shutil.which("node") is None:
            pytest.skip("node is not installed")
        return lambda bug: f"node {EXAMPLES / 'turboquant.js'} --bug={bug}"
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")

    def compiled(bug):
        out, source = tmp_path / f"turboquant{bug}", EXAMPLES / "turboquant.c"
        strict = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-DBUG={bug}"]
        subprocess.run(["gcc", *strict, str(source), "-lm", "-o", str(out)], check=True)
        return str(out)

    return compiled


FOUND = {"c": ["B02", "C-floor", "D-squared"], "js": ["B18", "E-off-by-one", "N-queries"]}


def test_an_example_answers_all_of_its_kind_right(command):
    code, found = judged(command(0))
    assert code == 0
    assert found["right"] == 36
    assert {each["text"] for each in found["vectors"] if each["status"] == "skipped"} == {
        "only turboquant-mse at powers of two here"
    }


@pytest.mark.parametrize("bug", [1, 2, 3])
def test_what_is_put_into_an_example_is_found_and_named(command, bug, request):
    code, found = judged(command(bug))
    assert code == 1
    language = request.node.callspec.params["command"]
    assert next(iter(found["looks_like"])) == FOUND[language][bug - 1]
