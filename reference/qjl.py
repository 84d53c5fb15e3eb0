"""QJL: one sign bit for each row of a random sketch, and the norm (arXiv:2406.03482).

For a residual r and a sketch S with m rows, only sign(S r) and |r| are kept. Then

    <q, r>  is estimated by  scale |r| <S q, sign(S r)>,

and r itself by scale |r| S^T sign(S r), which gives the same inner products. For every
family here a row s_i is isotropic, so that E[<q, s_i> sign<r, s_i>] = E|<s_i, r/|r|>|
<q, r>/|r|: the estimate is unbiased exactly when scale = 1 / (m E|<s_i, e>|), e a unit
vector. That is sqrt(pi/2)/m for Gaussian rows and 1/(m E|u_1|) for unit rows.

The two are not interchangeable: they differ by sqrt(d).

Arrays are trusted here: float64 in C order, of shape (N, d) or (N, m).
"""

from typing import Protocol

import numpy as np

from kvassay.reference import sphere
from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference._names import SKETCHES
from kvassay.reference.hadamard import Haar, RandomizedHadamard, rows_times
from kvassay.reference.sphere import Array


class Sketch(Protocol):
    """A linear map from dimension `dim` to `rows`, with its unbiased scale."""

    dim: int
    rows: int
    scale: float

    def project(self, x: Array) -> Array:
        """S x for each row of `x`: (N, dim) to (N, rows)."""
        ...

    def adjoint(self, y: Array) -> Array:
        """S^T y for each row of `y`: (N, rows) to (N, dim)."""
        ...


class GaussianSketch:
    """Independent N(0, 1) entries; scale sqrt(pi/2)/m (QJL, lemma 3.2)."""

    def __init__(self, dim: int, rows: int, rng: np.random.Generator) -> None:
        self.dim = require_integer("dim", dim, 1)
        self.rows = require_integer("rows", rows, 1)
        self.scale = float(np.sqrt(np.pi / 2) / rows)
        self.matrix: Array = rng.standard_normal((rows, dim))

    def project(self, x: Array) -> Array:
        """S x, shape (N, rows)."""
        return rows_times(x, self.matrix.T)

    def adjoint(self, y: Array) -> Array:
        """S^T y, shape (N, dim)."""
        return rows_times(y, self.matrix)


class OrthogonalSketch:
    """Orthonormal rows, in independent blocks of at most `dim`; scale 1/(m E|u_1|).

    `family` "haar" draws each block as a uniformly random orthogonal matrix: a row is
    uniform on the sphere and the scale exact for every r. "hadamard" draws it as two rounds
    of randomized Hadamard with the rows in random order. One round is not enough: by
    Berry-Esseen E|<s_i, r>| then depends on the kurtosis of r, and the residual of a
    quantizer has rare large coordinates (measured at d = 64: slope 1.003 at b = 2, and
    <r, r_hat> 0.27 % too large at b = 4). The second round leaves a bias below 1/(2d), which
    only a one-hot r attains.
    """

    def __init__(self, dim: int, rows: int, rng: np.random.Generator, family: str) -> None:
        require_choice("family", family, ("hadamard", "haar"))
        self.dim = require_integer("dim", dim, 1)
        self.rows = require_integer("rows", rows, 1)
        self.scale = 1 / (rows * sphere.mean_abs(dim))
        make, rounds = (RandomizedHadamard, 2) if family == "hadamard" else (Haar, 1)
        self.blocks = [
            ([make(dim, rng) for _ in range(rounds)], rng.permutation(dim)[: rows - start])
            for start in range(0, rows, dim)
        ]

    def project(self, x: Array) -> Array:
        """S x, shape (N, rows)."""
        parts = []
        for rounds, kept in self.blocks:
            mixed = x
            for rotation in rounds:
                mixed = rotation.forward(mixed)
            parts.append(mixed[:, kept])
        return np.concatenate(parts, axis=1)

    def adjoint(self, y: Array) -> Array:
        """S^T y, shape (N, dim)."""
        total = np.zeros((len(y), self.dim))
        start = 0
        for rounds, kept in self.blocks:
            mixed = np.zeros((len(y), self.dim))
            mixed[:, kept] = y[:, start : start + len(kept)]
            for rotation in reversed(rounds):
                mixed = rotation.inverse(mixed)
            total += mixed
            start += len(kept)
        return total


def sketch(name: str, dim: int, rows: int, rng: np.random.Generator) -> Sketch:
    """The sketch called `name`: "gaussian", "orthogonal" (randomized Hadamard) or "haar"."""
    require_choice("sketch", name, (*SKETCHES, "haar"))
    if name == "gaussian":
        return GaussianSketch(dim, rows, rng)
    return OrthogonalSketch(dim, rows, rng, "haar" if name == "haar" else "hadamard")


def signs(sketch: Sketch, r: Array) -> Array:
    """sign(S r) as +1.0 or -1.0, shape (N, rows); 0 counts as +1."""
    return np.where(sketch.project(r) >= 0, 1.0, -1.0)


def reconstruct(sketch: Sketch, signs: Array, norms: Array) -> Array:
    """scale |r| S^T sign(S r), the unbiased reconstruction of r, shape (N, dim)."""
    return sketch.adjoint(signs) * (sketch.scale * norms)[:, None]


def estimate(sketch: Sketch, q: Array, signs: Array, norms: Array) -> Array:
    """Estimates of <q_i, r_j>, shape (M, N), for queries `q` of shape (M, dim)."""
    return rows_times(sketch.project(q), signs.T) * (sketch.scale * norms)
