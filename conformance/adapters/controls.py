"""Controls: a codec that quantizes nothing and one that keeps nothing. Both must violate."""

from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities

Vectors = NDArray[np.float32]


class _Identity:
    """Stores the vectors as they are, and says so."""

    def encode(self, x: Vectors) -> Vectors:
        return x

    def decode(self, code: Vectors) -> Vectors:
        return code

    def nbytes(self, code: Vectors) -> int:
        return code.nbytes


class _Zero(_Identity):
    """Stores as many bytes as it may and decodes to nothing."""

    def __init__(self, dim: int, bits: int) -> None:
        self._row = -(-dim * bits // 8)
        self._dim = dim

    def encode(self, x: Vectors) -> Any:
        return np.zeros((len(x), self._row), dtype=np.uint8)

    def decode(self, code: Any) -> Vectors:
        return np.zeros((len(code), self._dim), dtype=np.float32)


class _Control:
    version = metadata.version("kvassay")
    capabilities = Capabilities(
        kinds=("scalar", "turboquant-mse", "turboquant-prod"),
        sketches=("gaussian", "orthogonal"),
    )

    def __init__(self, name: str) -> None:
        self.name = name

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> _Identity:
        return _Identity() if self.name == "identity" else _Zero(dim, bits)


def identity() -> _Control:
    """The codec that quantizes nothing."""
    return _Control("identity")


def zero() -> _Control:
    """The codec that keeps nothing."""
    return _Control("zero")
