import numpy as np
import pytest

from kvassay.reference import qjl, theory

FAMILY = {"gaussian": "gaussian", "haar": "orthogonal", "orthogonal": "orthogonal"}


@pytest.mark.parametrize("name", qjl.SKETCHES)
@pytest.mark.parametrize("rows", (5, 12, 30))
def test_project_and_adjoint_are_transposes(name, rows):
    sketch = qjl.sketch(name, 12, rows, np.random.default_rng(0))
    matrix = sketch.project(np.eye(12)).T
    assert matrix.shape == (rows, 12)
    np.testing.assert_allclose(sketch.adjoint(np.eye(rows)), matrix, atol=1e-14)


@pytest.mark.parametrize("name", ("haar", "orthogonal"))
def test_rows_of_a_block_are_orthonormal(name):
    matrix = qjl.sketch(name, 12, 30, np.random.default_rng(0)).project(np.eye(12)).T
    for start in (0, 12, 24):
        block = matrix[start : start + 12]
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-13)


@pytest.mark.parametrize("name", ("gaussian", "haar"))
@pytest.mark.parametrize("rows", (5, 12, 30))
def test_unbiased_with_the_variance_of_theory(name, rows):
    """For one fixed pair, over sketches: the scale is exact at finite d, for any m."""
    q, r = np.zeros((2, 1, 12))
    q[0, :2], r[0, 0] = (0.6, 0.8), 1.0
    estimates, noise = [], []
    rng = np.random.default_rng(1)
    for _ in range(6000):
        sketch = qjl.sketch(name, 12, rows, rng)
        signs, norms = qjl.signs(sketch, r), np.ones(1)
        estimates.append(qjl.estimate(sketch, q, signs, norms)[0, 0])
        noise.append(np.sum((qjl.reconstruct(sketch, signs, norms) - r) ** 2))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - 0.6) < 4.5 * error
    assert np.mean(noise) == pytest.approx(
        theory.sketch_noise(12, FAMILY[name], rows), abs=4.5 * np.std(noise) / np.sqrt(6000)
    )
    if name == "gaussian" or rows <= 12:
        expected = theory.sketch_variance(12, 0.6, FAMILY[name], rows)
        assert np.var(estimates) == pytest.approx(expected, rel=0.09)  # 4.5 sigma is 8.2 %


def test_hadamard_sketch_is_unbiased_over_isotropic_residuals():
    rng = np.random.default_rng(2)
    slopes = []
    for _ in range(400):
        sketch = qjl.sketch("orthogonal", 32, 32, rng)
        r = rng.standard_normal((64, 32))
        norms = np.linalg.norm(r, axis=1)
        back = qjl.reconstruct(sketch, qjl.signs(sketch, r), norms)
        slopes.append(np.sum(back * r) / np.sum(r * r))
    assert np.mean(slopes) == pytest.approx(1, abs=4.5 * np.std(slopes) / 20)


def test_reconstruction_and_estimator_agree():
    rng = np.random.default_rng(3)
    sketch = qjl.sketch("gaussian", 16, 16, rng)
    r, q = rng.standard_normal((5, 16)), rng.standard_normal((3, 16))
    signs, norms = qjl.signs(sketch, r), np.linalg.norm(r, axis=1)
    np.testing.assert_allclose(
        qjl.estimate(sketch, q, signs, norms),
        q @ qjl.reconstruct(sketch, signs, norms).T,
        atol=1e-12,
    )


def test_unknown_sketch_is_refused():
    with pytest.raises(ValueError, match="sketch must be one of gaussian, orthogonal, haar"):
        qjl.sketch("rademacher", 8, 8, np.random.default_rng(0))
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        qjl.sketch("gaussian", 8, 0, np.random.default_rng(0))
