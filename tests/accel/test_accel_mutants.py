"""The tests of these tests: kernels with a fault, each of which must be caught."""

import pytest
from comparing import Case, Tally, assert_codes_agree, in_reference, normal, norms

from kvassay import accel
from kvassay.accel import Runtime, devices

REGISTERS, ODD = Case("turboquant-mse", 64, 4), Case("turboquant-mse", 12, 4)


@pytest.fixture
def edited(runtime, monkeypatch):
    """A runtime on the same device, whose kernels have `old` replaced by `new`."""

    def make(*replacements):
        original = devices.source

        def source(operation):
            text = original(operation)
            for old, new in replacements:
                text = text.replace(old, new)
            return text

        whole = original("encode") + original("decode")
        assert all(old in whole for old, _ in replacements), "the kernels have changed"
        monkeypatch.setattr(devices, "source", source)
        return Runtime(runtime.device, runtime.variant)

    return make


def coded(runtime, case, count=5):
    one = accel.codec(runtime, case.kind, case.dim, case.bits, case.seed)
    x = normal(count, case.dim)
    return x, one, one.encode(x)


def reports(log):
    return log.read_text(errors="replace") if log.exists() else ""


@pytest.mark.item
@pytest.mark.parametrize("case", (REGISTERS, ODD), ids=str)
def test_swapped_nibbles_are_caught_though_they_make_a_round_trip(edited, case):
    swapped = edited(
        ("(BITS * j)", "(BITS * (j ^ 1))"),
        ("(BITS * (i % 8))", "(BITS * (i % 8 ^ 1))"),
    )
    x, one, code = coded(swapped, case)
    error = norms(one.decode(code) - x) / norms(x)
    assert (error < 0.2).all()  # the kernels agree with each other
    with pytest.raises(AssertionError):
        assert_codes_agree(case, x, code, Tally())
    assert (norms(in_reference(case).decode(code) - x) / norms(x) > 0.2).any()


def test_a_missing_barrier_is_reported(simulated, edited, runtime):
    if runtime.variant == "item":
        pytest.skip("has no barriers")
    before = reports(simulated)
    coded(
        edited(
            (
                "y[i + step] = a - b;\n        }\n        BARRIER();",
                "y[i + step] = a - b;\n        }",
            )
        ),
        ODD,
    )
    after = reports(simulated)
    assert after != before
    assert "data race at local memory" in after


def test_a_store_beyond_the_end_is_reported(simulated, edited, runtime):
    before = reports(simulated)
    coded(
        edited(
            ("norms[n] = length", "norms[n + 1] = length"),
            ("sums, norms + n)", "sums, norms + n + 1)"),
        ),
        ODD,
    )
    after = reports(simulated)
    assert after != before
    assert "Invalid write of size 4 at global memory" in after
