"""The codecs: `scalar`, `turboquant-mse` and `turboquant-prod`.

`bits` counts the payload bits per coordinate, the sketch bit included: `turboquant-prod`
at b bits is Lloyd-Max at b - 1 bits and a sketch of d rows (at b = 1 the sketch alone).
The norm of each vector, and of its residual, is side information: one float64 each, and
`Code.nbytes` counts it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvassay.reference import hadamard, packing, qjl
from kvassay.reference._checks import require_choice, require_integer, require_vectors
from kvassay.reference.lloyd_max import MAX_BITS, codebook
from kvassay.reference.packing import Bytes
from kvassay.reference.sphere import Array

_CHUNK = 512  # rows at a time: keeps the working set in cache and memory bounded


@dataclass(frozen=True, eq=False)
class Code:
    """N encoded vectors; len() is N.

    `indices` (N, ceil(d b / 8)) packed levels, `norms` (N,); with a sketch also `signs`
    (N, ceil(rows / 8)) packed, 1 for +1, and `residual_norms` (N,) relative to the norm.
    """

    indices: Bytes
    norms: Array
    signs: Bytes | None = None
    residual_norms: Array | None = None

    def __len__(self) -> int:
        return len(self.norms)

    def __getitem__(self, rows: slice) -> "Code":
        return Code(**{name: part[rows] for name, part in self.parts().items()})

    @property
    def nbytes(self) -> int:
        """Bytes of all N vectors, side information included."""
        return sum(part.nbytes for part in self.parts().values())

    def tobytes(self) -> bytes:
        """Everything stored, in the order of the fields."""
        return b"".join(part.tobytes() for part in self.parts().values())

    def parts(self) -> dict[str, Any]:
        """The arrays it holds, by the names of their fields."""
        return {name: part for name, part in vars(self).items() if part is not None}


class PerVector:
    """What the codecs share: the norm of each vector apart, and coordinates of its direction.

    A codec says how a direction becomes coordinates and back, and how those are stored.
    """

    dim: int

    def encode(self, x: Array) -> Code:
        """Code of the rows of `x`, (N, d) of any floating dtype, finite. ValueError else."""
        x = require_vectors("x", x, self.dim)
        if len(x) <= _CHUNK:
            return self._encode(x)
        parts = [self._encode(x[i : i + _CHUNK]) for i in range(0, len(x), _CHUNK)]
        names = parts[0].parts()
        return Code(**{n: np.concatenate([getattr(part, n) for part in parts]) for n in names})

    def decode(self, code: Code) -> Array:
        """Reconstruction, (N, d) float64."""
        coordinates = self._coordinates(_consistent(code))
        return self._from_coordinates(coordinates) * code.norms[:, None]

    def inner_products(self, q: Array, code: Code) -> Array:
        """Estimates of <q_i, x_j>, (M, N), without decoding: the query is rotated instead."""
        queries = self._to_coordinates(require_vectors("q", q, self.dim))
        levels = self._coordinates(_consistent(code))
        return (hadamard.rows_times(levels, queries.T) * code.norms[:, None]).T

    def nbytes(self, code: Code) -> int:
        """Bytes that `code` holds, side information included."""
        return code.nbytes

    def _encode(self, x: Array) -> Code:
        raise NotImplementedError

    def _coordinates(self, code: Code) -> Array:
        raise NotImplementedError

    def _to_coordinates(self, x: Array) -> Array:
        raise NotImplementedError

    def _from_coordinates(self, y: Array) -> Array:
        raise NotImplementedError


class Scalar(PerVector):
    """Per-vector norm and Lloyd-Max on the coordinates as they are: no rotation.

    The baseline of both papers ("KV", "Plain-KV").
    """

    def __init__(self, dim: int, bits: int) -> None:
        self.dim = require_integer("dim", dim, 2)
        self.bits = require_integer("bits", bits, 1, MAX_BITS)
        self.book = codebook(dim, bits)

    def codebook(self) -> Array:
        """Levels for the coordinates of a unit vector, increasing."""
        return self.book.levels

    def _encode(self, x: Array) -> Code:
        unit, norms = normalize(x)
        indices = self.book.quantize(self._to_coordinates(unit))
        return Code(packing.pack(indices, self.bits), norms)

    def _coordinates(self, code: Code) -> Array:
        return self._levels(code)

    def _levels(self, code: Code) -> Array:
        return self.book.levels[packing.unpack(code.indices, self.dim, self.book.bits)]

    def _to_coordinates(self, x: Array) -> Array:
        return x

    def _from_coordinates(self, y: Array) -> Array:
        return y


class TurboQuantMSE(Scalar):
    """Random rotation, then Lloyd-Max (TurboQuant, algorithm 1). Slope 1 - D_b(d)."""

    def __init__(
        self,
        dim: int,
        bits: int,
        seed: int,
        rotation: str = "hadamard",
        generator: str = "PCG64",
    ) -> None:
        super().__init__(dim, bits)
        self.rotation = hadamard.rotation(rotation, dim, _stream(seed, 0, generator))

    def rotate(self, x: Array) -> Array:
        """Rows of `x` (N, d) in the rotated coordinates."""
        return self._to_coordinates(require_vectors("x", x, self.dim))

    def unrotate(self, y: Array) -> Array:
        """The inverse of `rotate`."""
        return self._from_coordinates(require_vectors("y", y, self.dim))

    def _to_coordinates(self, x: Array) -> Array:
        return self.rotation.forward(x)

    def _from_coordinates(self, y: Array) -> Array:
        return self.rotation.inverse(y)


class TurboQuantProd(TurboQuantMSE):
    """Lloyd-Max at bits - 1 and QJL on the residual (TurboQuant, algorithm 2). Slope 1.

    The sketch acts on the residual in the rotated coordinates. `rows` defaults to d.
    """

    def __init__(
        self,
        dim: int,
        bits: int,
        seed: int,
        rotation: str = "hadamard",
        sketch: str = "gaussian",
        rows: int | None = None,
        generator: str = "PCG64",
    ) -> None:
        require_integer("bits", bits, 1, MAX_BITS)
        super().__init__(dim, max(bits - 1, 1), seed, rotation, generator)
        self.bits = bits
        rows = dim if rows is None else rows
        self.sketch = qjl.sketch(sketch, dim, rows, _stream(seed, 1, generator))

    def codebook(self) -> Array:
        """Levels of the scalar part; the single level 0 when it has no bits."""
        return self.book.levels if self.bits > 1 else np.zeros(1)

    def _encode(self, x: Array) -> Code:
        unit, norms = normalize(x)
        residual = self._to_coordinates(unit)
        packed = np.zeros((len(x), 0), dtype=np.uint8)
        if self.bits > 1:
            indices = self.book.quantize(residual)
            packed = packing.pack(indices, self.bits - 1)
            residual = residual - self.book.levels[indices]
        return Code(packed, norms, *sketched(self.sketch, residual))

    def _coordinates(self, code: Code) -> Array:
        correction = from_sketch(self.sketch, code)
        return correction if self.bits == 1 else self._levels(code) + correction


Codec = Scalar | TurboQuantMSE | TurboQuantProd


def codec(
    kind: str,
    dim: int,
    bits: int,
    seed: int,
    *,
    rotation: str = "hadamard",
    sketch: str = "gaussian",
    rows: int | None = None,
    generator: str = "PCG64",
) -> Codec:
    """The codec of `kind` for vectors of dimension `dim` >= 2 at `bits` in 1..8.

    `seed` >= 0 fixes the rotation and the sketch: the same arguments give the same bytes.
    If `rotation` is "haar", a dense random rotation replaces the randomized Hadamard one;
    if "none", nothing is rotated. `sketch` and `rows` concern "turboquant-prod" alone. If
    `generator` is "MT19937", an unrelated generator draws signs and sketch (paper B, section
    2). ValueError for anything else.

    >>> x = np.random.default_rng(0).standard_normal((1000, 128))
    >>> mse = codec("turboquant-mse", 128, 4, seed=1)
    >>> error = mse.decode(mse.encode(x)) - x
    >>> round(float(np.sum(error**2) / np.sum(x**2)), 4)  # D_4(128) = .009315
    0.0093
    """
    require_choice("kind", kind, ("scalar", "turboquant-mse", "turboquant-prod"))
    require_integer("seed", seed, 0)
    if kind == "scalar":
        return Scalar(dim, bits)
    if kind == "turboquant-mse":
        return TurboQuantMSE(dim, bits, seed, rotation, generator)
    return TurboQuantProd(dim, bits, seed, rotation, sketch, rows, generator)


def normalize(x: Array) -> tuple[Array, Array]:
    """Unit rows and their norms; a zero row stays zero with norm 0.

    Where squares could overflow or vanish, the largest coordinate is divided out first.
    ValueError where the norm itself exceeds float64.
    """
    energy = np.einsum("nd,nd->n", x, x)
    norms = np.sqrt(energy)
    unit = x / np.where(norms > 0, norms, 1.0)[:, None]
    if (unsafe := (energy < 1e-250) | (energy > 1e250)).any():
        largest = np.max(np.abs(x[unsafe]), axis=1)
        scaled = x[unsafe] / np.where(largest > 0, largest, 1.0)[:, None]
        lengths = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
        unit[unsafe] = scaled / np.where(largest > 0, lengths, 1.0)[:, None]
        with np.errstate(over="ignore"):
            norms[unsafe] = lengths * largest
    if not np.isfinite(norms).all():
        raise ValueError("x must have norms within float64, got a row whose norm overflows")
    return unit, norms


def sketched(sketch: qjl.Sketch, residual: Array) -> tuple[Bytes, Array]:
    """What a code keeps of the rows of `residual`: packed signs of the sketch, and norms."""
    direction, norms = normalize(residual)
    return np.packbits(sketch.project(direction) >= 0, axis=1, bitorder="little"), norms


def from_sketch(sketch: qjl.Sketch, code: Code) -> Array:
    """The residual that the sketch in `code` stands for. ValueError if it holds none."""
    if code.signs is None or code.residual_norms is None:
        raise ValueError("code must hold a sketch, got one without signs")
    signs = np.where(packing.unpack(code.signs, sketch.rows, 1), 1.0, -1.0)
    return qjl.reconstruct(sketch, signs, code.residual_norms)


def _consistent(code: Code) -> Code:
    count = len(code.indices)
    for name, part in code.parts().items():
        if len(part) != count:
            raise ValueError(
                f"{name} must have one value for each of the {count} rows of indices, "
                f"got {len(part)}"
            )
    return code


def _stream(seed: int, purpose: int, generator: str = "PCG64") -> np.random.Generator:
    made = {"PCG64": np.random.PCG64, "MT19937": np.random.MT19937}
    require_choice("generator", generator, tuple(made))
    return np.random.Generator(made[generator](np.random.SeedSequence(seed, spawn_key=(purpose,))))
