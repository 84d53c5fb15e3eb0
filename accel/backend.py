"""The codecs in OpenCL as a backend like anybody's.

The device is the one that KVASSAY_DEVICE names, or the first GPU, or the first CPU; the variant
of the kernels that of KVASSAY_VARIANT, or what suits the device.
"""

from functools import cached_property
from importlib import metadata
from typing import Any

from kvassay.accel.codecs import Scalar, codec
from kvassay.accel.devices import Runtime, choose, choose_variant
from kvassay.conformance.protocol import Capabilities


class OpenCL:
    """The codecs of kvassay.accel on one device."""

    name = "opencl"
    version = metadata.version("kvassay")
    capabilities = Capabilities(
        kinds=("scalar", "turboquant-mse", "turboquant-prod", "scalar-prod"),
        sketches=("gaussian", "orthogonal"),
    )

    def __init__(self) -> None:
        self._device = choose()
        self.device = self._device.facts() | {"variant": choose_variant(self._device)}

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(self._device)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Scalar:
        if kind == "scalar-prod":
            return codec(
                self._runtime, "turboquant-prod", dim, bits, seed, rotation="none", **options
            )
        return codec(self._runtime, kind, dim, bits, seed, **options)


def backend() -> OpenCL:
    """The OpenCL backend on the chosen device."""
    return OpenCL()
