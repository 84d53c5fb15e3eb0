"""What the vectors ask. Each group has inputs whose contents differ from place to place, so that
an exchange, a lost tail or a swapped nibble shows.

Numbers come from a generator with a fixed seed, as float32; where an index may not hang on
rounding, rows on which it would are left out (`tolerances.settled`).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.vectors.answering import Question, answered
from kvassay.conformance.vectors.schema import Array
from kvassay.conformance.vectors.tolerances import settled
from kvassay.reference import hadamard, packing
from kvassay.reference.lloyd_max import codebook

ABOUT = {
    "codebook": "The Lloyd-Max table for the coordinates of a random unit vector of dimension d, "
    "whose density is (1 - t^2)^((d-3)/2): levels, and the thresholds between them.",
    "pack": "Indices of b bits to bytes: the lowest bit first, filling bytes from the lowest bit, "
    "a row from a new byte.",
    "unpack": "Bytes to indices, the inverse of pack. Where a kind is named, it is its reader.",
    "rotate": "y = T (signs * x), or y = M x for a given matrix M. T is the Walsh-Hadamard "
    "transform in natural order over sqrt(d); for d = 2^k m, m odd, as in reference/hadamard.py.",
    "unrotate": "x = signs * T y, or x = M^T y.",
    "encode": "Norms, and the index of the nearest level of each coordinate of the rotated unit "
    "vector; with a sketch S also sign(S r) as +1 or -1 and |r| of the residual r = y - level.",
    "decode": "x = norm * unrotate(level[index]), and with a sketch of m rows "
    "level[index] + scale |r| S^T signs in its place: scale is sqrt(pi/2)/m for gaussian rows, "
    "1/(m E|u_1|) for unit rows, u uniform on the sphere. With a sketch at 1 bit the level is 0.",
    "scores": "Estimates of <q_i, x_j> from codes, (M, N).",
    "roundtrip": "Encode, then decode: no index hangs on rounding here. For kind spectral, tokens "
    "calibrate it as in reference/spectral.py; a rotation, grid or scale that is named is a design "
    "of its own.",
    "calibration": "From tokens to the eigenvalues of the second moment of their directions, of "
    "sum 1 and falling, and the bits of each direction.",
    "attention": "softmax(q k^T / sqrt(d)) v for H query heads, of which H / H_kv neighbours share "
    "a head of k and v; if causal, the queries are the last tokens.",
}

MSE, PROD = "turboquant-mse", "turboquant-prod"
SIZES = ((16, 1), (64, 4), (64, 2), (80, 3), (96, 4), (192, 5), (64, 8))


def questions() -> Iterator[Question]:
    """All that is asked, group by group."""
    for make in (
        _tables,
        _packing,
        _rotations,
        _codecs,
        _long_batches,
        _designs,
        _spectral,
        _heads,
    ):
        yield from make()


def _tables() -> Iterator[Question]:
    for dim, bits in (*((64, b) for b in range(1, 9)), (16, 4), (80, 2), (128, 4), (192, 6)):
        text = f"Lloyd-Max at d = {dim}, {bits} bits"
        yield Question("codebook", text, {"kind": MSE, "dim": dim, "bits": bits}, {})


def _packing() -> Iterator[Question]:
    rng = np.random.default_rng(1)
    for bits in range(1, 9):
        for dim in (13, 64):
            indices = rng.integers(2**bits, size=(3, dim), dtype=np.uint8)
            indices[0] = np.arange(dim) % 2**bits
            text = f"{bits} bits, {dim} indices a row" + ", the last byte filled up" * (
                dim * bits % 8 > 0
            )
            parameters: dict[str, Any] = {"dim": dim, "bits": bits}
            yield Question("pack", text, parameters, {"indices": indices})
            if dim == 64:
                parameters = {"kind": MSE, **parameters}
            packed = packing.pack(indices, bits)
            yield Question("unpack", text, parameters, {"packed": packed})


def _rotations() -> Iterator[Question]:
    for dim in (4, 16, 64, 80, 96, 128, 192):
        rng = np.random.default_rng([2, dim])
        parameters: dict[str, Any] = {"kind": MSE, "dim": dim, "bits": 4}
        x, signs = _rows(dim, rng), _signs(dim, rng)
        text = f"random signs, then T, at d = {dim}"
        yield Question("rotate", text, parameters, {"x": x, "signs": signs})
        yield Question("unrotate", text, parameters, {"y": x, "signs": signs})
    dense = {**parameters, "dim": 24, "rotation": "haar"}
    matrix = hadamard.Haar(24, rng).matrix.astype(np.float32)
    x = _rows(24, rng)
    yield Question("rotate", "a dense orthogonal matrix", dense, {"x": x, "matrix": matrix})
    yield Question("unrotate", "a dense orthogonal matrix", dense, {"y": x, "matrix": matrix})


def _codecs() -> Iterator[Question]:
    for dim, bits in SIZES:
        yield from _of_a_kind({"kind": MSE, "dim": dim, "bits": bits})
    yield from _of_a_kind({"kind": MSE, "dim": 24, "bits": 3, "rotation": "haar"})
    for dim, bits in ((16, 3), (64, 4)):
        yield from _of_a_kind({"kind": "scalar", "dim": dim, "bits": bits})
    for sketch in ("gaussian", "orthogonal"):
        for dim, bits in ((32, 1), (32, 3), (48, 2)):
            yield from _of_a_kind({"kind": PROD, "dim": dim, "bits": bits, "sketch": sketch})


def _of_a_kind(parameters: dict[str, Any]) -> Iterator[Question]:
    """Encode, decode, score and both in one, for codecs of one kind and size."""
    dim, bits = int(parameters["dim"]), int(parameters["bits"])
    rng = np.random.default_rng([3, dim, bits])
    name = f"{parameters['kind']} {parameters.get('sketch', '')}".strip()
    text = f"{name} at d = {dim}, {bits} bits"
    asked = _asked(text, parameters, rng)
    asked = _with_x(asked, _rows(dim, rng), "encode", f"{text}: rows of many forms and norms")
    x = asked.x[settled(asked)]
    extreme = np.array([[4e19], [1e-25]], dtype=np.float32) * _gaussian(2, dim, rng)
    alone, forms = f"{text}: one vector alone", asked.text
    yield _with_x(asked, x, "encode", forms) if asked.sketch else asked
    yield _with_x(asked, x[:1], "encode", alone)
    large = _with_x(asked, extreme, "encode", f"{text}: norms whose squares leave float32")
    if settled(large).all():
        yield large
    yield _with_x(asked, x[:0], "roundtrip", f"{text}: no vector at all")
    yield _with_x(asked, x[:1], "roundtrip", alone)
    yield _with_x(asked, x, "roundtrip", forms)
    yield from _reading(_with_x(asked, x, "encode", ""), text, rng)
    yield from _reading(_with_x(asked, x[:1], "encode", ""), f"{text}, one row", rng)


def _reading(asked: Question, text: str, rng: np.random.Generator) -> Iterator[Question]:
    """Decoding and scoring of the code of what is asked."""
    code = {name: _stored(value) for name, value in answered(asked).items()}
    if asked.sketch and len(code["norms"]) > 2:
        code["residual_norms"][1] = 0.0  # a vector that needs no correction
    given = {name: value for name, value in asked.inputs.items() if name != "x"} | code
    yield replace(asked, group="decode", text=f"{text}: codes", inputs=given)
    for count in (5, 1) if len(code["norms"]) > 1 else (1,):
        q = _gaussian(count, asked.dim, rng) * np.linspace(0.5, 3, count, dtype=np.float32)[:, None]
        queries = "a query alone" if count == 1 else f"{count} queries"
        yield replace(asked, group="scores", text=f"{text}: {queries}", inputs={**given, "q": q})


def _long_batches() -> Iterator[Question]:
    """More rows than the blocks that kernels work in."""
    rng = np.random.default_rng(4)
    parameters: dict[str, Any] = {"kind": MSE, "dim": 16, "bits": 2}
    asked = _asked("19 vectors", parameters, rng)
    asked = _with_x(asked, _gaussian(41, 16, rng), "roundtrip", "19 vectors")
    yield _with_x(asked, asked.x[settled(asked)][:19], "roundtrip", "19 vectors")
    keys = _with_x(asked, _gaussian(1030, 16, rng), "encode", "")
    for rows, count, text in ((5, 40, "40 queries"), (1030, 2, "1030 keys")):
        code = {name: _stored(value[:rows]) for name, value in answered(keys).items()}
        given = {name: value for name, value in keys.inputs.items() if name != "x"} | code
        q = _gaussian(count, 16, rng)
        yield replace(keys, group="scores", text=text, inputs={**given, "q": q})
        yield replace(keys, group="decode", text=text, inputs=given)


def _designs() -> Iterator[Question]:
    """Codecs whose design is not the papers'; whoever has another does not answer them."""
    for kind, bits, design in (
        (MSE, 2, {"scale": "unit"}),
        (MSE, 3, {"scale": "unit"}),
        (MSE, 2, {"scale": "unbiased"}),
        (MSE, 3, {"rotation": "block-32"}),
        (MSE, 4, {"rotation": "hadamard-unsigned"}),
        ("scalar", 4, {"grid": "uniform"}),
        ("scalar", 3, {"grid": "uniform"}),
        ("scalar", 4, {"grid": "uniform", "group": 16}),
    ):
        parameters: dict[str, Any] = {"kind": kind, "dim": 64, "bits": bits, **design}
        rng = np.random.default_rng([5, bits])
        text = f"{kind} with {', '.join(f'{name} {value}' for name, value in design.items())}"
        asked = _asked(text, parameters, rng)
        asked = _with_x(asked, _rows(64, rng)[:, ::-1].copy(), "roundtrip", text)
        yield _with_x(asked, asked.x[settled(asked)], "roundtrip", text)


def _spectral() -> Iterator[Question]:
    rng = np.random.default_rng(6)
    dim = 16
    mix = rng.standard_normal((dim, dim)) * 2.0 ** -(np.arange(dim) ** 0.7)
    loud = np.exp(rng.standard_normal((48, 1)))
    tokens = (loud * (rng.standard_normal((48, dim)) @ mix.T)).astype(np.float32)
    for bits in (2, 4):
        parameters: dict[str, Any] = {"kind": "spectral", "dim": dim, "bits": bits}
        text = f"spectral at d = {dim}, {bits} bits"
        yield Question("calibration", text, parameters, {"tokens": tokens})
        x = (rng.standard_normal((12, dim)) @ mix.T).astype(np.float32)
        asked = Question("roundtrip", text, parameters, {"tokens": tokens, "x": x})
        yield _with_x(asked, x[settled(asked)], "roundtrip", text)


def _heads() -> Iterator[Question]:
    rng = np.random.default_rng(7)
    for heads, kv_heads, queries, keys, causal in (
        (1, 1, 3, 9, False),
        (4, 2, 5, 12, True),
        (6, 2, 1, 33, True),
    ):
        q, k, v = (
            (rng.standard_normal((count, rows, 16)) * 1.5).astype(np.float32)
            for count, rows in ((heads, queries), (kv_heads, keys), (kv_heads, keys))
        )
        text = f"{heads} query heads over {kv_heads}, {queries} queries, {keys} keys"
        parameters: dict[str, Any] = {"dim": 16, "causal": causal}
        yield Question("attention", text, parameters, {"q": q, "k": k, "v": v})


def _rows(dim: int, rng: np.random.Generator) -> Array:
    """Vectors of many forms and norms, no two places alike."""
    place = np.arange(dim)
    alone = np.where(place == min(3, dim - 1), -3.5, 0.0)
    loud = rng.standard_normal(dim) * np.where(place == 1, 30.0, 1.0)
    return np.stack(
        [
            rng.standard_normal(dim) * 1.7,
            place + 1.0,
            alone,
            (-1.0) ** place * 1.03**-place,
            loud,
            np.full(dim, 2.0),
            np.zeros(dim),
            300 * rng.standard_normal(dim),
            1e5 * rng.standard_normal(dim),
            1e-9 * rng.standard_normal(dim),
            rng.standard_normal(dim) + 4,
        ]
    ).astype(np.float32)


def _gaussian(count: int, dim: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((count, dim)).astype(np.float32)


def _signs(dim: int, rng: np.random.Generator) -> Array:
    return rng.choice(np.array([-1, 1], dtype=np.int8), size=dim)


def _asked(text: str, parameters: dict[str, Any], rng: np.random.Generator) -> Question:
    """A question still without vectors: with what a seed would draw, and with the table, so that
    only the group `codebook` judges that."""
    asked = Question("encode", text, parameters, _drawn(parameters, rng))
    if asked.design.grid == "uniform" or not asked.scalar_bits:
        return asked
    levels = codebook(asked.dim, asked.scalar_bits).levels.astype(np.float32)
    return replace(asked, inputs={**asked.inputs, "levels": levels})


def _drawn(parameters: dict[str, Any], rng: np.random.Generator) -> dict[str, Array]:
    """What the seed of an implementer would draw: signs or a matrix, and a sketch."""
    dim = int(parameters["dim"])
    drawn: dict[str, Array] = {}
    if parameters.get("rotation") == "haar":
        drawn["matrix"] = hadamard.Haar(dim, rng).matrix.astype(np.float32)
    elif parameters["kind"] != "scalar" and parameters.get("rotation") != "hadamard-unsigned":
        drawn["signs"] = _signs(dim, rng)
    if parameters.get("sketch") == "gaussian":
        drawn["sketch"] = _gaussian(dim, dim, rng)
    elif parameters.get("sketch"):
        drawn["sketch"] = hadamard.Haar(dim, rng).matrix.astype(np.float32)
    return drawn


def _with_x(asked: Question, x: Array, group: str, text: str) -> Question:
    return replace(asked, group=group, text=text, inputs={**asked.inputs, "x": x})


def _stored(value: Array) -> Array:
    return np.array(value, dtype=np.float32 if value.dtype.kind == "f" else value.dtype)
