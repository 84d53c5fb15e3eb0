import json
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.doors.cli import main

CELL = ["--dim", "64", "--bits", "2", "--effort", "quick", "--no-diagnosis", "--workers", "1"]
KEYS = ("conforms", "violates", "inconclusive", "not_applicable", "error")


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def own_backend(tmp_path, monkeypatch):
    """A file beside the user, as an implementer would write it."""
    (tmp_path / "mine.py").write_text(
        "from kvassay.conformance import Capabilities\n"
        "from kvassay.reference.codecs import codec\n"
        "class Backend:\n"
        "    name, version = 'mine', '0.1'\n"
        "    capabilities = Capabilities(kinds=('turboquant-mse',))\n"
        "    def codec(self, kind, dim, bits, seed, **options):\n"
        "        return codec(kind, dim, bits, seed)\n"
        "broken = 3\n"
        "def leaves(): raise SystemExit(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)


def test_check_conforming_backend_exits_0():
    result = run("check", "reference", *CELL)
    assert result.exit_code == 0, result.output
    assert "conforms to every claim that applies" in result.stdout
    assert result.stderr == ""


def test_check_violating_backend_exits_1_and_says_why():
    result = run("check", "zero", *CELL)
    assert result.exit_code == 1
    for text in ("VIOLATES", "should be", "TurboQuant, theorems 1 and 2", "Means:", "Repeat:"):
        assert text in result.stdout


def test_repeat_line_runs_and_finds_the_same():
    first = json.loads(run("check", "zero", *CELL, "--json").stdout)
    entry = next(e for e in first["claims"] if e["id"] == "two-pi")
    again = json.loads(run(*entry["reproduce"].split()[1:], "--json").stdout)
    assert entry in again["claims"]
    assert {e["id"] for e in again["claims"]} == {"two-pi"}


def test_json_adds_up():
    result = run("check", "identity", *CELL, "--json")
    found = json.loads(result.stdout)
    assert found["backend"] == "identity"
    assert found["stopped"] is False
    assert found["planned"] == len(found["claims"]) == sum(found[key] for key in KEYS)
    wanted = {"id", "part", "cell", "verdict", "estimate", "interval", "predicted"}
    wanted |= {"n", "alpha", "beta", "seed", "reproduce"}
    assert all(wanted <= set(entry) for entry in found["claims"])


def test_own_file_can_be_checked(own_backend):
    result = run("check", "mine:Backend", *CELL, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["backend"] == "mine"


def test_own_file_can_be_checked_in_processes(own_backend, tmp_path):
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "mine:Backend"]
    done = subprocess.run([*command, *CELL[:-1], "2"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "no backend is called 'nobody'; known are"),
        (
            ["no_such_module:backend"],
            "needs no_such_module, which is neither installed nor in this folder",
        ),
        (["mine:missing"], "AttributeError"),
        (["mine:broken"], "(got a int) lacks name, version, capabilities, codec"),
        (["mine.py:Backend"], "must be written module:factory, like mine:Backend"),
        (["mine:"], "must be written module:factory"),
        (["mine:Backend", "--claim", "two-pi"], "two-pi says nothing about turboquant-mse"),
        (["reference", "--record", ""], "--record must name a file"),
        (["reference", "--claim", "x"], "no claim is called 'x'"),
        (["reference", "--dim", "8"], "8 is not in the range 16<=x<=8192"),
        (["reference", "--bits", "9"], "9 is not in the range 1<=x<=8"),
        (["reference", "--kind", "vq"], "'vq' is not one of"),
        (["mine:Backend", "--kind", "scalar"], "kind 'scalar' is not among what mine offers"),
        (["reference", "--record", "no/such/folder/file"], "cannot be used: No such file"),
        (["reference", "--record", "mine.py"], "'mine.py' exists and is not a record"),
        (["mine:leaves"], "cannot be made: SystemExit: 0"),
        (["scalar_only:x"], "needs scalar_only, which is neither"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(own_backend, arguments, message):
    result = run("check", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_record_holds_header_entries_and_footer(tmp_path):
    path = tmp_path / "run.jsonl"
    printed = json.loads(run("check", "zero", *CELL, "--record", str(path), "--json").stdout)
    header, *entries, footer = map(json.loads, path.read_text().splitlines())
    assert header["record"] == "header"
    assert header["schema"] == 2
    assert header["backend"]["name"] == "zero"
    assert header["run"]["seed"] == 0
    assert [entry.pop("record") for entry in entries] == ["entry"] * printed["planned"]
    assert entries == printed["claims"]
    assert footer["record"] == "footer"
    assert footer["counts"] == {key: printed[key] for key in ("planned", *KEYS)}


def test_same_seed_same_bytes_of_evidence(tmp_path):
    lines = []
    for name, workers in (("a", "1"), ("b", "2")):
        path = tmp_path / name
        run("check", "reference", *CELL[:-1], workers, "--record", str(path))
        lines.append(path.read_bytes().splitlines()[1:])
    assert lines[0] == lines[1]


def test_an_interrupted_run_stops_soon_and_keeps_what_it_had(tmp_path):
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "reference"]
    options = ["--dim", "64", "--workers", "2", "--record", str(path)]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also under nohup
    ) as process:
        deadline = time.monotonic() + 120
        while not path.exists() or path.read_text().count("\n") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "entries; " in stderr
    assert "Traceback" not in stderr
    kinds = [json.loads(line)["record"] for line in path.read_text().splitlines()]
    assert kinds[0] == "header"
    assert set(kinds[1:]) == {"entry"}


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stopped_run_prints_what_it_has_as_json(tmp_path, name):
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "reference"]
    options = ["--dim", "64", "--workers", "1", "--record", str(path), "--json"]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        deadline = time.monotonic() + 120
        while not path.exists() or path.read_text().count("\n") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(getattr(signal, name))
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    found = json.loads(stdout)
    recorded = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert found["stopped"] is True
    assert [entry["id"] for entry in found["claims"]] == [entry["id"] for entry in recorded]
    assert len(found["claims"]) == sum(found[key] for key in KEYS) < found["planned"]
    assert "stopped after" in stderr


def test_what_a_backend_prints_does_not_spoil_the_json(own_backend, tmp_path):
    loud = (tmp_path / "mine.py").read_text().replace("        return codec(", NOISE)
    (tmp_path / "loud.py").write_text("import os\nprint('importing')\n" + loud)
    command = [sys.executable, "-m", "kvassay.conformance.doors.cli", "check", "loud:Backend"]
    done = subprocess.run([*command, *CELL, "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(done.stdout)["violates"] == 0
    assert "importing" in done.stderr
    assert "from C" in done.stderr


NOISE = "        print('making')\n        os.write(1, b'from C')\n        return codec("


def test_an_error_is_shown_once_with_its_place(own_backend, tmp_path, monkeypatch):
    (tmp_path / "wrong.py").write_text(
        (tmp_path / "mine.py").read_text().replace("return codec(kind, dim, bits, seed)", "dim / 0")
    )
    monkeypatch.delitem(sys.modules, "wrong", raising=False)
    result = run("check", "wrong:Backend", *CELL)
    assert result.exit_code == 3
    assert result.stdout.count("ZeroDivisionError: division by zero (wrong.py:7)") == 1
    assert "nothing was judged" in result.stdout


def test_claims_lists_them_all():
    result = run("claims")
    assert result.exit_code == 0
    assert "34 claims of the papers, 16 of the suite's own" in result.stdout


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_explain_tells_source_and_meaning(claim):
    result = run("explain", claim.id)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.replace("│", " ").split())
    assert claim.source in text
    assert claim.meaning in text
    assert "what each effort resolves with how many seeds" in text


def test_explain_refuses_what_it_does_not_know():
    result = run("explain", "everything")
    assert result.exit_code == 2
    assert "no claim is called 'everything'" in result.stderr


def test_backends_lists_installed_and_missing():
    result = run("backends")
    assert result.exit_code == 0
    for name in ("reference", "identity", "zero", "faiss", "turboquant-py", "turbo-quant-lite"):
        assert name in result.stdout


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from kvassay.conformance.doors.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'rich', 'msgspec'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "check" in done.stdout


def test_a_violation_is_diagnosed_and_the_diagnosis_recorded(tmp_path, monkeypatch):
    (tmp_path / "faulty.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['B21']\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    cell = ["--kind", "turboquant-mse", "--dim", "64", "--bits", "2", "--effort", "quick"]
    result = run("check", "faulty:backend", *cell, "--record", "r.jsonl")
    assert result.exit_code == 1
    shown = " ".join(result.stdout.split())
    family = "Decoding does not undo the rotation that encoding applied."
    assert f"Looks like: turboquant-mse: {family} It explains " in shown
    assert "Look first at the inverse: unrotate(rotate(x)) must be x." in shown
    assert shown.index(family) < shown.index("As in B")  # a member of the family, after it
    kinds = [json.loads(line)["record"] for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert kinds[-2:] == ["diagnosis", "footer"]
    found = json.loads(run("check", "faulty:backend", *cell, "--json").stdout)["diagnoses"][0]
    assert found["families"][0]["family"] == found["matches"][0]["family"] == "wrong-inverse"
    assert "unrotate" in found["families"][0]["look_first_at"]
    assert "B21" in found["families"][0]["faults"]
    result = run("check", "faulty:backend", *cell, "--no-diagnosis")
    assert "Looks like" not in result.stdout
    result = run("check", "faulty:backend", *cell, "--claim", "distortion")
    assert "Looks like" not in result.stdout


def test_a_device_is_told_to_the_backend_and_recorded(tmp_path, monkeypatch):
    (tmp_path / "on_device.py").write_text(
        "import os\n"
        "from kvassay.conformance import Capabilities\n"
        "from kvassay.reference.codecs import codec\n"
        "class Backend:\n"
        "    name, version = 'on-device', '0.1'\n"
        "    capabilities = Capabilities(kinds=('turboquant-mse',))\n"
        "    def __init__(self):\n"
        "        self.device = {'device': os.environ['KVASSAY_DEVICE'], 'variant': 3}\n"
        "    def codec(self, kind, dim, bits, seed, **options):\n"
        "        return codec(kind, dim, bits, seed)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("KVASSAY_DEVICE", "")  # and so restored
    claim = ["--claim", "determinism", "--device", "the second", "--record", "run.jsonl"]
    assert run("check", "on_device:Backend", *CELL, *claim).exit_code == 0
    first = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[0])
    assert first["device"] == {"device": "the second", "variant": "3"}


@pytest.mark.parametrize("command", ("check", "reproduce"))
@pytest.mark.parametrize("option", ("--device", "--variant"))
def test_a_device_is_refused_for_a_backend_without(monkeypatch, command, option):
    monkeypatch.setenv("KVASSAY_DEVICE", "")
    monkeypatch.setenv("KVASSAY_VARIANT", "")
    result = run(command, "reference", option, "0")
    assert result.exit_code == 2
    assert f"{option} is for backends that run on a device; reference names none" in result.output
