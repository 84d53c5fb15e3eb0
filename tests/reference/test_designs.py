"""Designs: what can be declared, what theory says of it, and codecs that do it."""

import numpy as np
import pytest

from kvassay.reference import design_theory, theory
from kvassay.reference.designed import designed
from kvassay.reference.designs import Design
from kvassay.reference.kinds import KINDS
from kvassay.reference.lloyd_max import codebook

SIGMAS = 5


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"rotation": "dct"},
            "rotation must be one of hadamard, haar, hadamard-unsigned or block-K",
        ),
        ({"rotation": "block-1"}, "at least 2, got 'block-1'"),
        ({"scale": "length"}, "scale must be one of none, unit, unbiased, got 'length'"),
        ({"grid": "uniform", "scale": "unit"}, "a uniform grid has its own scale"),
        ({"group": 32}, "group is a part of a uniform grid"),
        ({"grid": "uniform", "group": 2}, "at least 4 coordinates"),
        ({"norm": "float8"}, "norm must be one of float32, float16, bfloat16"),
    ],
)
def test_a_design_that_cannot_be_is_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        Design(**parts)


def test_a_kind_refuses_a_design_that_it_cannot_have():
    with pytest.raises(ValueError, match="scalar does not rotate, got rotation haar"):
        KINDS["scalar"].designed(Design(rotation="haar"))
    with pytest.raises(ValueError, match="turboquant-prod is known on a Lloyd-Max grid"):
        KINDS["turboquant-prod"].designed(Design(scale="unit"))
    assert KINDS["scalar"].designed(Design(norm="float16")) is KINDS["scalar"]


# d = 128: slope and distortion of "unit", distortion of "unbiased", from 24,000 simulated vectors
# and 12 rotations; their own error is about 0.3 %.
TABLE = {
    1: (0.7993, 0.4014, 0.5678),
    2: (0.9406, 0.1188, 0.1305),
    3: (0.9831, 0.0339, 0.0348),
    4: (0.9954, 0.0091, 0.0092),
}


@pytest.mark.parametrize("bits", TABLE)
def test_scaled_reconstructions_at_128(bits):
    slope, unit, unbiased = TABLE[bits]
    assert design_theory.scaled(128, bits, "unit").slope == pytest.approx(slope, abs=2e-4)
    assert design_theory.scaled(128, bits, "unit").distortion == pytest.approx(unit, rel=0.01)
    assert design_theory.scaled(128, bits, "unbiased").distortion == pytest.approx(
        unbiased, rel=0.01
    )


@pytest.mark.parametrize("bits", (1, 3, 6))
def test_the_square_root_forms_are_the_limits_of_scaled_reconstructions(bits):
    for dim, most in ((128, 0.04), (8192, 6e-4)):
        distortion = theory.lloyd_max_distortion(dim, bits)
        limits = 2 - 2 * np.sqrt(1 - distortion), distortion / (1 - distortion)
        for scale, limit in zip(("unit", "unbiased"), limits, strict=True):
            value = design_theory.scaled(dim, bits, scale).distortion
            assert abs(value / limit - 1) < most


@pytest.mark.parametrize("dim", (24, 64))
@pytest.mark.parametrize("bits", (1, 2, 4))
def test_scaled_predictions_against_simulation(dim, bits):
    u = np.random.default_rng(bits).standard_normal((200_000, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    book = codebook(dim, bits)
    c = book.levels[book.quantize(u)]
    along, square = np.sum(u * c, axis=1), np.sum(c * c, axis=1)
    found = {"unit": 2 - 2 * along / np.sqrt(square), "unbiased": square / along**2 - 1}
    for scale, error in found.items():
        predicted = design_theory.scaled(dim, bits, scale)
        doubt = SIGMAS * error.std() / np.sqrt(len(error))
        assert abs(error.mean() - predicted.distortion) < doubt + 4 / dim**2 * error.mean()


@pytest.mark.parametrize(("dim", "group"), [(64, 0), (64, 16), (128, 64)])
@pytest.mark.parametrize("bits", (1, 2, 4))
def test_uniform_predictions_against_simulation(dim, group, bits):
    x = np.random.default_rng(bits).standard_normal((4000, dim))
    codec = designed("scalar", dim, bits, 0, Design(grid="uniform", group=group))
    decoded, energy = codec.decode(codec.encode(x)), np.sum(x**2, axis=1)
    predicted = design_theory.uniform(dim, bits, group)
    error = np.sum((decoded - x) ** 2, axis=1) / energy
    slope = np.sum(decoded * x, axis=1) / energy
    for values, prediction in ((error, predicted.distortion), (slope, predicted.slope)):
        doubt = SIGMAS * values.std() / np.sqrt(len(values))
        assert abs(values.mean() - prediction) < doubt
    assert error.std() / error.mean() < 1.5 * predicted.scatter < 3 * error.std() / error.mean()


def _pure(family, dim, rng):
    if family == "constant":
        return np.ones((2, dim))
    x = np.zeros((400, dim))
    if family == "one-hot":
        x[np.arange(400), rng.integers(dim, size=400)] = 1
    else:
        x[:, : dim // 8] = rng.standard_normal((400, dim // 8))
    return x


DESIGNS = (
    Design(),
    Design(scale="unit"),
    Design(rotation="hadamard-unsigned"),
    Design(rotation="hadamard-unsigned", scale="unit"),
    Design(rotation="block-16"),
    Design(rotation="block-16", scale="unbiased"),
    Design(rotation="block-4"),
)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("family", design_theory.FAMILIES)
def test_protection_is_what_the_codec_does(design, family):
    dim, bits, rng = 64, 2, np.random.default_rng(0)
    means = []
    for seed in range(60):
        codec = designed("turboquant-mse", dim, bits, seed, design)
        x = _pure(family, dim, rng)
        error = np.sum((codec.decode(codec.encode(x)) - x) ** 2, axis=1) / np.sum(x**2, axis=1)
        means.append(error.mean())
    predicted = design_theory.protection(dim, bits, design, family)
    doubt = SIGMAS * np.std(means) / np.sqrt(len(means)) + 1e-12
    slack = predicted / (dim // 8) if design.scale != "none" else 0  # p and r at their means
    assert abs(np.mean(means) - predicted) < doubt + slack


def test_protection_says_what_it_does_not_know():
    unknown = (
        (80, Design(), "one-hot", "behind a power of two, got 80"),
        (
            80,
            Design(rotation="block-16"),
            "loud-block",
            "block of 10 is cut by blocks of 16",
        ),
        (64, Design(grid="uniform"), "constant", "on a Lloyd-Max grid alone"),
    )
    for dim, design, family, message in unknown:
        with pytest.raises(ValueError, match=message):
            design_theory.protection(dim, 2, design, family)


def test_costs_of_what_vllm_does_to_keys():
    design = Design(rotation="hadamard-unsigned", scale="unit", norm="float16")
    rows = {cost.what: cost for cost in design_theory.costs(128, 4, design)}
    constant = rows["distortion of a constant vector"]
    assert constant.own > 20 * constant.papers
    assert rows["largest norm"].own == 65504


@pytest.mark.parametrize("scale", ("unit", "unbiased"))
def test_a_zero_vector_stays_zero_in_a_scaled_codec(scale):
    codec = designed("turboquant-mse", 64, 2, 0, Design(scale=scale))
    x = np.zeros((3, 64))
    x[1] = 1
    decoded = codec.decode(codec.encode(x))
    assert np.all(decoded[[0, 2]] == 0)
    assert np.isfinite(decoded).all()


def test_equal_coordinates_are_exact_on_a_uniform_grid():
    codec = designed("scalar", 64, 2, 0, Design(grid="uniform", group=16))
    x = np.repeat([[3.25], [-1e-3]], 64, axis=1)
    np.testing.assert_array_equal(codec.decode(codec.encode(x)), x)
