import numpy as np
import pytest
from scipy import integrate, linalg, stats

from kvassay.reference import sphere
from kvassay.reference.hadamard import rotation
from kvassay.reference.regimes import (
    REGIMES,
    Focused,
    HeavyTailed,
    Isotropic,
    LowRank,
    PowerLaw,
    regime,
)

NAMES = tuple(REGIMES)


def generator(seed=0):
    return np.random.default_rng(seed)


def parts(sample):
    return (sample.q, sample.k, sample.v, sample.calibration_k, sample.calibration_v)


def kurtosis(x):
    """d sum x^4 / (sum x^2)^2 of each row: 3 d / (d + 2) on average for uniform directions."""
    return x.shape[1] * np.sum(x**4, axis=1) / np.sum(x**2, axis=1) ** 2


def largest_angle(x, y):
    """Between the row spaces, in radians; both of rank 8."""
    bases = (np.linalg.svd(one, full_matrices=False)[2][:8].T for one in (x, y))
    return linalg.subspace_angles(*bases).max()


@pytest.mark.parametrize("dim", (16, 128))
@pytest.mark.parametrize("name", NAMES)
def test_shapes_norms_and_seeds(name, dim):
    one = regime(name, dim=dim, tokens=50, queries=20, calibration=30)
    assert (one.name, one.dim) == (name, dim)
    sample = one.draw(generator())
    assert [len(x) for x in parts(sample)] == [20, 50, 50, 30, 30]
    assert sample.positions is None
    for x in parts(sample):
        assert x.dtype == np.float64
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), np.sqrt(dim), rtol=1e-12)
    again, other = one.draw(generator()), one.draw(generator(1))
    for x, same, different in zip(parts(sample), parts(again), parts(other), strict=True):
        np.testing.assert_array_equal(x, same)
        assert not np.any(x == different)
    for context, other in ((sample.k, sample.calibration_k), (sample.v, sample.calibration_v)):
        assert not np.any(np.all(np.isclose(context[:, None], other[None]), axis=2))


def test_default_sizes_and_no_calibration():
    sample = Isotropic().draw(generator())
    assert [len(x) for x in parts(sample)] == [64, 256, 256, 256, 256]
    assert Isotropic(calibration=0).draw(generator()).calibration_k.shape == (0, 128)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", range(3))
def test_rotated_coordinates_follow_the_law_of_the_sphere(name, part):
    # One coordinate of one vector for each of n fresh rotations and draws is independent of
    # the others: Dvoretzky-Kiefer-Wolfowitz, at 1e-6 a test.
    one, count = regime(name, dim=16, tokens=4, queries=2, calibration=0), 1500
    rng = generator(3)
    seen = []
    for _ in range(count):
        vector = parts(one.draw(rng))[part][:1]
        seen.append(rotation("haar", 16, rng).forward(vector)[0, 0] / 4)
    law = sphere.cdf(np.sort(seen), 16)
    steps = np.arange(count + 1) / count
    distance = max(np.max(steps[1:] - law), np.max(law - steps[:-1]))
    assert distance < np.sqrt(np.log(2 / 1e-6) / (2 * count))


def test_kurtosis_tells_heavy_tails_before_rotation_and_not_after():
    def mean_and_error(values):
        return values.mean(), values.std() / np.sqrt(len(values))

    dim, count = 128, 4000
    uniform = 3 * dim / (dim + 2)
    sizes = {"tokens": count, "queries": 100, "calibration": 0}
    mean, error = mean_and_error(kurtosis(Isotropic(**sizes).draw(generator()).k))
    assert abs(mean - uniform) < 4.5 * error
    means = []
    for nu in (10, 3, 1.5, 1.05):
        sample = HeavyTailed(nu, **sizes).draw(generator())
        for x in (sample.k, sample.v):
            mean, error = mean_and_error(kurtosis(x))
            assert mean - uniform > 4.5 * error
        means.append(mean)
        mean, error = mean_and_error(kurtosis(sample.q))
        assert abs(mean - uniform) < 4.5 * error
    assert means == sorted(means)
    assert means[-1] > dim / 4  # few coordinates hold nearly all energy
    rotated = rotation("haar", dim, generator(1)).forward(sample.k)
    mean, error = mean_and_error(kurtosis(rotated))
    assert abs(mean - uniform) < 0.25


def test_heavy_tails_have_loud_coordinates_of_their_own_in_each_token():
    k = HeavyTailed(1.05, tokens=2000).draw(generator()).k
    loudest = np.bincount(np.argmax(np.abs(k), axis=1), minlength=128)
    assert stats.chisquare(loudest).pvalue > 1e-5


@pytest.mark.parametrize("rank", (1, 3, 16))
def test_low_rank_is_of_that_rank_and_fresh_in_each_draw(rank):
    one = LowRank(rank, tokens=40, dim=32, calibration=40)
    sample, other = one.draw(generator()), one.draw(generator(1))
    for x in parts(sample):
        assert np.linalg.matrix_rank(x) == rank
    assert np.linalg.matrix_rank(np.vstack(parts(sample))) == rank
    assert np.linalg.matrix_rank(np.vstack((sample.k, other.k))) == 2 * rank
    outside = LowRank(rank, queries_inside=False, tokens=40, dim=32).draw(generator())
    assert np.linalg.matrix_rank(outside.q) == 32
    assert np.linalg.matrix_rank(outside.k) == rank


def test_subspaces_of_k_and_v_are_one_or_apart():
    together, apart = (REGIMES[name].draw(generator()) for name in ("low-rank", "low-rank-apart"))
    assert largest_angle(together.k, together.v) < 1e-6
    assert largest_angle(apart.k, apart.q) < 1e-6
    assert largest_angle(apart.k, apart.calibration_k) < 1e-6
    assert largest_angle(apart.v, apart.calibration_v) < 1e-6
    # Between independent subspaces tr(P P') is r^2 / d on average, 0.5 here, against 8.
    bases = [np.linalg.svd(x, full_matrices=False)[2][:8] for x in (apart.k, apart.v)]
    assert np.sum((bases[0] @ bases[1].T) ** 2) < 2


def test_low_rank_is_isotropic_inside_its_subspace_or_geometric():
    count = 20_000
    sizes = {"tokens": count, "dim": 16, "queries": 1, "calibration": 0}

    def eigenvalues(**parameters):
        k = LowRank(4, **parameters, **sizes).draw(generator()).k
        return np.sort(np.linalg.eigvalsh(k.T @ k / count))[::-1]

    # Each share of energy is that of a coordinate: mean 1/4, variance 2 (r-1)/(r^2 (r+2)).
    # Sample eigenvalues spread beyond the diagonal's error by a factor below 2.
    error = 16 * np.sqrt(2 * 3 / (16 * 6) / count)
    np.testing.assert_allclose(eigenvalues()[:4], 4, atol=9 * error)
    np.testing.assert_allclose(eigenvalues()[4:], 0, atol=1e-12)
    # Normalising leaves the axes and their order, and draws the ratio towards 1.
    falling = eigenvalues(ratio=100.0)
    assert np.all(np.diff(falling[:4]) < 0)
    assert 10 < falling[0] / falling[3] < 100
    # Ratios of coordinates are untouched by normalising, and Cauchy distributed.
    sample = LowRank(2, ratio=9.0, **sizes).draw(generator())
    _, _, axes = np.linalg.svd(sample.k, full_matrices=False)
    ratio = np.abs((sample.k @ axes[0]) / (sample.k @ axes[1]))
    above = np.mean(ratio > 3)
    assert abs(above - 0.5) < 4.5 * 0.5 / np.sqrt(count)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dim", (64, 256))
def test_score_std_is_as_asked_and_scales_queries_alone(name, dim):
    plain = regime(name, dim=dim).draw(generator())
    scaled = regime(name, dim=dim, score_std=1.7).draw(generator())
    scores = scaled.q @ scaled.k.T / np.sqrt(dim)
    assert scores.std() == pytest.approx(1.7, rel=1e-12)
    factor = scaled.q / plain.q
    np.testing.assert_allclose(factor, factor[0, 0], rtol=1e-9)
    for one, other in zip(parts(plain)[1:], parts(scaled)[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_plain_scores_have_the_standard_deviation_the_module_states():
    for one, expected in (
        (Isotropic(), 1),
        (LowRank(8), np.sqrt(128 / 8)),
        (LowRank(8, queries_inside=False), 1),
    ):
        spreads = []
        for seed in range(60):
            sample = one.draw(generator(seed))
            spreads.append(np.mean((sample.q @ sample.k.T) ** 2) / 128)
        error = np.std(spreads) / np.sqrt(60)
        assert abs(np.mean(spreads) - expected**2) < 4.5 * error


@pytest.mark.parametrize("cosine", (0.0, 0.3, 0.6, 1.0))
def test_focused_queries_stand_at_their_cosine_to_a_key_of_their_own(cosine):
    sample = Focused(cosine).draw(generator())
    cosines = sample.q @ sample.k.T / 128
    at = np.abs(cosines - cosine) < 1e-12
    assert np.all(at.sum(axis=1) == 1)
    own = np.argmax(at, axis=1)
    assert len(set(own)) == len(own) == 64


def test_few_keys_dominate_where_queries_are_focused():
    def top_weight(one):
        sample = one.draw(generator())
        scores = sample.q @ sample.k.T / np.sqrt(128)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.mean(weights.max(axis=1) / weights.sum(axis=1))

    # exp(0.6 sqrt(128)) against 255 keys of E exp(0.8 Z) = exp(0.32): 0.715
    assert top_weight(Focused()) == pytest.approx(0.715, abs=0.05)
    assert top_weight(Isotropic()) < 0.1


@pytest.mark.parametrize("exponent", (0.0, 1.0, 2.0))
def test_power_law_has_its_eigenvalues_in_one_basis(exponent):
    # Ratios of coordinates survive normalising: in the true basis |c_i / c_j| exceeds
    # sqrt(l_i / l_j) half of the time. The basis is read off the joint directions.
    count, dim = 20_000, 3
    one = PowerLaw(exponent, dim=dim, tokens=count, queries=count, calibration=0)
    sample = one.draw(generator())
    _, _, axes = np.linalg.svd(np.vstack((sample.q, sample.k, sample.v)), full_matrices=False)
    roots = np.arange(1.0, dim + 1) ** (-exponent / 2)
    for x in (sample.q, sample.k, sample.v):
        c = np.abs(x @ axes.T)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            above = np.mean(c[:, i] / c[:, j] > roots[i] / roots[j])
            assert abs(above - 0.5) < 6 * 0.5 / np.sqrt(count)


def test_power_law_shares_its_basis_or_not():
    def overlap(one):
        """Energy that V leaves on the first 4 principal axes of K, over K's own."""
        sample = one.draw(generator())
        axes = np.linalg.svd(sample.k, full_matrices=False)[2][:4]
        return np.sum((sample.v @ axes.T) ** 2) / np.sum((sample.k @ axes.T) ** 2)

    assert overlap(PowerLaw(2.0)) > 0.9
    assert overlap(PowerLaw(2.0, aligned=False)) < 0.3


@pytest.mark.parametrize("share", (0.0, 0.1, 0.5, 1.0))
def test_v_mean_is_the_share_of_energy_in_a_common_direction(share):
    # A token is sqrt(s) u + sqrt(1-s) w, normalised; t = <u, w> follows the sphere's law. Two
    # tokens are independent given u, so their cosine has the square of this mean.
    def along(t):
        a, b = np.sqrt(share), np.sqrt(1 - share)
        length = np.sqrt(max(1 + 2 * a * b * t, 1e-300))
        return (a + b * t) / length * float(sphere.pdf(t, 32))

    expected = integrate.quad(along, -1, 1)[0] ** 2
    cosines, calibration = [], []
    for seed in range(400):
        sample = Isotropic(v_mean=share, dim=32, tokens=40, calibration=40).draw(generator(seed))
        cosines.append((np.sum(np.sum(sample.v, 0) ** 2) / 32 - 40) / (40 * 39))
        calibration.append(sample.v.mean(0) @ sample.calibration_v.mean(0) / 32)
    for seen in (cosines, calibration):
        assert abs(np.mean(seen) - expected) < 4.5 * np.std(seen) / np.sqrt(400) + 1e-9
    assert abs(expected - share) < 2 / 32
    assert abs(np.mean(sample.k.mean(0) @ sample.calibration_k.mean(0)) / 32) < 0.1


def test_v_mean_of_zero_is_the_plain_regime():
    plain, zero = (one.draw(generator()) for one in (Isotropic(), Isotropic(v_mean=0)))
    np.testing.assert_array_equal(plain.v, zero.v)


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("lowrank", {}, "regime must be one of isotropic, .*, got 'lowrank'"),
        ("low-rank", {"nu": 3}, "a parameter of low-rank must be one of .*rank.*, got 'nu'"),
        ("low-rank", {"name": "x"}, "a parameter of low-rank must be one of .*, got 'name'"),
        ("heavy-tailed", {"nu": 1}, "nu must be above 1, got 1"),
        ("heavy-tailed", {"nu": float("nan")}, "nu must be a finite number above 1, got nan"),
        ("heavy-tailed", {"nu": "3"}, "nu must be a finite number above 1, got '3'"),
        ("low-rank", {"rank": 0}, "rank must be in 1..128, got 0"),
        ("low-rank", {"rank": 17, "dim": 16}, "rank must be in 1..16, got 17"),
        ("low-rank", {"ratio": 0.5}, "ratio must be at least 1, got 0.5"),
        ("focused", {"cosine": 1.01}, "cosine must be in 0..1, got 1.01"),
        ("focused", {"queries": 257}, "queries must be in 1..256, got 257"),
        ("power-law", {"exponent": -1}, "exponent must be at least 0, got -1"),
        ("isotropic", {"v_mean": 1.5}, "v_mean must be in 0..1, got 1.5"),
        ("isotropic", {"score_std": 0}, "score_std must be above 0, got 0"),
        ("isotropic", {"dim": 1}, "dim must be at least 2, got 1"),
        ("isotropic", {"tokens": 0}, "tokens must be at least 1, got 0"),
        ("isotropic", {"queries": 2.5}, "queries must be an integer at least 1, got 2.5"),
        ("isotropic", {"calibration": -1}, "calibration must be at least 0, got -1"),
    ],
)
def test_bad_parameters_are_refused(name, parameters, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        regime(name, **parameters)


def test_score_std_needs_scores_that_differ():
    one = Isotropic(tokens=1, queries=1, score_std=1.0)
    with pytest.raises(ValueError, match="score_std must be None where all scores are equal"):
        one.draw(generator())
