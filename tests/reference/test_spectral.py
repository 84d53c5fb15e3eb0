import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvassay.reference.codecs import codec
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.spectral import (
    Calibration,
    Spectral,
    calibrate,
    effective_dim,
    participation_ratio,
    prune_by_gap,
    uniform_bits,
    waterfill_bits,
)

OPTIONS = [
    {},
    {"allocation": "water-filling"},
    {"floor": 0},
    {"sketch": "gaussian"},
    {"sketch": "orthogonal", "allocation": "water-filling"},
]


def normal(count, dim, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim))


def low_rank(count, dim, rank, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, rank)) @ rng.standard_normal((rank, dim))


def heavy_tailed(count, dim, seed=0):
    x = np.random.default_rng(seed).standard_t(1.05, (count, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def decaying(count, dim, seed=0):
    return normal(count, dim, seed) * 0.8 ** np.arange(dim)


def relative_error(one, x):
    return np.mean(np.sum((one.decode(one.encode(x)) - x) ** 2, 1) / np.sum(x**2, 1))


def by_hand(spectrum, tokens=100):
    spectrum = np.asarray(spectrum)
    return Calibration(len(spectrum), tokens, np.eye(len(spectrum)), spectrum / np.sum(spectrum))


# Spectrum


@given(st.integers(1, 40), st.integers(0, 40), st.floats(1e-300, 1e300))
def test_equal_eigenvalues_count_whatever_their_unit(count, zeros, unit):
    spectrum = np.concatenate([np.full(count, unit), np.zeros(zeros)])
    assert participation_ratio(spectrum) == pytest.approx(count, rel=1e-12)
    if count + zeros >= 4:
        assert effective_dim(spectrum) == min(max(count, 2), count + zeros - 2)


def test_rounding_adds_no_direction():
    rounded = [effective_dim(np.r_[np.full(n, 0.1) / n, np.zeros(100)]) for n in range(2, 100)]
    assert rounded == list(range(2, 100))
    assert effective_dim([1, 1, 1e-4, 0, 0, 0]) == 3  # 2.0002 is above 2
    upward = [6] + [1] * 54 + [0] * 9
    assert participation_ratio(upward) > 40  # by one rounding
    assert effective_dim(upward) == 40


@pytest.mark.parametrize("tokens", (16, 64, 256))
def test_without_structure_the_calibration_measures_its_own_budget(tokens):
    """E sum l^2 = 1/N + (1 - 1/N)/d exactly; it does not know the rank, which is d."""
    dim, seeds = 128, 40
    learnt = [calibrate(normal(tokens, dim, seed)) for seed in range(seeds)]
    purities = [np.sum(one.spectrum**2) for one in learnt]
    expected = 1 / tokens + (1 - 1 / tokens) / dim
    assert stats.ttest_1samp(purities, expected).pvalue > 1e-4
    assert learnt[0].expected_if_isotropic == pytest.approx(1 / expected)
    d_eff = np.mean([one.effective_dim for one in learnt])
    assert abs(d_eff - 0.5 - 1 / expected) < 0.7
    assert learnt[0].tokens_per_direction == pytest.approx(1 + (tokens - 1) / dim, rel=0.1)


@pytest.mark.parametrize(
    ("spectrum", "count", "kept"),
    [
        ([9, 8, 7, 1, 1, 1], 5, 3),  # the gap
        ([9, 8, 7, 2, 2, 2], 5, 5),  # 3.5 is not above 4
        ([9, 1, 1, 1, 1, 1], 5, 2),  # at least 2
        ([9, 8, 7, 6, 1, 1], 4, 4),  # the gap is the one behind the last
        ([9, 9, 1, 1, 1e-3, 0], 3, 2),  # only the first `count` are looked at
        ([9, 8, 7, 0, 0, 0], 5, 3),  # an exact rank
        ([4, 4, 4, 4], 4, 4),
    ],
)
def test_the_spectral_gap_prunes(spectrum, count, kept):
    assert prune_by_gap(spectrum, count) == kept
    assert prune_by_gap(np.multiply(spectrum, 1e-290), count) == kept


# Allocation


@given(st.integers(1, 200), st.integers(0, 8), st.data())
def test_uniform_is_even_and_exact(count, most, data):
    total = data.draw(st.integers(0, most * count))
    bits = uniform_bits(count, total, most)
    assert bits.sum() == total
    assert bits.max() - bits.min() <= 1
    assert (np.diff(bits) <= 0).all()


spectra = st.lists(st.sampled_from([0.0, 0.01, 0.05, 0.2, 0.25, 0.8, 1.0, 3.0]), min_size=1)


@given(spectra.filter(any), st.integers(0, 8), st.data())
def test_water_filling_is_the_greedy_rule(spectrum, most, data):
    total = data.draw(st.integers(0, most * len(spectrum)))
    bits = np.zeros(len(spectrum), dtype=int)
    for _ in range(total):
        gain = np.where(bits < most, np.array(spectrum) / 4.0**bits, -1)
        bits[np.argmax(gain)] += 1  # the leading one on a tie
    np.testing.assert_array_equal(waterfill_bits(spectrum, total, most), bits)


@given(spectra.filter(lambda s: any(s) and len(s) <= 4), st.integers(1, 4), st.data())
def test_water_filling_is_optimal(spectrum, most, data):
    total = data.draw(st.integers(0, most * len(spectrum)))
    spectrum = np.array(spectrum)
    bits = waterfill_bits(spectrum, total, most)
    assert bits.sum() == total
    best = min(
        np.sum(spectrum / 4.0 ** np.array(other))
        for other in itertools.product(range(most + 1), repeat=len(spectrum))
        if sum(other) == total
    )
    assert np.sum(spectrum / 4.0**bits) == pytest.approx(best, rel=1e-12)


def test_water_filling_gains_only_where_a_ratio_exceeds_four():
    np.testing.assert_array_equal(waterfill_bits([3.9, 2, 1], 9), uniform_bits(3, 9))
    assert waterfill_bits([4.1, 2, 1], 9).tolist() == [4, 3, 2]
    assert waterfill_bits(np.linspace(2, 1, 1024), 8192).tolist() == [8] * 1024


# Calibration


@pytest.mark.parametrize("tokens", (1, 5, 12, 23, 24, 500))
@pytest.mark.parametrize("rank", (1, 12, 24))
def test_the_basis_diagonalises_the_second_moment(tokens, rank):
    x = low_rank(tokens, 24, rank) + (1 if rank == 24 else 0)  # a mean is not taken out
    learnt = calibrate(x)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    basis, spectrum = learnt.basis, learnt.spectrum
    np.testing.assert_allclose(basis @ basis.T, np.eye(24), atol=1e-12)
    moment = unit.T @ unit / tokens
    np.testing.assert_allclose(basis @ moment @ basis.T, np.diag(spectrum), atol=1e-12)
    assert (np.diff(spectrum) <= 0).all()
    assert np.sum(spectrum) == pytest.approx(1)
    assert np.count_nonzero(spectrum) == min(tokens, rank)
    assert (basis.max(axis=1) >= -basis.min(axis=1) * (1 - 1e-5)).all()
    assert learnt.effective_dim == effective_dim(spectrum)
    assert learnt.tokens == tokens


def test_the_solver_chooses_nothing():
    """Signs, and the directions that no token reaches, survive another order of summation."""
    x = normal(10, 24)
    one, other = calibrate(x), calibrate(-3.0 * x[::-1])
    np.testing.assert_allclose(one.basis, other.basis, atol=1e-10)
    np.testing.assert_allclose(one.spectrum, other.spectrum, atol=1e-12)


def test_only_directions_count():
    x = normal(50, 16)
    scale = 10.0 ** np.linspace(-200, 200, 50)[:, None]
    with_zeros = np.concatenate([np.zeros((3, 16)), x * scale])
    np.testing.assert_allclose(calibrate(with_zeros).spectrum, calibrate(x).spectrum, rtol=1e-9)
    assert calibrate(with_zeros).tokens == 50


# Codec


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bits", (2, 4, 7))
def test_inner_products_are_those_of_the_reconstruction(options, bits):
    one = Spectral(calibrate(decaying(100, 40)), bits, **options)
    x, q = decaying(9, 40, 1), normal(4, 40, 2)
    code = one.encode(x)
    np.testing.assert_allclose(one.inner_products(q, code), q @ one.decode(code).T, atol=1e-12)


def test_a_gaussian_of_the_calibrated_spectrum_has_the_distortion_of_the_table():
    """Each direction's share l_i, times D_b of the Gaussian; the tail's scale is common."""
    dim, kept = 512, 64
    learnt = by_hand(np.r_[np.full(kept, 4.0), np.full(dim - kept, 1.0)])
    x = normal(2000, dim) * np.sqrt(learnt.spectrum)
    share = np.sum(learnt.spectrum[kept:])
    for bits, floor, semantic in ((2, 2, 2), (1, 0, 8), (2, 1, 8)):
        one = Spectral(learnt, bits, floor=floor, effective_dim=kept)
        assert one.bits_per_direction.tolist() == [semantic] * kept + [floor] * (dim - kept)
        expected = (1 - share) * codebook(2**22, semantic).distortion
        expected += share * (codebook(2**22, floor).distortion if floor else 1)
        assert relative_error(one, x) == pytest.approx(expected, rel=0.01)


def test_the_tail_has_the_root_mean_square_for_its_scale():
    learnt = by_hand([8, 8, 4, 1, 0.1, 0])
    one = Spectral(learnt, 2, effective_dim=3)
    decoded = one.decode(one.encode(normal(3, 6)))
    unit = np.abs(decoded / np.linalg.norm(normal(3, 6), axis=1, keepdims=True))
    root_mean_square = np.sqrt(1.1 / 3 / 21.1)
    np.testing.assert_allclose(unit[:, 3:], root_mean_square * np.sqrt(2 / np.pi), rtol=1e-5)


@pytest.mark.parametrize("allocation", ("uniform", "water-filling"))
def test_low_rank_is_cheap_once_the_subspace_is_found(allocation):
    x = low_rank(1256, 128, 8)
    one = Spectral(calibrate(x[:256]), 2, allocation=allocation)
    assert one.semantic_dim == 8
    assert relative_error(one, x[256:]) < 1e-4
    assert relative_error(codec("turboquant-mse", 128, 2, 0), x[256:]) > 0.1
    assert one.payload_bits == 8 * 8 + 120  # less than 2 * 128
    assert Spectral(calibrate(x[:256]), 4, allocation=allocation).payload_bits == 8 * 8 + 120


def test_one_direction_too_few_costs_its_whole_energy():
    """d_eff is below the rank when tokens are few, and the tail's common scale is far too
    small for the direction that is left out."""
    x = low_rank(1032, 128, 8)
    learnt = calibrate(x[:32])
    assert learnt.effective_dim == 7
    assert relative_error(Spectral(learnt, 4), x[32:]) > 0.05
    assert relative_error(Spectral(learnt, 4, effective_dim=8), x[32:]) < 2e-4


@pytest.mark.parametrize("seed", range(3))
def test_more_bits_do_not_help_on_heavy_tails(seed):
    x = heavy_tailed(532, 128, seed)
    learnt = calibrate(x[:32])
    spectral = [relative_error(Spectral(learnt, n), x[32:]) for n in (2, 4, 6)]
    turbo = [relative_error(codec("turboquant-mse", 128, n, seed), x[32:]) for n in (2, 4, 6)]
    assert min(spectral) > 0.5
    assert spectral[2] > 0.95 * spectral[0]
    assert turbo[0] < 0.15
    assert turbo[2] < 0.002


@pytest.mark.parametrize("sketch", ("gaussian", "orthogonal"))
@pytest.mark.parametrize("kept", (2, 5))
def test_the_sketch_is_unbiased_on_the_semantic_part(sketch, kept):
    learnt = calibrate(low_rank(64, 16, 6))
    q, x = normal(2, kept, 1) @ learnt.basis[:kept], normal(8, 16, 2)
    sketched = [
        Spectral(learnt, 1, floor=0, sketch=sketch, seed=seed, effective_dim=kept)
        for seed in range(1500)
    ]
    errors = np.array([one.inner_products(q, one.encode(x)) - q @ x.T for one in sketched])
    scatter = errors.std(axis=0) / np.sqrt(len(errors))
    assert (np.abs(errors.mean(axis=0)) < 4.5 * scatter + 1e-12).all()
    tail = learnt.basis[kept:]
    assert np.abs(tail @ sketched[0].decode(sketched[0].encode(x)).T).max() < 1e-12


def test_the_sketch_takes_its_bits_from_the_semantic_directions():
    learnt = by_hand(0.8 ** np.arange(64))
    plain = Spectral(learnt, 1, floor=0, effective_dim=24)
    sketched = Spectral(learnt, 1, floor=0, effective_dim=24, sketch="gaussian")
    assert plain.payload_bits == sketched.payload_bits == 64
    np.testing.assert_array_equal(
        plain.bits_per_direction[:24] - 1, sketched.bits_per_direction[:24]
    )
    plain = Spectral(learnt, 8, floor=1, effective_dim=24)
    sketched = Spectral(learnt, 8, floor=1, effective_dim=24, sketch="orthogonal")
    assert plain.payload_bits == sketched.payload_bits == 8 * 24 + 40


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bits", (2, 3, 8))
def test_size_is_what_the_payload_says(options, bits):
    one = Spectral(calibrate(decaying(100, 45)), bits, **options)
    code = one.encode(decaying(5, 45, 1))
    per_vector = code.nbytes / 5 - (16 if "sketch" in options else 8)
    stored = one.bits_per_direction
    assert one.payload_bits <= bits * 45
    assert one.payload_bits == stored.sum() + (one.semantic_dim if "sketch" in options else 0)
    expected = sum(-(-np.sum(stored[stored == width]) // 8) for width in np.unique(stored))
    expected += -(-one.semantic_dim // 8) if "sketch" in options else 0
    assert per_vector == expected
    assert one.nbytes(code) == code.nbytes == len(code.tobytes())


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("count", (0, 1, 2, 513, 1030))
def test_a_vector_does_not_depend_on_its_batch(options, count):
    one = Spectral(calibrate(decaying(100, 40)), 3, **options)
    x = decaying(count, 40, 1)
    code = one.encode(x)
    decoded = one.decode(code)
    assert len(code) == count
    assert decoded.shape == (count, 40)
    for row in {0, count // 2, count - 1} & set(range(count)):
        alone = one.encode(x[row : row + 1])
        assert alone.tobytes() == code[row : row + 1].tobytes()
        np.testing.assert_array_equal(one.decode(alone)[0], decoded[row])


@pytest.mark.parametrize("options", OPTIONS)
def test_zero_huge_and_foreign_vectors(options):
    learnt = calibrate(low_rank(50, 40, 6))
    one = Spectral(learnt, 2, effective_dim=6, **options)
    x = np.concatenate([np.zeros((1, 40)), low_rank(2, 40, 6, 1)])
    decoded = one.decode(one.encode(x))
    assert np.all(decoded[0] == 0)
    for scale in (1e-300, 1e300):
        far = one.decode(one.encode(x * scale)) / scale
        np.testing.assert_allclose(far, decoded, rtol=1e-9, atol=1e-11)
    foreign = learnt.basis[-1:] * 1e300  # nothing was calibrated there: the scale is 0
    decoded = one.decode(one.encode(foreign)) / 1e300
    assert np.abs(decoded @ learnt.basis[6:].T).max() < 1e-12
    assert np.linalg.norm(decoded) < (0.3 if options.get("sketch") is None else 1.1)


@pytest.mark.parametrize("sketch", ("gaussian", "orthogonal"))
def test_the_arguments_fix_the_bytes(sketch):
    x = decaying(200, 40)
    codes = [
        Spectral(calibrate(x), 3, sketch=sketch, seed=seed).encode(x).tobytes()
        for seed in (1, 1, 2)
    ]
    assert codes[0] == codes[1] != codes[2]


@pytest.mark.parametrize("kept", (1, 40))
def test_a_tail_is_not_necessary(kept):
    one = Spectral(calibrate(decaying(100, 40)), 4, effective_dim=kept)
    assert one.semantic_dim == kept
    assert one.payload_bits == (160 if kept == 40 else 47)
    assert np.isfinite(one.decode(one.encode(decaying(3, 40, 1)))).all()


# Refusals


@pytest.mark.parametrize("function", (participation_ratio, effective_dim))
@pytest.mark.parametrize(
    ("spectrum", "message"),
    [
        ([1, np.nan, 0, 0], "spectrum must be finite, got NaN or infinity"),
        ([1, np.inf, 0, 0], "spectrum must be finite, got NaN or infinity"),
        ([1, 0, 0, -1e-9], "spectrum must be nowhere negative, got -1e-09"),
        ([0, 0, 0, 0], "spectrum must have a value above 0, got zeros alone"),
        ([[1, 2], [3, 4]], r"spectrum must have shape \(d,\), got \(2, 2\)"),
        ([], r"spectrum must have shape \(d,\), got \(0,\)"),
    ],
)
def test_bad_spectra_are_refused(function, spectrum, message):
    with pytest.raises(ValueError, match=message):
        function(spectrum)
    with pytest.raises(ValueError, match=message):
        waterfill_bits(spectrum, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: effective_dim([1, 1, 1]), "the length of spectrum must be at least 4, got 3"),
        (lambda: prune_by_gap([1, 2, 1], 2), "spectrum must fall, got a rise after value 0"),
        (lambda: prune_by_gap([3, 2, 1], 1), "count must be in 2..3, got 1"),
        (lambda: prune_by_gap([3, 2, 1], 2, np.nan), "threshold must be at least 1, got nan"),
        (lambda: uniform_bits(4, 33), "total must be in 0..32, got 33"),
        (lambda: uniform_bits(4, -1), "total must be in 0..32, got -1"),
        (lambda: waterfill_bits([1, 1], 17), "total must be in 0..16, got 17"),
        (lambda: waterfill_bits([1, 1], -1), "total must be in 0..16, got -1"),
        (lambda: calibrate(np.zeros(8)), r"x must have shape \(N, d\), got \(8,\)"),
        (lambda: calibrate(np.ones((5, 3))), "the dimension of x must be at least 4, got 3"),
        (lambda: calibrate(np.zeros((2, 8))), "x must have a row that is not zero, got 2 rows"),
        (lambda: calibrate(np.zeros((0, 8))), "x must have a row that is not zero, got 0 rows"),
        (lambda: calibrate(np.ones((2, 8), int)), "x must be floating point, got dtype int64"),
        (lambda: calibrate(np.full((2, 8), np.nan)), "x must be finite, got NaN or infinity in"),
        (
            lambda: Calibration(4, 9, np.ones((4, 4)), np.full(4, 0.25)),
            "basis must have 4 orthonormal rows",
        ),
        (
            lambda: Calibration(4, 9, np.eye(4), np.full(4, 1.0)),
            "spectrum must have 4 values of sum 1, got 4 of sum 4",
        ),
        (
            lambda: Calibration(4, 9, np.eye(4), np.array([0.1, 0.2, 0.3, 0.4])),
            "spectrum must fall, got a rise after value 0",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "bits must be in 1..8, got 0"),
        ({"bits": 9}, "bits must be in 1..8, got 9"),
        ({"allocation": "even"}, "allocation must be one of uniform, water-filling, got 'even'"),
        ({"floor": -1}, "floor must be in 0..8, got -1"),
        ({"floor": 9}, "floor must be in 0..8, got 9"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"sketch": "haar"}, "sketch must be one of gaussian, orthogonal, got 'haar'"),
        ({"effective_dim": 0}, "effective_dim must be in 1..16, got 0"),
        ({"effective_dim": 17}, "effective_dim must be in 1..16, got 17"),
        (
            {"floor": 3},
            "floor must fit 12 tail directions into the budget of 32 bits, got 3",
        ),
        (
            {"bits": 1, "effective_dim": 12, "floor": 2, "sketch": "gaussian"},
            "bits must leave the sketch one bit for each of 12 semantic directions, "
            "got 1 with a floor of 2",
        ),
    ],
)
def test_bad_options_are_refused(options, message):
    learnt = by_hand(np.r_[np.ones(4), np.zeros(12)])
    with pytest.raises(ValueError, match=message):
        Spectral(learnt, **({"bits": 2} | options))


def test_bad_vectors_and_codes_are_refused():
    learnt = calibrate(decaying(100, 16))
    one, sketched = Spectral(learnt, 3), Spectral(learnt, 3, sketch="gaussian")
    code = one.encode(normal(2, 16))
    with pytest.raises(ValueError, match=r"x must have shape \(N, 16\), got \(2, 9\)"):
        one.encode(np.zeros((2, 9)))
    with pytest.raises(ValueError, match=r"q must have shape \(N, 16\), got \(2, 9\)"):
        one.inner_products(np.zeros((2, 9)), code)
    with pytest.raises(ValueError, match=r"indices must have shape \(N, \d+\), got \(2, \d+\)"):
        one.decode(type(code)(code.indices[:, :-1], code.norms))
    stripped = sketched.encode(normal(2, 16))
    with pytest.raises(ValueError, match="code must hold a sketch, got one without signs"):
        sketched.decode(type(code)(stripped.indices, stripped.norms))
