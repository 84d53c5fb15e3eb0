"""The reference as a backend like anybody's."""

from importlib import metadata
from typing import Any

from kvassay.conformance.protocol import Capabilities
from kvassay.reference.codecs import Codec, codec
from kvassay.reference.spectral import Spectral, calibrate


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
            return Spectral(calibrate(options.pop("calibration")), bits, seed=seed, **options)
        if kind == "scalar-prod":
            return codec("turboquant-prod", dim, bits, seed, rotation="none", **options)
        return codec(kind, dim, bits, seed, **options)


def backend() -> Reference:
    """The reference backend."""
    return Reference()
