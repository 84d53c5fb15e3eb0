"""What goes in and where it lies: arrays, batches, pieces, norms, and what is refused."""

import numpy as np
import pyopencl.array as cl_array
import pytest
from comparing import (
    Case,
    assert_codes_agree,
    few,
    from_device,
    in_reference,
    normal,
    norms,
    on_device,
    same_bytes,
)

from kvassay.accel import Runtime, codec
from kvassay.reference.codecs import Code

PLAIN = Case("turboquant-mse", 128, 3)
SKETCHED = Case("turboquant-prod", 12, 4, "orthogonal", rotation="none")
DENSE = Case("turboquant-prod", 12, 1, "gaussian")
both = pytest.mark.parametrize("case", (PLAIN, SKETCHED), ids=str)


def put(runtime, array):
    return cl_array.to_device(runtime.queue, array)


@both
def test_device_arrays_stay_there_and_give_the_same(runtime, case):
    one = on_device(runtime, case)
    x, q = normal(few(runtime, 40), case.dim), normal(3, case.dim, seed=1)
    code = one.encode(x)
    there = one.encode(put(runtime, x))
    assert all(
        isinstance(part, cl_array.Array) for part in vars(there).values() if part is not None
    )
    assert same_bytes(from_device(there), code)
    pairs = [
        (one.decode(there), one.decode(code)),
        (one.inner_products(put(runtime, q), there), one.inner_products(q, code)),
    ]
    if case is PLAIN:
        pairs.append((one.rotate(put(runtime, x)), one.rotate(x)))
        pairs.append((one.unrotate(put(runtime, x)), one.unrotate(x)))
    for got, expected in pairs:
        assert isinstance(got, cl_array.Array)
        assert isinstance(expected, np.ndarray)
        np.testing.assert_array_equal(got.get(), expected)


@both
def test_device_arrays_may_be_slices(runtime, case):
    one = on_device(runtime, case)
    x, q = normal(12, case.dim), normal(7, case.dim, seed=1)
    there = one.encode(put(runtime, x))
    assert same_bytes(from_device(one.encode(put(runtime, x)[3:])), from_device(there[3:]))
    np.testing.assert_array_equal(one.decode(there[3:]).get(), one.decode(there).get()[3:])
    products = one.inner_products(put(runtime, q)[4:], there[3:])
    np.testing.assert_array_equal(products.get(), one.inner_products(q, there).get()[4:, 3:])


@pytest.mark.parametrize(
    "kind", ("float16", "float64", "rows apart", "columns first", "memory map")
)
def test_any_array_of_floats_is_taken(runtime, tmp_path, kind):
    one = on_device(runtime, PLAIN)
    x = normal(6, PLAIN.dim).astype(np.float16).astype(np.float32)
    wide = np.zeros((12, PLAIN.dim), np.float32)
    wide[::2] = x
    stored = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    stored[:] = x
    given = {
        "float16": x.astype(np.float16),
        "float64": x.astype(np.float64),
        "rows apart": wide[::2],
        "columns first": np.asfortranarray(x),
        "memory map": stored,
    }[kind]
    assert same_bytes(one.encode(given), one.encode(x))


@both
def test_empty_batches_are_batches(runtime, case):
    one = on_device(runtime, case)
    none = np.zeros((0, case.dim), np.float32)
    full = one.encode(normal(3, case.dim))
    for x in (none, put(runtime, np.ones((1, case.dim), np.float32))[:0]):
        code = one.encode(x)
        assert len(code) == 0
        assert code.indices.shape == (0, full.indices.shape[1])
        assert code.norms.dtype == np.float32
        assert (code.signs is None) == (case is PLAIN)
        assert one.decode(code).shape == (0, case.dim)
        assert one.inner_products(np.ones((2, case.dim)), code).shape == (2, 0)
    assert one.inner_products(none, full).shape == (0, 3)
    if case is PLAIN:
        assert one.rotate(none).shape == (0, case.dim)


def test_what_is_no_batch_of_vectors_is_refused(runtime):
    one = on_device(runtime, PLAIN)
    x = normal(4, PLAIN.dim)
    code = one.encode(x)
    for call in (one.encode, one.rotate, lambda q: one.inner_products(q, code)):
        with pytest.raises(ValueError, match=r"must have shape \(N, 128\), got \(4, 127\)"):
            call(x[:, 1:])
        with pytest.raises(ValueError, match=r"must have shape \(N, 128\), got \(128,\)"):
            call(x[0])
        with pytest.raises(ValueError, match="must be floating point, got dtype int64"):
            call(x.astype(np.int64))
        with pytest.raises(ValueError, match="on a device must be float32 in C order, got float64"):
            call(put(runtime, x.astype(np.float64)))
        with pytest.raises(ValueError, match="on a device must be float32 in C order"):
            call(put(runtime, np.asfortranarray(x)))


def test_what_is_no_code_of_this_codec_is_refused(runtime):
    one, sketched = on_device(runtime, PLAIN), on_device(runtime, SKETCHED)
    code, other = one.encode(normal(4, 128)), sketched.encode(normal(4, 12))
    calls = (one.decode, lambda code: one.inner_products(normal(1, 128), code))
    for call in calls:
        with pytest.raises(ValueError, match=r"indices .* shape \(4, 48\), got \(4, 47\) of uint8"):
            call(Code(code.indices[:, 1:], code.norms))
        with pytest.raises(ValueError, match=r"indices .* shape \(3, 48\), got \(4, 48\)"):
            call(Code(code.indices, code.norms[1:]))
        with pytest.raises(ValueError, match=r"indices .* of int8"):
            call(Code(code.indices.view(np.int8), code.norms))
        with pytest.raises(ValueError, match=r"norms .* of int32"):
            call(Code(code.indices, code.norms.view(np.int32)))
        with pytest.raises(ValueError, match=r"must hold indices, norms, got .*signs"):
            call(Code(code.indices, code.norms, code.indices, code.norms))
    with pytest.raises(ValueError, match=r"must hold .*signs, got \['indices', 'norms'\]"):
        sketched.decode(Code(other.indices, other.norms))


def test_codes_on_a_device_that_kernels_would_misread_are_refused(runtime):
    one = on_device(runtime, PLAIN)
    code = from_device(one.encode(put(runtime, normal(4, 128))))
    columns = np.asfortranarray(code.indices)
    sentence = "on a device must be in C order, and float32 where it is floating point"
    for indices, sizes in ((columns, code.norms), (code.indices, code.norms.astype(np.float64))):
        wrong = Code(put(runtime, indices), put(runtime, sizes))
        with pytest.raises(ValueError, match=sentence):
            one.decode(wrong)
    assert one.decode(Code(columns, code.norms.astype(np.float64))).shape == (4, 128)


def test_what_only_the_reference_has_is_said_to_be_missing(runtime):
    with pytest.raises(NotImplementedError, match="d up to 1024, got 1025"):
        codec(runtime, "scalar", 1025, 4, 0)
    for options in ({"rotation": "haar"}, {"sketch": "haar"}):
        with pytest.raises(NotImplementedError, match="dense random rotations"):
            codec(runtime, "turboquant-prod", 64, 4, 0, **options)
    with pytest.raises(ValueError, match=r"bits must be in 1\.\.8, got 9"):
        codec(runtime, "scalar", 64, 9, 0)


@pytest.mark.parametrize("case", (PLAIN, SKETCHED, DENSE), ids=str)
def test_a_vector_does_not_depend_on_its_batch(runtime, case):
    one = on_device(runtime, case)
    count = 1000  # several for each work-group
    if runtime.device.platform == "Oclgrind":
        count = 40 if case is PLAIN else 100
    x, q = normal(count, case.dim), normal(3, case.dim, seed=1)
    x[:10] *= np.float32(1e-30)
    code = one.encode(x)
    decoded, products = one.decode(code), one.inner_products(q, code)
    for row in (0, 9, count // 2, count - 1):
        part = slice(row, row + 1)
        assert same_bytes(one.encode(x[part]), code[part])
        np.testing.assert_array_equal(one.decode(code[part]), decoded[part])
        np.testing.assert_array_equal(one.inner_products(q, code[part]), products[:, part])


@both
def test_a_batch_in_pieces_gives_the_same_as_one_piece(runtime, monkeypatch, case):
    one = on_device(runtime, case)
    x, q = normal(11, case.dim), normal(3, case.dim, seed=1)
    code = one.encode(x)
    whole = [one.decode(code), one.inner_products(q, code)]
    whole += [one.rotate(x), one.unrotate(x)] if case is PLAIN else []
    for chunk in (1, 5 * 4 * case.dim):  # one row at a time, or five
        monkeypatch.setattr(Runtime, "chunk_bytes", chunk)
        assert same_bytes(one.encode(x), code)
        pieces = [one.decode(code), one.inner_products(q, code)]
        pieces += [one.rotate(x), one.unrotate(x)] if case is PLAIN else []
        for got, expected in zip(pieces, whole, strict=True):
            np.testing.assert_array_equal(got, expected)


@both
@pytest.mark.parametrize("size", (1e-38, 1e-30, 1e-20, 1e-10, 1e10, 1e19, 1e30, 1e37))
def test_any_norm_is_exact(runtime, tally, case, size):
    x = normal(few(runtime, 30), case.dim, seed=2).astype(np.float64)
    x *= size / norms(x)[:, None]
    x = x.astype(np.float32)  # at 1e-38, coordinates below the normal numbers
    one = on_device(runtime, case)
    code = one.encode(x)
    assert_codes_agree(case, x, code, tally)
    expected = in_reference(case).decode(code)
    decoded = one.decode(code)
    assert (norms(decoded / np.float64(size) - expected / size) <= 1e-6).all()


@both
@pytest.mark.parametrize("piece", (False, True))
@pytest.mark.parametrize(
    ("value", "what"),
    (
        (np.nan, "NaN or infinity"),
        (np.inf, "NaN or infinity"),
        (-np.inf, "NaN or infinity"),
        (3.4e38, "a norm beyond float32"),
        (1e300, "a norm beyond float32"),
    ),
)
def test_rows_that_have_no_code_are_named(runtime, monkeypatch, case, piece, value, what):
    if piece:
        monkeypatch.setattr(Runtime, "chunk_bytes", 4 * 4 * case.dim)
    one = on_device(runtime, case)
    x = normal(7, case.dim).astype(np.float64)
    x[6:, 2:4] = value
    sentence = f"x must be finite in float32, got {what} in row 6"
    with pytest.raises(ValueError, match=sentence):
        one.encode(x)
    if abs(value) != 1e300:
        with pytest.raises(ValueError, match=sentence):
            one.encode(put(runtime, x.astype(np.float32)))
