"""The reference as a backend like anybody's."""

from importlib import metadata
from typing import Any

from kvassay.conformance.protocol import Capabilities
from kvassay.reference.codecs import Codec, codec


class Reference:
    """The codecs of kvassay.reference, unchanged."""

    name = "reference"
    version = metadata.version("kvassay")
    capabilities = Capabilities(
        kinds=("scalar", "turboquant-mse", "turboquant-prod"),
        sketches=("gaussian", "orthogonal"),
    )

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return codec(kind, dim, bits, seed, **options)


def backend() -> Reference:
    """The reference backend."""
    return Reference()
