"""An implementer's answers, vector by vector: right, wrong and where, skipped, or missing.

A wrong answer is held against those that the known faults give: one that is right but for a fault
is the answer that this fault makes.
"""

import shlex
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

import numpy as np

from kvassay.conformance.evidence.lines import clean
from kvassay.conformance.faults import BY_ID
from kvassay.conformance.vectors.answering import Outputs, Question
from kvassay.conformance.vectors.make import SHIPPED, accepted, fault_answer
from kvassay.conformance.vectors.questions import ABOUT
from kvassay.conformance.vectors.schema import (
    Answer,
    AnswerFile,
    Array,
    ArrayAt,
    Expected,
    Vector,
    VectorFile,
    array_at,
    load,
)
from kvassay.conformance.vectors.tolerances import Right

Status = Literal["right", "wrong", "skipped", "missing"]
STATUSES: tuple[Status, ...] = get_args(Status)
# Wrong answers of a group that are held against those of faults: seconds, not minutes.
COMPARED = 12
ALIKE = 0.8  # the share of vectors from which a fault is said to be wrong in the same places
LIMIT = 120.0  # seconds that a command may take for the vectors of one group
GROUPS = tuple(ABOUT)


@dataclass(frozen=True)
class Asked:
    """A vector as it is shipped, with its arrays."""

    id: str
    question: Question
    right: dict[str, Right]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Judged:
    """What became of one vector: where it is wrong, or why it was skipped, in `text`; and the
    faults that give just this answer. `flags` are those that the vector shows."""

    id: str
    group: str
    about: str
    status: Status
    text: str = ""
    suggests: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def asked(groups: Sequence[str] = ()) -> list[Asked]:
    """The vectors that are shipped, of these groups or all."""
    return [each for group in groups or GROUPS for each in _of_group(group)]


def answer_files(path: Path) -> list[Path]:
    """The files of answers at `path`: itself, or all that end in .json in a folder. ValueError
    where there are none."""
    if not path.is_dir():
        return [path]
    if not (found := sorted(path.glob("*.json"))):
        raise ValueError(f"{str(path)!r} holds no file that ends in .json")
    return found


def judge(vectors: Iterable[Asked], paths: Iterable[Path]) -> list[Judged]:
    """What became of each vector, given files of answers. ValueError for a file that is none, or
    an answer to what is no vector or was answered already."""
    there: dict[str, tuple[Answer, memoryview]] = {}
    known = {each.id for each in asked()}
    for path in paths:
        file, data = load(path, AnswerFile)
        for answer in file.answers:
            if answer.id not in known:
                raise ValueError(f"{str(path)!r} answers {answer.id}, which is no vector")
            if answer.id in there:
                raise ValueError(f"{str(path)!r} answers {answer.id}, which was answered already")
            there[answer.id] = answer, data
    judged: list[Judged] = []
    wrong: Counter[str] = Counter()
    for each in vectors:
        judged.append(_judged(each, there.get(each.id), wrong[each.question.group] < COMPARED))
        wrong[each.question.group] += judged[-1].status == "wrong"
    return judged


def asked_of(command: str, groups: Sequence[str] = ()) -> list[Judged]:
    """The same for a command, which is called once a group: COMMAND VECTORS.json ANSWERS.json.
    ValueError, with its last words, where it fails."""
    words = shlex.split(command)
    if not words:
        raise ValueError("the command is empty")
    judged = []
    with TemporaryDirectory() as folder:
        for group in groups or GROUPS:
            out = Path(folder, f"{group}.json")
            _run([*words, str(SHIPPED / f"{group}.json"), str(out)], group)
            judged += judge(asked([group]), [out] if out.exists() else [])
    return judged


def looks_like(judged: Sequence[Judged]) -> dict[str, int]:
    """The faults that give wrong answers, and how many. Those come first that explain most and
    would not have made wrong what is right."""
    explained = Counter(fault for each in judged for fault in each.suggests)
    against = Counter(fault for each in judged if each.status == "right" for fault in each.flags)
    ranked = sorted(explained, key=lambda fault: against[fault] - explained[fault])
    return {fault: explained[fault] for fault in ranked}


def wrong_alike(judged: Sequence[Judged]) -> dict[str, float]:
    """The faults whose answers are wrong on the same vectors, best first: of the vectors on which
    either is wrong, the share on which both are, if it is at least ALIKE."""
    answered = [each for each in judged if each.status in ("right", "wrong")]
    wrong = {each.id for each in answered if each.status == "wrong"}
    shows: dict[str, set[str]] = defaultdict(set)
    for each in answered:
        for fault in each.flags:
            shows[fault].add(each.id)
    found = {fault: len(wrong & ids) / len(wrong | ids) for fault, ids in shows.items()}
    best = sorted(found, key=lambda fault: -found[fault])
    return {fault: found[fault] for fault in best if found[fault] >= ALIKE}


def compared(judged: Iterable[Judged]) -> int:
    """How many wrong answers were held against those of faults."""
    wrong = Counter(each.group for each in judged if each.status == "wrong")
    return sum(min(count, COMPARED) for count in wrong.values())


def exit_code(judged: Iterable[Judged]) -> int:
    """0 all that was not skipped is right, 1 something is wrong, 3 nothing is wrong but something
    is missing, or nothing was answered."""
    found = Counter(each.status for each in judged)
    if found["wrong"]:
        return 1
    return 0 if found["right"] and not found["missing"] else 3


@cache
def _of_group(group: str) -> tuple[Asked, ...]:
    """Its vectors, read once: a command is judged group by group, each time with all ids."""
    file, data = load(SHIPPED / f"{group}.json", VectorFile)
    return tuple(_asked(file.group, vector, data) for vector in file.vectors)


def _run(words: list[str], group: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    except OSError as problem:
        raise ValueError(f"{words[0]} cannot be run: {problem.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"{words[0]} took more than {LIMIT:g} s for {group}") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        said = f"; its last words: {clean(last[0], 200)}" if last else ""
        raise ValueError(f"{words[0]} ended with {done.returncode} at {group}{said}")


def _asked(group: str, vector: Vector, data: memoryview) -> Asked:
    inputs = {name: array_at(data, at) for name, at in vector.inputs.items()}
    question = Question(group, vector.text, vector.parameters, inputs)
    expected = {name: _right(each, data) for name, each in vector.expected.items()}
    return Asked(vector.id, question, expected, vector.flags)


def _right(expected: Expected, data: memoryview) -> Right:
    def at(place: ArrayAt | None) -> Array | None:
        return None if place is None else array_at(data, place)

    value = array_at(data, expected.value)
    parts = (at(expected.tolerance), at(expected.least), at(expected.most))
    return Right(value, *parts, expected.why)


def _judged(each: Asked, there: "tuple[Answer, memoryview] | None", compare: bool) -> Judged:
    asks = each.question
    result = Judged(each.id, asks.group, asks.text, "missing", flags=each.flags)
    if there is None:
        return result
    answer, data = there
    if answer.skipped:
        return replace(result, status="skipped", text=answer.skipped)
    try:
        outputs = {name: array_at(data, at) for name, at in answer.outputs.items()}
    except ValueError as problem:
        return replace(result, status="wrong", text=str(problem))
    wrong = "; ".join(filter(None, (_differs(n, r, outputs.get(n)) for n, r in each.right.items())))
    if not wrong:
        return replace(result, status="right")
    like = _like(each, outputs) if compare else ()
    return replace(result, status="wrong", text=wrong, suggests=like)


def _differs(name: str, right: Right, answer: Array | None) -> str:
    """What is wrong with one output, nothing if it is right."""
    if answer is None:
        return f"{name} is missing"
    if answer.shape != right.value.shape:
        return f"{name} has shape {answer.shape}, should be {right.value.shape}"
    if accepted(right, answer):
        return ""
    wrong = np.argwhere(~right.accepts(answer))
    at = tuple(wrong[0])
    place = ", ".join(map(str, at))
    got, value = answer[at].item(), right.value[at].item()
    should = f"{value:.7g}"
    if right.tolerance is not None:
        should += f" ± {np.broadcast_to(right.tolerance, right.value.shape)[at]:.2g}"
    elif right.least is not None and right.most is not None and right.least[at] != right.most[at]:
        should = f"{right.least[at]} to {right.most[at]}"
    count = f"{len(wrong)} of {right.value.size} wrong"
    return f"{name}[{place}] is {got:.7g}, should be {should} ({count})"


def _like(each: Asked, outputs: Outputs) -> tuple[str, ...]:
    """The faults among the vector's flags whose answer this is."""
    found = []
    for flag in each.flags:
        fault = fault_answer(each.question, BY_ID[flag]) if flag in BY_ID else None
        if fault and all(
            _same(right, fault.get(n), outputs.get(n)) for n, right in each.right.items()
        ):
            found.append(flag)
    return tuple(found)


def _same(right: Right, fault: Array | None, answer: Array | None) -> bool:
    """Whether an answer is a fault's: both NaN, or as near as float32 leaves them, which where a
    fault makes values large is more than what is tolerated of a right one."""
    if fault is None or answer is None or not np.shape(fault) == answer.shape == right.value.shape:
        return False
    near = replace(right, value=np.asarray(fault)).accepts(answer)
    if right.least is not None and right.most is not None:
        near = (fault == answer) | (right.least != right.most)
    with np.errstate(invalid="ignore"):
        near |= np.isclose(answer, fault, rtol=1e-4, atol=0, equal_nan=True)
    return bool(near.all())
