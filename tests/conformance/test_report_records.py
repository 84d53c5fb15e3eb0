"""Reading records as if strangers had written them, and putting parts together."""

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvassay.conformance.evidence.lines import RecordError, clean, meant_line
from kvassay.conformance.evidence.merge import merge_checks
from kvassay.conformance.evidence.read import read
from kvassay.conformance.evidence.runs import KillTable
from kvassay.conformance.evidence.schema import CheckAsked, json_schema
from kvassay.conformance.evidence.write import Record, header
from kvassay.conformance.protocol import Capabilities
from kvassay.conformance.run.check import check
from kvassay.conformance.run.plan import Settings


def record(path, name="zero", dims=(64,), bits=(2,), effort="quick", **about):
    """A small record, as `kvassay check` writes it."""
    settings = Settings(dims=dims, bits=bits, effort=effort, claims=("distortion", "determinism"))
    run = check(name, settings)
    about = {"name": name, "version": "1", "capabilities": Capabilities(("scalar",))} | about
    first = header(name, SimpleNamespace(**about), CheckAsked(**asdict(settings), diagnose=False))
    with Record(path, first) as kept:
        for entry in run.entries:
            kept.write(entry)
        kept.finish((), run.counts)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return record(tmp_path_factory.mktemp("record") / "zero.jsonl")


def changed(whole, tmp_path, change):
    """The record with `change` made to the list of its lines."""
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    lines = change(lines) or lines
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_record_is_read(whole):
    run = read(whole)
    assert run.label == "zero 1"
    assert run.counts["planned"] == len(run.entries) == 12
    assert run.counts["violates"] > 0
    assert run.problems == ()
    assert "numpy" in run.sources[0].machine


def test_device_in_the_header_is_read(whole, tmp_path):
    def device(lines):
        lines[0]["device"] = {"name": "H200", "driver": "550.1", "units": 132}

    assert read(changed(whole, tmp_path, device)).sources[0].device["units"] == "132"


def first(lines, **values):
    lines[1] |= values


BROKEN = {
    "no footer": (lambda lines: lines[:-1], "no footer"),
    "newer schema": (lambda lines: lines[0].update(schema=3), "newer kvassay"),
    "counts": (lambda lines: lines[-1]["counts"].update(violates=0), "counts in its footer"),
    "an entry is gone": (lambda lines: lines[:1] + lines[2:], "counts in its footer"),
    "verdict changed": (lambda lines: first(lines, verdict="conforms"), "interval and band"),
    "verdict withdrawn": (lambda lines: first(lines, verdict="error"), "beside an estimate"),
    "estimate elsewhere": (lambda lines: first(lines, estimate=1e6), "outside of its interval"),
    "other command": (lambda lines: first(lines, reproduce="curl x | sh"), "does not repeat it"),
    "two commands": (
        lambda lines: first(lines, reproduce=lines[1]["reproduce"].replace("check", "check $(x)")),
        "does not repeat it",
    ),
    "seed of another run": (lambda lines: lines[0]["run"].update(seed=7), "does not repeat it"),
    "nothing measured": (lambda lines: first(lines, n=0), "estimate from nothing"),
    "an entry twice": (lambda lines: lines[:2] + lines[1:], "repeats an entry"),
    "footer in the middle": (lambda lines: [lines[0], lines[-1], *lines[1:]], "after its footer"),
    "unknown verdict": (lambda lines: first(lines, verdict="splendid"), "not among"),
    "text for a number": (lambda lines: first(lines, estimate="1"), "got str, at estimate"),
    "interval of three": (
        lambda lines: first(lines, interval=[1, 2, 3]),
        "length 2, got 3, at interval",
    ),
    "interval turned": (lambda lines: first(lines, interval=[2, 1]), "ends before it begins"),
    "huge dimension": (lambda lines: lines[1]["cell"].update(dim=10**30), "at cell.dim"),
    "huge number": (lambda lines: first(lines, estimate=10**400), "out of range, at estimate"),
    "share above one": (lambda lines: first(lines, alpha=2), "<= 1.0, at alpha"),
    "field gone": (lambda lines: lines[1].pop("reason") and None, "required field reason"),
    "field too many": (lambda lines: first(lines, html="<b>"), "unknown field html"),
    "coordinate too many": (lambda lines: lines[1]["cell"].update(group=3), "unknown field group"),
    "option that is a coordinate": (
        lambda lines: lines[1]["cell"].update(options=[["dim", 3]]),
        "option 'dim' must be a new identifier that stands once, at cell",
    ),
    "option without a command": (
        lambda lines: lines[1]["cell"].update(options=[["group", 3]]),
        "does not repeat it",
    ),
    "huge seed": (lambda lines: first(lines, seed=2**65), "a seed is above"),
    "unknown kind of line": (lambda lines: first(lines, record="html"), "kind that is not known"),
    "second header": (lambda lines: [lines[0], *lines], "second header"),
    "line that is no object": (lambda lines: [lines[0], 3, *lines[1:]], "no object"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_record_is_refused_or_partial(whole, tmp_path, what):
    change, message = BROKEN[what]
    path = changed(whole, tmp_path, change)
    with pytest.raises(RecordError, match=message):
        read(path)
    assert any(message in problem for problem in read(path, partial=True).problems)


@pytest.mark.parametrize("end", [-1, -40])
def test_record_cut_off_within_a_line_is_refused_or_partial(whole, tmp_path, end):
    path = tmp_path / "cut.jsonl"
    path.write_bytes(whole.read_bytes()[:end])
    with pytest.raises(RecordError, match="cut off in its last line"):
        read(path)
    assert read(path, partial=True).problems


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[]\n",
        b"{}\n",
        b'{"record": "header"}\n',
        b"[" * 100_000 + b"\n",
        b'{"record": "header", "schema": 2}\n{"record": "footer"}\n',
        b'{"schema": 2, "suite": "1", "machine": {}, "effort": "quick", "faults": [{"id": 3}]}',
        b'{"schema": 2, "suite": "1", "machine": {}, "effort": "quick", "faults": 7}',
        b'{"schema": 2, "suite": "1", "machine": {}, "effort": "quick", "faults": []}',
        b'{"effort": "quick", "faults": []}',
    ],
)
def test_what_is_no_record_is_refused_even_partially(tmp_path, content):
    path = tmp_path / "none.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError):
        read(path, partial=True)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "[" * 5000 + "]" * 5000])
def test_numbers_that_are_none_are_refused(whole, tmp_path, value):
    path = tmp_path / "number.jsonl"
    lines = whole.read_text().splitlines()
    lines[1] = lines[1].replace('"n": ', f'"n": {value}, "x": ', 1)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(RecordError):
        read(path)


def test_text_is_cleaned_of_what_steers_a_terminal_or_turns_a_line():
    assert clean("a\x1b[31mb\u202ec\ud800\nd\x00") == "a�[31mb�c� d�"
    assert len(clean("x" * 9999, 100)) == 100


def test_kill_table_is_read(tmp_path):
    path = tmp_path / "faults.json"
    kill = {"id": "A", "text": "", "source": "", "proof": "", "caught": ["x"], "missed": []}
    table = {"schema": 2, "suite": "0.1.0", "machine": {"numpy": "2.4"}, "effort": "quick"}
    path.write_text(json.dumps({**table, "faults": [{**kill, "ok": True}]}, indent=1))
    found = read(path)
    assert isinstance(found, KillTable)
    assert found.kills[0].caught == ("x",)
    assert found.source.suite == "0.1.0"
    assert found.source.machine == {"numpy": "2.4"}
    for row, message in (
        ({**kill, "ok": False}, "not what caught and missed"),
        ({**kill, "missed": ["y"], "ok": True}, "not what caught and missed"),
        ({**kill, "proof": "It is the same.", "ok": True}, "not what caught and missed"),
    ):
        path.write_text(json.dumps({**table, "faults": [row]}))
        with pytest.raises(RecordError, match=message):
            read(path)
    path.write_text(json.dumps({**table, "schema": 99, "faults": [{**kill, "ok": True}]}))
    with pytest.raises(RecordError, match="newer kvassay"):
        read(path)


@pytest.mark.parametrize("partial", [False, True])
def test_a_record_of_schema_1_is_refused_with_what_to_do(whole, tmp_path, partial):
    older = changed(whole, tmp_path, lambda lines: lines[0].update(schema=1))
    with pytest.raises(RecordError, match=r"older kvassay .*: run its command again"):
        read(older, partial)


def test_the_schema_that_ships_is_current_and_holds_for_a_record(whole):
    text = (Path(__file__).parents[2] / "docs/record.schema.json").read_text()
    assert text == json_schema()
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    try:
        from jsonschema import Draft202012Validator
    except ImportError:  # then as the reader does
        assert all(meant_line(line) for line in lines)
        return
    validator = Draft202012Validator(json.loads(text))
    for line in lines:
        validator.validate(line)
    assert not validator.is_valid(lines[1] | {"n": -1})


def test_long_texts_and_facts_of_other_types_are_cut_and_shown(whole, tmp_path):
    def long(lines):
        lines[0]["backend"]["name"] = "x" * 9999
        lines[0]["machine"]["units"] = 3

    run = read(changed(whole, tmp_path, long))
    assert len(run.name) == 400
    assert run.sources[0].machine["units"] == "3"


def test_halves_of_a_grid_merge_whatever_machine_they_ran_on(tmp_path):
    both = read(record(tmp_path / "both.jsonl", bits=(2, 3)))
    parts = [read(record(tmp_path / f"{b}.jsonl", bits=(b,))) for b in (2, 3)]
    (merged,) = merge_checks(parts)
    assert merged.counts == both.counts
    assert set(merged.entries) == set(both.entries)
    assert merged.bits == (2, 3)
    assert [source.file for source in merged.sources] == ["2.jsonl", "3.jsonl"]


def test_another_version_or_effort_does_not_merge(tmp_path):
    parts = [
        read(record(tmp_path / "1.jsonl")),
        read(record(tmp_path / "2.jsonl", bits=(3,), version="2")),
        read(record(tmp_path / "3.jsonl", bits=(4,), effort="standard")),
    ]
    assert merge_checks(parts) == parts


def test_one_grid_on_two_machines_is_two_runs(tmp_path, whole):
    def elsewhere(lines):
        lines[0]["machine"]["processor"] = "riscv64"

    runs = [read(whole), read(changed(whole, tmp_path, elsewhere))]
    assert merge_checks(runs) == runs


def test_same_record_twice_is_refused(whole):
    with pytest.raises(RecordError, match="same record"):
        merge_checks([read(whole), read(whole)])


def test_records_that_overlap_in_part_are_refused(tmp_path, whole):
    other = record(tmp_path / "more.jsonl", bits=(2, 3))
    with pytest.raises(RecordError, match="share 12 of their 12 and 24 results"):
        merge_checks([read(whole), read(other)])
