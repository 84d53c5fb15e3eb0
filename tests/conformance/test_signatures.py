"""The shipped signatures are those of the faults, claims and experiments that there are."""

import numpy as np
import pytest

from kvassay.conformance.faults import signatures
from kvassay.conformance.faults.signatures import CODECS, COMMAND, GRID, Form, forms, shipped
from kvassay.conformance.measure.cell import Cell

pytestmark = pytest.mark.once
AGAIN = f"make the signatures again: {COMMAND}"


def test_they_were_measured_with_the_sources_that_there_are():
    assert signatures.made_of() == signatures.sources(), AGAIN


@pytest.mark.parametrize("codec", CODECS, ids=" ".join)
def test_every_form_of_every_fault_has_one(codec):
    there = shipped()[codec]
    assert list(there.forms) == forms(*codec), AGAIN
    assert there.cells == GRID, AGAIN
    measured = ~np.isnan(there.coordinates)
    assert measured.any(axis=2).all(), AGAIN  # something in each cell
    # Of a fault whose codec cannot be asked for anything, no claim could say a word.
    assert np.isfinite(there.doubts[measured]).all()


SAMPLE = [
    ("scalar", "", 64, 2, Form("C02", shade=2)),
    ("turboquant-mse", "", 80, 4, Form("B20")),
    ("turboquant-mse", "", 64, 6, Form("K03")),
    ("turboquant-prod", "gaussian", 64, 3, Form("A08", shade=1)),
    ("turboquant-prod", "orthogonal", 64, 2, Form("C-floor", shared=True)),
]


@pytest.mark.parametrize("sample", SAMPLE, ids=str)
def test_a_sample_measured_again_is_the_same(sample):
    kind, sketch, dim, bits, form = sample
    there = shipped()[kind, sketch]
    backend, cell = form.made(kind, sketch), Cell(kind, sketch, dim, bits)
    row, column = there.forms.index(form), there.cells.index((dim, bits))
    again = signatures.measure(backend, cell)
    assert again
    for place, (coordinate, doubt) in again.items():
        index = there.places.index(place)
        # Rounded to a step; sums in another order may move a vector across a threshold.
        kept, its_doubt = there.coordinates[row, column, index], there.doubts[row, column, index]
        assert kept == pytest.approx(coordinate, abs=0.02 + 0.1 * doubt), place
        assert its_doubt == pytest.approx(doubt, abs=0.02 + 0.1 * doubt), place


def test_a_shared_fault_differs_from_one_in_a_single_codec_where_two_are_compared():
    there = shipped()["turboquant-prod", "gaussian"]
    alone, shared = (
        there.coordinates[there.forms.index(Form("C02", shared=each))] for each in (False, True)
    )
    apart = np.nanmax(np.abs(alone - shared), axis=0) > 0.5
    claims = {claim for (claim, _), differs in zip(there.places, apart, strict=True) if differs}
    assert claims == {"pi-over-2", "two-pi"}


def test_the_file_is_small_and_holds_no_pickles():
    assert signatures.SHIPPED.stat().st_size < 500_000
    with np.load(signatures.SHIPPED, allow_pickle=False) as there:
        assert {there[name].dtype for name in there} == {np.dtype("uint8"), np.dtype("int16")}
