import numpy as np
import pytest
from scipy.linalg import hadamard as sylvester
from scipy.stats import kstest

from kvassay.reference import hadamard, sphere

DIMS = (1, 2, 3, 5, 12, 64, 80, 96, 127, 128, 192, 576, 1024)


def rng():
    return np.random.default_rng(3)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", hadamard.ROTATIONS)
def test_rotation_is_orthogonal_and_its_inverse_exact(dim, name):
    rotation = hadamard.rotation(name, dim, rng())
    basis = rotation.forward(np.eye(dim))
    np.testing.assert_allclose(basis @ basis.T, np.eye(dim), atol=1e-13)
    x = rng().standard_normal((7, dim))
    np.testing.assert_allclose(rotation.inverse(rotation.forward(x)), x, atol=1e-13)


@pytest.mark.parametrize("dim", (2, 16, 64, 128, 1024))
def test_power_of_two_is_the_walsh_hadamard_matrix(dim):
    expected = sylvester(dim) / np.sqrt(dim)
    np.testing.assert_allclose(hadamard.transform(np.eye(dim)), expected, atol=1e-14)


@pytest.mark.parametrize("dim", DIMS)
def test_no_coordinate_of_a_rotated_one_hot_vector_is_loud(dim):
    entries = np.abs(hadamard.transform(np.eye(dim)))
    assert entries.max() <= np.sqrt(2 / dim) + 1e-12


@pytest.mark.parametrize("name", hadamard.ROTATIONS)
def test_a_row_does_not_depend_on_its_batch(name):
    rotation = hadamard.rotation(name, 80, rng())
    x = rng().standard_normal((131, 80))
    alone = np.vstack([rotation.forward(x[i : i + 1]) for i in range(len(x))])
    np.testing.assert_array_equal(rotation.forward(x), alone)
    np.testing.assert_array_equal(rotation.forward(x[37:]), alone[37:])


def test_haar_columns_follow_the_coordinate_law():
    draws = np.concatenate(
        [hadamard.Haar(6, np.random.default_rng(s)).matrix[:, :1].T for s in range(3000)]
    )
    assert kstest(draws[:, 0], lambda t: sphere.cdf(t, 6)).pvalue > 1e-4


def test_signs_come_before_the_transform():
    """After it, a constant vector would come out one-hot."""
    rotated = hadamard.RandomizedHadamard(128, rng()).forward(np.ones((1, 128)))
    assert np.abs(rotated).max() < 6


@pytest.mark.parametrize("name", ("hadamard", "haar", "block-16"))
def test_two_seeds_give_two_rotations_and_one_seed_one(name):
    first, again, other = (
        hadamard.rotation(name, 64, np.random.default_rng(seed)).forward(np.eye(64))
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_without_signs_a_constant_becomes_one_hot_and_no_seed_has_a_part():
    first, other = (
        hadamard.rotation("hadamard-unsigned", 64, np.random.default_rng(seed)) for seed in (0, 1)
    )
    np.testing.assert_allclose(first.forward(np.ones((1, 64)))[0], 8 * np.eye(64)[0], atol=1e-14)
    np.testing.assert_array_equal(first.forward(np.eye(64)), other.forward(np.eye(64)))


def test_blocks_keep_energy_where_it_is():
    blocks = hadamard.rotation("block-16", 64, rng())
    np.testing.assert_array_equal(blocks.forward(np.eye(64))[20, 32:], 0)
    with pytest.raises(ValueError, match="dim must be a multiple of the blocks of 16, got 40"):
        hadamard.rotation("block-16", 40, rng())


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match="rotation must be one of"):
        hadamard.rotation("dct", 8, rng())
    with pytest.raises(ValueError, match="dim must be at least 1, got 0"):
        hadamard.rotation("haar", 0, rng())
