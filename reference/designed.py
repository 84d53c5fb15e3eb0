"""Codecs of other designs than the papers': scaled reconstructions, other rotations, uniform grids.

`design_theory` predicts what they do. Precisions of norms and queries are not acted out: the
reference computes in float64.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvassay.reference import hadamard, packing
from kvassay.reference._checks import require_choice, require_integer, require_vectors
from kvassay.reference.codecs import Code, TurboQuantMSE, codec, normalize
from kvassay.reference.designs import SCALES, Design
from kvassay.reference.lloyd_max import MAX_BITS
from kvassay.reference.packing import Bytes
from kvassay.reference.sphere import Array


class Scaled(TurboQuantMSE):
    """Lloyd-Max whose reconstruction is as long as the vector ("unit"), or whose product with the
    vector is exact ("unbiased"). The factor goes into the norm that is stored, so that decoding is
    what it always was."""

    def __init__(self, dim: int, bits: int, seed: int, rotation: str, scale: str) -> None:
        require_choice("scale", scale, SCALES)
        super().__init__(dim, bits, seed, rotation)
        self.scale = scale

    def _encode(self, x: Array) -> Code:
        unit, norms = normalize(x)
        coordinates = self._to_coordinates(unit)
        indices = self.book.quantize(coordinates)
        factors = self._factors(coordinates, self.book.levels[indices])
        return Code(packing.pack(indices, self.bits), norms * factors)

    def _factors(self, coordinates: Array, levels: Array) -> Array:
        """What each reconstruction is multiplied by."""
        if self.scale == "unit":
            return np.asarray(1 / np.sqrt(np.einsum("nd,nd->n", levels, levels)))
        if self.scale == "unbiased":
            along = np.einsum("nd,nd->n", coordinates, levels)
            return np.asarray(1 / np.where(along > 0, along, 1.0))  # 0 for a zero vector alone
        return np.ones(len(levels))


@dataclass(frozen=True, eq=False)
class UniformCode:
    """N encoded vectors. `indices` (N, ceil(d b / 8)) packed, `lows` and `steps` (N, groups)."""

    indices: Bytes
    lows: Array
    steps: Array

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def nbytes(self) -> int:
        """Bytes of all N vectors, side information included."""
        return self.indices.nbytes + self.lows.nbytes + self.steps.nbytes


class Uniform:
    """2^b equidistant levels from the least to the largest coordinate of each group of neighbours.

    A group whose coordinates are all alike is exact.
    """

    def __init__(self, dim: int, bits: int, seed: int, rotation: str, group: int = 0) -> None:
        self.dim = require_integer("dim", dim, 2)
        self.bits = require_integer("bits", bits, 1, MAX_BITS)
        self.group = group or dim
        if dim % self.group:
            raise ValueError(f"dim must be a multiple of the group of {group}, got {dim}")
        require_integer("seed", seed, 0)
        sequence = np.random.SeedSequence(seed, spawn_key=(0,))
        stream = np.random.Generator(np.random.PCG64(sequence))
        self.rotation = hadamard.rotation(rotation, dim, stream)

    def encode(self, x: Array) -> UniformCode:
        """Code of the rows of `x`, (N, d) of any floating dtype, finite. ValueError else."""
        coordinates = self.rotation.forward(require_vectors("x", x, self.dim))
        groups = coordinates.reshape(len(x), self.dim // self.group, self.group)
        lows, highs = groups.min(axis=2), groups.max(axis=2)
        steps = self._steps(lows, highs)
        safe = np.where(steps > 0, steps, 1.0)
        indices = self._rounded((groups - lows[:, :, None]) / safe[:, :, None])
        packed = packing.pack(indices.reshape(len(x), self.dim).astype(np.uint8), self.bits)
        return UniformCode(packed, lows, steps)

    def decode(self, code: UniformCode) -> Array:
        """Reconstruction, (N, d) float64."""
        return self.rotation.inverse(self._coordinates(code))

    def inner_products(self, q: Array, code: UniformCode) -> Array:
        """Estimates of <q_i, x_j>, (M, N)."""
        queries = self.rotation.forward(require_vectors("q", q, self.dim))
        return hadamard.rows_times(self._coordinates(code), queries.T).T

    def nbytes(self, code: UniformCode) -> int:
        """Bytes that `code` holds, side information included."""
        return code.nbytes

    def rotate(self, x: Array) -> Array:
        """Rows of `x` (N, d) in the rotated coordinates."""
        return self.rotation.forward(require_vectors("x", x, self.dim))

    def unrotate(self, y: Array) -> Array:
        """The inverse of `rotate`."""
        return self.rotation.inverse(require_vectors("y", y, self.dim))

    def _steps(self, lows: Array, highs: Array) -> Array:
        return np.asarray((highs - lows) / (2**self.bits - 1))

    def _rounded(self, places: Array) -> Array:
        return np.clip(np.round(places), 0, 2**self.bits - 1)

    def _coordinates(self, code: UniformCode) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.bits)
        groups = indices.reshape(len(code), self.dim // self.group, self.group)
        values = code.lows[:, :, None] + code.steps[:, :, None] * groups
        return np.asarray(values.reshape(len(code), self.dim))


def designed(kind: str, dim: int, bits: int, seed: int, design: Design, *, sketch: str = "") -> Any:
    """The codec of `kind` with this design.

    `sketch` concerns "turboquant-prod" alone, which takes another rotation and nothing else.
    ValueError for a kind or design that do not go together.

    >>> x = np.random.default_rng(0).standard_normal((1000, 128))
    >>> unit = designed("turboquant-mse", 128, 2, 1, Design(scale="unit"))
    >>> lengths = np.linalg.norm(unit.decode(unit.encode(x)), axis=1)
    >>> bool(np.allclose(lengths, np.linalg.norm(x, axis=1)))
    True
    """
    require_choice("kind", kind, ("scalar", "turboquant-mse", "turboquant-prod"))
    rotation = "none" if kind == "scalar" else design.rotation
    if kind == "turboquant-prod":
        if design.scale != "none" or design.grid != "lloyd-max":
            raise ValueError(f"{kind} is known on a Lloyd-Max grid without a scale, got {design}")
        return codec(kind, dim, bits, seed, rotation=rotation, sketch=sketch)
    if design.grid == "uniform":
        return Uniform(dim, bits, seed, rotation, design.group)
    return Scaled(dim, bits, seed, rotation, design.scale)
