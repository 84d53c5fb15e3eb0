"""The reference as a backend like anybody's."""

from functools import lru_cache
from importlib import metadata
from typing import Any

import numpy as np

from kvassay.conformance.protocol import Capabilities
from kvassay.reference.codecs import Codec, codec
from kvassay.reference.spectral import Calibration, Spectral, calibrate


class Reference:
    """The codecs of kvassay.reference, unchanged."""

    name = "reference"
    version = metadata.version("kvassay")
    capabilities = Capabilities(
        kinds=("scalar", "turboquant-mse", "turboquant-prod", "scalar-prod", "spectral"),
        sketches=("gaussian", "orthogonal"),
    )

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec | Spectral:
        if kind == "spectral":
            tokens = np.ascontiguousarray(options.pop("calibration"))
            learnt = _calibrated(tokens.tobytes(), tokens.dtype.str, tokens.shape)
            return Spectral(learnt, bits, seed=seed, **options)
        if kind == "scalar-prod":
            return codec("turboquant-prod", dim, bits, seed, rotation="none", **options)
        return codec(kind, dim, bits, seed, **options)


@lru_cache(maxsize=4)  # a study makes codecs of many widths from the same tokens
def _calibrated(content: bytes, dtype: str, shape: tuple[int, ...]) -> Calibration:
    return calibrate(np.frombuffer(content, dtype).reshape(shape))


def backend() -> Reference:
    """The reference backend."""
    return Reference()
