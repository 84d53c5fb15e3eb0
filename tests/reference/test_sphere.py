import numpy as np
import pytest
from scipy import integrate, stats

from kvassay.reference import sphere

DIMS = (2, 3, 4, 7, 64, 128, 8192)


@pytest.mark.parametrize("dim", DIMS)
def test_law_is_the_beta_law_stretched_to_minus_one_to_one(dim):
    law = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    t = np.linspace(-0.999, 0.999, 201) * min(1.0, 5 / np.sqrt(dim))
    np.testing.assert_allclose(sphere.pdf(t, dim), law.pdf(t), rtol=1e-9)
    np.testing.assert_allclose(sphere.cdf(t, dim), law.cdf(t), rtol=1e-9)
    p = np.linspace(0, 1, 101)
    np.testing.assert_allclose(sphere.ppf(p, dim), law.ppf(p), atol=1e-12)


def test_law_describes_coordinates_of_normalized_gaussians():
    x = np.random.default_rng(1).standard_normal((20_000, 5))
    first = x[:, 0] / np.linalg.norm(x, axis=1)
    assert stats.kstest(first, lambda t: sphere.cdf(t, 5)).pvalue > 1e-4
    assert stats.kstest(first, lambda t: sphere.cdf(t, 6)).pvalue < 1e-4


@pytest.mark.parametrize("dim", DIMS)
def test_moments_agree_with_the_beta_law(dim):
    law = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    assert sphere.moment(2, dim) == pytest.approx(law.moment(2), rel=1e-9)
    assert sphere.moment(4, dim) == pytest.approx(law.moment(4), rel=1e-6)
    assert sphere.moment(3, dim) == 0


@pytest.mark.parametrize("dim", (2, 3, 16, 128))
def test_mean_abs_and_partial_moments_agree_with_quadrature(dim):
    edges = np.array([-1.0, -0.3, -0.05, 0.0, 0.02, 0.4, 1.0])
    mass, first = sphere.partial_moments(edges, dim)
    law = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2)
    np.testing.assert_allclose(mass, np.diff(law.cdf(edges)), atol=1e-12)
    for low, high, value in zip(edges[:-1], edges[1:], first, strict=True):
        # in the angle, which takes the poles of d = 2 away
        exact, _ = integrate.quad(
            lambda a: np.sin(a) * law.pdf(np.sin(a)) * np.cos(a), np.arcsin(low), np.arcsin(high)
        )
        assert value == pytest.approx(exact, abs=1e-8)
    halves = sphere.partial_moments([-1.0, 0.0, 1.0], dim)[1]
    assert np.abs(halves).sum() == pytest.approx(sphere.mean_abs(dim), rel=1e-12)


def test_gaussian_distance_falls_like_one_over_d():
    scaled = [dim * sphere.gaussian_distance(dim) for dim in (64, 256, 1024, 8192)]
    assert max(scaled) / min(scaled) < 1.02
    assert scaled[-1] == pytest.approx(0.1378, abs=2e-4)


def test_values_outside_the_sphere_have_no_density():
    assert sphere.pdf([-1.5, 1.5], 8).tolist() == [0, 0]
    assert sphere.cdf([-1.5, 1.5], 8).tolist() == [0, 1]


@pytest.mark.parametrize("dim", (1, 0, -3, 2.5, True, "8"))
def test_impossible_dimensions_are_refused_by_name(dim):
    with pytest.raises(ValueError, match="dim must be"):
        sphere.cdf(0.0, dim)
