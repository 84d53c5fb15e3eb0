import json

import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, check
from kvassay.conformance.doors.cli import main

SETTINGS = Settings(
    kinds=("scalar",),
    dims=(64,),
    bits=(2,),
    effort="quick",
    claims=("distortion", "determinism", "rotation-isometry"),
)


def badge(*arguments):
    return CliRunner().invoke(main, ["badge", *map(str, arguments)])


@pytest.fixture
def record(tmp_path):
    def of(name, settings=SETTINGS):
        check(name, settings, record=tmp_path / f"{name}.jsonl", diagnose=False)
        return tmp_path / f"{name}.jsonl"

    return of


def test_it_says_the_verdict_the_claims_and_the_suite(record):
    from importlib import metadata

    found = json.loads(badge(record("reference")).stdout)
    assert found == {
        "schemaVersion": 1,
        "label": f"kvassay {metadata.version('kvassay')}",
        "message": "conforms to 2 claims (quick)",
        "color": "brightgreen",
    }


def test_a_violation_is_red_and_counted(record, tmp_path):
    out = tmp_path / "badge.json"
    assert badge(record("zero"), "-o", out).exit_code == 0
    found = json.loads(out.read_text())
    assert found["message"] == "violates 1 of 2 claims (quick)"
    assert found["color"] == "red"


@pytest.mark.parametrize("lines", [0, -1])
def test_what_is_no_whole_record_is_refused(record, tmp_path, lines):
    cut = tmp_path / "cut.jsonl"
    cut.write_text("".join(record("zero").read_text().splitlines(keepends=True)[:lines]))
    result = badge(cut)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_place_that_cannot_be_written_is_refused(record, tmp_path):
    result = badge(record("zero"), "-o", tmp_path / "absent" / "badge.json")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
