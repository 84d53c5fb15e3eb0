import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

from kvassay.conformance import Capabilities, Settings, check
from kvassay.conformance.adapters import reference
from kvassay.conformance.faults import select
from kvassay.conformance.faults.fault import FAULTS
from kvassay.conformance.isolation.backend import served
from kvassay.conformance.isolation.child import Gone
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.protocol import SEEDS, SKETCHES
from kvassay.properties import test_codec as module
from kvassay.properties.strategies import DIMS, Choice, differ, refuses, roundtrip
from kvassay.reference import theory
from kvassay.reference.codecs import TurboQuantMSE

pytestmark = pytest.mark.once


def run(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs"]
    return subprocess.run(
        [*command, "kvassay.properties", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_reference_has_all_properties(tmp_path):
    done = run(tmp_path, "--kvassay-backend", "reference")
    assert done.returncode == 0, done.stdout
    assert f"{len(module.PROPERTIES)} passed" in done.stdout


def test_a_failure_fails_the_command_and_can_be_reproduced(tmp_path):
    (tmp_path / "own.py").write_text(
        "from kvassay.conformance.faults import BY_ID\nbackend = BY_ID['E06']\n"
    )
    done = run(tmp_path, "--kvassay-backend", "own:backend", *ONLY)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "@reproduce_failure" in done.stdout


@pytest.fixture(autouse=True)
def _the_same_examples_every_time():
    """Properties that are called here directly search like those in pytest, without shrinking."""
    settings.register_profile(
        "tests",
        max_examples=40,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("tests")
    yield
    settings.load_profile("default")


def fake(fault):
    child = Path(__file__).with_name("fake_child.py")
    return served((sys.executable, str(child), fault), ["--exec", "fake"], request_limit=2)


def test_a_child_that_hangs_ends_the_search():
    began = time.monotonic()
    with pytest.raises(pytest.fail.Exception, match=r"did not answer within 2 s.*dim=") as caught:
        module.PROPERTIES["zero-vectors"](fake("hang"))
    assert caught.value.pytrace is False
    assert time.monotonic() - began < 10


def test_a_child_that_crashes_has_refused_nothing():
    codec = fake("abort").codec("scalar", 16, 2, 0)
    code = codec.encode(np.ones((2, 16), np.float32))
    with pytest.raises(Gone, match="signal 6"):
        refuses(lambda: codec.decode(code))
    with pytest.raises((Gone, pytest.skip.Exception)) as caught:  # a skip here would be no failure
        module.PROPERTIES["extreme-norms"](fake("abort"))
    assert caught.type is Gone


def test_a_child_is_never_sent_anything_but_float32():
    codec = fake("none").codec("scalar", 16, 2, 0)
    for dtype in (np.float16, np.float64):
        with pytest.raises(BackendFault, match="the protocol sends float32 alone"):
            codec.encode(np.ones((2, 16), dtype))


class NearlyOneRotation(TurboQuantMSE):
    """Each seed turns one and the same rotation by a millionth of a millionth."""

    def __init__(self, dim, bits, seed):
        super().__init__(dim, bits, 7)
        turn = 1e-12 * np.random.default_rng(seed).standard_normal((dim, dim))
        self.turn = turn - turn.T

    def _to_coordinates(self, x):
        y = super()._to_coordinates(x)
        return y + y @ self.turn

    def _from_coordinates(self, y):
        return super()._from_coordinates(y - y @ self.turn)


def test_two_seeds_that_give_nearly_one_rotation_are_caught():
    (fault,) = select(["B-seed"])
    nearly = replace(fault, codec_class=NearlyOneRotation)
    x = np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    codecs = [nearly.codec("turboquant-mse", 128, 4, seed) for seed in (0, 1)]
    first, second = (codec.decode(codec.encode(x)) for codec in codecs)
    assert np.any(first != second)
    for backend in (fault, nearly):
        with pytest.raises(AssertionError):
            module.PROPERTIES["two-seeds-two-codecs"](backend)


@pytest.mark.parametrize(
    "harmless", [fault for fault in FAULTS if fault.proof], ids=lambda fault: fault.id
)
def test_two_seeds_of_a_correct_codec_of_another_form_differ_enough(harmless):
    module.PROPERTIES["two-seeds-two-codecs"](harmless)


@pytest.mark.parametrize("kind", ["turboquant-mse", "turboquant-prod"])
@pytest.mark.parametrize("bits", range(1, 9))
def test_two_seeds_of_the_reference_differ_by_what_theory_says(kind, bits):
    backend = reference.backend()
    for dim in DIMS[1:]:
        distortion = theory.lloyd_max_distortion(dim, bits)
        for sketch in SKETCHES if kind == "turboquant-prod" else ("",):
            choice = Choice(kind, sketch, dim, bits, 5)
            x = choice.isotropic(32)
            first, second = (roundtrip(choice.codec(backend, other_seed=i), x) for i in (0, 1))
            relative = np.mean(differ(first, second, x)) / distortion
            expected = 2 * (1 - distortion)
            assert relative > 1.5 * expected if sketch else abs(relative / expected - 1) < 0.15


def test_seeds_are_within_what_the_protocol_says():
    seeds = []

    class Listening:
        name, version, capabilities = "listening", "1", Capabilities(("turboquant-mse",))

        def codec(self, kind, dim, bits, seed):
            seeds.append(seed)
            return TurboQuantMSE(dim, bits, seed)

    small = Settings(dims=(64,), bits=(2,), effort="quick")
    assert check(Listening(), small).counts["conforms"]
    judged = len(seeds)
    module.PROPERTIES["two-seeds-two-codecs"](Listening())
    assert len(seeds) > judged > 0
    assert {type(seed) for seed in seeds} == {int}
    assert min(seeds) >= 0
    assert max(seeds) < SEEDS


ONLY = ("-k", "test_batch_is_singles")


def test_without_a_backend_nothing_passes(tmp_path):
    done = run(tmp_path)
    assert done.returncode != 0
    assert "--kvassay-backend must name the backend" in done.stdout + done.stderr


def test_an_unknown_backend_is_refused(tmp_path):
    done = run(tmp_path, "--kvassay-backend", "nobody")
    assert done.returncode != 0
    assert "no backend is called 'nobody'" in done.stdout + done.stderr
