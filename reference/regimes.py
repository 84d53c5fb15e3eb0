"""Regimes: populations of queries, keys and values with one known property each.

Every token of K and V, and every query, has norm sqrt(d): a regime is a law of directions.
Two consequences make regimes comparable. A Haar rotation turns any unit vector into a
uniform one, so the marginal law of the rotated coordinates is that of `sphere` in all of
them (paper A, section 3: only the joint structure differs). And scores q.k / sqrt(d) are
at most sqrt(d); between isotropic directions their standard deviation is 1. Where queries
share a subspace of r dimensions with K it is sqrt(d / r), a sharper softmax;
`score_std` sets it, which tells the subspace and the sharpness apart.

Source: papers A and B name the populations (isotropic, heavy-tailed, low-rank, focused,
eigenvalue decay, K and V aligned or not); their generators are not known, these are ours.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvassay.reference._checks import require_choice, require_integer
from kvassay.reference.sphere import Array


@dataclass(frozen=True, eq=False)
class Sample:
    """One draw: queries `q` (M, d), keys `k` (N, d) and values `v` (N, d), float64.

    Attention is softmax(q k^T / sqrt(d)) v. If `positions` (M,) is given, query i sees the
    keys 0..positions[i] alone; else all. `calibration_k` and `calibration_v`, (C, d), are
    tokens of the same population for codecs that calibrate.
    """

    q: Array
    k: Array
    v: Array
    positions: NDArray[np.int64] | None
    calibration_k: Array
    calibration_v: Array


class Regime(Protocol):
    """A population of samples: a name, a dimension and a way to draw."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def dim(self) -> int:
        """d, the length of the vectors."""

    def draw(self, rng: np.random.Generator) -> Sample:
        """One sample; the same state of `rng` gives the same sample."""


@dataclass(frozen=True, kw_only=True)
class Synthetic(ABC):
    """What all generated regimes share.

    `tokens` N >= 1, `queries` M >= 1, `calibration` C >= 0 further tokens. What a draw
    calls random (a basis, a mean) is drawn afresh, and its calibration tokens share it.
    If `score_std` is given, the queries of a draw are scaled by one factor, so that the
    standard deviation of all its M N scores q.k / sqrt(d) equals it; their norm is then
    no longer sqrt(d). ValueError for anything else, and where all scores are equal.
    """

    name: str = ""
    dim: int = 128
    tokens: int = 256
    queries: int = 64
    calibration: int = 256
    score_std: float | None = None

    def __post_init__(self) -> None:
        require_integer("dim", self.dim, 2)
        require_integer("tokens", self.tokens, 1)
        require_integer("queries", self.queries, 1)
        require_integer("calibration", self.calibration, 0)
        if self.score_std is not None:
            _require_number("score_std", self.score_std, "above 0", lambda x: x > 0)

    def draw(self, rng: np.random.Generator) -> Sample:
        """One sample; all keys are visible to all queries."""
        q, k, v = (_with_norm_sqrt_dim(x) for x in self._vectors(rng))
        context_k, context_v = k[: self.tokens], v[: self.tokens]
        if self.score_std is not None:
            spread = float(np.std(q @ context_k.T)) / math.sqrt(self.dim)
            if spread < 1e-9:
                raise ValueError(
                    f"score_std must be None where all scores are equal, got {self.score_std}"
                )
            q *= self.score_std / spread
        return Sample(q, context_k, context_v, None, k[self.tokens :], v[self.tokens :])

    @abstractmethod
    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Q (M, d), and K and V (N + C, d) with the calibration tokens last; of any norm."""

    @property
    def _query_shape(self) -> tuple[int, int]:
        return self.queries, self.dim

    @property
    def _token_shape(self) -> tuple[int, int]:
        return self.tokens + self.calibration, self.dim


@dataclass(frozen=True)
class Isotropic(Synthetic):
    """Uniform directions in Q, K and V.

    If `v_mean` in 0..1 is above 0, it is the share of V's energy in one random direction
    that all tokens share, up to a term of order 1/d: without a mean V averages out over
    the context, and its errors with it.
    """

    v_mean: float = 0.0
    _: KW_ONLY
    name: str = "isotropic"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number("v_mean", self.v_mean, "in 0..1", lambda x: 0 <= x <= 1)

    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        q = rng.standard_normal(self._query_shape)
        k, v = rng.standard_normal((2, *self._token_shape))
        if self.v_mean:
            mean = _with_norm_sqrt_dim(rng.standard_normal((1, self.dim)))
            own = _with_norm_sqrt_dim(v)
            v = math.sqrt(self.v_mean) * mean + math.sqrt(1 - self.v_mean) * own
        return q, k, v


@dataclass(frozen=True)
class HeavyTailed(Synthetic):
    """Coordinates of K and V i.i.d. Student t with `nu` > 1 degrees of freedom.

    Each token has loud coordinates of its own, which no fixed basis can collect. Queries
    are isotropic.
    """

    nu: float = 3.0
    _: KW_ONLY
    name: str = "heavy-tailed"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number("nu", self.nu, "above 1", lambda x: x > 1)

    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        k, v = rng.standard_t(self.nu, (2, *self._token_shape))
        return rng.standard_normal(self._query_shape), k, v


@dataclass(frozen=True)
class LowRank(Synthetic):
    """K is Gaussian inside a random subspace of `rank` in 1..d dimensions, then normalised.

    The eigenvalues of that Gaussian fall geometrically from the first to the last, by
    `ratio` >= 1 altogether; at 1 directions inside the subspace are uniform. V has the
    same eigenvalues, in the same basis if `aligned`, else in an independent one. So have
    the queries, in K's basis, if `queries_inside`; else they are isotropic in all of d.
    """

    rank: int = 8
    ratio: float = 1.0
    aligned: bool = True
    queries_inside: bool = True
    _: KW_ONLY
    name: str = "low-rank"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("rank", self.rank, 1, self.dim)
        _require_number("ratio", self.ratio, "at least 1", lambda x: x >= 1)

    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        eigenvalues = self.ratio ** -np.linspace(0.0, 1.0, self.rank)
        k_axes = _random_axes(rng, eigenvalues, self.dim)
        v_axes = k_axes if self.aligned else _random_axes(rng, eigenvalues, self.dim)
        q = rng.standard_normal((self.queries, self.rank if self.queries_inside else self.dim))
        k, v = rng.standard_normal((2, self._token_shape[0], self.rank))
        return q @ k_axes if self.queries_inside else q, k @ k_axes, v @ v_axes


@dataclass(frozen=True)
class Focused(Synthetic):
    """Isotropic K and V; each query stands at `cosine` in 0..1 to one key of its own.

    That key has the score cosine sqrt(d) among scores of standard deviation
    sqrt(1 - cosine^2), so that few keys dominate, and at d = 1024 one alone.
    `queries` must be at most `tokens`.
    """

    cosine: float = 0.6
    _: KW_ONLY
    name: str = "focused"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number("cosine", self.cosine, "in 0..1", lambda x: 0 <= x <= 1)
        require_integer("queries", self.queries, 1, self.tokens)

    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        k, v = rng.standard_normal((2, *self._token_shape))
        own = _with_norm_sqrt_dim(k[rng.permutation(self.tokens)[: self.queries]])
        across = rng.standard_normal(self._query_shape)
        across -= own * (np.sum(across * own, axis=1, keepdims=True) / self.dim)
        across = _with_norm_sqrt_dim(across)
        return self.cosine * own + math.sqrt(1 - self.cosine**2) * across, k, v


@dataclass(frozen=True)
class PowerLaw(Synthetic):
    """Gaussian with eigenvalues i^-`exponent`, i = 1..d, in a random basis, then normalised.

    Q, K and V share the eigenvalues (exponent >= 0), Q and K the basis; V too if `aligned`,
    else it has an independent one.
    """

    exponent: float = 1.0
    aligned: bool = True
    _: KW_ONLY
    name: str = "power-law"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_number("exponent", self.exponent, "at least 0", lambda x: x >= 0)

    def _vectors(self, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        eigenvalues = np.arange(1.0, self.dim + 1) ** -self.exponent
        k_axes = _random_axes(rng, eigenvalues, self.dim)
        v_axes = k_axes if self.aligned else _random_axes(rng, eigenvalues, self.dim)
        k, v = rng.standard_normal((2, *self._token_shape))
        return rng.standard_normal(self._query_shape) @ k_axes, k @ k_axes, v @ v_axes


def _random_axes(rng: np.random.Generator, eigenvalues: Array, dim: int) -> Array:
    """Principal axes (r, d): random orthonormal rows times the root of each eigenvalue.

    QR leaves the signs of the rows to LAPACK, but the coefficients are symmetric.
    """
    basis, _ = np.linalg.qr(rng.standard_normal((dim, len(eigenvalues))))
    return np.asarray(np.sqrt(eigenvalues)[:, None] * basis.T)


def _with_norm_sqrt_dim(x: Array) -> Array:
    return np.asarray(x * np.sqrt(x.shape[1] / np.einsum("nd,nd->n", x, x))[:, None])


def _require_number(name: str, value: object, rule: str, holds: Callable[[float], bool]) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number {rule}, got {value!r}")
    if not holds(float(value)):
        raise ValueError(f"{name} must be {rule}, got {value!r}")


REGIMES: dict[str, Synthetic] = {
    one.name: one
    for one in (
        Isotropic(),
        HeavyTailed(),
        HeavyTailed(nu=1.05, name="very-heavy-tailed"),
        LowRank(),
        LowRank(aligned=False, name="low-rank-apart"),
        Focused(),
        PowerLaw(),
    )
}


def regime(name: str, /, **parameters: Any) -> Synthetic:
    """The regime of that name in `REGIMES`, with some of its parameters replaced.

    ValueError for an unknown name, a parameter the regime does not have, or a bad value.

    >>> sample = regime("low-rank", dim=64, rank=3).draw(np.random.default_rng(0))
    >>> sample.k.shape, int(np.linalg.matrix_rank(sample.k))
    ((256, 64), 3)
    """
    default = REGIMES[require_choice("regime", name, tuple(REGIMES))]
    known = tuple(field.name for field in fields(default) if field.name != "name")
    for parameter in parameters:
        require_choice(f"a parameter of {name}", parameter, known)
    return replace(default, **parameters)
