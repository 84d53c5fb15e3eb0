import json
from dataclasses import replace as rerun

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.difference import difference
from kvassay.conformance.evidence.lines import RecordError
from kvassay.conformance.evidence.read import read
from kvassay.conformance.evidence.runs import KillTable

CELL = ["--kind", "scalar", "--dim", "64", "--bits", "2", "--effort", "quick", "--workers", "1"]
CELL += ["--claim", "distortion", "--claim", "determinism", "--no-diagnosis"]


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The records of the reference, and of one that decodes to zeros."""
    folder = tmp_path_factory.mktemp("records")
    for name in ("reference", "zero"):
        run("check", name, *CELL, "--record", folder / f"{name}.jsonl")
    return folder / "reference.jsonl", folder / "zero.jsonl"


@pytest.fixture
def old(records):
    return read(records[0])


def with_entry(run, change):
    """The run with its first judged entry changed; and that entry."""
    place = next(i for i, entry in enumerate(run.entries) if entry.estimate is not None)
    entries = list(run.entries)
    entries[place] = change(entries[place])
    return rerun(run, entries=tuple(entries))


def only_change(old, new):
    (change,) = difference(old, new).changes
    return change.what, change.worse


def test_the_same_record_has_no_change(records):
    result = run("diff", records[0], records[0])
    assert result.exit_code == 0, result.output
    assert "no change; nothing got worse" in result.stdout
    assert "->" not in result.stdout


def test_new_violations_are_worse_and_exit_1(records):
    result = run("diff", *records)
    assert result.exit_code == 1
    assert "new violation" in result.stdout
    assert "something got WORSE" in result.stdout
    assert "backend: reference" in result.stdout


def test_gone_violations_are_not_worse(records):
    result = run("diff", records[1], records[0], "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert not found["worse"]
    assert {change["what"] for change in found["changes"]} <= {"violation gone", "moved"}
    assert "violation gone" in {change["what"] for change in found["changes"]}
    assert found["settings"]["backend"][1].startswith("reference")


def moved(entry, by):
    """The entry with estimate and interval elsewhere."""
    low, high = entry.interval
    return replace(entry, estimate=entry.estimate + by, interval=(low + by, high + by))


def width(entry):
    return entry.interval[1] - entry.interval[0]


def test_numbers_that_differ_by_less_than_their_intervals_are_no_change(old):
    new = with_entry(old, lambda entry: moved(entry, 0.9 * width(entry)))
    assert difference(old, new).changes == ()


def test_numbers_beyond_their_intervals_moved(old):
    new = with_entry(old, lambda entry: moved(entry, 1.1 * width(entry)))
    assert only_change(old, new) == ("moved", False)


def test_a_violation_is_worse_only_if_it_moves_from_its_band(old):
    def off(entry, by):
        return replace(moved(entry, by), verdict="violates", band=(None, entry.estimate))

    near = with_entry(old, lambda entry: off(entry, 2 * width(entry)))
    far = with_entry(old, lambda entry: off(entry, 5 * width(entry)))
    assert only_change(near, far) == ("moved", True)
    assert only_change(far, near) == ("moved", False)


@pytest.mark.parametrize("verdict", ["not applicable", "error", "inconclusive"])
def test_what_conformed_and_does_so_no_more_is_worse(old, verdict):
    new = with_entry(old, lambda entry: replace(entry, verdict=verdict))
    assert only_change(old, new) == ("other verdict", True)
    assert only_change(new, old) == ("other verdict", False)


def test_a_violation_that_becomes_an_error_is_worse(old):
    before = with_entry(old, lambda entry: replace(entry, verdict="violates"))
    after = with_entry(old, lambda entry: replace(entry, verdict="error"))
    assert only_change(before, after) == ("other verdict", True)


def test_what_is_not_judged_any_more_is_worse_if_it_conformed(old):
    new = rerun(old, entries=old.entries[1:])
    assert old.entries[0].verdict == "conforms"
    assert only_change(old, new) == ("gone", True)
    assert only_change(new, old) == ("added", False)


def test_other_versions_are_said(old):
    newer = rerun(old.sources[0], suite="9.9", machine={**old.sources[0].machine, "numpy": "9"})
    new = rerun(old, version="2", sources=(newer,), measured_by="x", seed=5)
    found = difference(old, new).settings
    assert set(found) == {"backend", "suite", "sources of the suite", "seed", "machine numpy"}
    assert found["suite"] == (old.sources[0].suite, "9.9")


def test_records_without_a_common_entry_are_refused(records, tmp_path):
    other = tmp_path / "other.jsonl"
    at = [("96" if option == "64" else option) for option in CELL]
    run("check", "zero", *at, "--record", other)
    result = run("diff", records[0], other)
    assert result.exit_code == 2
    assert "no entry in common" in result.stderr


def test_other_files_are_refused_in_a_sentence(old, records, tmp_path):
    with pytest.raises(RecordError, match="none of them"):
        difference(old, KillTable(old.sources[0], "quick", ()))
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(records[0].read_bytes()[:-20])
    result = run("diff", records[0], cut)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
