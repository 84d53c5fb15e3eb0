import json

import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, check
from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.deviations import compare, load

CELL = ["--dim", "64", "--bits", "2", "--effort", "quick", "--workers", "1", "--no-diagnosis"]
ALL = """
[[deviation]]
claim = "{}"
reason = "It quantizes nothing."
issue = "https://example.org/1"
"""
VIOLATED = ("distortion", "qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi", "size-accounting")


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "known.toml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="module")
def report():
    return check("identity", Settings(dims=(64,), bits=(2,), effort="quick"))


def violated(report):
    return sorted({entry.id for entry in report.entries if entry.verdict == "violates"})


def test_all_known_is_as_expected(file, report):
    agreement = compare(load(file("".join(map(ALL.format, violated(report))))), report.entries)
    assert agreement.unexpected == ()
    assert agreement.stale == ()
    assert agreement.exit_code(report) == 0
    assert len(agreement.expected) == report.counts["violates"] + report.counts["inconclusive"]


def test_a_violation_that_is_not_known_fails(file, report):
    known = violated(report)[1:]
    agreement = compare(load(file("".join(map(ALL.format, known)))), report.entries)
    assert {entry.id for entry in agreement.unexpected} == {violated(report)[0]}
    assert agreement.exit_code(report) == 1


def test_a_deviation_that_conforms_now_is_stale(file, report):
    known = [*violated(report), "determinism"]
    agreement = compare(load(file("".join(map(ALL.format, known)))), report.entries)
    assert [deviation.claim for deviation in agreement.stale] == ["determinism"]
    assert agreement.exit_code(report) == 1


def test_a_deviation_that_was_not_looked_at_is_not_stale(file, report):
    elsewhere = ALL.format("determinism") + "dim = 576\n"
    text = "".join(map(ALL.format, violated(report))) + elsewhere
    assert compare(load(file(text)), report.entries).stale == ()


def test_a_deviation_can_be_narrowed(file, report):
    text = ALL.format("distortion") + 'kind = ["scalar"]\nbits = [2, 3]\npart = "isotropic"\n'
    expected = compare(load(file(text)), report.entries).expected
    assert {(e.kind, e.bits, e.part) for e, _ in expected} == {("scalar", 2, "isotropic")}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("claim = 1", "must hold [[deviation]] tables and nothing else"),
        ("[[deviation]", "must be TOML"),
        ('[[deviation]]\nclaim = "distortion"', "deviation 1 must have a reason, a text"),
        ('[[deviation]]\nreason = "x"', "deviation 1 must have a claim, a text"),
        (ALL.format("distrotion"), "no claim or property is called 'distrotion'"),
        (ALL.format("distortion") + "dims = 3", "deviation 1: no key is called 'dims'"),
        (ALL.format("distortion") + 'dim = "64"', "dim must be int or a list of them, got '64'"),
        (ALL.format("distortion") + "dim = []", "dim must be int or a list of them, got []"),
        (ALL.format("distortion") + "bits = true", "bits must be int"),
        ("deviation = 3", "must hold [[deviation]] tables"),
        ("deviation = [3]", "deviation 1 must be a table, got 3"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_place(file, text, words):
    path = file(text)
    result = CliRunner().invoke(main, ["check", "identity", *CELL, "--deviations", str(path)])
    assert result.exit_code == 2
    assert words in result.stderr
    assert "known.toml" in result.stderr


def test_command_keeps_verdict_and_expectation_apart(file, report):
    path = file("".join(map(ALL.format, violated(report))))
    arguments = ["check", "identity", *CELL, "--deviations", str(path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "VIOLATES" in result.stdout
    assert "as expected:" in result.stdout
    assert "https://example.org/1" in "".join(result.stdout.split("\n"))
    found = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert found["violates"] > 0
    assert found["deviations"]["unexpected"] == 0
    stale = file(ALL.format("determinism"))
    result = CliRunner().invoke(main, ["check", "identity", *CELL, "--deviations", str(stale)])
    assert result.exit_code == 1
    assert "STALE: determinism" in result.stdout
    assert "NOT known: distortion" in result.stdout


def test_a_run_in_which_all_failed_is_not_as_expected(file, tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text(
        "from kvassay.conformance import Capabilities\n"
        "class Backend:\n"
        "    name, version = 'crashing', '1'\n"
        "    capabilities = Capabilities(kinds=('scalar',))\n"
        "    def codec(self, *arguments): raise OSError('no device')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = file(ALL.format("distortion"))
    arguments = ["check", "crashing:Backend", *CELL, "--claim", "distortion"]
    result = CliRunner().invoke(main, [*arguments, "--deviations", str(path)])
    assert result.exit_code == 3


def test_one_file_serves_claims_and_properties(file):
    path = file(ALL.format("zero-vectors"))
    arguments = ["check", "reference", *CELL, "--deviations", str(path)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    narrowed = file(ALL.format("zero-vectors") + "dim = 64")
    result = CliRunner().invoke(main, ["check", "reference", *CELL, "--deviations", str(narrowed)])
    assert result.exit_code == 2
    assert "a property cannot be narrowed to a dim" in result.stderr
