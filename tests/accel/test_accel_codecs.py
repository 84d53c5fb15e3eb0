"""The codecs on a device against those of the reference."""

import numpy as np
import pytest
from comparing import (
    Case,
    assert_codes_agree,
    few,
    in_reference,
    normal,
    norms,
    on_device,
    same_bytes,
)

from kvassay import accel
from kvassay.reference import codecs as reference

# Powers of two from 64 go through registers, other dimensions do not; 2, 5 and 12 leave bytes and
# lanes half used, 5, 12, 80 and 576 have odd factors; a table of 6 bits and more is in float64.
PRIME = Case("turboquant-mse", 5, 4)
ODD = Case("turboquant-mse", 80, 5)
REGISTERS = Case("turboquant-mse", 128, 3)
LARGEST = Case("turboquant-mse", 1024, 4)
CASES = (
    PRIME,
    Case("turboquant-mse", 12, 7),
    ODD,
    REGISTERS,
    LARGEST,
    Case("turboquant-prod", 12, 1, "gaussian"),
    Case("turboquant-prod", 12, 4, "orthogonal", rotation="none"),
    Case("turboquant-prod", 128, 4, "gaussian"),
)
FOR_ITEMS = (
    Case("scalar", 2, 3),
    Case("turboquant-mse", 576, 6),
    Case("scalar", 64, 4),
    Case("turboquant-mse", 64, 1),
    Case("turboquant-mse", 256, 2),
    Case("turboquant-prod", 5, 3, "orthogonal"),
    Case("turboquant-prod", 64, 2, "orthogonal"),
    Case("turboquant-prod", 80, 8, "orthogonal"),
)
each_case = pytest.mark.parametrize(
    "case", [*CASES, *(pytest.param(case, marks=pytest.mark.item) for case in FOR_ITEMS)], ids=str
)


@each_case
def test_codes_are_those_of_the_reference(runtime, case, tally):
    x = normal(few(runtime, 300), case.dim)
    code = on_device(runtime, case).encode(x)
    assert code.norms.dtype == np.float32
    assert_codes_agree(case, x, code, tally)


@pytest.mark.parametrize("case", (ODD, REGISTERS, CASES[-2]), ids=str)
def test_coordinates_on_a_threshold_are_rounding_s_to_decide(runtime, case):
    x = np.zeros((4, case.dim), np.float32)
    x[1] = 1  # sums of as many +1 as -1 rotate to 0, the threshold in the middle
    x[2, ::2] = -1
    x[3, 5] = 2
    code = on_device(runtime, case).encode(x)
    assert_codes_agree(case, x, code)
    assert same_bytes(code[:1], on_device(runtime, case).encode(x[:1]))
    zero = in_reference(case).encode(x[:1])
    np.testing.assert_array_equal(code.indices[:1], zero.indices)
    assert code.norms[0] == 0


@each_case
def test_reconstructions_are_those_of_the_reference(runtime, case):
    x = normal(few(runtime, 50), case.dim, seed=1)
    x[1] = 0
    one, other = on_device(runtime, case), in_reference(case)
    code = one.encode(x)
    decoded, expected = one.decode(code), other.decode(code)
    assert decoded.dtype == np.float32
    assert (norms(decoded - expected) <= 1e-6 * norms(x)).all()
    assert (decoded[1] == 0).all()


@each_case
def test_codes_of_the_reference_are_understood(runtime, case):
    x = normal(few(runtime, 20), case.dim, seed=2)
    one, other = on_device(runtime, case), in_reference(case)
    code = other.encode(x)
    assert code.norms.dtype == np.float64
    assert (norms(one.decode(code) - other.decode(code)) <= 1e-6 * norms(x)).all()


@each_case
def test_inner_products_are_those_of_the_reference(runtime, case):
    x, q = normal(few(runtime, 150), case.dim, seed=3), normal(3, case.dim, seed=4)
    one, other = on_device(runtime, case), in_reference(case)
    code = one.encode(x)
    got, expected = one.inner_products(q, code), other.inner_products(q, code)
    assert got.dtype == np.float32
    assert (abs(got - expected) <= 1e-6 * norms(q)[:, None] * norms(x)).all()


@pytest.mark.parametrize("query_count", (1, 9))
def test_queries_may_be_any_number(runtime, query_count):
    case = REGISTERS
    x, q = normal(few(runtime, 70), case.dim, seed=5), normal(query_count, case.dim, seed=6)
    code = in_reference(case).encode(x)
    got = on_device(runtime, case).inner_products(q, code)
    expected = in_reference(case).inner_products(q, code)
    assert (abs(got - expected) <= 1e-6 * norms(q)[:, None] * norms(x)).all()


@pytest.mark.parametrize("case", (PRIME, ODD, LARGEST), ids=str)
def test_rotations_are_those_of_the_reference(runtime, case):
    x = normal(few(runtime, 40), case.dim, seed=7)
    one, other = on_device(runtime, case), in_reference(case)
    turned = one.rotate(x)
    assert (norms(turned - other.rotate(x)) <= 1e-6 * norms(x)).all()
    assert (norms(one.unrotate(x) - other.unrotate(x)) <= 1e-6 * norms(x)).all()
    assert (norms(one.unrotate(turned) - x) <= 1e-6 * norms(x)).all()


def test_the_other_generator_is_the_reference_s_too(runtime):
    arguments = "turboquant-mse", 128, 3, 5
    x = normal(few(runtime, 20), 128)
    made = accel.codec(runtime, *arguments, generator="MT19937")
    codes = [
        one.encode(x).indices for one in (made, reference.codec(*arguments, generator="MT19937"))
    ]
    np.testing.assert_array_equal(*codes)


@pytest.mark.long
def test_a_large_batch_differs_where_rounding_decides_and_nowhere_else(runtime, tally):
    case = Case("turboquant-mse", 128, 4)
    x = normal(20_000, 128, seed=8)
    assert_codes_agree(case, x, on_device(runtime, case).encode(x), tally)
