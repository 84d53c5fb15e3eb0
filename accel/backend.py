"""The codecs in OpenCL as a backend like anybody's.

The device is the one that KVASSAY_DEVICE names, or the first GPU, or the first CPU; the variant
of the kernels that of KVASSAY_VARIANT, or what suits the device.
"""

from functools import cache
from importlib import metadata
from typing import Any

from kvassay.accel.codecs import Scalar, codec
from kvassay.accel.devices import Device, Runtime, choose, choose_variant
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
        self._chosen = choose()
        self._variant = choose_variant(self._chosen)
        self.device = self._chosen.facts() | {"variant": self._variant}

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Scalar:
        runtime = _runtime(self._chosen, self._variant)
        if kind == "scalar-prod":
            return codec(runtime, "turboquant-prod", dim, bits, seed, rotation="none", **options)
        return codec(runtime, kind, dim, bits, seed, **options)


@cache  # a run makes the backend anew for each of its tasks; what was compiled stays
def _runtime(device: Device, variant: str) -> Runtime:
    return Runtime(device, variant)


def backend() -> OpenCL:
    """The OpenCL backend on the chosen device."""
    return OpenCL()
