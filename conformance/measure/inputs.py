"""Input families. Each is a population: (rng, count, dim) to float32 vectors (count, dim).

Isotropic input is the one on which a missing or broken rotation cannot show, so every
claim about the rotation also runs on the others. Norms vary from 1 to 10 within a batch,
since unit vectors hide a missing normalisation.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Family = Callable[[np.random.Generator, int, int], Vectors]

BACKGROUND = 0.1  # share of the energy that structured families leave to isotropic noise


def isotropic(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """Uniform directions, norms 1 to 10."""
    return _with_norms(rng, rng.standard_normal((count, dim)), 1, 10)


def scales(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """Uniform directions, norms from 1e-3 to 1e3 in equal parts on a log scale."""
    x = _unit(rng.standard_normal((count, dim)))
    return (x * 10 ** rng.uniform(-3, 3, (count, 1))).astype(np.float32)


def one_hot(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """One coordinate is all there is; its place and sign vary."""
    x = np.zeros((count, dim))
    x[np.arange(count), rng.integers(dim, size=count)] = rng.choice([-1.0, 1.0], size=count)
    return _with_norms(rng, x, 1, 10)


def dc(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """A constant offset in all coordinates, with 10 % of the energy as noise."""
    return _with_norms(rng, _on_background(rng, np.ones((count, dim))), 1, 10)


def loud_channel(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """90 % of the energy in one coordinate, the same for the whole batch."""
    x = np.zeros((count, dim))
    x[:, rng.integers(dim)] = rng.choice([-1.0, 1.0], size=count)
    return _with_norms(rng, _on_background(rng, x), 1, 10)


def loud_tail(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """90 % of the energy in the last eighth of the coordinates."""
    return _loud_range(rng, count, dim, dim - dim // 8)


def loud_block(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """90 % of the energy in an eighth of the coordinates, at one random place a batch."""
    return _loud_range(rng, count, dim, int(rng.integers(dim - dim // 8 + 1)))


STRUCTURED: dict[str, Family] = {
    "one-hot": one_hot,
    "dc": dc,
    "loud-channel": loud_channel,
    "loud-tail": loud_tail,
    "loud-block": loud_block,
}


def constant(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """All coordinates alike, with a sign for each vector."""
    return _with_norms(rng, np.ones((count, dim)) * rng.choice([-1.0, 1.0], (count, 1)), 1, 10)


def aligned_block(rng: np.random.Generator, count: int, dim: int) -> Vectors:
    """All energy in an eighth of the coordinates, at a place that is a multiple of its width."""
    x, width = np.zeros((count, 8, dim // 8)), dim // 8
    x[np.arange(count), rng.integers(8, size=count)] = rng.standard_normal((count, width))
    padded = np.zeros((count, dim))
    padded[:, : 8 * width] = x.reshape(count, -1)
    return _with_norms(rng, padded, 1, 10)


PURE: dict[str, Family] = {
    "constant": constant,
    "one-hot": one_hot,
    "loud-block": aligned_block,
}


def correlated(rng: np.random.Generator, queries: NDArray[np.float64], count: int) -> Vectors:
    """`count` isotropic vectors, each at a cosine of +-0.2 to 0.97 to one of the queries.

    Vector i belongs to query i mod M. Independent pairs would hide every error of scale.
    """
    own = queries[np.arange(count) % len(queries)]
    return _with_norms(rng, _at_cosine(rng, _unit(own)), 1, 10)


def queries_near(rng: np.random.Generator, x: Vectors) -> NDArray[np.float64]:
    """A unit query for each vector, at a cosine of +-0.2 to 0.97 to it."""
    return _at_cosine(rng, _unit(x.astype(np.float64)))


def unit_queries(rng: np.random.Generator, count: int, dim: int) -> NDArray[np.float64]:
    """Uniform unit queries."""
    return _unit(rng.standard_normal((count, dim)))


def _at_cosine(rng: np.random.Generator, directions: NDArray[np.float64]) -> NDArray[np.float64]:
    across = rng.standard_normal(directions.shape)
    across -= directions * np.sum(across * directions, axis=1, keepdims=True)
    cosine = rng.uniform(0.2, 0.97, (len(directions), 1))
    cosine *= rng.choice([-1.0, 1.0], size=cosine.shape)
    return np.asarray(cosine * directions + np.sqrt(1 - cosine**2) * _unit(across))


def _on_background(rng: np.random.Generator, loud: NDArray[np.float64]) -> NDArray[np.float64]:
    quiet = _unit(rng.standard_normal(loud.shape))
    return np.asarray(np.sqrt(1 - BACKGROUND) * _unit(loud) + np.sqrt(BACKGROUND) * quiet)


def _loud_range(rng: np.random.Generator, count: int, dim: int, start: int) -> Vectors:
    x = np.zeros((count, dim))
    width = dim // 8
    x[:, start : start + width] = rng.standard_normal((count, width))
    return _with_norms(rng, _on_background(rng, x), 1, 10)


def _unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x / np.sqrt(np.einsum("nd,nd->n", x, x))[:, None])


def _with_norms(
    rng: np.random.Generator, x: NDArray[np.float64], low: float, high: float
) -> Vectors:
    return (_unit(x) * rng.uniform(low, high, (len(x), 1))).astype(np.float32)
