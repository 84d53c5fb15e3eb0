"""The function door: checked, diagnosed, recorded, and gone on with after a stop."""

import json
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, assay, check
from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.read import read
from kvassay.conformance.evidence.schema import Diagnosis, Match

SMALL = Settings(dims=(64,), bits=(2, 3), effort="quick")
OPTIONS = ["--dim", "64", "--bits", "2", "--bits", "3", "--effort", "quick", "--workers", "1"]
MADE = Diagnosis("scalar", "", False, ("scalar d=64 b=2",), (Match("K10", 0.97),), None)


@pytest.fixture
def quickly_diagnosed(monkeypatch):
    """In place of the diagnosis; what it returns is how often it was asked."""
    asked = []

    def diagnosed(entries):
        asked.append(len(entries))
        return [MADE]

    monkeypatch.setattr(assay, "diagnosed", diagnosed)
    return asked


@pytest.fixture
def whole(tmp_path, quickly_diagnosed):
    """The record of an unbroken run, and what it found."""
    path = tmp_path / "whole.jsonl"
    report = check("zero", SMALL, record=path, diagnose=True)
    quickly_diagnosed.clear()
    return path.read_bytes(), report


def test_the_door_diagnoses_and_records(whole):
    raw, report = whole
    lines = [json.loads(line) for line in raw.splitlines()]
    kinds = [line["record"] for line in lines]
    assert kinds == ["header", *["entry"] * report.planned, "diagnosis", "footer"]
    assert report.diagnoses == (MADE,)
    assert lines[0]["run"]["diagnose"] is True
    assert "started" not in lines[0]
    assert check("zero", SMALL).entries == report.entries
    assert check("zero", SMALL).diagnoses == ()


# At the ends of the file and of the header, within lines, and after whole ones of a cell.
CUTS = (0, 1, 400, "header", 0.01, 0.2, 0.5, 0.77, "entries", "diagnosis", -1)


@pytest.mark.parametrize("cut", CUTS)
def test_a_run_cut_anywhere_goes_on_and_ends_in_the_same_bytes(
    whole, tmp_path, quickly_diagnosed, cut
):
    raw, report = whole
    lines = raw.splitlines(keepends=True)
    named = {"header": 1, "entries": len(lines) - 2, "diagnosis": len(lines) - 1}
    if cut in named:
        kept = b"".join(lines[: named[cut]])
    else:
        kept = raw[: int(cut * len(raw)) if isinstance(cut, float) else cut]
    path = tmp_path / "run.jsonl"
    path.write_bytes(kept)
    seen = []
    again = check("zero", SMALL, record=path, diagnose=True, on_entry=seen.append)
    assert path.read_bytes() == raw
    assert again == report
    assert seen == list(report.entries)
    assert quickly_diagnosed == [report.planned]  # what was there of it is made again


def test_whole_cells_are_not_run_again(whole, tmp_path, monkeypatch):
    raw, report = whole
    path = tmp_path / "run.jsonl"
    path.write_bytes(raw[: len(raw) // 2])
    run = []
    from kvassay.conformance.run import check as module

    real = module.run_cell
    monkeypatch.setattr(module, "run_cell", lambda task: run.append(task.cell) or real(task))
    check("zero", SMALL, record=path, diagnose=True)
    cells = list(dict.fromkeys(entry.cell for entry in report.entries))
    assert 0 < len(run) < len(cells)
    assert run == cells[-len(run) :]


def test_a_complete_record_is_read_and_not_run_again(
    whole, tmp_path, monkeypatch, quickly_diagnosed
):
    raw, report = whole
    path = tmp_path / "run.jsonl"
    path.write_bytes(raw)
    monkeypatch.setattr("kvassay.conformance.run.check.run_cell", None)
    assert check("zero", SMALL, record=path, diagnose=True) == report
    assert quickly_diagnosed == []
    assert path.read_bytes() == raw
    assert read(path).diagnoses == (MADE,)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda raw: b"# my notes\n", "exists and is not a record of kvassay"),
        (lambda raw: b"my notes", "exists and is not a record of kvassay"),
        (lambda raw: b"[1, 2]\n" + raw, "exists and is not a record of kvassay"),
        (lambda raw: raw.replace(b'"schema": 2', b'"schema": 1', 1), "of another schema"),
        (lambda raw: raw.replace(b'"seed": 0', b'"seed": 1', 1), "it differs in run.seed"),
        (
            lambda raw: raw.replace(b'"name": "zero"', b'"name": "one"', 1),
            "differs in backend.name",
        ),
        (lambda raw: raw.replace(b'"diagnose": true', b'"diagnose": false'), "in run.diagnose"),
        (lambda raw: raw.replace(b'"measured_by": "', b'"measured_by": "0', 1), "in measured_by"),
        (lambda raw: raw.replace(b'"bits": 3}', b'"bits": 4}', 1), "not hold what this run would"),
        (lambda raw: raw.replace(b'"alpha"', b'"beth"', 1), "not hold what this run would"),
    ],
)
def test_another_file_is_refused_in_a_sentence_and_left_alone(whole, tmp_path, change, sentence):
    path = tmp_path / "run.jsonl"
    path.write_bytes(change(whole[0]))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name a new file") as problem:
        check("zero", SMALL, record=path, diagnose=True)
    assert sentence in str(problem.value)
    assert path.read_bytes() == before


@pytest.mark.once
def test_killed_and_resumed_by_the_command_ends_in_the_same_bytes(tmp_path):
    def command(path):
        return ["check", "reference", *OPTIONS, "--record", str(path)]

    whole, path = tmp_path / "whole.jsonl", tmp_path / "run.jsonl"
    assert CliRunner().invoke(main, command(whole)).exit_code == 0
    started = [sys.executable, "-m", "kvassay.conformance.doors.cli", *command(path)]
    with subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 120
        while not path.exists() or path.read_bytes().count(b"\n") < 6:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        child.kill()
    assert path.read_bytes().count(b"\n") < whole.read_bytes().count(b"\n")
    result = CliRunner().invoke(main, command(path))
    assert result.exit_code == 0, result.output
    assert path.read_bytes() == whole.read_bytes()


def test_a_stopped_diagnosis_leaves_the_verdict_and_a_record_that_goes_on(
    whole, tmp_path, monkeypatch
):
    path = tmp_path / "run.jsonl"

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(assay, "diagnosed", stopped)
        result = CliRunner().invoke(main, ["check", "zero", *OPTIONS, "--record", str(path)])
    assert result.exit_code == 1
    assert "no diagnosis: it was stopped" in result.stderr
    assert "VIOLATES" in result.stdout
    assert b'"footer"' not in path.read_bytes()
    result = CliRunner().invoke(main, ["check", "zero", *OPTIONS, "--record", str(path)])
    assert result.exit_code == 1
    assert path.read_bytes() == whole[0]
