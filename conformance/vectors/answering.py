"""What a codec of the reference, or one with a fault, answers to a vector.

Everything that a seed would draw is given: signs, rotation matrix, sketch, calibration tokens. The
codecs of the reference draw it when they are made, so that is when `given` puts it in their way;
what a fault changes after that stays changed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from kvassay.conformance.faults.fault import Fault, WithExtra
from kvassay.conformance.vectors.schema import Array, Parameters
from kvassay.reference import attention, hadamard, packing, qjl
from kvassay.reference.codecs import Code, codec
from kvassay.reference.designed import designed
from kvassay.reference.designs import Design
from kvassay.reference.kinds import KINDS
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.spectral import Spectral, calibrate

Outputs = dict[str, Array]


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # what it finds out takes longer than an answer


def _one_thread() -> Any:
    """BLAS in one thread: arrays are small, and how many threads there are changes last bits."""
    return _pools().limit(limits=1, user_api="blas")


class NoAnswer(Exception):
    """The codec has nothing that this vector asks for."""


@dataclass(frozen=True)
class Question:
    """What one vector asks. `parameters` has the kind, dim, bits and what else is chosen."""

    group: str
    text: str
    parameters: Parameters
    inputs: Mapping[str, Array]

    @property
    def kind(self) -> str:
        return str(self.parameters.get("kind", ""))

    @property
    def dim(self) -> int:
        return int(self.parameters["dim"])

    @property
    def bits(self) -> int:
        return int(self.parameters["bits"])

    @property
    def sketch(self) -> str:
        return str(self.parameters.get("sketch", ""))

    @property
    def scalar_bits(self) -> int:
        """Bits of the index of a coordinate: one less where there is a sketch."""
        return KINDS[self.kind].scalar_bits(self.bits)

    @property
    def design(self) -> Design:
        known = {k: v for k, v in self.parameters.items() if k in ("rotation", "grid", "scale")}
        return Design(**known, group=int(self.parameters.get("group", 0)))  # type: ignore[arg-type]

    @property
    def x(self) -> Array:
        """The vectors, a copy: a codec may spoil what it is given."""
        return np.array(self.inputs["x"])


def can_answer(question: Question, fault: Fault) -> bool:
    """Whether a codec of this kind, sketch and design can have the fault."""
    if not question.kind or question.kind not in fault.kinds or question.group == "pack":
        return False
    if issubclass(fault.codec_class, WithExtra) and question.group in ("decode", "scores"):
        return False  # its codes hold more than a vector gives
    return fault.sketch in ("", question.sketch) and question.design == fault.design


def answered(question: Question, fault: Fault | None = None) -> Outputs:
    """The outputs, float64 or whole numbers. NoAnswer where the codec has no such method, or its
    codes are not the reference's; whatever else the fault raises."""
    with _one_thread():
        return _ANSWERS[question.group](question, lambda: made(question, fault))


def made(question: Question, fault: Fault | None = None) -> Any:
    """The codec that the vector is about, with what is given in place of what a seed draws."""
    with given(question.inputs):
        return _made(question, fault)


def _made(question: Question, fault: Fault | None) -> Any:
    kind, dim, bits, design = question.kind, question.dim, question.bits, question.design
    options: dict[str, Any] = {"sketch": question.sketch} if question.sketch else {}
    if kind == "spectral":
        tokens = np.asarray(question.inputs["tokens"], dtype=np.float64)
        if fault is None:
            return Spectral(calibrate(tokens), bits)
        return fault.codec(kind, dim, bits, 0, calibration=tokens)
    if fault is None:
        if design.plain and design.rotation == "hadamard":
            return codec(kind, dim, bits, 0, **options)
        return designed(kind, dim, bits, 0, design, **options)
    return fault.put_into(kind, question.sketch).codec(kind, dim, bits, 0, **options)


class _GivenRows(qjl.OrthogonalSketch):
    """An orthogonal sketch whose rows are given."""

    def __init__(self, matrix: Array, scale: float) -> None:
        self.rows, self.dim = matrix.shape
        self.scale = scale
        self.matrix = matrix

    def project(self, x: Array) -> Array:
        return hadamard.rows_times(x, self.matrix.T)

    def adjoint(self, y: Array) -> Array:
        return hadamard.rows_times(y, self.matrix)


@contextmanager
def given(inputs: Mapping[str, Array]) -> Iterator[None]:
    """Codecs made in here take their signs, matrix and sketch from `inputs`, if they have them and
    the size is theirs."""
    rotation, sketch = hadamard.rotation, qjl.sketch

    def with_signs(name: str, dim: int, rng: np.random.Generator) -> Any:
        drawn = rotation(name, dim, rng)
        for part in ("signs", "matrix"):
            there = inputs.get(part)
            if there is not None and len(there) == dim and hasattr(drawn, part):
                setattr(drawn, part, there.astype(np.float64))
        return drawn

    def with_rows(name: str, dim: int, rows: int, rng: np.random.Generator) -> Any:
        drawn = sketch(name, dim, rows, rng)
        there = inputs.get("sketch")
        if there is None or there.shape[1] != dim or len(there) < rows:
            return drawn
        matrix = there[:rows].astype(np.float64)
        if isinstance(drawn, qjl.GaussianSketch):
            drawn.matrix = matrix
            return drawn
        return _GivenRows(matrix, drawn.scale)

    hadamard.rotation, qjl.sketch = with_signs, with_rows
    try:
        yield
    finally:
        hadamard.rotation, qjl.sketch = rotation, sketch


def code_of(question: Question) -> Code:
    """The code that a vector for decoding gives, as the reference stores it."""
    inputs = question.inputs
    norms = inputs["norms"].astype(np.float64)
    packed = np.zeros((len(norms), 0), dtype=np.uint8)
    if question.scalar_bits:
        packed = packing.pack(np.asarray(inputs["indices"]), question.scalar_bits)
    if not question.sketch:
        return Code(packed, norms)
    signs = np.packbits(inputs["sketch_signs"] > 0, axis=1, bitorder="little")
    return Code(packed, norms, signs, inputs["residual_norms"].astype(np.float64))


Make = Callable[[], Any]


def _codebook(question: Question, make: Make) -> Outputs:
    book = make().book
    return {"levels": book.levels, "thresholds": book.thresholds}


def _pack(question: Question, make: Make) -> Outputs:
    return {"packed": packing.pack(question.inputs["indices"], question.bits)}


def _unpack(question: Question, make: Make) -> Outputs:
    """What a codec reads from packed indices is seen in the levels that it takes for them."""
    if not question.kind:
        packed = question.inputs["packed"]
        return {"indices": packing.unpack(packed, question.dim, question.bits)}
    packed = question.inputs["packed"]
    levels = make()._levels(Code(packed.copy(), np.ones(len(packed))))
    table = codebook(question.dim, question.bits).levels
    nearest = np.argmin(np.abs(levels[:, :, None] - table), axis=2)
    return {"indices": nearest.astype(np.uint8)}


def _rotate(question: Question, make: Make) -> Outputs:
    return {"y": _method(make(), "rotate")(question.x.astype(np.float64))}


def _unrotate(question: Question, make: Make) -> Outputs:
    return {"x": _method(make(), "unrotate")(question.inputs["y"].astype(np.float64))}


def _encode(question: Question, make: Make) -> Outputs:
    maker = make()
    code = maker.encode(question.x)
    code = code[0] if isinstance(code, tuple) else code
    if not isinstance(code, Code):
        raise NoAnswer("its codes are not the reference's")
    outputs: Outputs = {}
    if question.scalar_bits:
        outputs["indices"] = packing.unpack(code.indices, question.dim, question.scalar_bits)
    outputs["norms"] = code.norms
    if question.sketch:
        assert code.signs is not None
        assert code.residual_norms is not None
        outputs["sketch_signs"] = 2 * packing.unpack(code.signs, question.dim, 1).astype("i1") - 1
        outputs["residual_norms"] = code.residual_norms
    return outputs


def _decode(question: Question, make: Make) -> Outputs:
    return {"x": _own_codes(make().decode, code_of(question))}


def _scores(question: Question, make: Make) -> Outputs:
    maker, code = make(), code_of(question)
    q = np.asarray(question.inputs["q"], dtype=np.float32)
    if not hasattr(maker, "inner_products"):  # scores are then those of what is decoded
        return {"scores": q.astype(np.float64) @ _own_codes(maker.decode, code).T}
    return {"scores": maker.inner_products(q, code)}


def _roundtrip(question: Question, make: Make) -> Outputs:
    maker = make()
    return {"x": maker.decode(maker.encode(question.x))}


def _calibration(question: Question, make: Make) -> Outputs:
    maker = make()
    return {
        "spectrum": maker.calibration.spectrum,
        "bits_per_direction": maker.bits_per_direction.astype(np.uint8),
    }


def _attention(question: Question, make: Make) -> Outputs:
    q, k, v = (question.inputs[name] for name in "qkv")
    return {"output": attention.grouped(q, k, v, bool(question.parameters["causal"]))}


def _method(maker: Any, name: str) -> Any:
    if not hasattr(maker, name):
        raise NoAnswer(f"it has no {name}")
    return getattr(maker, name)


def _own_codes(decode: Callable[[Code], Array], code: Code) -> Array:
    try:
        return decode(code)
    except (TypeError, KeyError, IndexError, AttributeError) as problem:
        raise NoAnswer("its codes are not the reference's") from problem


_ANSWERS: dict[str, Callable[[Question, Make], Outputs]] = {
    "codebook": _codebook,
    "pack": _pack,
    "unpack": _unpack,
    "rotate": _rotate,
    "unrotate": _unrotate,
    "encode": _encode,
    "decode": _decode,
    "scores": _scores,
    "roundtrip": _roundtrip,
    "calibration": _calibration,
    "attention": _attention,
}
