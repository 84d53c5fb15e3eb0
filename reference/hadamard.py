"""Randomized Walsh-Hadamard rotation for any dimension, without padding.

R = T diag(signs): random signs first, then a fixed orthogonal transform T, which is the
Kronecker product of an m x m matrix for the odd factor m of d and Walsh-Hadamard for the
power of two (TurboQuant; QuIP# and QuaRot treat 80 or 576 alike). Signs must come first:
after the transform they change no magnitude, and a constant input would stay one-hot.

Arrays are trusted here: float64 in C order, of shape (N, d). The codecs check what enters.
"""

from functools import cache

import numpy as np
from scipy.linalg import hadamard, qr

from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference.sphere import Array

RADIX = 16


@cache
def _factors(dim: int) -> tuple[Array, ...]:
    """Orthogonal matrices whose Kronecker product is T, last axis last.

    As many Hadamard matrices of size 16 as fit, then one of what is left of the power of
    two, times the odd factor. That one takes the last axis: it mixes neighbours, so that a
    loud block of neighbours reaches all of its rows alike and no output is louder than
    another.
    """
    odd, power = dim, 1
    while odd % 2 == 0:
        odd, power = odd // 2, power * 2
    factors = []
    while power >= RADIX:
        factors.append(hadamard(RADIX) / np.sqrt(RADIX))
        power //= RADIX
    if power * odd > 1 or not factors:
        factors.append(np.kron(hadamard(power) / np.sqrt(power), _hartley(odd)))
    return tuple(factors)


def _hartley(size: int) -> Array:
    """The discrete Hartley matrix, (cos + sin)(2 pi i j / m) / sqrt(m).

    Real, symmetric and orthogonal at every size, and no entry exceeds sqrt(2/m), so that
    it spreads a single coordinate nearly as well as a Hadamard matrix would.
    """
    phase = 2 * np.pi * (np.outer(np.arange(size), np.arange(size)) % size) / size
    return np.asarray((np.cos(phase) + np.sin(phase)) / np.sqrt(size))


def transform(x: Array) -> Array:
    """T applied to each row of `x` (N, d). T is symmetric, so it is its own inverse.

    Each factor works on its own axis, O(d log d) a row for a power of two. Every row goes
    through products of one fixed shape, so that its result does not depend on the batch.

    >>> transform(np.array([[1.0, 0.0, 0.0, 0.0]])).tolist()
    [[0.5, 0.5, 0.5, 0.5]]
    """
    count, dim = x.shape
    stride, outer = dim, 1
    for factor in _factors(dim):
        size = len(factor)
        stride //= size
        if stride > 1:
            x = np.matmul(factor, x.reshape(count, outer, size, stride))
        else:
            x = np.matmul(x.reshape(count, outer, size), factor)
        outer *= size
    return x.reshape(count, dim)


class RandomizedHadamard:
    """x -> T (signs * x), an orthogonal map of (N, d) arrays, d >= 1."""

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        self.dim = require_integer("dim", dim, 1)
        self.signs: Array = rng.choice([-1.0, 1.0], size=dim)

    def forward(self, x: Array) -> Array:
        """Rotated rows, shape (N, d)."""
        return transform(x * self.signs)

    def inverse(self, y: Array) -> Array:
        """The rows that `forward` maps to `y`, shape (N, d)."""
        return transform(y) * self.signs


class UnsignedHadamard:
    """x -> T x: orthogonal, but the same for every seed. A constant vector becomes one-hot."""

    def __init__(self, dim: int) -> None:
        self.dim = require_integer("dim", dim, 1)

    def forward(self, x: Array) -> Array:
        """Rotated rows, shape (N, d)."""
        return transform(x)

    def inverse(self, y: Array) -> Array:
        """The rows that `forward` maps to `y`, shape (N, d)."""
        return transform(y)


class Blocks:
    """Each `size` neighbours rotated by T (signs * x) of their own: energy stays in its block."""

    def __init__(self, dim: int, size: int, rng: np.random.Generator) -> None:
        self.dim = require_integer("dim", dim, 1)
        self.size = require_integer("size", size, 2)
        if dim % size:
            raise ValueError(f"dim must be a multiple of the blocks of {size}, got {dim}")
        self.signs: Array = rng.choice([-1.0, 1.0], size=dim)

    def forward(self, x: Array) -> Array:
        """Rotated rows, shape (N, d)."""
        return transform((x * self.signs).reshape(-1, self.size)).reshape(x.shape)

    def inverse(self, y: Array) -> Array:
        """The rows that `forward` maps to `y`, shape (N, d)."""
        return transform(y.reshape(-1, self.size)).reshape(y.shape) * self.signs


class Haar:
    """A uniformly random orthogonal matrix (QR of a Gaussian, signs fixed): the oracle.

    O(d^2) a row. R's diagonal is made positive, without which QR is not uniform
    (Mezzadri 2007).
    """

    def __init__(self, dim: int, rng: np.random.Generator) -> None:
        self.dim = require_integer("dim", dim, 1)
        basis, triangle = qr(rng.standard_normal((dim, dim)))
        self.matrix: Array = np.asarray(basis * np.sign(np.diag(triangle)), dtype=np.float64)

    def forward(self, x: Array) -> Array:
        """Rotated rows, shape (N, d)."""
        return rows_times(x, self.matrix.T)

    def inverse(self, y: Array) -> Array:
        """The rows that `forward` maps to `y`, shape (N, d)."""
        return rows_times(y, self.matrix)


class Unrotated:
    """The coordinates as they are: what a rotation is compared with (paper B, ablation)."""

    def __init__(self, dim: int) -> None:
        self.dim = require_integer("dim", dim, 1)

    def forward(self, x: Array) -> Array:
        """The same rows, shape (N, d)."""
        return x

    def inverse(self, y: Array) -> Array:
        """The same rows, shape (N, d)."""
        return y


Rotation = RandomizedHadamard | UnsignedHadamard | Blocks | Haar | Unrotated
ROTATIONS = ("hadamard", "haar", "hadamard-unsigned", "none")


def rotation(name: str, dim: int, rng: np.random.Generator) -> Rotation:
    """The rotation called `name`: "hadamard", "haar", "hadamard-unsigned", "none", or "block-K"
    with a whole number K, like "block-64"."""
    size = str(name).removeprefix("block-")
    if str(name).startswith("block-") and size.isascii() and size.isdigit():
        return Blocks(dim, int(size), rng)
    require_choice("rotation", name, (*ROTATIONS, "block-K"))
    if name == "none":
        return Unrotated(dim)
    if name == "hadamard-unsigned":
        return UnsignedHadamard(dim)
    return RandomizedHadamard(dim, rng) if name == "hadamard" else Haar(dim, rng)


def rows_times(x: Array, matrix: Array, block: int = 16) -> Array:
    """x @ matrix in blocks of one fixed number of rows.

    BLAS rounds a product of other shape otherwise; with one shape a row's result depends
    on that row alone, bit for bit, whatever stands beside it.
    """
    count, dim = x.shape
    padded = np.zeros((-(-count // block) * block, dim))
    padded[:count] = x
    product: Array = np.matmul(padded.reshape(-1, block, dim), matrix)
    return product.reshape(len(padded), matrix.shape[1])[:count]
