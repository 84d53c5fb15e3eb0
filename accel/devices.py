"""Which OpenCL devices there are, which one is used, and how programs are built for it.

Everything that depends on a driver is here: build options, the variant of the kernels, the
number of work-items, room in local memory.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

try:
    import pyopencl as cl
    from pyopencl.tools import ImmediateAllocator, MemoryPool
except ImportError as problem:
    raise ImportError(
        "OpenCL needs pyopencl and a driver: pip install 'kvassay[pocl]' brings both for a CPU, "
        "pip install 'kvassay[opencl]' pyopencl alone, for a GPU with the driver of its maker"
    ) from problem

DEVICE, VARIANT = "KVASSAY_DEVICE", "KVASSAY_VARIANT"  # environment variables
VARIANTS = ("item", "group")
LARGEST_DIM = 1024
MOST_PROGRAMS = 64  # kept at a time: a run over a whole grid compiles a thousand


class DeviceError(ValueError):
    """No such device, or it cannot do what was asked. The message is for the user."""


@dataclass(frozen=True)
class Device:
    """An OpenCL device, with what a user wants to know of it."""

    handle: Any

    @property
    def name(self) -> str:
        """The device's own name."""
        return str(self.handle.name).strip()

    @property
    def platform(self) -> str:
        """The name of its driver's platform."""
        return str(self.handle.platform.name).strip()

    @property
    def kind(self) -> str:
        """Its type: "CPU", "GPU" or "accelerator"."""
        kinds = cl.device_type
        if self.handle.type & kinds.GPU:
            return "GPU"
        return "CPU" if self.handle.type & kinds.CPU else "accelerator"

    @property
    def wide(self) -> bool:
        """Whether it has float64."""
        return "cl_khr_fp64" in self.handle.extensions.split()

    @property
    def variant(self) -> str:
        """The variant of the kernels that suits it."""
        return "item" if self.kind == "CPU" else "group"

    def __str__(self) -> str:
        return f"{self.name} ({self.platform})"

    def facts(self) -> dict[str, str]:
        """What the table of devices and a record say of it."""
        return {
            "device": self.name,
            "platform": self.platform,
            "type": self.kind,
            "driver": str(self.handle.driver_version).strip(),
            "language": str(self.handle.opencl_c_version).strip(),
            "compute units": str(self.handle.max_compute_units),
            "memory": _size(self.handle.global_mem_size),
            "largest buffer": _size(self.handle.max_mem_alloc_size),
            "local memory": _size(self.handle.local_mem_size),
            "work-group": str(self.handle.max_work_group_size),
            "float64": "yes" if self.wide else "no",
            "variant": self.variant,
        }


def found() -> list[Device]:
    """All devices of all drivers, in the order of the drivers."""
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # the loader's way to say that there is none
        return []
    devices = []
    for platform in platforms:
        try:
            devices += [Device(handle) for handle in platform.get_devices()]
        except cl.Error:  # a driver without a device
            continue
    return devices


def choose(wanted: str | None = None, devices: list[Device] | None = None) -> Device:
    """The device called `wanted`: its number in `found()`, which gives `devices` if they are not
    given, or a part of its name or platform.

    Without `wanted`, the one that the variable KVASSAY_DEVICE names, else the first GPU, else
    the first that is no simulator. DeviceError if there is none, or if nobody named one and it
    would be a CPU with two drivers in this process, which were seen to break each other.
    """
    devices = found() if devices is None else devices
    if not devices:
        raise DeviceError(
            "no OpenCL device was found: install a driver (pip install 'pyopencl[pocl]' brings one "
            "for CPUs), or let OCL_ICD_VENDORS name the folder of its .icd file"
        )
    wanted = wanted or os.environ.get(DEVICE) or None
    chosen = _first(devices) if wanted is None else _named(wanted, devices)
    others = {
        device.platform
        for device in devices
        if device.kind == "CPU" and device.platform != chosen.platform
    }
    if wanted is None and chosen.kind == "CPU" and others - {"Oclgrind"}:
        raise DeviceError(
            f"several CPU drivers share this process ({chosen.platform}, "
            f"{', '.join(sorted(others))}), and such were seen to break each other: keep one "
            f"installed, let OCL_ICD_VENDORS name the folder of its .icd file alone, or name a "
            f"device (--device, or {DEVICE})"
        )
    return chosen


def choose_variant(device: Device, wanted: str | None = None) -> str:
    """The variant called `wanted`, or that KVASSAY_VARIANT names, or that suits `device`."""
    variant = wanted or os.environ.get(VARIANT) or device.variant
    if variant not in VARIANTS:
        raise DeviceError(f"variant must be one of {', '.join(VARIANTS)}, got {variant!r}")
    return variant


def _first(devices: list[Device]) -> Device:
    order = sorted(devices, key=lambda d: (d.platform == "Oclgrind", d.kind != "GPU"))
    return order[0]


def _named(wanted: str, devices: list[Device]) -> Device:
    listed = "; ".join(f"{number} {device}" for number, device in enumerate(devices))
    if wanted.isdecimal():
        if int(wanted) < len(devices):
            return devices[int(wanted)]
        raise DeviceError(f"no device has number {wanted}; there are: {listed}")
    matching = [device for device in devices if wanted.lower() in str(device).lower()]
    if not matching:
        raise DeviceError(f"no device is called {wanted!r}; there are: {listed}")
    return matching[0]


class Runtime:
    """A device in use: its context, its queue, and the kernels built so far.

    If `variant` is None, the one that KVASSAY_VARIANT names, else the device's own.
    """

    def __init__(self, device: Device, variant: str | None = None) -> None:
        self.device = device
        self.variant = choose_variant(device, variant)
        self.context = cl.Context([device.handle])
        self.queue = cl.CommandQueue(self.context)
        self.memory = MemoryPool(ImmediateAllocator(self.queue))  # freed buffers are used again
        self.nothing = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 64)  # for unused arguments
        self._kernels: dict[tuple[object, ...], dict[str, Any]] = {}

    def lanes(self, dim: int) -> int:
        """Work-items that share a vector of dimension `dim`."""
        if self.variant == "item":
            return 1
        lanes = 1
        while lanes < min(dim / 2, 256, self.device.handle.max_work_group_size / 2):
            lanes *= 2
        return max(lanes, 2)

    def block(self, count: int) -> int:
        """Vectors that a work-group takes one after the other: a few groups for each unit."""
        groups = 16 * self.device.handle.max_compute_units
        return max(1, min(256, -(-count // groups))) if self.variant == "item" else 1

    def keys_together(self, count: int, query_groups: int, tile: int) -> int:
        """Keys that a work-group of attention takes: whole tiles, a few groups for each unit."""
        groups = -(-8 * self.device.handle.max_compute_units // max(query_groups, 1))
        return max(1, -(-count // int(groups * tile))) * tile

    @property
    def chunk_bytes(self) -> int:
        """The largest array that goes to the device at once."""
        handle = self.device.handle
        return int(min(64 << 20, handle.max_mem_alloc_size // 2, handle.global_mem_size // 8))

    def kernel(self, operation: str, name: str, **macros: object) -> Any:
        """The kernel `name` of kernels/`operation`.cl, compiled with these macros.

        DeviceError with the first lines of the build log if it does not build, or if the
        device has too little local memory for it.
        """
        key = operation, tuple(sorted(macros.items()))
        if key not in self._kernels:
            if len(self._kernels) == MOST_PROGRAMS:
                del self._kernels[next(iter(self._kernels))]
            kernels = self._built(operation, macros).all_kernels()
            for kernel in kernels:
                self._require_room(kernel)
            self._kernels[key] = {kernel.function_name: kernel for kernel in kernels}
        return self._kernels[key][name]

    def _require_room(self, kernel: Any) -> None:
        needed = kernel.get_work_group_info(
            cl.kernel_work_group_info.LOCAL_MEM_SIZE, self.device.handle
        )
        if self.variant == "group" and needed > self.device.handle.local_mem_size:
            raise DeviceError(
                f"kernel {kernel.function_name} needs {_size(needed)} of local memory and "
                f"{self.device} has {_size(self.device.handle.local_mem_size)}: use the variant "
                f"item (--variant item, or {VARIANT}=item)"
            )

    def _built(self, operation: str, macros: Mapping[str, object]) -> Any:
        options = [f"-D{name}={value}" for name, value in sorted(macros.items())]
        options += ["-cl-std=CL1.2", f"-DLITTLE_ENDIAN={int(self.device.handle.endian_little)}"]
        config = cl.device_fp_config
        if self.device.handle.single_fp_config & config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cl.CompilerWarning)
                return cl.Program(self.context, source(operation)).build(options)
        except cl.Error as problem:
            log = str(problem).partition("Build on")[2] or str(problem)
            lines = [line.strip() for line in log.splitlines()[1:] if line.strip()]
            shown = "\n  ".join(lines[:8])
            raise DeviceError(
                f"kernels/{operation}.cl does not build on {self.device} with "
                f"{' '.join(options)}:\n  {shown}"
            ) from None


@cache
def source(operation: str) -> str:
    """The text of kernels/`operation`.cl, with common.cl where it includes it."""
    kernels = resources.files("kvassay.accel") / "kernels"
    common = (kernels / "common.cl").read_text(encoding="utf-8")
    text = (kernels / f"{operation}.cl").read_text(encoding="utf-8")
    return text.replace('#include "common.cl"', common)


def constant(value: float, wide: bool) -> str:
    """`value` as a literal of the kernels' `real`."""
    return repr(float(value)) if wide else f"{np.float32(value):.9e}f"


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"
