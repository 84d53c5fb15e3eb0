"""The `spectral` codec: an eigenbasis learnt from calibration tokens (SpectralQuant; paper B).

Where TurboQuant looks at no data, this looks at some first. The eigenvectors of their second
moment become the coordinates; the effective dimension d_eff, the participation ratio of the
eigenvalues rounded up, says how many of them are semantic. Those share the budget, and the
rest, the tail, get a fixed floor of bits.

What paper B's summary leaves open is settled here, and each place says so: the scales, the
table, the cap at 8 bits, the bit that the sketch takes, the spectral-gap rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr

from kvassay.reference import packing, qjl
from kvassay.reference._checks import require_choice, require_integer, require_vectors
from kvassay.reference._names import SKETCHES
from kvassay.reference.codecs import (
    Code,
    PerVector,
    _stream,
    from_sketch,
    normalize,
    sketched,
)
from kvassay.reference.hadamard import rows_times
from kvassay.reference.lloyd_max import MAX_BITS, Codebook, codebook
from kvassay.reference.packing import Bytes
from kvassay.reference.sphere import Array

Bits = NDArray[np.int64]

ALLOCATIONS = ("uniform", "water-filling")

# A coordinate over its scale has an unknown law of variance 1, so the table is that for
# N(0, 1): the table for the sphere of dimension 2^22, in units of 2^-11, is 2e-6 from it.
_LIMIT_DIM = 2**22


def participation_ratio(spectrum: ArrayLike) -> float:
    """(sum l)^2 / sum l^2 of the eigenvalues l: 1 for a single one, d for d equal ones.

    `spectrum` (d,) in any unit and order, zeros included. ValueError for NaN, infinity,
    negative values, or zeros alone. (Paper B, contribution 3.)

    >>> participation_ratio([2.0, 2.0, 2.0, 0.0])
    3.0
    """
    values = _spectrum(spectrum)
    values = values / np.max(values)  # squares neither overflow nor vanish
    return float(np.sum(values) ** 2 / np.sum(values**2))


def effective_dim(spectrum: ArrayLike) -> int:
    """d_eff: `participation_ratio` rounded up, but at least 2 and at most d - 2.

    A ratio less than 1e-9 (relative) above an integer is that integer. ValueError as there,
    and for d < 4. (Paper B, contribution 3.)

    >>> effective_dim([0.4, 0.4, 0.1, 0.1, 0.0, 0.0])  # 1 / 0.34 = 2.94
    3
    """
    values = _spectrum(spectrum)
    require_integer("the length of spectrum", len(values), 4)
    rounded_up = int(np.ceil(participation_ratio(values) * (1 - 1e-9)))
    return min(max(rounded_up, 2), len(values) - 2)


def prune_by_gap(spectrum: ArrayLike, count: int, threshold: float = 4.0) -> int:
    """How many of the first `count` directions the spectral gap leaves, at least 2.

    Of the ratios l_i / l_(i+1) with i = 1...count, the largest decides (the first, on a
    tie): if it exceeds `threshold`, the directions up to i stay, else all `count` do. A
    ratio to a zero is infinite, and that of two zeros 1. At the default, 4, one direction
    gains more from a bit than the next.

    Paper B asks for a spectral-gap rule (contribution 3), but its summary does not spell it out:
    this is our reading. `spectrum` (d,) is falling, `count` in 2..d; ValueError otherwise.

    >>> prune_by_gap([0.5, 0.4, 0.02, 0.02, 0.02, 0.02, 0.02], 4)
    2
    """
    values = _falling(spectrum)
    count = require_integer("count", count, 2, len(values))
    if not threshold >= 1:
        raise ValueError(f"threshold must be at least 1, got {threshold}")
    upper, lower = values[:count], values[1 : count + 1]
    upper = upper[: len(lower)]
    ratios = np.where(upper > 0, np.inf, 1.0)
    with np.errstate(over="ignore"):
        np.divide(upper, lower, out=ratios, where=lower > 0)
    place = int(np.argmax(ratios))
    return max(2, place + 1) if ratios[place] > threshold else count


def uniform_bits(count: int, total: int, most: int = MAX_BITS) -> Bits:
    """`total` bits over `count` directions as evenly as possible, (count,).

    The leading directions take the remainder. ValueError unless `total` is in
    0..most * count.

    >>> uniform_bits(4, 10).tolist()
    [3, 3, 2, 2]
    """
    count = require_integer("count", count, 1)
    total = require_integer("total", total, 0, require_integer("most", most, 0) * count)
    share, rest = divmod(total, count)
    return np.asarray(share + (np.arange(count) < rest), dtype=np.int64)


def waterfill_bits(spectrum: ArrayLike, total: int, most: int = MAX_BITS) -> Bits:
    """`total` bits, each in turn to the direction with the largest l_i / 4^b_i, (count,).

    A direction holds at most `most`; the leading one wins a tie. A bit divides a
    direction's error by 4, so this greedy rule gives the least sum of l_i / 4^b_i.
    ValueError for the spectra that `participation_ratio` refuses, and unless `total` is in
    0..most * count. (Paper B, water-filling.)

    >>> waterfill_bits([0.80, 0.19, 0.01], 6).tolist()
    [4, 2, 0]
    """
    values = _spectrum(spectrum)
    most = require_integer("most", most, 0)
    total = require_integer("total", total, 0, most * len(values))
    # Bit k + 1 of direction i gains in proportion to l_i / 4^k, which falls with k: the
    # `total` largest gains are what the greedy rule takes.
    gains = np.ldexp(values[:, None], -2 * np.arange(most))
    taken = np.argsort(-gains, axis=None, kind="stable")[:total]
    counts = np.bincount(taken // max(most, 1), minlength=len(values))
    return np.asarray(counts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What `calibrate` learnt from `tokens` vectors of dimension `dim` >= 4.

    `basis` (d, d) has orthonormal rows, the directions by falling eigenvalue; `spectrum`
    (d,) has the eigenvalues, of sum 1: shares of the energy. ValueError otherwise.
    """

    dim: int
    tokens: int
    basis: Array
    spectrum: Array

    def __post_init__(self) -> None:
        dim = require_integer("dim", self.dim, 4)
        require_integer("tokens", self.tokens, 1)
        basis = require_vectors("basis", self.basis, dim)
        if len(basis) != dim or not np.allclose(basis @ basis.T, np.eye(dim), atol=1e-8):
            raise ValueError(f"basis must have {dim} orthonormal rows, got something else")
        spectrum = _falling(self.spectrum)
        if len(spectrum) != dim or abs(float(np.sum(spectrum)) - 1) > 1e-8:
            raise ValueError(
                f"spectrum must have {dim} values of sum 1, "
                f"got {len(spectrum)} of sum {float(np.sum(spectrum)):.6g}"
            )

    @property
    def participation_ratio(self) -> float:
        """(sum l)^2 / sum l^2, between 1 and the rank, which is at most `tokens`."""
        return participation_ratio(self.spectrum)

    @property
    def effective_dim(self) -> int:
        """d_eff, the number of semantic directions."""
        return effective_dim(self.spectrum)

    @property
    def expected_if_isotropic(self) -> float:
        """d N / (N + d - 1): the participation ratio that N tokens without structure give.

        Two independent uniform unit vectors have E<u, v>^2 = 1/d, hence E sum l^2 =
        1/N + (1 - 1/N)/d, of which this is the inverse. A d_eff close to it measures the
        calibration budget and not the data. (Paper B, contribution 3, has d_eff follow the
        budget; the formula is ours.)
        """
        return self.dim * self.tokens / (self.tokens + self.dim - 1)

    @property
    def tokens_per_direction(self) -> float:
        """N / d_eff, how well determined the semantic directions are.

        Tokens without structure give about 1 + (N - 1)/d; much more than that says that
        the subspace is real and that each of its directions was seen many times.
        """
        return self.tokens / self.effective_dim


def calibrate(x: ArrayLike) -> Calibration:
    """The eigenbasis of the second moment (1/N) sum u u^T, u the unit vectors of the rows.

    `x` (N, d), floating point and finite, d >= 4, N >= 1: fewer tokens than dimensions
    will do. Zero rows have no direction and are left out. ValueError for anything else.

    Nothing is left to the eigensolver where eigenvalues differ: eigenvalues within rounding
    of 0 are 0, the directions that no token reaches are made by Householder reflections
    from those that tokens do, and the largest component of each direction is positive.

    >>> tokens = np.random.default_rng(0).standard_normal((64, 128))
    >>> learnt = calibrate(tokens)
    >>> learnt.effective_dim, round(learnt.expected_if_isotropic, 1)  # no structure at all
    (42, 42.9)
    """
    array = np.asarray(x)
    if array.ndim != 2:
        raise ValueError(f"x must have shape (N, d), got {array.shape}")
    dim = require_integer("the dimension of x", array.shape[1], 4)
    unit, norms = normalize(require_vectors("x", array, dim))
    unit = unit[norms > 0]
    if not len(unit):
        raise ValueError(f"x must have a row that is not zero, got {len(array)} rows")
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    values, basis = values[::-1], vectors.T[::-1]
    spectrum = np.where(values > dim * np.finfo(float).eps * values[0], values, 0.0)
    reached = int(np.count_nonzero(spectrum))
    if reached < dim:
        complement = qr(basis[:reached].T)[0][:, reached:].T
        basis = np.concatenate([basis[:reached], complement])
    return Calibration(dim, len(unit), _orient(basis), spectrum / np.sum(spectrum))


class Spectral(PerVector):
    """Per-vector norm, and Lloyd-Max in the calibrated eigenbasis (SpectralQuant; paper B).

    The unit vector's coordinates are y. The first s = `effective_dim` (the calibration's
    d_eff unless given, 1..d) are semantic: they share bits * d - floor * (d - s) bits,
    evenly, or if `allocation` is "water-filling" by their eigenvalues; no more than 8 s of
    these are stored, so that a small subspace takes less than the budget. Every other
    direction, the tail, takes `floor` bits (0..8).

    y_i over its scale is quantized with the table for N(0, 1). A semantic direction has its
    own scale, sqrt(l_i), the tail a common one, the root mean square of the calibrated
    tail. Without bits, or with scale 0, a direction decodes to 0.

    If `sketch` is "gaussian" or "orthogonal", the residual of the semantic coordinates is
    sketched with s rows, and decoding adds it; these s bits come out of those that the
    semantic directions share. "orthogonal" is Haar: s is too small for randomized
    Hadamard, whose bias, below 1/(2 s), would show. `seed` concerns the sketch alone.

    ValueError if the floor, or the sketch, does not fit into the budget, and for any
    argument outside its range.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((1000, 4)) @ rng.standard_normal((4, 64))  # rank 4
    >>> codec = Spectral(calibrate(x), bits=2)
    >>> codec.semantic_dim, codec.payload_bits, 2 * 64  # 4 * 8 + 60 bits are all it can use
    (4, 92, 128)
    >>> error = codec.decode(codec.encode(x)) - x
    >>> bool(np.sum(error**2) / np.sum(x**2) < 1e-4)
    True
    """

    def __init__(
        self,
        calibration: Calibration,
        bits: int,
        *,
        allocation: str = "uniform",
        floor: int = 1,
        sketch: str = "",
        seed: int = 0,
        effective_dim: int | None = None,
    ) -> None:
        self.dim = dim = calibration.dim
        self.bits = require_integer("bits", bits, 1, MAX_BITS)
        self.calibration = calibration
        require_choice("allocation", allocation, ALLOCATIONS)
        require_integer("floor", floor, 0, MAX_BITS)
        require_integer("seed", seed, 0)
        if effective_dim is None:
            effective_dim = calibration.effective_dim
        kept = require_integer("effective_dim", effective_dim, 1, dim)

        total = bits * dim - floor * (dim - kept)
        if total < 0:
            raise ValueError(
                f"floor must fit {dim - kept} tail directions into the budget of "
                f"{bits * dim} bits, got {floor}"
            )
        total = min(total, MAX_BITS * kept)
        self._sketch: qjl.Sketch | None = None
        if sketch:
            require_choice("sketch", sketch, SKETCHES)
            if total < kept:
                raise ValueError(
                    f"bits must leave the sketch one bit for each of {kept} semantic "
                    f"directions, got {bits} with a floor of {floor}"
                )
            total -= kept
            family = "haar" if sketch == "orthogonal" else sketch
            self._sketch = qjl.sketch(family, kept, kept, _stream(seed, 1))
        semantic = calibration.spectrum[:kept]
        shares = (
            uniform_bits(kept, total)
            if allocation == "uniform"
            else waterfill_bits(semantic, total)
        )
        self._kept = kept
        self._allocated = np.concatenate([shares, np.full(dim - kept, floor, dtype=np.int64)])

        tail = calibration.spectrum[kept:]
        variances = np.concatenate([semantic, np.full(len(tail), np.sum(tail) / max(len(tail), 1))])
        self._scales = np.sqrt(variances * _LIMIT_DIM)
        self._inverse_scales = np.zeros(dim)
        np.divide(1, self._scales, out=self._inverse_scales, where=self._scales > 0)
        self._groups: list[tuple[NDArray[np.intp], Codebook]] = [
            (np.flatnonzero(self._allocated == width), codebook(_LIMIT_DIM, int(width)))
            for width in np.unique(self._allocated)
            if width
        ]

    @property
    def semantic_dim(self) -> int:
        """s, the number of semantic directions."""
        return self._kept

    @property
    def bits_per_direction(self) -> Bits:
        """Bits of each direction's index, (d,); the sketch's bit is not among them."""
        return self._allocated.copy()

    @property
    def payload_bits(self) -> int:
        """Bits that a vector takes, the sketch's included and the norms not.

        At most bits * d. The directions of one width fill whole bytes, so that `nbytes` is
        up to 7 bits a width above it.
        """
        return int(np.sum(self._allocated)) + (self._kept if self._sketch else 0)

    def _to_coordinates(self, x: Array) -> Array:
        return rows_times(x, self.calibration.basis.T)

    def _from_coordinates(self, y: Array) -> Array:
        return rows_times(y, self.calibration.basis)

    def _encode(self, x: Array) -> Code:
        unit, norms = normalize(x)
        y = self._to_coordinates(unit)
        scaled = y * self._inverse_scales
        packed = [np.zeros((len(x), 0), dtype=np.uint8)]
        packed += [
            packing.pack(book.quantize(scaled[:, columns]), book.bits)
            for columns, book in self._groups
        ]
        indices = np.concatenate(packed, axis=1)
        if self._sketch is None:
            return Code(indices, norms)
        residual = (y - self._levels(indices))[:, : self._kept]
        return Code(indices, norms, *sketched(self._sketch, residual))

    def _coordinates(self, code: Code) -> Array:
        coordinates = self._levels(code.indices)
        if self._sketch is None:
            return coordinates
        coordinates[:, : self._kept] += from_sketch(self._sketch, code)
        return coordinates

    def _levels(self, indices: Bytes) -> Array:
        widths = [packing.row_bytes(len(columns), book.bits) for columns, book in self._groups]
        if indices.ndim != 2 or indices.shape[1] != sum(widths):
            raise ValueError(f"indices must have shape (N, {sum(widths)}), got {indices.shape}")
        y = np.zeros((len(indices), self.dim))
        start = 0
        for (columns, book), width in zip(self._groups, widths, strict=True):
            group = packing.unpack(indices[:, start : start + width], len(columns), book.bits)
            y[:, columns] = book.levels[group] * self._scales[columns]
            start += width
        return y


def _spectrum(spectrum: ArrayLike) -> Array:
    """`spectrum` as float64 of shape (d,), finite, nowhere negative and not all 0."""
    values = np.asarray(spectrum, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"spectrum must have shape (d,), got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("spectrum must be finite, got NaN or infinity")
    if np.min(values) < 0:
        raise ValueError(f"spectrum must be nowhere negative, got {np.min(values):.6g}")
    if not np.any(values):
        raise ValueError("spectrum must have a value above 0, got zeros alone")
    return values


def _falling(spectrum: ArrayLike) -> Array:
    values = _spectrum(spectrum)
    if (rises := np.flatnonzero(np.diff(values) > 0)).size:
        raise ValueError(f"spectrum must fall, got a rise after value {rises[0]}")
    return values


def _orient(basis: Array) -> Array:
    """Each row with the sign that makes its largest component positive.

    Of components that are equal but for rounding the first counts.
    """
    magnitudes = np.abs(basis)
    largest = np.max(magnitudes, axis=1, keepdims=True)
    first = np.argmax(magnitudes > largest * (1 - 1e-6), axis=1)
    signs = np.sign(basis[np.arange(len(basis)), first])
    return np.ascontiguousarray(basis * signs[:, None])
