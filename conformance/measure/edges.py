"""The edges: what must hold for every single input, whatever it is.

An `Edge` is one experiment, with the `variants` it is tried with, and how far its answers may
deviate. `check` tries all variants on a few seeds (kvassay.conformance.claims.edges), Hypothesis
chooses codecs, seeds and variants (kvassay.properties): both read the one list EDGES.

A deviation is a number that is 0 for a perfect codec. Those of reconstructions are squared
differences relative to the vector's own energy. What a codec may refuse it may refuse: `Refused`
makes the variant say nothing, and "not applicable" where all are refused.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from math import isfinite
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance import discovery
from kvassay.conformance.measure import inputs
from kvassay.conformance.measure.cell import BackendGone, BackendHung, Cell
from kvassay.conformance.measure.memory import held_bytes
from kvassay.conformance.measure.trial import Array, CellTrial, Statistics, checked
from kvassay.conformance.protocol import SEEDS, Backend
from kvassay.reference import theory
from kvassay.reference.lloyd_max import codebook

T = TypeVar("T")
Vectors = NDArray[np.float32]

ROUNDING = 1e-4  # relative; float32 arithmetic over 128 coordinates stays below 1e-5
FAR = 1e6  # what is farther off, or not finite, is just wrong
PRECISIONS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-9}
LEAST = {"float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}  # half the least number

ROWS = (1, 2, 3, 5, 15, 16, 17, 31, 33, 63, 65, 100, 127, 129, 257, 1000, 1025)
MANY_ROWS = (4099, 8193, 65537)
QUERIES = (1, 2, 31, 33, 65)


class Refused(NotImplementedError):
    """The codec raised where it may."""


@dataclass(frozen=True)
class Subject:
    """A codec under test and its seed, from which all that is random here follows."""

    backend: Backend
    cell: Cell
    seed: int

    @cached_property
    def codec(self) -> Any:
        return self.another()

    def another(self, more_bits: int = 0, other_seed: int = 0, dim: int = 0) -> Any:
        """A codec of its kind made anew: of the same seed, width and dimension, or of others.
        NotImplementedError where there is none."""
        cell = self.cell
        seed, bits = (self.seed + other_seed) % SEEDS, cell.bits + more_bits
        return self.backend.codec(cell.kind, dim or cell.dim, bits, seed, **cell.codec_options)

    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for `purpose`, not a stream that a codec may use."""
        return np.random.default_rng([self.seed, crc32(purpose.encode())])

    def sample(self, count: int) -> Vectors:
        """Vectors of every family in turn, so that structure is always among them."""
        rng = self.rng("sample")
        families = [inputs.isotropic, *inputs.STRUCTURED.values()]
        rows = [families[i % len(families)](rng, 1, self.cell.dim) for i in range(count)]
        return np.concatenate([np.zeros((0, self.cell.dim), np.float32), *rows])

    def isotropic(self, count: int) -> Vectors:
        """Vectors without structure, on which no coordinate lies on a threshold."""
        return inputs.isotropic(self.rng("isotropic"), count, self.cell.dim)

    @cached_property
    def mirrored(self) -> Array:
        """Reconstructions of a long isotropic batch, encoded in the other order."""
        x = self.isotropic(ROWS[-1])
        return self.roundtrip(x[::-1].copy())[::-1]

    def queries(self, count: int) -> Vectors:
        """Queries of norm about sqrt(d)."""
        rng = self.rng("queries")
        return rng.standard_normal((count, self.cell.dim)).astype(np.float32)

    def decode(self, code: Any, count: int, finite: bool = True) -> Array:
        return checked("decode", self.codec.decode(code), (count, self.cell.dim), finite)

    def roundtrip(self, x: Any, finite: bool = True) -> Array:
        return self.decode(self.codec.encode(x), len(x), finite)

    def scores(self, q: Any, code: Any, count: int, finite: bool = True) -> Array:
        own = getattr(self.codec, "inner_products", None)
        if own is None:
            raise NotImplementedError("the codec offers no inner_products")
        return checked("inner_products", own(q, code), (len(q), count), finite)

    @property
    def has_levels(self) -> bool:
        """Whether decode gives anything: not if it leaves out a sketch that is all there is."""
        return self.cell.sketch_decoded or self.cell.scalar_bits > 0


def allowed(action: Callable[[], T]) -> T:
    """What `action` gives. An exception of the codec is `Refused`: what cannot be represented must
    be refused. A child process that crashes or hangs has refused nothing."""
    try:
        return action()
    except (BackendGone, BackendHung, NotImplementedError):
        raise
    except Exception as problem:
        raise Refused(f"refused: {discovery.described(problem)}") from problem


def refuses(action: Callable[[], Any]) -> bool:
    """Whether the codec raises, whatever it raises."""
    try:
        allowed(action)
    except NotImplementedError:
        return True
    return False


# What a deviation is held against.


def tolerance(cell: Cell) -> float:
    """Squared error, relative to |x|^2, that a few coordinates make which lie within rounding of a
    threshold and fall on its other side."""
    return ROUNDING + 0.1 * theory.lloyd_max_distortion(cell.dim, cell.bits)


def flips_tolerance(cell: Cell) -> float:
    """The same where so many coordinates are compared that one may well lie there: two may fall on
    the other side of the widest step of the table, and two of a sketch's signs may change, which
    moves x_hat by 2 sqrt(pi/2) |r| / sqrt(d) each.
    """
    flip = 0.0
    if cell.scalar_bits:
        flip = float(np.max(np.diff(codebook(cell.dim, cell.scalar_bits).levels))) ** 2
    if cell.sketch:
        flip += 2 * np.pi * theory.lloyd_max_distortion(cell.dim, cell.scalar_bits) / cell.dim
    return tolerance(cell) + 4 * flip  # two at once: twice the length, four times the square


def query_tolerance(cell: Cell) -> float:
    """How far rounding may move an estimate, relative to |q| |x|: float32 arithmetic, and the
    precision that the design states for queries. Rounding each coordinate by a share u moves a
    product by u |q| |x_hat| at most; |x_hat| is below 3 |x|, and three estimates are compared."""
    design = getattr(cell, "design", None)
    stated = getattr(design, "query", "float32") if design is not None else "float32"
    return ROUNDING + (0.0 if stated == "float32" else 9 * PRECISIONS[stated])


def norm_tolerance(cell: Cell, norm: float) -> float:
    """The squared relative error that the precision which the design states for norms may make
    in this one: half a unit in the last place, or half the least number that it holds."""
    design = getattr(cell, "design", None)
    stated = getattr(design, "norm", "float32") if design is not None else "float32"
    return float(max(PRECISIONS[stated], LEAST[stated] / norm) ** 2)


def _nothing(cell: Cell) -> float:
    return 0.0


def _tiny(cell: Cell) -> float:
    return 1e-6


def differ(first: Array, second: Array, x: Any) -> Array:
    """Squared difference of each row relative to the vector's own energy; 0 for a zero one."""
    energy = np.sum(np.asarray(x, dtype=np.float64) ** 2, axis=1)
    squares = np.sum((first - second) ** 2, axis=1)
    return np.asarray(squares / np.where(energy > 0, energy, 1))


def _largest(values: Any) -> float:
    found = float(np.max(values, initial=0.0))
    return min(found, FAR) if isfinite(found) else FAR


def _unequal(first: Array, second: Array) -> float:
    """The share of rows that are not the same."""
    return float(np.mean(np.any(first != second, axis=1))) if len(first) else 0.0


# Shapes and values


def _counts(subject: Subject, count: int) -> float:
    answer = np.asarray(subject.codec.decode(subject.codec.encode(subject.sample(count))))
    checked("decode", answer, (count, subject.cell.dim))
    return float(answer.dtype.kind != "f")


def _scored_counts(subject: Subject, sizes: tuple[int, int]) -> float:
    queries, count = sizes
    code = subject.codec.encode(subject.sample(count))
    answer = subject.scores(subject.queries(queries), code, count)
    return float(answer.shape != (queries, count))


def _zero_vectors(subject: Subject, where: str) -> float:
    x = subject.sample(3)
    if where == "after others":
        subject.roundtrip(x)
        return _largest(np.abs(subject.roundtrip(np.zeros_like(x), finite=False)))
    x[1] = 0
    code = subject.codec.encode(x)
    if where == "scores":
        return _largest(np.abs(subject.scores(subject.queries(2), code, 3, finite=False)[:, 1]))
    result = subject.decode(code, 3, finite=False)
    if subject.has_levels and not np.any(result[0] != 0):
        return 1.0  # all is zero
    return _largest(np.abs(result[1]))


def _constant_vectors(subject: Subject, value: float) -> float:
    if not subject.has_levels:
        raise NotImplementedError("decode leaves out the sketch, which is all there is")
    x = np.full((2, subject.cell.dim), value, np.float32)
    x[1] *= -1
    exact = x.astype(np.float64)
    kept = np.sum(subject.roundtrip(x, finite=False) * exact, axis=1) / np.sum(exact**2, axis=1)
    return _largest(np.abs(kept - 1))


def _same_direction(cell: Cell) -> float:
    """How far <x_hat, x> / |x|^2 may be from 1 for a constant vector. A Hadamard rotation without
    signs makes it one coordinate of 1, of which a table keeps little; a uniform grid of one bit
    makes coordinates too large on average."""
    if not cell.design.random_rotation:
        return 1 - 0.5 / cell.dim
    assert cell.record.laws.slope is not None
    return 0.95 + max(0.0, cell.record.laws.slope(cell.dim, cell.bits, cell.sketch) - 1)


# Scales


def _scaled(subject: Subject, x: Vectors, scale: float, refusable: bool = False) -> float:
    factor = np.float32(scale)

    def once() -> Array:
        return subject.roundtrip(x * factor, finite=False)

    scaled = (allowed(once) if refusable else once()) / float(factor)
    return _largest(differ(scaled, subject.roundtrip(x), x))


def _powers_of_two(subject: Subject, exponent: int) -> float:
    return _scaled(subject, subject.sample(4), 2.0**exponent)


def _odd_factors(subject: Subject, factor: float) -> float:
    return _scaled(subject, subject.isotropic(4), factor)


def _extreme_norms(subject: Subject, exponent: int) -> float:
    return _scaled(subject, subject.sample(4), 2.0**exponent, refusable=True)


def _norms(subject: Subject, norm: float) -> float:
    """Beyond what the stated precision of a norm lets it move."""
    x = subject.isotropic(4)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return max(
        0.0, _scaled(subject, x, norm, refusable=True) - 2 * norm_tolerance(subject.cell, norm)
    )


def _sign(subject: Subject, count: int) -> float:
    x = subject.isotropic(count)
    return _largest(differ(subject.roundtrip(-x), -subject.roundtrip(x), x))


# What comes in


def _memory_layout(subject: Subject, layout: str) -> float:
    x = subject.isotropic(6)
    views: dict[str, Callable[[], Vectors]] = {
        "reversed": lambda: x[::-1],
        "strided": lambda: np.repeat(x, 2, axis=0)[::2],
        "columns": lambda: np.repeat(x, 2, axis=1)[:, ::2],
        "fortran": lambda: np.asfortranarray(x),
        "read-only": lambda: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
    }
    view = views[layout]()
    result = allowed(lambda: subject.roundtrip(view))
    return _largest(differ(result, subject.roundtrip(view.copy()), view))


def _dtypes(subject: Subject, dtype: str) -> float:
    x = (64 * subject.sample(4)).astype(np.float16)
    result = allowed(lambda: subject.roundtrip(x.astype(_dtype(dtype)), finite=False))
    return _largest(differ(result, subject.roundtrip(x.astype(np.float32)), x))


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise Refused(f"NumPy has no {name} here") from None


def _input_left_alone(subject: Subject, count: int) -> float:
    x, q = subject.sample(count), subject.queries(3)
    before = x.copy(), q.copy()
    code = subject.codec.encode(x)
    with suppress(NotImplementedError):
        subject.scores(q, code, count)
    return float(np.any(x != before[0]) or np.any(q != before[1]))


def _wrong_width(subject: Subject, change: str) -> float:
    codec, dim = subject.codec, subject.cell.dim
    wrong = {"one less": dim - 1, "one more": dim + 1, "twice": 2 * dim}[change]
    return float(not refuses(lambda: codec.encode(np.ones((2, wrong), np.float32))))


def _non_finite(subject: Subject, value: float) -> float:
    """1 if a vector that is not finite came out finite, else what it did to its neighbours. The
    vector's own answer alone may be spoilt."""
    x = subject.isotropic(5)
    expected = subject.roundtrip(x)
    x[2, 1] = value
    try:
        result = allowed(lambda: subject.roundtrip(x, finite=False))
    except NotImplementedError:
        return 0.0
    if np.isfinite(result[2]).all():
        return 1.0
    others = np.arange(5) != 2
    return _largest(differ(result, expected, subject.isotropic(5))[others])


# One vector and others


def _batch_is_singles(subject: Subject, count: int) -> float:
    x = subject.isotropic(count)
    singles = np.vstack([subject.roundtrip(x[i : i + 1]) for i in range(count)])
    return _largest(differ(subject.roundtrip(x), singles, x))


def _order(subject: Subject, which: int) -> float:
    x = subject.sample(8)
    order = np.random.default_rng(which).permutation(8)
    return _largest(differ(subject.roundtrip(x[order]), subject.roundtrip(x)[order], x[order]))


def _neighbours(subject: Subject, place: int) -> float:
    """A neighbour that is louder: a million times, or as many as the codec represents."""
    x = subject.sample(5)
    expected = subject.roundtrip(x)
    others = np.arange(5) != place

    def louder(factor: float) -> Array:
        loud = x.copy()
        loud[place] *= np.float32(factor)
        return subject.roundtrip(loud, finite=False)

    for exponent in (20, 10, 5):
        try:
            result = allowed(partial(louder, 2.0**exponent))
        except Refused:
            if exponent == 5:
                raise
        else:
            return _largest(differ(result, expected, x)[others])
    raise AssertionError  # not reached


# Sizes of a call


def _rows(subject: Subject, count: int) -> float:
    """The first rows of a long batch in a call of their own, against the long batch in the other
    order: there each row has another place, in a call of another size."""
    x = subject.isotropic(ROWS[-1])
    return _largest(differ(subject.roundtrip(x[:count]), subject.mirrored[:count], x[:count]))


def _many_rows(subject: Subject, count: int) -> float:
    """A long batch against some of its rows in a call of their own: its two ends, and every
    97th, so that every place in a block is among them."""
    x = subject.isotropic(count)
    some = np.unique(np.r_[0:40, 0:count:97, count - 40 : count])
    return _largest(differ(subject.roundtrip(x)[some], subject.roundtrip(x[some]), x[some]))


def _queries(subject: Subject, count: int) -> float:
    """Every score against the same query's alone, in the other order and in halves."""
    x, q = subject.isotropic(33), subject.queries(count)
    code = subject.codec.encode(x)
    whole = subject.scores(q, code, 33)
    half = (count + 1) // 2
    parts = [subject.scores(part, code, 33) for part in (q[:half], q[half:]) if len(part)]
    mirrored = subject.scores(q[::-1].copy(), code, 33)[::-1]
    last = subject.scores(q[-1:], code, 33)
    size = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1)
    return _largest(
        [
            _largest(np.abs(np.concatenate(parts) - whole) / size),
            _largest(np.abs(mirrored - whole) / size),
            _largest(np.abs(last - whole[-1:]) / size[-1:]),
        ]
    )


def _keys(subject: Subject, count: int) -> float:
    """Scores of many keys against those of the same keys in the other order, squared: encoding
    may put a coordinate on the other side of a threshold."""
    x, q = subject.isotropic(count), subject.queries(2)
    whole = subject.scores(q, subject.codec.encode(x), count)
    mirrored = subject.codec.encode(x[::-1].copy())
    size = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1)
    return _largest(((subject.scores(q, mirrored, count)[:, ::-1] - whole) / size) ** 2)


# Queries


def _linear(subject: Subject, exponent: int) -> float:
    x = subject.sample(6)
    factor = np.float32(2.0**exponent)
    first, second = subject.queries(2)[:, None]
    code = subject.codec.encode(x)
    combined = subject.scores(factor * first + second, code, 6)
    parts = factor * subject.scores(first, code, 6) + subject.scores(second, code, 6)
    size = np.linalg.norm(x, axis=1) * np.sqrt(subject.cell.dim) * (float(factor) + 1)
    return _largest(np.abs(combined - parts) / size)


def _plain_queries(subject: Subject, value: float) -> float:
    """A query with one value in all coordinates: 0, or what linearity says."""
    x, other = subject.isotropic(6), subject.queries(1)
    q = np.full_like(other, value)
    code = subject.codec.encode(x)
    answer = subject.scores(q, code, 6)
    expected = subject.scores(q - other, code, 6) + subject.scores(other, code, 6) if value else 0
    size = np.linalg.norm(x, axis=1) * np.sqrt(subject.cell.dim) * 2
    return _largest(np.abs(answer - expected) / size)


def _query_dtypes(subject: Subject, dtype: str) -> float:
    x = subject.isotropic(6)
    q = (subject.queries(3).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    code = subject.codec.encode(x)
    typed = q.astype(_dtype(dtype))
    answer = allowed(lambda: subject.scores(typed, code, 6))
    size = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1)
    expected = subject.scores(typed.astype(np.float32), code, 6)
    return _largest(np.abs(answer - expected) / size)


# Codes and codecs


def _outlives(subject: Subject, count: int) -> float:
    x = subject.sample(count)
    code = subject.codec.encode(x)
    expected = subject.decode(code, count)
    subject.codec.encode(-3 * x[::-1])
    return _unequal(subject.decode(code, count), expected)


def _one_seed(subject: Subject, count: int) -> float:
    x, reader = subject.sample(count), subject.another()
    read = checked("decode", reader.decode(subject.codec.encode(x)), x.shape)
    return _unequal(read, subject.roundtrip(x))


def _together(subject: Subject, other: str) -> float:
    """A second codec is made and used beside the first: both go on as before."""
    make, dim = _second(subject, other)
    x, q = subject.isotropic(4), subject.queries(2)
    y = inputs.isotropic(subject.rng("second"), 4, dim)
    code = subject.codec.encode(x)

    def first() -> Array:
        answers = [subject.decode(code, 4), subject.roundtrip(x)]
        with suppress(NotImplementedError):
            answers.append(subject.scores(q, code, 4).T)
        return np.hstack(answers)

    before = first()
    second = make()  # built after the first was used

    def beside() -> Array:
        return checked("decode", second.decode(second.encode(y)), y.shape)

    alone = beside()
    return max(_unequal(first(), before), _unequal(beside(), alone))


def _second(subject: Subject, other: str) -> tuple[Callable[[], Any], int]:
    """What makes a codec of another seed, width or dimension, and its dimension."""
    cell, offered = subject.cell, subject.backend.capabilities
    if other == "seed":
        if not (cell.record.rotated or cell.sketch):
            raise NotImplementedError("the kind has nothing random")
        return partial(subject.another, other_seed=1), cell.dim
    if other == "width":
        for more in (1, -1, 2, -2):
            if 1 <= cell.bits + more <= 8 and offered.has(
                cell.kind, cell.sketch, cell.dim, cell.bits + more
            ):
                return partial(subject.another, more_bits=more), cell.dim
        raise NotImplementedError("the backend offers no other width at this dimension")
    for dim in (2 * cell.dim, 64, 128, 80, 32):
        if dim != cell.dim and offered.has(cell.kind, cell.sketch, dim, cell.bits):
            return partial(subject.another, dim=dim), dim
    raise NotImplementedError("the backend offers no other dimension at this width")


def _memory_kept(subject: Subject, count: int) -> float:
    """Bytes that the codec itself grows by for a further vector, once its workspace is there."""
    codec = subject.codec
    if hasattr(codec, "child"):
        raise NotImplementedError("what a codec in another process holds is not told")
    x = subject.isotropic(4 * count)
    sizes = []
    for batch in x.reshape(4, count, -1):
        codec.decode(codec.encode(batch))
        sizes.append(held_bytes(codec))
    return max(0.0, (sizes[3] - sizes[1]) / (2 * count))


def _short_code(subject: Subject, count: int) -> float:
    short = _altered(allowed(lambda: subject.codec.encode(subject.sample(count))), cut_array)
    return float(not refuses(lambda: subject.codec.decode(short)))


def _gaps(subject: Subject, count: int) -> float:
    """A code whose arrays are views with gaps decodes like its copy, unless it is refused."""
    code = subject.codec.encode(subject.isotropic(count))
    expected = subject.decode(code, count)
    gapped = _altered(code, _with_gaps)
    return _unequal(allowed(lambda: subject.decode(gapped, count)), expected)


def _memory_before(subject: Subject, filling: int) -> float:
    x = subject.sample(5)
    expected = subject.roundtrip(x)
    fill_memory(filling)
    return _unequal(subject.roundtrip(x), expected)


def fill_memory(filling: int) -> None:
    """Leaves freed blocks of all the sizes that a small batch may ask for."""
    sizes = sorted({count * width for count in range(1, 9) for width in range(2, 1100, 2)})
    blocks = [np.full(size, filling, dtype=np.uint8) for size in sizes]
    del blocks


def cut_array(part: Any) -> Any:
    """Half of each vector's bytes, None where there are none."""
    if isinstance(part, bytes):
        return part[: len(part) // 2] if part else None
    half = part.shape[1] // 2 if part.ndim == 2 else 0
    return np.ascontiguousarray(part[:, :half]) if half else None


def _with_gaps(part: Any) -> Any:
    if isinstance(part, bytes) or not part.ndim:
        return None
    wide = np.repeat(part, 2, axis=-1)
    wide[..., 1::2] = np.array(0x55, np.uint8).astype(part.dtype)
    return wide[..., ::2]


def _altered(code: Any, change: Callable[[Any], Any]) -> Any:
    """`code` with its first array that can be changed. Refused if it is not made of arrays."""
    if (altered := altered_code(code, change)) is None:
        raise Refused("the code is not made of arrays or bytes that could be changed")
    return altered


def altered_code(code: Any, change: Callable[[Any], Any]) -> Any:
    """The same, None if it cannot be changed."""
    if isinstance(code, (bytes, np.ndarray)):
        return change(code)
    if isinstance(code, dict):
        return _one_altered(list(code.items()), dict, change)
    if isinstance(code, (tuple, list)) and not hasattr(code, "_fields"):
        pairs: list[Any] = list(enumerate(code))
        return _one_altered(pairs, lambda parts: type(code)(v for _, v in parts), change)
    if is_dataclass(code) and not isinstance(code, type):
        pairs = [(each.name, getattr(code, each.name)) for each in fields(code) if each.init]
        return _one_altered(pairs, lambda parts: replace(code, **dict(parts)), change)
    return None


def _one_altered(
    pairs: list[Any], join: Callable[[Iterable[Any]], Any], change: Callable[[Any], Any]
) -> Any:
    for place, (name, part) in enumerate(pairs):
        if (altered := altered_code(part, change)) is not None:
            return join([*pairs[:place], (name, altered), *pairs[place + 1 :]])
    return None


@dataclass(frozen=True)
class Edge:
    """One experiment: `measure` gives the deviation for a variant, which `limit` bounds."""

    name: str
    variants: tuple[Any, ...]
    measure: Callable[[Subject, Any], float]
    limit: Callable[[Cell], float] = tolerance

    def worst(self, subject: Subject) -> float:
        """The largest deviation over the variants. NotImplementedError where all say nothing."""
        _ = subject.codec  # that it cannot be made is no refusal of an input
        found, silent = [], NotImplementedError("there is nothing to try")
        for variant in self.variants:
            try:
                found.append(self.measure(subject, variant))
            except NotImplementedError as problem:
                silent = problem
        if not found:
            raise silent
        return max(found)

    def experiment(self, trial: CellTrial) -> Statistics:
        """The same for one seed of a cell."""
        seed = trial.codec_seed("codec")
        return {"deviation": self.worst(Subject(trial.backend, trial.cell, seed))}


def _half(cell: Cell) -> float:
    return 0.5


EDGES = tuple(
    Edge(*each)
    for each in (
        ("shape-and-dtype", (0, 1, 2, 3, 9), _counts, _nothing),
        ("no-queries-no-tokens", ((0, 3), (2, 0), (0, 0)), _scored_counts, _nothing),
        ("zero-vectors", ("among others", "after others", "scores"), _zero_vectors, _tiny),
        ("constant-vectors", (1.0, 3e-3, 40.0), _constant_vectors, _same_direction),
        ("scale-equivariance", (-12, -6, -1, 3, 6), _powers_of_two),
        ("odd-factors", (3.0, 7.0, 0.3, 100.0), _odd_factors, flips_tolerance),
        ("extreme-norms", (-80, 80), _extreme_norms),
        ("norms-beyond-half", (1e4, 1e5, 1e6, 1e-5, 1e-6, 1e-8), _norms, flips_tolerance),
        ("sign-equivariance", (6,), _sign),
        (
            "memory-layout",
            ("reversed", "strided", "columns", "fortran", "read-only"),
            _memory_layout,
        ),
        ("dtypes", ("float16", "float64"), _dtypes),
        ("input-is-left-alone", (4,), _input_left_alone, _nothing),
        ("wrong-width-is-refused", ("one less", "one more", "twice"), _wrong_width, _nothing),
        ("non-finite-input", (np.nan, np.inf, -np.inf), _non_finite),
        ("batch-is-singles", (2, 5, 9), _batch_is_singles),
        ("order-of-tokens", (0, 1), _order),
        ("neighbours-do-not-matter", (0, 2, 4), _neighbours),
        ("rows-of-a-call", ROWS, _rows, flips_tolerance),
        ("many-rows", MANY_ROWS, _many_rows, flips_tolerance),
        ("queries-of-a-call", QUERIES, _queries, query_tolerance),
        ("keys-of-a-call", (1, 17, 33, 129, 1025), _keys, flips_tolerance),
        ("estimates-are-linear-in-the-query", (-6, 0, 5), _linear, query_tolerance),
        ("plain-queries", (0.0, 1.0), _plain_queries, query_tolerance),
        ("query-dtypes", ("float16", "float64", "bfloat16"), _query_dtypes, query_tolerance),
        ("code-outlives-the-next-encode", (6,), _outlives, _nothing),
        ("one-seed-one-codec", (5,), _one_seed, _nothing),
        ("codecs-together", ("seed", "width", "dimension"), _together, _nothing),
        ("codec-keeps-nothing", (16,), _memory_kept, _half),
        ("short-code-is-refused", (3,), _short_code, _nothing),
        ("code-with-gaps", (3,), _gaps, _nothing),
        ("memory-is-not-read-before-it-is-written", (0xFF,), _memory_before, _nothing),
    )
)
BY_NAME = {edge.name: edge for edge in EDGES}
EXPERIMENTS = {edge.name: edge.experiment for edge in EDGES}
