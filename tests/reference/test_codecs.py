import hashlib

import numpy as np
import pytest

from kvassay.reference.codecs import Code, codec
from kvassay.reference.kinds import JUDGED, KINDS

VARIANTS = [
    ("scalar", {}),
    ("turboquant-mse", {}),
    ("turboquant-mse", {"rotation": "haar"}),
    ("turboquant-prod", {"sketch": "gaussian"}),
    ("turboquant-prod", {"sketch": "orthogonal"}),
    ("turboquant-prod", {"sketch": "haar", "rows": 24}),
]


def make(kind, options, dim=48, bits=3, seed=5):
    return codec(kind, dim, bits, seed, **options)


def normal(count, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim))


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
@pytest.mark.parametrize("bits", (1, 2, 5, 8))
def test_inner_products_are_those_of_the_reconstruction(kind, options, bits):
    one = make(kind, options, bits=bits)
    x, q = normal(9, 48), normal(4, 48, seed=1)
    code = one.encode(x)
    np.testing.assert_allclose(one.inner_products(q, code), q @ one.decode(code).T, atol=1e-12)


@pytest.mark.parametrize("bits", (1, 2, 4))
@pytest.mark.parametrize(("kind", "options"), VARIANTS[:5])
def test_distortion_and_slope_are_those_of_theory(kind, options, bits):
    seeds = range(40)
    x = normal(200, 64)
    errors, slopes = [], []
    for seed in seeds:
        decoded = make(kind, options, 64, bits, seed).decode(
            (one := make(kind, options, 64, bits, seed)).encode(x)
        )
        assert one.bits == bits
        errors.append(np.mean(np.sum((decoded - x) ** 2, 1) / np.sum(x**2, 1)))
        slopes.append(np.sum(decoded * x) / np.sum(x * x))
        x = normal(200, 64, seed + 100)
    laws, sketch = KINDS[kind].laws, options.get("sketch", "gaussian")
    sketch = sketch if KINDS[kind].sketched else ""
    expected, slope = laws.distortion(64, bits, sketch), laws.slope(64, bits, sketch)
    root = np.sqrt(len(seeds))
    assert abs(np.mean(errors) - expected) < 4.5 * np.std(errors) / root
    assert abs(np.mean(slopes) - slope) < 4.5 * np.std(slopes) / root


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
def test_zero_vectors_decode_to_zero(kind, options):
    one = make(kind, options)
    x = np.vstack([np.zeros((1, 48)), normal(1, 48)])
    decoded = one.decode(one.encode(x))
    assert np.all(decoded[0] == 0)
    assert np.any(decoded[1] != 0)


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
@pytest.mark.parametrize("scale", (1e-300, 1e-30, 1e-3, 1e3, 1e30, 1e300))
def test_any_norm_keeps_the_relative_error(kind, options, scale):
    one = make(kind, options)
    x = normal(3, 48)
    near, far = one.encode(x), one.encode(x * scale)
    np.testing.assert_array_equal(near.indices, far.indices)
    np.testing.assert_allclose(one.decode(far) / scale, one.decode(near), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
@pytest.mark.parametrize("count", (0, 1, 2, 513, 1030))
def test_a_vector_does_not_depend_on_its_batch(kind, options, count):
    one = make(kind, options)
    x = normal(count, 48)
    code = one.encode(x)
    decoded = one.decode(code)
    assert len(code) == count
    assert decoded.shape == (count, 48)
    for row in {0, count // 2, count - 1} & set(range(count)):
        alone = one.encode(x[row : row + 1])
        assert alone.tobytes() == code[row : row + 1].tobytes()
        np.testing.assert_array_equal(one.decode(alone)[0], decoded[row])


@pytest.mark.parametrize("dtype", (np.float16, np.float32, np.float64))
@pytest.mark.parametrize("layout", ("contiguous", "fortran", "strided", "reversed"))
def test_dtype_and_layout_do_not_matter(dtype, layout):
    one = make("turboquant-prod", {})
    x = normal(6, 48).astype(dtype)
    views = {
        "contiguous": x,
        "fortran": np.asfortranarray(x),
        "strided": np.repeat(x, 2, axis=0)[::2],
        "reversed": x[::-1].copy()[::-1],
    }
    assert one.encode(views[layout]).tobytes() == one.encode(x.astype(np.float64)).tobytes()


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
@pytest.mark.parametrize(("dim", "bits"), [(48, 1), (48, 4), (13, 3), (80, 6)])
def test_size_is_what_the_layout_says(kind, options, dim, bits):
    options = {**options, "rows": None} if "rows" in options else options
    one = make(kind, options, dim, bits)
    code = one.encode(normal(5, dim))
    payload = -(-dim * bits // 8) + 8
    if kind == "turboquant-prod":
        payload = -(-dim * (bits - 1) // 8) + -(-dim // 8) + 16
    assert one.nbytes(code) == code.nbytes == 5 * payload == len(code.tobytes())


@pytest.mark.parametrize(("kind", "options"), VARIANTS)
def test_spec_and_seed_fix_the_bytes(kind, options):
    x = normal(20, 48)
    first, again = (make(kind, options).encode(x).tobytes() for _ in range(2))
    other = make(kind, options, seed=6).encode(x).tobytes()
    assert first == again
    assert (first == other) == (kind == "scalar")


def test_golden_bytes():
    """Asymmetric content, so that an error which undoes itself on decoding still shows."""
    x = (np.arange(1, 2 * 20 + 1).reshape(2, 20) % 7 - 2.0) * np.arange(1, 21)
    digests = {
        kind: hashlib.sha256(codec(kind, 20, 3, seed=1).encode(x).indices.tobytes()).hexdigest()[
            :16
        ]
        for kind in JUDGED
    }
    assert digests == GOLDEN


GOLDEN = {
    "scalar": "b5d4a2886e78c7dd",
    "turboquant-mse": "d85d04d897267e9b",
    "turboquant-prod": "23053880c40ce58c",
}


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bits": 0}, "bits must be in 1..8, got 0"),
        ({"bits": 9}, "bits must be in 1..8, got 9"),
        ({"bits": 2.5}, "bits must be an integer in 1..8, got 2.5"),
        ({"dim": 1}, "dim must be at least 2, got 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_bad_parameters_are_refused_by_name(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        codec(kind, **({"dim": 16, "bits": 3, "seed": 0} | arguments))


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="kind must be one of scalar, turboquant-mse"):
        codec("vq", 16, 3, 0)
    with pytest.raises(ValueError, match="sketch must be one of"):
        codec("turboquant-prod", 16, 3, 0, sketch="count")
    with pytest.raises(ValueError, match="rotation must be one of"):
        codec("turboquant-mse", 16, 3, 0, rotation="dct")
    with pytest.raises(ValueError, match="generator must be one of PCG64, MT19937"):
        codec("turboquant-mse", 16, 3, 0, generator="Philox")


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 17)), r"x must have shape \(N, 16\), got \(2, 17\)"),
        (np.zeros(16), r"x must have shape \(N, 16\), got \(16,\)"),
        (np.zeros((2, 16), dtype=int), "x must be floating point, got dtype int64"),
        (np.zeros((2, 16), dtype=complex), "x must be floating point, got dtype complex128"),
        (np.full((3, 16), np.inf), "x must be finite, got NaN or infinity in row 0"),
        (np.full((1, 16), 1.7e308), "x must have norms within float64"),
    ],
)
def test_bad_vectors_are_refused_by_name(kind, x, message):
    with pytest.raises(ValueError, match=message):
        codec(kind, 16, 3, 0).encode(x)


def test_everything_that_enters_is_checked():
    one = make("turboquant-prod", {})
    code = one.encode(normal(2, 48))
    for call, name in (
        (one.rotate, "x"),
        (one.unrotate, "y"),
        (lambda q: one.inner_products(q, code), "q"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must have shape \(N, 48\), got \(2, 9\)"):
            call(np.zeros((2, 9)))
        with pytest.raises(
            ValueError, match=f"{name} must be finite, got NaN or infinity in row 1"
        ):
            call(np.array([[0.0] * 48, [np.nan] * 48]))


def test_an_extreme_neighbour_changes_nothing():
    one = make("turboquant-mse", {})
    x = normal(3, 48)
    x[1] *= 1e-290
    alone = np.vstack([one.decode(one.encode(x[row : row + 1])) for row in range(3)])
    np.testing.assert_array_equal(one.decode(one.encode(x)), alone)


def test_truncated_codes_are_refused():
    one = make("turboquant-mse", {})
    code = one.encode(normal(2, 48))
    with pytest.raises(ValueError, match=r"packed must be uint8 of shape \(N, 18\)"):
        one.decode(Code(code.indices[:, :-1], code.norms))
    with pytest.raises(ValueError, match="code must hold a sketch"):
        make("turboquant-prod", {}).decode(code)
    with pytest.raises(ValueError, match="norms must have one value for each of the 2 rows"):
        one.decode(Code(code.indices, code.norms[:1]))
