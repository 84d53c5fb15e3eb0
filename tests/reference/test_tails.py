import numpy as np
import pytest

from kvassay.reference import tails, theory
from kvassay.reference.codecs import codec
from kvassay.reference.kinds import KINDS

COUNT = 8


def _values(kind, sketch, dim, bits, seeds):
    """Mean distortion and slope of COUNT isotropic vectors under each of many seeds."""
    rng = np.random.default_rng(dim + bits)
    distortions, slopes = [], []
    for seed in range(seeds):
        one = codec(kind, dim, bits, seed, **({"sketch": sketch} if sketch else {}))
        x = rng.standard_normal((COUNT, dim))
        x /= np.linalg.norm(x, axis=1)[:, None]
        decoded = one.decode(one.encode(x))
        distortions.append(np.mean(np.sum((decoded - x) ** 2, axis=1)))
        slopes.append(np.mean(np.sum(decoded * x, axis=1)))
    return np.array(distortions), np.array(slopes)


@pytest.mark.parametrize(
    ("kind", "sketch"),
    [
        ("scalar", ""),
        ("turboquant-mse", ""),
        ("turboquant-prod", "gaussian"),
        ("turboquant-prod", "orthogonal"),
    ],
)
@pytest.mark.parametrize(("dim", "bits"), [(16, 2), (64, 1), (64, 4), (80, 3)])
def test_fewer_seeds_lie_outside_than_alpha_says(kind, sketch, dim, bits):
    """At alpha = 5 %, of 400 seeds at most 20 may be outside; the bounds are not sharp, and
    none but a few are."""
    distortions, slopes = _values(kind, sketch, dim, bits, 400)
    for values, limits in (
        (distortions, tails.distortion_range(dim, bits, sketch, COUNT, 0.05)),
        (slopes, tails.slope_range(dim, bits, sketch, COUNT, 0.05)),
    ):
        assert np.sum((values < limits[0]) | (values > limits[1])) <= 20


@pytest.mark.parametrize("sketch", ("", "gaussian", "orthogonal"))
@pytest.mark.parametrize("dim", (16, 64, 576))
@pytest.mark.parametrize("bits", (1, 2, 5, 8))
def test_the_prediction_lies_inside_and_a_rarer_seed_may_lie_farther(sketch, dim, bits):
    kind = KINDS["turboquant-prod" if sketch else "turboquant-mse"]
    predicted = {
        tails.distortion_range: kind.laws.distortion(dim, bits, sketch),
        tails.slope_range: kind.laws.slope(dim, bits, sketch),
    }
    for limits, value in predicted.items():
        near, far = (limits(dim, bits, sketch, COUNT, alpha) for alpha in (1e-3, 1e-10))
        assert far[0] <= near[0] < value < near[1] <= far[1]


@pytest.mark.parametrize("dim", (64, 128, 576))
@pytest.mark.parametrize("bits", range(1, 9))
def test_a_decoder_of_zeros_lies_outside_at_every_width(dim, bits):
    """Its distortion is 1 and its slope 0, at the rate of 300 seeds of one entry."""
    assert tails.distortion_range(dim, bits, "", COUNT, 6e-10)[1] < 1
    assert tails.slope_range(dim, bits, "", COUNT, 6e-10)[0] > 0


def test_the_bound_is_that_of_a_normal_variable_where_the_sum_is_nearly_normal():
    """Many coordinates: 1e-6 to a side is 4.9 standard deviations, and no bound is below."""
    scatter = theory.distortion_scatter(576, 2, COUNT)
    mean = theory.lloyd_max_distortion(576, 2)
    high = tails.distortion_range(576, 2, "", COUNT, 2e-6)[1]
    assert 4.9 < (high / mean - 1) / scatter < 6.5


def test_no_vectors_are_refused():
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        tails.distortion_range(64, 2, "", 0, 0.05)
