import numpy as np
import pytest

from kvassay.reference import attention, sphere, theory
from kvassay.reference.codecs import codec
from kvassay.reference.lloyd_max import codebook


@pytest.mark.parametrize("dim", (64, 80, 128, 576))
@pytest.mark.parametrize("bits", range(1, 9))
def test_distortion_falls_with_bits_and_stays_above_the_rate_distortion_bound(dim, bits):
    distortion = theory.lloyd_max_distortion(dim, bits)
    assert distortion < theory.lloyd_max_distortion(dim, bits - 1)
    # Shannon's bound is for a Gaussian source: a unit vector's coordinates are a little
    # easier, by 1/d of their entropy power at most.
    assert distortion > theory.rate_distortion_bound(bits) * (1 - 3 / dim)


def test_two_pi_table():
    """The figures of claims.md at d = 128, less their 1/d: theirs take pi/2 for pi/2 - 1/d."""
    gaussian = [theory.two_pi(128, n, "gaussian") for n in range(2, 7)]
    rough = [4.887, 5.365, 5.728, 5.969, 6.113]
    np.testing.assert_allclose(gaussian, np.array(rough) * (1 - 2 / np.pi / 128), rtol=2e-4)
    orthogonal = [theory.two_pi(128, n, "orthogonal") for n in range(2, 7)]
    np.testing.assert_allclose(orthogonal, [1.776, 1.949, 2.081, 2.169, 2.221], rtol=0.012)


def test_limits():
    assert theory.two_pi(8192, 8, "gaussian") == pytest.approx(2 * np.pi, rel=0.01)
    assert theory.two_pi(8192, 8, "orthogonal") == pytest.approx(4 * (np.pi / 2 - 1), rel=0.02)
    assert theory.pi_over_2(8192, "gaussian") == pytest.approx(np.pi / 2, rel=1e-3)
    assert theory.sketch_variance(8192, 0.3, "orthogonal") * 8192 == pytest.approx(
        (np.pi / 2 - 1) * (1 - 0.09) + (np.pi - 3) / 2 * 0.09, rel=1e-3
    )


@pytest.mark.parametrize("sketch", ("gaussian", "orthogonal"))
@pytest.mark.parametrize("rows", (3, 12))
def test_noise_is_the_sum_of_the_variances_over_a_basis(sketch, rows):
    along = theory.sketch_variance(12, 1.0, sketch, rows)
    across = theory.sketch_variance(12, 0.0, sketch, rows)
    assert theory.sketch_noise(12, sketch, rows) == pytest.approx(along + 11 * across)


def test_usual_scale_of_an_orthogonal_sketch_is_a_quarter_over_d_too_large():
    usual = np.sqrt(np.pi / 2) / np.sqrt(128)
    assert usual * 128 * sphere.mean_abs(128) - 1 == pytest.approx(0.00195, abs=2e-5)


@pytest.mark.parametrize(("bits", "factor"), [(1, 0.111), (2, 2.2), (3, 1.791), (4, 0.425)])
def test_one_hot_distortion_relative_to_lloyd_max(bits, factor):
    ratio = theory.one_hot_distortion(128, bits) / theory.lloyd_max_distortion(128, bits)
    assert ratio == pytest.approx(factor, abs=2e-3)


@pytest.mark.parametrize("dim", (64, 128, 576))
@pytest.mark.parametrize("bits", range(1, 9))
def test_worst_one_hot_distortion_bounds_the_exact_and_the_gaussian_table(dim, bits):
    worst = theory.worst_one_hot_distortion(dim, bits)
    gaussian = codebook(2**22, bits).levels * np.sqrt(2**22 / dim)
    least = dim * np.min((gaussian - 1 / np.sqrt(dim)) ** 2)
    assert theory.one_hot_distortion(dim, bits) <= worst * (1 + 1e-12)
    assert least <= max(worst, theory.lloyd_max_distortion(dim, bits))
    assert worst < 2.6 * theory.lloyd_max_distortion(dim, bits)


def test_table_predictions_are_least_for_the_optimal_table():
    book = codebook(64, 4)
    assert theory.table_distortion(book.levels, 64) == pytest.approx(book.distortion, rel=1e-9)
    for factor in (0.6, 0.97, 1.03, 8.0):
        assert theory.table_distortion(book.levels * factor, 64) > book.distortion
    assert theory.table_gap(book.levels * 0.6, 64, 4) > 10 * theory.gaussian_table_gap(64, 4)
    assert 64 * theory.gaussian_table_gap(64, 4) == pytest.approx(0.302, abs=2e-3)


def test_kurtosis_agrees_with_sampling():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40_000, 64))
    y = x / np.linalg.norm(x, axis=1, keepdims=True)
    book = codebook(64, 3)
    squared = (y - book.levels[book.quantize(y)]) ** 2
    assert np.var(squared) / np.mean(squared) ** 2 == pytest.approx(
        theory.error_kurtosis(64, 3), rel=0.05
    )


def test_unknown_sketch_is_refused():
    with pytest.raises(ValueError, match="sketch must be one of"):
        theory.sketch_noise(64, "haar")
    with pytest.raises(ValueError, match="rows must be at most dim = 8"):
        theory.sketch_variance(8, 0.0, "orthogonal", 9)


@pytest.mark.parametrize(("bits", "sketch"), [(2, ""), (4, ""), (3, "gaussian"), (3, "orthogonal")])
def test_score_errors_have_the_mean_and_variance_that_theory_gives(bits, sketch):
    """Haar rotation and sketch, many seeds, at cosines from across to along."""
    dim, cosines = 64, np.array([0.0, 0.5, 0.9, 1.0])
    kind = "turboquant-prod" if sketch else "turboquant-mse"
    options = {"sketch": "haar" if sketch == "orthogonal" else sketch} if sketch else {}
    rng = np.random.default_rng(0)
    errors = []
    for seed in range(300):
        x = rng.standard_normal((20, dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        across = rng.standard_normal((20, dim))
        across -= np.sum(across * x, axis=1, keepdims=True) * x
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        made = codec(kind, dim, bits, seed, rotation="haar", **options)
        off = made.decode(made.encode(x)) - x
        along, aside = np.sum(off * x, axis=1), np.sum(off * across, axis=1)
        errors.append(cosines[:, None] * along + np.sqrt(1 - cosines**2)[:, None] * aside)
    errors = np.array(errors)  # seed, cosine, vector
    mean, variance = theory.score_error(dim, bits, cosines, sketch or "")
    per_seed = errors.mean(axis=2)
    off_mean = np.abs(per_seed.mean(axis=0) - mean)
    assert np.all(off_mean < 4.5 * per_seed.std(axis=0) / np.sqrt(300) + 1e-4)
    squared = ((errors - mean[:, None]) ** 2).mean(axis=2)
    scatter = 4.5 * squared.std(axis=0) / np.sqrt(300)
    assert np.all(np.abs(squared.mean(axis=0) - variance) < scatter + variance * 3 / dim)
    assert np.all(scatter < 0.2 * variance)  # else the line above could not fail


def test_score_errors_across_and_along_add_up_to_the_distortion():
    for bits in (1, 3, 6):
        mean, variance = theory.score_error(128, bits, np.array([0.0, 1.0]))
        energy = mean[1] ** 2 + variance[1] + 127 * variance[0]
        assert energy == pytest.approx(theory.lloyd_max_distortion(128, bits))


@pytest.mark.parametrize("bits", [2, 4])
def test_direction_errors_are_near_the_mean_angle(bits):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 128))
    for made, predicted in (
        (codec("turboquant-mse", 128, bits, 0), theory.mse_direction_error(128, bits)),
        (
            codec("turboquant-prod", 128, bits, 0, sketch="orthogonal"),
            theory.prod_direction_error(128, bits, "orthogonal"),
        ),
    ):
        found = attention.direction_error(x, made.decode(made.encode(x)))
        assert found == pytest.approx(predicted, rel=0.02)


def test_the_largest_query_is_the_mean_of_the_largest():
    rng = np.random.default_rng(2)
    for dim, count in ((64, 8), (128, 256)):
        drawn = rng.chisquare(dim, (4000, count)).max(axis=1) / dim
        error = drawn.std() / np.sqrt(len(drawn))
        assert abs(drawn.mean() - theory.largest_squared_norm(dim, count)) < 4.5 * error


def test_a_calibration_sees_no_more_directions_than_tokens_or_ranks():
    for rank in (8, 128):
        found = [theory.calibrated_dim(rank, tokens) for tokens in (1, 10, 100, 10**6)]
        assert found[0] == 1
        assert found == sorted(found)
        assert found[-1] == pytest.approx(rank, rel=1e-3)
        assert all(value <= tokens for value, tokens in zip(found, (1, 10, 100), strict=False))
