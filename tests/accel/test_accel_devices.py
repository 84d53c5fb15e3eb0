"""The choice of a device, and what happens where it cannot do what it should."""

from importlib import resources
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from kvassay.accel import DeviceError, Runtime, backend, choose, codec, devices, found

KINDS = {"CPU": cl.device_type.CPU, "GPU": cl.device_type.GPU}
KERNELS = resources.files("kvassay.accel") / "kernels"
FILES = ("attention", "decode", "encode", "merge", "rotate", "scores", "sketch")


@pytest.fixture
def machine(monkeypatch):
    """Makes the devices of a machine out of (name, platform, "CPU" or "GPU")."""
    for variable in (devices.DEVICE, devices.VARIANT):
        monkeypatch.delenv(variable, raising=False)

    def platform(name, handles):
        made = SimpleNamespace(name=name)
        made.get_devices = lambda: [
            SimpleNamespace(name=own, type=KINDS[kind], platform=made) for own, kind in handles
        ]
        return made

    def make(*known):
        names = list(dict.fromkeys(name for _, name, _ in known))
        platforms = [
            platform(name, [(own, kind) for own, on, kind in known if on == name]) for name in names
        ]
        monkeypatch.setattr(cl, "get_platforms", lambda: platforms)

    return make


GPU, OTHER_GPU = ("Radeon", "ROCm", "GPU"), ("H200", "CUDA", "GPU")
CPU, OTHER_CPU = ("EPYC", "PoCL", "CPU"), ("EPYC", "Intel", "CPU")
SIMULATOR = ("Simulator", "Oclgrind", "CPU")


def test_without_a_driver_the_way_to_one_is_shown(machine, monkeypatch):
    machine()
    assert found() == []
    with pytest.raises(DeviceError, match=r"no OpenCL device.*pyopencl\[pocl\].*OCL_ICD_VENDORS"):
        choose()

    def none():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", none)
    assert found() == []
    with pytest.raises(DeviceError, match="no OpenCL device"):
        choose()


def test_a_driver_without_devices_is_none(machine, monkeypatch):
    def none():
        raise cl.LogicError("clGetDeviceIDs failed: DEVICE_NOT_FOUND")

    platforms = [SimpleNamespace(name="empty", get_devices=none)]
    monkeypatch.setattr(cl, "get_platforms", lambda: platforms)
    assert found() == []


def test_gpus_come_first_and_simulators_last(machine):
    for known, first in (
        ([CPU, GPU, OTHER_GPU], "Radeon"),
        ([SIMULATOR, CPU], "EPYC"),
        ([SIMULATOR], "Simulator"),
        ([SIMULATOR, OTHER_GPU], "H200"),
    ):
        machine(*known)
        assert choose().name == first


def test_devices_have_names_and_numbers(machine, monkeypatch):
    machine(CPU, GPU, OTHER_GPU)
    assert [str(device) for device in found()] == ["EPYC (PoCL)", "Radeon (ROCm)", "H200 (CUDA)"]
    assert [device.kind for device in found()] == ["CPU", "GPU", "GPU"]
    assert [device.variant for device in found()] == ["item", "group", "group"]
    for wanted, name in (("2", "H200"), ("0", "EPYC"), ("cuda", "H200"), ("radeon", "Radeon")):
        assert choose(wanted).name == name
    monkeypatch.setenv(devices.DEVICE, "cuda")
    assert choose().name == "H200"
    assert choose("radeon").name == "Radeon"


def test_unknown_devices_are_refused_with_the_known_ones(machine):
    machine(CPU, GPU)
    listed = r"there are: 0 EPYC \(PoCL\); 1 Radeon \(ROCm\)"
    with pytest.raises(DeviceError, match=f"no device is called 'arc'; {listed}"):
        choose("arc")
    with pytest.raises(DeviceError, match=f"no device has number 2; {listed}"):
        choose("2")


def test_two_cpu_drivers_in_one_process_are_refused_unless_one_is_named(machine):
    machine(CPU, OTHER_CPU, GPU)
    assert choose().name == "Radeon"
    machine(CPU, OTHER_CPU)
    with pytest.raises(DeviceError, match=r"share this process \(PoCL, Intel.*OCL_ICD"):
        choose()
    assert choose("pocl").name == "EPYC"  # who names one must know
    machine(CPU, SIMULATOR)
    assert choose().platform == "PoCL"


def test_unknown_variants_are_refused(runtime, monkeypatch):
    with pytest.raises(DeviceError, match="variant must be one of item, group, got 'warp'"):
        Runtime(runtime.device, "warp")
    monkeypatch.setenv(devices.VARIANT, runtime.variant)
    assert Runtime(runtime.device).variant == runtime.variant
    monkeypatch.delenv(devices.VARIANT)
    assert Runtime(runtime.device).variant == runtime.device.variant


def test_a_build_that_fails_shows_the_log(runtime, monkeypatch):
    broken = "__kernel void encode(__global float *x) {\n    x[0] = not_declared;\n}\n"
    monkeypatch.setattr(devices, "source", lambda operation: broken)
    fresh = Runtime(runtime.device, runtime.variant)
    with pytest.raises(DeviceError, match=r"encode\.cl does not build on") as problem:
        codec(fresh, "turboquant-mse", 64, 2, 0).encode(np.ones((1, 64), np.float32))
    told = str(problem.value)
    assert fresh.device.name in told
    assert "-DDIM=64" in told
    assert "not_declared" in told
    assert len(told.splitlines()) <= 10


def test_too_little_local_memory_names_the_other_variant(runtime, monkeypatch):
    monkeypatch.setattr(cl.Kernel, "get_work_group_info", lambda *arguments: 1 << 40)
    one = codec(Runtime(runtime.device, runtime.variant), "turboquant-mse", 5, 4, 0)
    x = np.ones((1, 5), np.float32)
    if runtime.variant == "item":  # has no use for it
        one.encode(x)
    else:
        for _ in range(2):
            with pytest.raises(DeviceError, match=r"needs 1024 GiB of local memory.*variant item"):
                one.encode(x)


@pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")  # a log of notes alone
@pytest.mark.parametrize("operation", FILES)
def test_each_file_compiles_alone(runtime, operation):
    if runtime.variant == "item":  # the macros have the same defaults for both
        path = KERNELS / f"{operation}.cl"
        options = ["-cl-std=CL1.2", "-I", str(KERNELS)]
        program = cl.Program(runtime.context, path.read_text(encoding="utf-8")).build(options)
        names = [kernel.function_name for kernel in program.all_kernels()]
        assert names
        assert len(set(names)) == len(names)


def test_every_file_is_known():
    names = {path.name for path in KERNELS.iterdir()}
    assert names == {"common.cl", *(f"{operation}.cl" for operation in FILES)}


def test_the_backend_says_what_it_runs_on(runtime, monkeypatch):
    monkeypatch.setenv(devices.DEVICE, runtime.device.name)
    monkeypatch.setenv(devices.VARIANT, runtime.variant)
    made = backend.backend()
    assert made.device == runtime.device.facts() | {"variant": runtime.variant}
    assert all(made.device.values())
    x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    arguments = "turboquant-mse", 5, 4, 3
    expected = codec(runtime, *arguments).encode(x)
    assert made.codec(*arguments).encode(x).tobytes() == expected.tobytes()
    unrotated = made.codec("scalar-prod", 12, 4, 3, sketch="orthogonal")
    assert not hasattr(unrotated, "rotate")
