"""Devices on the command line."""

import json

from click.testing import CliRunner

from kvassay.accel import devices
from kvassay.conformance.doors.cli import main


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_devices_are_listed(runtime):
    result = run("devices")
    assert result.exit_code == 0
    assert runtime.device.name.split()[0] in result.output
    assert "0*" in result.output
    assert json.loads(run("devices", "--json").output)[0] == runtime.device.facts()


def test_devices_are_listed_where_none_can_be_chosen(runtime, monkeypatch):
    monkeypatch.setenv(devices.DEVICE, "no such device")
    result = run("devices")
    assert result.exit_code == 0
    assert runtime.device.name.split()[0] in result.output
    assert "0*" not in result.output
    assert "None is used: no device is called 'no such device'" in " ".join(result.output.split())


def test_no_device_is_no_error_and_shows_the_way_to_one(monkeypatch):
    monkeypatch.setattr(devices.cl, "get_platforms", lambda: [])
    result = run("devices")
    assert result.exit_code == 0
    assert result.output.startswith("0 devices. `pip install 'pyopencl[pocl]'`")
    assert json.loads(run("devices", "--json").output) == []
    refused = run("check", "opencl")
    assert refused.exit_code == 2
    assert "no OpenCL device was found: install a driver" in refused.output


def test_an_unknown_device_or_variant_is_refused(runtime, monkeypatch):
    monkeypatch.setenv(devices.DEVICE, "")  # and so restored
    monkeypatch.setenv(devices.VARIANT, "")
    refused = run("check", "opencl", "--device", "no such device")
    assert refused.exit_code == 2
    assert "no device is called 'no such device'; there are: 0" in refused.output
    monkeypatch.setenv(devices.DEVICE, "")
    refused = run("check", "opencl", "--variant", "warp")
    assert refused.exit_code == 2
    assert "variant must be one of item, group, got 'warp'" in refused.output
