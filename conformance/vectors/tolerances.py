"""How far an answer in float32 arithmetic may lie from that of the reference.

One rule bounds them all: a sum of d products in float32, in any order, is off by at most d u times
the sum of the products' magnitudes, u = 2^-24 to first order (Higham 2002, section 3.1). For a row
of an orthogonal matrix and a unit vector that sum is at most 1 (Cauchy-Schwarz), so that a rotated
coordinate is off by at most d u, and by as much again for the norm that was divided out. Each bound
stands with its derivation in the file, as `why`.
"""

from dataclasses import dataclass

import numpy as np

from kvassay.conformance.vectors.answering import Outputs, Question, made
from kvassay.conformance.vectors.schema import Array
from kvassay.reference.codecs import normalize
from kvassay.reference.lloyd_max import codebook

ROUNDING = 2.0**-24


@dataclass(frozen=True)
class Right:
    """What is right: as in `schema.Expected`, with the arrays themselves."""

    value: Array
    tolerance: Array | None = None
    least: Array | None = None
    most: Array | None = None
    why: str = ""

    def accepts(self, answer: Array) -> Array:
        """Whether each element is right. The shapes are the same."""
        if self.tolerance is not None:
            with np.errstate(invalid="ignore"):
                near = np.abs(answer.astype(np.float64) - self.value) <= self.tolerance
            return np.asarray(near)
        if self.least is not None and self.most is not None:
            return np.asarray((answer >= self.least) & (answer <= self.most))
        return np.asarray(answer == self.value)


def right(question: Question, outputs: Outputs) -> dict[str, Right]:
    """What is right for each output of the reference, values as they are shipped: float32, in
    which what rounding alone keeps from 0 is 0."""
    shipped = {name: _shipped(name, array) for name, array in outputs.items()}
    return {name: _RIGHT[question.group](question, name, shipped) for name in shipped}


def settled(question: Question) -> Array:
    """Whether float32 cannot change an index or a sign of each row of x, (N,) of bool."""
    codec = made(question)
    unit, norms = normalize(question.x.astype(np.float64))
    near = _coordinate_error(question)
    if question.design.grid == "uniform":
        y = codec.rotation.forward(question.x.astype(np.float64))
        groups = y.reshape(len(y), -1, codec.group)
        lows, steps = groups.min(axis=2), np.ptp(groups, axis=2) / (2**question.bits - 1)
        places = (groups - lows[:, :, None]) / np.where(steps > 0, steps, 1)[:, :, None]
        far = np.abs(places % 1 - 0.5) * steps[:, :, None] > near * norms[:, None, None]
        return np.asarray(far.all(axis=(1, 2)))
    y = codec._to_coordinates(unit)
    if question.kind == "spectral":
        far = np.ones(len(y), dtype=bool)
        for columns, book in codec._groups:
            distance = _distance(y[:, columns] * codec._inverse_scales[columns], book.thresholds)
            far &= (distance * codec._scales[columns] > near).all(axis=1)
        return np.asarray(far | (norms == 0))
    far = np.ones(len(y), dtype=bool)
    residual = y
    if question.scalar_bits:
        far = (_distance(y, codec.book.thresholds) > near).all(axis=1)
        residual = y - codec.book.levels[codec.book.quantize(y)]
    if question.sketch:
        lengths = np.linalg.norm(question.inputs["sketch"].astype(np.float64), axis=1)
        steps = near * (1 + np.sqrt(question.dim)) * lengths  # of a residual that is off itself
        far &= (np.abs(codec.sketch.project(residual)) > steps).all(axis=1)
    return np.asarray(far | (norms == 0))


def _coordinate_error(question: Question) -> float:
    return 2 * question.dim * ROUNDING


def _distance(y: Array, thresholds: Array) -> Array:
    return np.asarray(np.min(np.abs(y[:, :, None] - thresholds), axis=2))


def _shipped(name: str, array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    if name not in ("x", "y"):
        return array.astype(np.float32)
    largest = np.max(np.abs(array), initial=0.0, axis=1, keepdims=True)
    return np.where(np.abs(array) < 1e-12 * largest, 0.0, array).astype(np.float32)


def _exact(question: Question, name: str, outputs: Outputs) -> Right:
    return Right(outputs[name])


def _table(question: Question, name: str, outputs: Outputs) -> Right:
    tolerance = np.full((1,), 1e-4 / np.sqrt(question.dim), dtype=np.float32)
    why = (
        "1e-4/sqrt(d): levels that are off by e standard deviations add at most e^2 = 1e-8 to the "
        "distortion, whose least here, at 8 bits, is 4e-5"
    )
    return Right(outputs[name], tolerance, why=why)


def _turned(question: Question, name: str, outputs: Outputs) -> Right:
    vectors = question.inputs["x" if name == "y" else "y"].astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    why = "2 d 2^-24 |x|: d products of an orthogonal row with x in float32, and the stored value"
    return _within(outputs[name], 2 * question.dim * ROUNDING * lengths, why)


def _coded(question: Question, name: str, outputs: Outputs) -> Right:
    value = outputs[name]
    unit, norms = normalize(question.x.astype(np.float64))
    zero = norms == 0
    if name == "norms":
        tolerance = 2 * question.dim * ROUNDING * norms
        return _within(value, tolerance, "2 d 2^-24 |x|: a sum of d squares in float32")
    if name == "residual_norms":
        tolerance = np.full(len(value), _coordinate_error(question) * np.sqrt(question.dim))
        tolerance[zero] = np.inf
        why = "sqrt(d) 2 d 2^-24: each of d coordinates is off by 2 d 2^-24; of a zero vector any"
        return _within(value, tolerance, why)
    if name == "sketch_signs":
        least, most = value.copy(), value.copy()
        least[zero], most[zero] = -1, 1
        return Right(value, least=least, most=most, why="of a zero vector any sign")
    y = made(question)._to_coordinates(unit)
    thresholds = codebook(question.dim, question.scalar_bits).thresholds
    near = _coordinate_error(question)
    least, most = (
        np.searchsorted(thresholds, y + side, side="right").astype(np.uint8)
        for side in (-near, near)
    )
    least[zero], most[zero] = 0, 2**question.scalar_bits - 1
    why = "both levels beside a threshold that is within 2 d 2^-24 of it; of a zero vector any"
    return Right(value, least=least, most=most, why=why)


def _decoded(question: Question, name: str, outputs: Outputs) -> Right:
    why = (
        "4 d 2^-24 |x| B: two products of d terms; B is the length of what is summed, in magnitudes"
    )
    return _within(outputs[name], 4 * question.dim * ROUNDING * _sums(question), why)


def _scored(question: Question, name: str, outputs: Outputs) -> Right:
    lengths = np.linalg.norm(question.inputs["q"].astype(np.float64), axis=1, keepdims=True)
    tolerance = 6 * question.dim * ROUNDING * lengths * _sums(question).T
    why = "6 d 2^-24 |q| |x| B: as for decoding, and the product with q"
    return _within(outputs[name], tolerance, why)


def _sums(question: Question) -> Array:
    """|x| B for each row of the code, (N, 1)."""
    inputs, codec = question.inputs, made(question)
    length = np.zeros((len(inputs["norms"]), question.dim))
    if question.scalar_bits:
        length += np.abs(codec.book.levels[inputs["indices"]])
    if question.sketch:
        columns = np.abs(inputs["sketch"]).astype(np.float64).sum(axis=0)
        length += (
            codec.sketch.scale * inputs["residual_norms"].astype(np.float64)[:, None] * (columns)
        )
    whole = np.linalg.norm(length, axis=1) * inputs["norms"]
    return np.asarray(whole[:, None])


def _returned(question: Question, name: str, outputs: Outputs) -> Right:
    norms = np.linalg.norm(question.x.astype(np.float64), axis=1, keepdims=True)
    beyond = 1.0
    if question.sketch:  # the sketch's sums, in magnitudes, against those of the levels
        codec = made(question)
        columns = np.abs(question.inputs["sketch"]).astype(np.float64).sum(axis=0)
        beyond += codec.sketch.scale * float(np.linalg.norm(columns))
    why = (
        "8 d 2^-24 |x| B: norm, rotation, scale and rotation back, each at most 2 d 2^-24; "
        "B is 1, and with a sketch the length of its sums in magnitudes more"
    )
    return _within(outputs[name], 8 * question.dim * ROUNDING * beyond * norms, why)


def _learnt(question: Question, name: str, outputs: Outputs) -> Right:
    if name != "spectrum":
        return Right(outputs[name])
    count = len(question.inputs["tokens"]) + question.dim
    why = "4 (N + d) 2^-24: how far N products of unit vectors are off moves eigenvalues (Weyl)"
    return _within(outputs[name], np.full(1, 4 * count * ROUNDING), why)


def _attended(question: Question, name: str, outputs: Outputs) -> Right:
    q, k, v = (question.inputs[each].astype(np.float64) for each in "qkv")
    longest = np.linalg.norm(q, axis=2).max() * np.linalg.norm(k, axis=2).max()
    score = 2 * question.dim * ROUNDING * longest / np.sqrt(question.dim)
    relative = 2 * score + (2 * k.shape[1] + 16) * ROUNDING
    why = "a score is off by e = 2 sqrt(d) 2^-24 |q| |k|, so a weight by 2 e; then sums of N terms"
    return _within(outputs[name], np.full((1, 1, 1), 2 * relative * np.abs(v).max()), why)


def _within(value: Array, tolerance: Array, why: str) -> Right:
    return Right(value, np.asarray(tolerance, dtype=np.float32), why=why)


_RIGHT = {
    "codebook": _table,
    "pack": _exact,
    "unpack": _exact,
    "rotate": _turned,
    "unrotate": _turned,
    "encode": _coded,
    "decode": _decoded,
    "scores": _scored,
    "roundtrip": _returned,
    "calibration": _learnt,
    "attention": _attended,
}
