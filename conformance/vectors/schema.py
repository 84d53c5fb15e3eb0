"""The files of golden vectors, and of the answers to them: JSON beside raw little-endian arrays.

A file of vectors GROUP.json has one vector a line and names the file of its arrays, vectors.bin. An
array is a type, a shape and the byte where it begins, rows first. A file of answers has the same
form. `json_schema` gives both as JSON Schema (docs/vectors.schema.json):

    python -m kvassay.conformance.vectors.schema > docs/vectors.schema.json
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from kvassay.conformance.evidence.lines import Malformed, cleaned, meant, parsed

SCHEMA = 1
DTYPES = ("float32", "float64", "int8", "int32", "uint8")
LARGEST_FILE = 64 * 2**20

Array = NDArray[Any]
Parameters = dict[str, str | int | bool]
Size = Annotated[int, Meta(ge=0, le=2**31)]
Id = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
FileName = Annotated[str, Meta(pattern="^[A-Za-z0-9_-][A-Za-z0-9_.-]*$", max_length=100)]


class ArrayAt(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an array lies in the file beside: little-endian, C order, from byte `offset`."""

    dtype: Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")]
    shape: Annotated[tuple[Size, ...], Meta(max_length=4)]
    offset: Size

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class Expected(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A right answer, and what else is right.

    With `tolerance`, an array of the same number of axes whose axes of length 1 stand for all,
    what is at most so far from `value`. With `least` and `most`, each whole number from the one
    to the other: both neighbours of a tie, anything where nothing depends on it. Else `value`
    alone. `why` says where the tolerance comes from.
    """

    value: ArrayAt
    tolerance: ArrayAt | None = None
    least: ArrayAt | None = None
    most: ArrayAt | None = None
    why: str = ""


class Vector(Struct, frozen=True, forbid_unknown_fields=True):
    """One question and its answer. `id` is a hash of group, parameters, inputs and what is right:
    it never changes while they do not. `flags` are the known faults that the vector shows: the
    reference with that fault answers it wrong."""

    id: Id
    text: str
    parameters: Parameters
    inputs: dict[str, ArrayAt]
    expected: dict[str, Expected]
    flags: tuple[str, ...]


class VectorFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A group of vectors. `faults` says of each flag what is wrong and what that costs."""

    schema: Annotated[int, Meta(ge=1, le=1)]
    group: str
    about: str
    data: FileName
    vectors: tuple[Vector, ...]
    faults: dict[str, str]


class Answer(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to the vector `id`: an array for each of its `expected`; or why there is none
    in `skipped`, a reason that is shown."""

    id: Id
    outputs: dict[str, ArrayAt] = {}
    skipped: Annotated[str, Meta(max_length=400)] = ""


class AnswerFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Answers, to vectors of one group or of several, in any order."""

    answers: Annotated[tuple[Answer, ...], Meta(max_length=100_000)]
    data: FileName = ""


def vector_id(group: str, parameters: Parameters, arrays: Mapping[str, Array]) -> str:
    """The permanent id: SHA-256 over what is asked and what is right, its first 16 digits."""
    digest = hashlib.sha256(json.dumps([group, parameters], sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\0{name} {array.dtype} {array.shape}\0".encode() + array.tobytes())
    return digest.hexdigest()[:16]


class Arrays:
    """The bytes of many arrays, each from a multiple of 8 bytes, those alike once."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._places: dict[bytes, int] = {}

    def put(self, array: Array) -> ArrayAt:
        """Appends the array, if it is new, and says where it is."""
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        if raw not in self._places:
            self.content.extend(bytes(-len(self.content) % 8))
            self._places[raw] = len(self.content)
            self.content.extend(raw)
        return ArrayAt(array.dtype.name, array.shape, self._places[raw])


def load(path: Path, kind: type[VectorFile] | type[AnswerFile]) -> tuple[Any, memoryview]:
    """The file at `path`, of vectors or of answers, and the bytes of its arrays. ValueError, in
    one sentence, for anything else."""
    try:
        read: Any = meant(cleaned(parsed(_content(path))), kind)
        data = memoryview(_content(path.with_name(read.data)) if read.data else b"")
    except Malformed as problem:
        what = "vectors" if kind is VectorFile else "answers"
        raise ValueError(f"{str(path)!r} is no file of {what}: {problem}") from None
    return read, data


def array_at(data: memoryview, at: ArrayAt) -> Array:
    """The array that lies there. ValueError if the file ends before it does."""
    if at.offset + at.nbytes > len(data):
        raise ValueError(
            f"an array ends at byte {at.offset + at.nbytes}, and its file has {len(data)} bytes"
        )
    raw = data[at.offset : at.offset + at.nbytes]
    return np.frombuffer(raw, np.dtype(at.dtype).newbyteorder("<")).reshape(at.shape)


def written(head: Mapping[str, Any], key: str, lines: Iterable[Struct], tail: Any = None) -> str:
    """A JSON object with a list of which each item has its line."""
    items = ",\n".join(json.dumps(msgspec.to_builtins(line)) for line in lines)
    text = json.dumps(head)[:-1] + (", " if head else "") + f'"{key}": [\n{items}\n]'
    return text + (f', "faults": {json.dumps(tail, indent=0)}' if tail is not None else "") + "}\n"


def json_schema() -> str:
    """The JSON Schema of a file of vectors or of answers."""
    either, parts = msgspec.json.schema_components(
        [VectorFile, AnswerFile], ref_template="#/$defs/{name}"
    )
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Golden vectors of kvassay and the answers to them, schema {SCHEMA}",
        "oneOf": list(either),
        "$defs": parts,
    }
    return json.dumps(about, indent=1) + "\n"


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"{str(path)!r} is larger than {LARGEST_FILE // 2**20} MB")
        return path.read_bytes()
    except OSError as problem:
        raise ValueError(f"{str(path)!r} cannot be read: {problem.strerror}") from None


if __name__ == "__main__":
    print(json_schema(), end="")
