"""Vectors into files: what is asked, what the reference answers, and the faults that show.

python -m kvassay.conformance.vectors.make    # makes those that are shipped again
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from kvassay.conformance.faults import BY_ID
from kvassay.conformance.faults.fault import FAULTS, Fault
from kvassay.conformance.vectors.answering import (
    NoAnswer,
    Outputs,
    Question,
    answered,
    can_answer,
)
from kvassay.conformance.vectors.questions import ABOUT, questions
from kvassay.conformance.vectors.schema import (
    SCHEMA,
    Array,
    ArrayAt,
    Arrays,
    Expected,
    Vector,
    vector_id,
    written,
)
from kvassay.conformance.vectors.tolerances import Right, right

SHIPPED = Path(__file__).parents[1] / "data" / "vectors"
DATA = "vectors.bin"

# The faults that no vector shows, and why.
UNSHOWN = {
    "B12": "drifts by 1e-6 at most from one instance to the next, as float32 arithmetic may",
    "B-seed": "signs are given: what a seed draws is not asked for",
    "E-strides": "a file has no strides",
    "E-in-place": "an answer does not say what became of the caller's array",
    "E-short-code": "every code is whole",
    "E-uninitialised": "what memory held before is chance",
    "F08": "no vector has a wrong width: a refusal has no right value",
    "H01": "takes two calls of one codec",
    "H-rare-seeds": "takes hundreds of seeds",
    "K01": "sizes are not asked for, since precisions of norms are a design",
    "K03": "sizes are not asked for, since precisions of norms are a design",
    "N-many-rows": "takes 65,537 rows, 4 MB",
    "N-last-codec": "takes two codecs side by side",
    "N-keeps": "what a codec holds is not in its answer",
    "N-gaps": "a file has no views",
    "N-query-type": "all queries are float32",
    "N-nan": "no vector is NaN: a refusal has no right value",
    "N-stale-norm": "takes two calls of one codec",
}
SHOWN = [each for each in FAULTS if not each.proof and each.id not in UNSHOWN]


@dataclass(frozen=True)
class Made:
    """A question, what is right, and the faults whose answer is not."""

    question: Question
    right: dict[str, Right]
    flags: tuple[str, ...]

    @property
    def id(self) -> str:
        """The permanent id."""
        arrays = {f"inputs.{name}": array for name, array in self.question.inputs.items()}
        for name, each in self.right.items():
            parts = {"": each.value, ".tol": each.tolerance, ".least": each.least, ".m": each.most}
            arrays |= {f"{name}{part}": a for part, a in parts.items() if a is not None}
        return vector_id(self.question.group, self.question.parameters, arrays)


def vectors() -> Iterator[Made]:
    """All vectors, group by group, made now."""
    for question in sorted(questions(), key=lambda each: tuple(ABOUT).index(each.group)):
        outputs = answered(question)
        expected = right(question, outputs)
        flags = tuple(each.id for each in SHOWN if shows(question, expected, each))
        yield Made(question, expected, flags)


def shows(question: Question, expected: dict[str, Right], fault: Fault) -> bool:
    """Whether a codec with the fault answers wrong, or fails to answer."""
    outputs = fault_answer(question, fault)
    if outputs is None:
        return False
    return any(not accepted(expected[name], outputs.get(name)) for name in expected)


def fault_answer(question: Question, fault: Fault) -> Outputs | None:
    """What the codec with the fault answers; nothing in it where it fails, None where it is not
    about what is asked."""
    if not can_answer(question, fault):
        return None
    np.random.seed(0)  # noqa: NPY002 (some faults draw at random, and from here)
    try:
        with np.errstate(all="ignore"):  # what is not finite is the fault's own doing
            return answered(question, fault)
    except NoAnswer:
        return None
    except (ValueError, IndexError):
        return {}


def accepted(expected: Right, answer: Array | None) -> bool:
    """Whether an answer is right as a whole: all of it there, and each element right."""
    if answer is None or np.shape(answer) != expected.value.shape:
        return False
    return bool(expected.accepts(np.asarray(answer)).all())


def write(folder: Path) -> list[Path]:
    """Makes all vectors and writes them into the folder. The same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays, paths = Arrays(), []
    for group, each in groupby(vectors(), key=lambda made: made.question.group):
        lines = [_line(made, arrays) for made in each]
        named = sorted({flag for line in lines for flag in line.flags}, key=list(BY_ID).index)
        head = {"schema": SCHEMA, "group": group, "about": ABOUT[group], "data": DATA}
        text = written(head, "vectors", lines, {flag: BY_ID[flag].text for flag in named})
        path = folder / f"{group}.json"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    (folder / DATA).write_bytes(bytes(arrays.content))
    return [*paths, folder / DATA]


def _line(made: Made, arrays: Arrays) -> Vector:
    question = made.question

    def put(array: Array | None) -> ArrayAt | None:
        return None if array is None else arrays.put(array)

    def expected(each: Right) -> Expected:
        parts = (put(each.tolerance), put(each.least), put(each.most))
        return Expected(arrays.put(each.value), *parts, each.why)

    return Vector(
        made.id,
        question.text,
        question.parameters,
        {name: arrays.put(array) for name, array in question.inputs.items()},
        {name: expected(each) for name, each in made.right.items()},
        made.flags,
    )


if __name__ == "__main__":
    write(SHIPPED)
