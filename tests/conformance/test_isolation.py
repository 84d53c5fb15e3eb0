import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, check
from kvassay.conformance.discovery import BackendError
from kvassay.conformance.doors.cli import main
from kvassay.conformance.isolation.backend import isolated, served
from kvassay.conformance.measure.cell import BackendFault

pytestmark = pytest.mark.once

FAKE = Path(__file__).with_name("fake_child.py")
CELL = Settings(kinds=("scalar",), dims=(64,), bits=(2,), effort="quick")
LIMIT = 2.0


def fake(fault):
    return served((sys.executable, str(FAKE), fault), ["--exec", f"fake {fault}"], 20.0, LIMIT)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Backends as an implementer would have them, each wrong in its own way."""
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OWN = """
import os, signal, sys, time
import numpy as np
from kvassay.conformance import Capabilities
from kvassay.reference.codecs import codec

class Backend:
    name, version = "own", "1"
    capabilities = Capabilities(kinds=("turboquant-mse",))
    def __init__(self, fault):
        self.fault = fault
    def codec(self, kind, dim, bits, seed):
        made = codec(kind, dim, bits, seed)
        decode = made.decode
        def faulty(code):
            if self.fault == "segfault":
                print("reading past the end", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.fault == "hang":
                time.sleep(60)
            if self.fault == "stdout":
                print("from Python")
                os.write(1, b"from C\\n")
            return decode(code) * (np.nan if self.fault == "nan" else 1)
        made.decode = faulty
        return made

segfault, hang, stdout, nan, fine = (
    (lambda fault: lambda: Backend(fault))(fault)
    for fault in ("segfault", "hang", "stdout", "nan", "fine")
)
def no_import():
    import there_is_no_such_module
def leaves():
    os._exit(4)
"""


def test_evidence_is_the_same_bytes_as_in_process():
    settings = Settings(dims=(64,), bits=(2, 4), effort="quick")
    apart = check(isolated("reference"), settings).entries
    here = check("reference", settings).entries
    unseen = {e.part for e in apart if e.verdict == "not applicable"}  # needs one process
    assert unseen == {
        "dtypes",
        "query-dtypes",
        "short-code-is-refused",
        "codec-keeps-nothing",
        "code-with-gaps",
    }

    def seen(entries):
        kept = [e for e in entries if e.part not in unseen]
        return [(e.id, e.part, e.verdict, e.estimate, e.interval, e.n) for e in kept]

    assert seen(apart) == seen(here)
    assert {e.verdict for e in here} == {"conforms"}


def test_repeat_line_isolates_too():
    (entry, *_) = check(isolated("zero", request_limit=7), CELL).entries
    assert entry.reproduce.startswith("kvassay check zero --isolate --request-limit 7 --claim")


WORDS = {
    "exit": "decode: the backend's process ended with exit code 9; its last words: out of memory",
    "abort": "decode: the backend's process was ended by signal 6 (Aborted)",
    "hang": "decode: the backend did not answer within 2 s",
    "garbage": "decode: the backend wrote no reply but '\\x00",
    "flood": "decode: the backend wrote no reply but 'xxxx",
    "half": "decode: the backend's process ended with exit code 0",
    "stdout": "decode: the backend wrote no reply but 'decoding'",
    "unasked": "the backend wrote what nobody asked for: 'done\\n'",
    "gigantic": "decode: the backend announced an array of 800000000000000 bytes",
    "negative": "decode: shape must hold a few whole numbers, got (-1, 4)",
    "object": "decode: dtype must be a NumPy name like float32, got 'object'",
    "no dtype": "decode: dtype must be a NumPy name like float32, got []",
    "many axes": "decode: shape must hold a few whole numbers, got (0, 0, ",
    "many arrays": "decode: the backend's reply must have a list of one array",
    "no array": "decode returned 0 arrays, should be one",
    "list": "decode: the backend wrote no reply but '[]'",
    "wrong shape": "decode returned shape (64, ",
    "error": "kernel failed",
    "no nbytes": "the codec has no nbytes",
}


@pytest.mark.parametrize(("fault", "words"), WORDS.items())
def test_misbehaviour_is_an_error_and_the_rest_goes_on(fault, words):
    began = time.monotonic()
    report = check(fake(fault), CELL)
    assert len(report.entries) == report.planned
    assert report.exit_code in (1, 3)
    assert any(words in e.reason for e in report.entries if e.verdict == "error")
    if fault not in ("hang", "no nbytes", "unasked"):
        sizes = [e for e in report.entries if e.id == "size-accounting" and e.part == "declared"]
        assert [e.verdict for e in sizes] == ["conforms"]
    assert time.monotonic() - began < 60


def test_child_that_refuses_is_not_applicable():
    report = check(fake("skipped"), CELL)
    reasons = {e.reason for e in report.entries if e.verdict == "not applicable"}
    assert "no decoder yet" in reasons


def test_child_without_fault_is_judged_as_what_it_is():
    report = check(fake("none"), CELL)
    assert report.name == "fake"
    assert report.counts["error"] == 0
    violated = {e.id for e in report.entries if e.verdict == "violates"}
    assert violated == {"distortion", "every-seed", "qjl-unbiased", "size-accounting", "refusals"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("no start", "ended with exit code 1; its last words: no such device"),
        ("start refused", "does not start: the driver is missing"),
        ("unknown kind", "kinds must be among"),
        ("other protocol", "protocol must be 1, got 2"),
        ("no name", "its reply lacks 'name'"),
    ],
)
def test_child_that_does_not_start_is_refused(fault, words):
    with pytest.raises(BackendError) as caught:
        fake(fault)
    assert words in str(caught.value)


def test_start_has_a_limit_of_its_own():
    command = (sys.executable, str(FAKE), "slow start")
    with pytest.raises(BackendError, match="start: the backend did not answer within 1 s"):
        served(command, ["fake"], 1.0, LIMIT)


def test_interpreter_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="no/python cannot be run: No such file"):
        isolated("reference", python="no/python")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("own:no_import", "needs there_is_no_such_module, which is neither installed nor"),
        ("own:leaves", "ended with exit code 4"),
        ("own.py:fine", "must be written module:factory"),
        ("nobody", "no backend is called 'nobody'"),
    ],
)
def test_backend_that_cannot_be_made_is_refused(folder, spec, words):
    with pytest.raises(BackendError) as caught:
        isolated(spec)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("segfault", 3, "signal 11 (Segmentation fault); its last words: reading past the end"),
        ("hang", 3, "decode: the backend did not answer within 2 s"),
        ("nan", 1, "decode returned NaN or infinity"),
        ("stdout", 0, ""),
    ],
)
def test_command_ends_in_time_with_a_complete_record(folder, fault, code, words):
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", f"own:{fault}"]
    options = ["--isolate", "--request-limit", "2", "--dim", "64", "--bits", "2", "--json"]
    done = subprocess.run(
        [*command, *options, "--effort", "quick", "--record", "r.jsonl", "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    assert words in "".join(e["reason"] for e in found["claims"])
    *_, footer = map(json.loads, (folder / "r.jsonl").read_text().splitlines())
    assert footer["record"] == "footer"
    assert footer["counts"]["planned"] == len(found["claims"])


def test_codes_and_codecs_that_are_dropped_are_forgotten():
    backend = isolated("reference")
    codec, other = (backend.codec("scalar", 64, 2, 0) for _ in range(2))
    dropped, number = codec.encode(np.ones((2, 64), np.float32)).number, other._number
    del other
    codec.encode(np.ones((2, 64), np.float32))
    for fields in ({"codec": codec._number, "code": dropped}, {"codec": number, "code": 1}):
        with pytest.raises(BackendFault, match="KeyError"):
            codec.child.request("decode", 5.0, **fields)


def test_a_code_is_not_taken_for_another_of_a_later_child():
    backend = isolated("reference")
    codec = backend.codec("scalar", 64, 2, 0)
    code = codec.encode(np.ones((2, 64), np.float32))
    codec.child.close()
    codec.encode(np.zeros((2, 64), np.float32))
    with pytest.raises(BackendFault, match="the code went with the process that held it"):
        codec.decode(code)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf"), float("nan"), 1e9])
def test_limits_that_are_none_are_refused(limit):
    with pytest.raises(ValueError, match="--request-limit must be above 0 and at most 86400"):
        isolated("reference", request_limit=limit)


def test_a_command_in_any_language_can_be_checked():
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "--exec"]
    options = ["--dim", "64", "--bits", "2", "--effort", "quick", "--json", "--no-diagnosis"]
    done = subprocess.run(
        [*command, f"{sys.executable} {FAKE} none", *options], capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["backend"] == "fake"
    assert found["claims"][0]["reproduce"].startswith("kvassay check --exec '")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reference", "--request-limit", "3"], "--request-limit needs --isolate, --python or"),
        (["reference", "--exec", "x"], "name a BACKEND or --exec, not both"),
        ([], "name a BACKEND or --exec"),
        (["--exec", "no/such"], "no/such cannot be run: No such file"),
        (["--exec", "'"], 'the command "\'" cannot be read: No closing quotation'),
        (["--exec", " "], "the command that serves a backend is empty"),
        (["--exec", "x", "--python", "y"], "--python is for a BACKEND, not for --exec"),
        (["reference", "--isolate", "--startup-limit", "nan"], "must be above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments, words):
    result = CliRunner().invoke(main, ["check", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_run_that_is_terminated_leaves_no_process_behind(folder):
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "own:hang"]
    options = ["--isolate", "--dim", "64", "--bits", "2", "--workers", "1", "--record", "r.jsonl"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        time.sleep(6)
        process.terminate()
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped after" in stderr
    deadline = time.monotonic() + 10
    while "own:hang" in (left := _commands()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "own:hang" not in left


def _commands():
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_codec_is_made_again_where_its_child_died():
    codec = isolated("reference").codec("turboquant-mse", 64, 4, 5)
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    before = codec.decode(codec.encode(x))
    codec.child.close()
    np.testing.assert_array_equal(codec.decode(codec.encode(x)), before)
