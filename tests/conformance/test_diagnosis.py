from dataclasses import replace

import numpy as np
import pytest

from kvassay.conformance import Settings, check
from kvassay.conformance.evidence.schema import KNOWN
from kvassay.conformance.faults import BY_ID
from kvassay.conformance.faults.diagnosis import contrasting, diagnose
from kvassay.conformance.faults.fault import Fault
from kvassay.conformance.measure.cell import Cell
from kvassay.reference.codecs import TurboQuantMSE, TurboQuantProd

pytestmark = pytest.mark.once


def entries(fault, dims=(64,), bits=(2, 4), effort="standard"):
    settings = Settings(kinds=(fault.kind,), dims=dims, bits=bits, effort=effort, seed=77)
    return check(fault, settings).entries


@pytest.mark.parametrize("name", ["A02", "B01", "C-other-dim", "D01", "E10"])
def test_a_known_fault_is_named_first(name):
    first, *_ = diagnose(entries(BY_ID[name]))
    assert first.matches[0].fault == name
    assert first.matches[0].fit > KNOWN


def test_quick_evidence_is_enough_for_a_large_fault():
    assert diagnose(entries(BY_ID["B02"], effort="quick"))[0].matches[0].fault == "B02"


class Flipped(TurboQuantMSE):
    def _levels(self, code):
        levels = super()._levels(code)
        levels[:, 5] *= -1
        return levels


class HalfTheSigns(TurboQuantProd):
    def encode(self, x):
        code = super().encode(x)
        return replace(code, signs=code.signs & np.uint8(0x0F))


class LoudFourth(TurboQuantMSE):
    def decode(self, code):
        decoded = super().decode(code)
        decoded[:, ::4] *= 1.5
        return decoded

    inner_products = property()


@pytest.mark.parametrize("invented", [Flipped, HalfTheSigns, LoudFourth])
def test_a_fault_that_nobody_has_described_is_unknown(invented):
    prod = issubclass(invented, TurboQuantProd)
    kind, sketch = ("turboquant-prod", "gaussian") if prod else ("turboquant-mse", "")
    (diagnosis,) = diagnose(entries(Fault("x", "", "", kind, sketch, 64, 4, invented)))
    assert diagnosis.matches == ()
    assert diagnosis.nearest is not None


def test_sizes_are_diagnosed_apart():
    class Both(type(BY_ID["E10"].codec("turboquant-mse", 64, 4, 0))):
        def decode(self, code):
            return 0.969 * super().decode(code)

        inner_products = property()

    answers, sizes = diagnose(entries(replace(BY_ID["E10"], codec_class=Both)))
    assert answers.matches[0].fault == "D02"
    assert sizes.sizes
    assert sizes.matches[0].fault == "E10"


def test_what_conforms_needs_no_diagnosis():
    assert (
        diagnose(check("reference", Settings(dims=(64,), bits=(2,), effort="quick")).entries) == []
    )


def test_same_evidence_same_diagnosis():
    evidence = entries(BY_ID["K03"])
    assert diagnose(evidence) == diagnose(evidence)


def test_cells_are_chosen_for_contrast():
    evidence = entries(BY_ID["K10"], dims=(64, 80, 128), bits=(2, 4))
    chosen = contrasting([entry for entry in evidence if entry.id == "distortion"])
    assert chosen == [
        Cell("turboquant-mse", "", 64, 2),
        Cell("turboquant-mse", "", 128, 2),
        Cell("turboquant-mse", "", 64, 4),
    ]
