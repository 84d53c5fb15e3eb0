import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kvassay.conformance import Capabilities, discovery
from kvassay.conformance.doors.cli import main
from kvassay.conformance.run.reproduce import Settings, StudyTask, plan, reproduce, run_task
from kvassay.reference.codecs import codec

CLAIM = "d-eff-calibration"  # its study is the cheapest
QUICK = Settings(claims=(CLAIM,), effort="quick")
CLI = [sys.executable, "-m", "kvassay.conformance.doors.cli"]
ARGUMENTS = ["reproduce", "--claim", CLAIM, "--effort", "quick", "--workers", "1"]


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The record of an unbroken run."""
    path = tmp_path_factory.mktemp("whole") / "run.jsonl"
    results = reproduce(settings=QUICK, path=path)
    assert results.exit_code == 0
    return path.read_bytes()


class Partial:
    """Rotated codecs alone; what it does at trial 3 is up to `at_three`."""

    name, version = "partial", "1"
    capabilities = Capabilities(kinds=("turboquant-mse",))

    def codec(self, kind, dim, bits, seed, **options):
        return codec(kind, dim, bits, seed)


def test_the_record_has_header_figures_trials_findings_outcome_and_footer(whole):
    lines = [json.loads(line) for line in whole.splitlines()]
    kinds = [line["record"] for line in lines]
    trials = kinds.count("trial")
    assert kinds[:2] == ["header", "study"]
    assert kinds[-2:] == ["outcome", "footer"]
    assert trials == len(plan("reference", discovery.load("reference"), QUICK)) == 40
    names = lines[1]["figures"]
    assert all(len(line["values"]) == len(names) for line in lines if line["record"] == "trial")
    finding = next(line for line in lines if line["record"] == "finding")
    assert finding["n"] == trials
    assert {"estimate", "interval", "band", "predicted", "alpha", "verdict"} <= set(finding)
    assert "started" not in lines[0]
    assert len(lines[0]["run"]["tensors"]["sha256"]) == 64


def test_workers_give_the_same_bytes(whole, tmp_path):
    reproduce(settings=QUICK, path=tmp_path / "two.jsonl", workers=2)
    assert (tmp_path / "two.jsonl").read_bytes() == whole


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 0.77, 0.9, 0.999, 1.0])
def test_a_run_cut_anywhere_goes_on_and_ends_in_the_same_bytes(whole, tmp_path, share):
    header = whole.index(b"\n") + 1
    path = tmp_path / "run.jsonl"
    path.write_bytes(whole[: header + int(share * (len(whole) - header))])
    seen = []
    results = reproduce(settings=QUICK, path=path, on_task=seen.append)
    assert path.read_bytes() == whole
    assert len(seen) == 40
    assert [outcome.words for outcome in results.outcomes] == [("conforms",)]


def test_a_run_cut_between_the_names_and_the_first_trial_goes_on(whole, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    reproduce(settings=QUICK, path=path)
    assert path.read_bytes() == whole


@pytest.mark.once
def test_cells_of_the_codec_claims_resume_too(tmp_path):
    settings = Settings(claims=("rank-kept", CLAIM), effort="quick")
    path = tmp_path / "run.jsonl"
    reproduce(settings=settings, path=path)
    full = path.read_bytes()
    lines = full.splitlines(keepends=True)
    assert json.loads(lines[1])["record"] == "entry"
    for count in (2, 9, 20):
        path.write_bytes(b"".join(lines[:count]) + lines[count][:10])
        reproduce(settings=settings, path=path)
        assert path.read_bytes() == full


@pytest.mark.once
def test_killed_and_resumed_ends_in_the_same_bytes(whole, tmp_path):
    path = tmp_path / "run.jsonl"
    command = [
        sys.executable,
        "-m",
        "kvassay.conformance.doors.cli",
        *ARGUMENTS,
        "--record",
        str(path),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < 6:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        child.kill()
    assert path.read_bytes().count(b"\n") < whole.count(b"\n")
    result = run(*ARGUMENTS, "--record", str(path))
    assert result.exit_code == 0, result.output
    assert path.read_bytes() == whole


@pytest.mark.once
def test_a_stopped_run_says_how_to_go_on(tmp_path):
    path = tmp_path / "run.jsonl"
    command = [
        sys.executable,
        "-m",
        "kvassay.conformance.doors.cli",
        *ARGUMENTS,
        "--record",
        str(path),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        deadline = time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < 4:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        child.send_signal(signal.SIGTERM)
        _, problem = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "the same command goes on from there" in problem
    assert "Traceback" not in problem


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: b"# my notes\n", "is not a record of kvassay"),
        (lambda text: b"[1, 2]\n" + text, "is not a record of kvassay"),
        (lambda text: text.replace(b'"schema": 2', b'"schema": 1', 1), "of another schema"),
        (lambda text: b"\xff\xfe\x00\n", "is not a record of kvassay"),
        (
            lambda text: text.replace(b'"seed": 0', b'"seed": 1', 1),
            "another run (it differs in run.seed)",
        ),
        (lambda text: text.replace(b'"trial": 3,', b'"trial": 4,'), "not hold what this run would"),
        (lambda text: text.replace(b'"values"', b'"wrong"'), "not hold what this run would"),
        (
            lambda text: text.replace(b'"values": [', b'"values": ["x", ', 1),
            "not hold what this run would",
        ),
    ],
)
def test_another_file_is_refused_and_left_alone(whole, tmp_path, change, sentence):
    path = tmp_path / "run.jsonl"
    path.write_bytes(change(whole))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name a new file") as problem:
        reproduce(settings=QUICK, path=path)
    assert sentence in str(problem.value)
    assert path.read_bytes() == before


def test_memory_holds_nine_digits_of_each_figure_alone(whole):
    trial = next(json.loads(line) for line in whole.splitlines() if b'"trial"' in line)
    assert all(float(f"{value:.9g}") == value for value in trial["values"])


def test_a_kind_that_is_missing_makes_claims_not_applicable():
    results = reproduce(Partial(), QUICK)
    assert {finding.verdict for finding in results.findings} == {"not applicable"}
    assert results.outcomes[0].words == ("not applicable",)
    assert results.exit_code == 3


class Fails(Partial):
    capabilities = Capabilities(kinds=("turboquant-mse", "spectral"))
    made = 0

    def codec(self, kind, dim, bits, seed, **options):
        raise RuntimeError("out of tea")


def test_a_backend_that_raises_is_an_error_with_its_reason():
    results = reproduce(Fails(), QUICK)
    assert results.outcomes[0].words == ("error",)
    assert "out of tea" in results.findings[0].reason
    assert results.exit_code == 3


class Dies(Fails):
    def codec(self, kind, dim, bits, seed, **options):
        os._exit(3)


def dying():
    return Dies()


@pytest.mark.once
def test_a_backend_that_ends_its_process_is_an_error(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    settings = Settings(claims=("sq-heavy-tail",), effort="quick")
    # One study of ten trials: each takes a process of its own down.
    results = reproduce("test_reproduce:dying", settings, workers=1)
    assert results.outcomes[0].words == ("error",)
    assert "ended the process" in results.findings[0].reason


class NotFinite(Partial):
    capabilities = Capabilities(kinds=("turboquant-mse", "turboquant-prod"), sketches=("gaussian",))

    def codec(self, kind, dim, bits, seed, **options):
        made = codec(kind, dim, bits, seed, **options)
        made.decode = lambda code: np.full((len(code), dim), np.nan)
        return made


def test_answers_that_are_not_finite_are_an_error():
    (measured,) = run_task(StudyTask(NotFinite(), "generators", 0, 0, ""))
    assert "NaN" in measured.error


def test_own_tensors_take_the_place_of_those_that_ship(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "mine.npz"
    q, k, v = (rng.standard_normal((heads, 64, 32)).astype(np.float32) for heads in (2, 1, 1))
    np.savez(path, q=q, k=k, v=v)
    (own,) = run_task(StudyTask("reference", "population/tensors", 0, 0, str(path)))
    (shipped,) = run_task(StudyTask("reference", "population/tensors", 0, 0, ""))
    assert own.figures.keys() == shipped.figures.keys()
    assert own.figures != shipped.figures


def test_the_command_decides_and_shows(tmp_path):
    result = run(*ARGUMENTS)
    assert result.exit_code == 0, result.output
    assert "d-eff-calibration   derived    conforms" in result.stdout
    assert "isotropic, 1024" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""
    found = json.loads(run(*ARGUMENTS, "--json").stdout)
    assert found["outcomes"][0]["words"] == ["conforms"]
    assert len(found["findings"]) == 12


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--claim", "no-such"], "`kvassay claims` lists them"),
        (["--claim", CLAIM, "--paper", "A"], "paper A does not make the claim d-eff-calibration"),
        (["--claim", CLAIM, "--tensors", "missing.npz"], "missing.npz"),
        (["--claim", CLAIM, "--record", "no/such/folder"], "cannot be used: No such file"),
        (["--claim", CLAIM, "--record", ""], "must name a file"),
        (["nobody", "--claim", CLAIM], "no backend is called 'nobody'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("reproduce", "--effort", "quick", "--workers", "1", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_papers_choose_their_claims():
    both = {claim.id for claim in Settings().chosen}
    a = {claim.id for claim in Settings(papers=("A",)).chosen}
    b = {claim.id for claim in Settings(papers=("B",)).chosen}
    assert "v-qjl" in a & b
    assert "crossover" in a - b
    assert "ablation-8" in b - a
    assert a | b < both  # some stand in the papers that these two build on
    assert len(both) == 33


def test_explain_tells_about_a_studied_claim():
    text = run("explain", "low-rank-pathology").stdout
    for part in ("d = 1024", "reported", "pathology", "10 / 40 / 200", "kvassay reproduce --claim"):
        assert part in text
    listed = run("claims").stdout
    assert "33 claims of the papers, 15 of the suite" in listed
