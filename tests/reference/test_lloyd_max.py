import numpy as np
import pytest

from kvassay.reference import sphere
from kvassay.reference.lloyd_max import codebook, optimality_gap

# claims.md's table, to six digits.
TABLE = {
    64: (0.358387, 0.114526, 0.033391, 0.009132, 0.002399, 0.000616, 0.000156),
    80: (0.359389, 0.115115, 0.033620, 0.009204, 0.002420, 0.000622, 0.000158),
    96: (0.360056, 0.115508, 0.033773, 0.009253, 0.002434, 0.000625, 0.000159),
    128: (0.360889, 0.116000, 0.033966, 0.009315, 0.002451, 0.000630, 0.000160),
    256: (0.362136, 0.116740, 0.034256, 0.009408, 0.002478, 0.000637, 0.000162),
    1024: (0.363069, 0.117296, 0.034475, 0.009478, 0.002498, 0.000642, 0.000163),
}


@pytest.mark.parametrize("dim", TABLE)
def test_distortion_table(dim):
    found = [round(codebook(dim, bits).distortion, 6) for bits in range(1, 8)]
    assert found == list(TABLE[dim])


@pytest.mark.parametrize("dim", (2, 3, 5, 64, 80, 576, 1024, 8192))
@pytest.mark.parametrize("bits", range(1, 9))
def test_both_conditions_hold_and_no_level_is_dead(dim, bits):
    book = codebook(dim, bits)
    assert len(book.levels) == 2**bits
    assert np.all(np.diff(book.levels) > 0)
    np.testing.assert_array_equal(book.levels, -book.levels[::-1])
    np.testing.assert_allclose(
        book.thresholds, (book.levels[:-1] + book.levels[1:]) / 2, rtol=0, atol=1e-16
    )
    assert optimality_gap(book.levels, dim) < 1e-10
    edges = np.concatenate([[-1], book.thresholds, [1]])
    mass, _ = sphere.partial_moments(edges, dim)
    # A cell of a density f holds about f^(2/3): the outermost ones least, but none nothing.
    assert mass.min() * 2**bits > 1e-3


@pytest.mark.parametrize("dim", (2, 3, 4, 64))
@pytest.mark.parametrize("bits", (1, 2, 3))
def test_no_table_on_a_fine_grid_does_better(dim, bits):
    """Dynamic programming finds the best partition of a fine histogram: a global optimum,
    where Lloyd's conditions alone promise a local one."""
    cells = 300
    edges = np.sin(np.linspace(-np.pi / 2, np.pi / 2, cells + 1)) * min(1, 6 / np.sqrt(dim))
    edges[[0, -1]] = -1, 1
    mass, first = sphere.partial_moments(edges, dim)
    m0 = np.concatenate([[0], np.cumsum(mass)])
    m1 = np.concatenate([[0], np.cumsum(first)])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (m1[None, :] - m1[:, None]) ** 2 / (m0[None, :] - m0[:, None])
    gain = np.where(np.triu(np.ones_like(gain), 1) > 0, gain, -np.inf)
    best = gain[0]
    for _ in range(2**bits - 1):
        best = np.max(best[:, None] + gain, axis=0)
    least = 1 - dim * best[-1]
    assert codebook(dim, bits).distortion <= least + 1e-12
    assert codebook(dim, bits).distortion == pytest.approx(least, rel=0.02)


@pytest.mark.parametrize("bits", (1, 4, 5, 8))
def test_quantize_picks_the_nearest_level(bits):
    book = codebook(64, bits)
    t = np.random.default_rng(0).uniform(-0.6, 0.6, (40, 30))
    nearest = np.argmin(np.abs(t[..., None] - book.levels), axis=-1)
    np.testing.assert_array_equal(book.quantize(t), nearest)


def test_codebooks_are_cached_and_cannot_be_changed():
    assert codebook(64, 3) is codebook(64, 3)
    with pytest.raises(ValueError, match="read-only"):
        codebook(64, 3).levels[0] = 0


@pytest.mark.parametrize(("dim", "bits"), [(64, 0), (64, 9), (64, 2.0), (1, 2)])
def test_out_of_range_is_refused(dim, bits):
    with pytest.raises(ValueError, match=r"must be .*got"):
        codebook(dim, bits)
