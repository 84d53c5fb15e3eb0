import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from kvassay.conformance.doors.cli import main
from kvassay.conformance.faults import BY_ID, FAULTS
from kvassay.conformance.vectors import judge, make, schema
from kvassay.conformance.vectors.schema import Answer, Arrays
from kvassay.conformance.vectors.tolerances import ROUNDING
from kvassay.reference import hadamard, sphere

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return CliRunner().invoke(main, ["vectors", *map(str, arguments)])


@pytest.fixture(scope="module")
def asked():
    return judge.asked()


def write_answers(folder, outputs, skipped=None):
    """A file of answers, as an implementer would write it."""
    arrays = Arrays()
    answers = [
        Answer(name, {part: arrays.put(np.asarray(each)) for part, each in parts.items()})
        for name, parts in outputs.items()
    ]
    answers += [Answer(name, skipped=why) for name, why in (skipped or {}).items()]
    path = folder / "answers.json"
    path.write_text(schema.written({"data": "answers.bin"}, "answers", answers))
    (folder / "answers.bin").write_bytes(bytes(arrays.content))
    return path


def values(asked):
    return {each.id: {name: r.value for name, r in each.right.items()} for each in asked}


@pytest.mark.once
def test_made_again_they_are_the_same_bytes(tmp_path):
    written = make.write(tmp_path)
    shipped = sorted(make.SHIPPED.iterdir())
    assert [path.name for path in shipped] == sorted(path.name for path in written)
    for path in shipped:
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    assert sum(path.stat().st_size for path in shipped) < 900_000


def test_ids_are_a_hash_of_what_is_asked_and_right(asked):
    assert len({each.id for each in asked}) == len(asked)
    first = asked[40]
    same = make.Made(first.question, first.right, ())
    assert same.id == first.id
    name, right = next(iter(first.right.items()))
    other = right.value.copy()
    other.reshape(-1)[0] += 1
    changed = make.Made(first.question, {**first.right, name: replace(right, value=other)}, ())
    assert changed.id != first.id


def test_every_fault_is_shown_or_has_a_reason(asked):
    flagged = {flag for each in asked for flag in each.flags}
    faults = {each.id for each in FAULTS if not each.proof}
    assert flagged == faults - set(make.UNSHOWN), "see CONTRIBUTING: make the vectors again"
    assert set(make.UNSHOWN) <= faults


def test_what_cannot_be_shown_is_not(asked):
    """A reason that no longer holds is one too many; of these it is chance."""
    chance = {"B12", "E-uninitialised"}
    for name in set(make.UNSHOWN) - chance:
        shown = [e.id for e in asked if make.shows(e.question, e.right, BY_ID[name])]
        assert not shown, name


def test_equivalent_changes_of_the_same_design_answer_right(asked):
    """Those that rotate otherwise, or store otherwise, are other designs."""
    for name in ("same-precision", "same-rounding", "same-unit-late"):
        shown = [e.id for e in asked if make.shows(e.question, e.right, BY_ID[name])]
        assert not shown, name


def test_right_answers_exit_0(asked, tmp_path):
    path = write_answers(tmp_path, values(asked))
    result = run("--verify", path)
    assert result.exit_code == 0, result.output
    assert f"{len(asked)} right, 0 wrong" in result.stdout


def sums(a, b):
    """a @ b.T in float32, term after term: of all orders the one with the largest error."""
    products = a.astype("f4")[:, None, :] * b.astype("f4")[None, :, :]
    return np.cumsum(products, axis=2, dtype="f4")[:, :, -1]


def in_float32(question):
    """Answers of a plain implementation in float32 that multiplies by dense matrices."""
    inputs, dim = question.inputs, question.dim
    rotation = hadamard.transform(np.eye(dim)).astype("f4") * inputs["signs"]
    levels = inputs.get("levels", np.zeros(1, "f4"))
    scale = np.float32(0)
    if question.sketch:
        orthogonal = question.sketch == "orthogonal"
        mean = sphere.mean_abs(dim) if orthogonal else np.sqrt(2 / np.pi)
        scale = np.float32(1 / (dim * mean))
    if question.group == "encode":
        x = inputs["x"]
        largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), np.float32(1e-30))
        small = x / largest
        lengths = np.sqrt(np.cumsum(small * small, axis=1, dtype="f4")[:, -1:])
        y = sums(small / np.where(lengths > 0, lengths, 1), rotation)
        indices = np.searchsorted((levels[1:] + levels[:-1]) / 2, y, side="right").astype("u1")
        out = {"indices": indices, "norms": (lengths * largest)[:, 0]}
        if question.sketch:
            r = y - levels[indices]
            out["sketch_signs"] = np.where(sums(r, inputs["sketch"]) >= 0, 1, -1)
            out["residual_norms"] = np.sqrt(np.cumsum(r * r, axis=1, dtype="f4")[:, -1])
        return {name: out[name] for name in out if name != "indices" or question.scalar_bits}
    y = np.zeros((len(inputs["norms"]), dim), "f4")
    if question.scalar_bits:
        y = levels[inputs["indices"]]
    if question.sketch:
        turned = sums(inputs["sketch_signs"], inputs["sketch"].T)
        y = y + scale * inputs["residual_norms"][:, None] * turned
    if question.group == "decode":
        return {"x": sums(y, rotation.T) * inputs["norms"][:, None]}
    return {"scores": sums(sums(inputs["q"], rotation), y) * inputs["norms"]}


def test_plain_float32_arithmetic_is_right(asked):
    """Tolerances are derived; an implementation that sums in the worst order keeps to them."""
    judged = 0
    for each in asked:
        question = each.question
        rotated = question.kind in ("turboquant-mse", "turboquant-prod")
        if question.group in ("encode", "decode", "scores") and rotated and question.design.plain:
            if "signs" not in question.inputs:
                continue
            for name, answer in in_float32(question).items():
                wrong = ~each.right[name].accepts(answer)
                assert not wrong.any(), (question.group, question.text, name, np.argwhere(wrong))
            judged += 1
    assert judged > 80


def test_float32_is_tolerated_and_a_hundredfold_of_it_is_not(asked):
    for each in asked:
        if each.question.group == "decode":
            right = each.right["x"]
            largest = np.abs(right.value).max(axis=1, keepdims=True)
            assert right.accepts(right.value + ROUNDING * largest).all()
            off = right.accepts(right.value + 1e4 * right.tolerance + 1e-30)
            assert not off.any()


def test_a_tie_may_go_either_way_and_no_further(asked):
    ties = 0
    for each in asked:
        right = each.right.get("indices")
        if each.question.group != "encode" or right is None:
            continue
        ties += int((right.least < right.most).sum())
        assert right.accepts(right.least).all()
        assert right.accepts(right.most).all()
        assert not right.accepts(right.most.astype(int) + 1).any()
        assert not right.accepts(right.least.astype(int) - 1).any()
    assert ties > 100


@pytest.mark.parametrize("name", ["B02", "C-floor", "D-squared", "E09", "A02", "A20", "N-tail"])
def test_answers_of_a_fault_are_wrong_and_name_it(asked, tmp_path, name):
    outputs = values(asked)
    for each in asked:
        if answer := make.fault_answer(each.question, BY_ID[name]):
            outputs[each.id] = answer
    outputs = {
        name: {part: a.astype("f8") if a.dtype.kind == "f" else a for part, a in parts.items()}
        for name, parts in outputs.items()
    }
    judged = judge.judge(asked, [write_answers(tmp_path, outputs)])
    wrong = {each.id for each in judged if each.status == "wrong"}
    assert wrong == {each.id for each in asked if name in each.flags}
    assert sum(name in each.suggests for each in judged) == judge.compared(judged) > 0
    result = run("--verify", tmp_path)
    assert result.exit_code == 1
    assert f"Looks like {name}" in result.stdout


def test_an_unknown_fault_is_said_to_be_wrong_where_those_like_it_are(asked, tmp_path):
    """Decoded values are twice too large, which is no fault of the kill table."""
    outputs = values(asked)
    for each in asked:
        if each.question.group in ("decode", "roundtrip", "scores"):
            outputs[each.id] = {name: 2 * a for name, a in outputs[each.id].items()}
    path = write_answers(tmp_path, outputs)
    judged = judge.judge(asked, [path])
    assert judge.looks_like(judged) == {}
    alike = judge.wrong_alike(judged)
    assert "D02" in alike  # a wrong output scale
    assert "C-floor" not in alike
    shown = run("--verify", path).stdout
    assert "No known fault gives such answers. The same vectors are wrong where" in shown


def test_unanswered_is_no_pass_and_skipped_needs_a_reason(asked, tmp_path):
    right = values(asked)
    first, second, *rest = right
    path = write_answers(tmp_path, {name: right[name] for name in rest}, {first: "no table"})
    result = run("--verify", path, "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert (found["skipped"], found["missing"], found["wrong"]) == (1, 1, 0)
    statuses = {each["id"]: each["status"] for each in found["vectors"]}
    assert (statuses[first], statuses[second]) == ("skipped", "missing")


def test_nothing_but_skipped_is_no_pass(asked, tmp_path):
    path = write_answers(tmp_path, {}, {each.id: "not mine" for each in asked})
    assert run("--verify", path).exit_code == 3


def test_where_it_differs_is_said(asked, tmp_path):
    right = values(asked)
    each = next(e for e in asked if e.question.group == "pack")
    packed = right[each.id]["packed"].copy()
    packed[1, 1] ^= 1
    right[each.id] = {"packed": packed}
    result = run("--verify", write_answers(tmp_path, right), "--group", "pack")
    assert result.exit_code == 1
    assert f"packed[1, 1] is {packed[1, 1]}, should be {packed[1, 1] ^ 1}" in result.stdout
    assert "No known fault gives such answers" in result.stdout


def test_a_wrong_shape_a_missing_output_and_nan_are_wrong(asked, tmp_path):
    right = values(asked)
    decode = [e for e in asked if e.question.group == "decode"][:3]
    right[decode[0].id] = {"x": right[decode[0].id]["x"][:, :-1]}
    right[decode[1].id] = {}
    right[decode[2].id] = {"x": right[decode[2].id]["x"] * np.float32("nan")}
    judged = judge.judge(decode, [write_answers(tmp_path, right)])
    texts = [each.text for each in judged]
    assert [each.status for each in judged] == ["wrong"] * 3
    assert "has shape" in texts[0]
    assert "x is missing" in texts[1]
    assert "is nan" in texts[2]


BAD = {
    "none": "no JSON",
    "[]": "no object",
    '{"answers": [{"id": "0"}]}': "at answers[0].id",
    '{"answers": [{"id": "0000000000000000"}]}': "which is no vector",
    '{"answers": [], "data": "../secret"}': "at data",
    '{"answers": [], "data": "absent.bin"}': "cannot be read",
    '{"answers": [], "more": 1}': "more",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_file_of_answers_is_refused_in_a_sentence(tmp_path, text):
    path = tmp_path / "answers.json"
    path.write_text(text)
    result = run("--verify", path)
    assert result.exit_code == 2
    assert BAD[text] in result.stderr
    assert "Traceback" not in result.output


def test_an_array_beyond_its_file_is_wrong(asked, tmp_path):
    path = write_answers(tmp_path, values(asked))
    (tmp_path / "answers.bin").write_bytes(b"")
    result = run("--verify", path)
    assert result.exit_code == 1
    assert "its file has 0 bytes" in result.stdout


def test_a_command_is_asked_group_by_group(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import json, shutil, sys\n"
        "from pathlib import Path\n"
        "asked, out = map(Path, sys.argv[1:])\n"
        "data = out.with_suffix('.bin').name\n"
        "answers = [{'id': v['id'], 'outputs': {k: e['value'] for k, e in v['expected'].items()}}\n"
        "           for v in json.loads(asked.read_text())['vectors']]\n"
        "shutil.copy(asked.with_name('vectors.bin'), out.with_name(data))\n"
        "out.write_text(json.dumps({'answers': answers, 'data': data}))\n"
    )
    result = run("--exec", f"{sys.executable} {script}")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("command", "said"),
    [("./not-there", "cannot be run"), ("false", "ended with 1"), ("", "command is empty")],
)
def test_a_command_that_fails_is_refused(command, said):
    result = run("--exec", command, "--group", "pack")
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("arguments", [[], ["--verify", ".", "--exec", "x"], ["--group", "x"]])
def test_exactly_one_thing_is_asked_of_it(arguments):
    assert run(*arguments).exit_code == 2


def test_an_unknown_group_is_refused():
    result = run("--exec", "true", "--group", "nonsense")
    assert result.exit_code == 2
    assert "known are codebook" in result.stderr


def test_the_page_says_what_is_shipped():
    done = subprocess.run([sys.executable, ROOT / "docs" / "vectors.py"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert (
        f"{len(judge.asked())} inputs with their right answers" in (ROOT / "README.md").read_text()
    )


def test_the_files_keep_to_the_published_schema():
    published = (ROOT / "docs" / "vectors.schema.json").read_text()
    assert published == schema.json_schema()
    for path in make.SHIPPED.glob("*.json"):
        msgspec.json.decode(path.read_bytes(), type=schema.VectorFile)
