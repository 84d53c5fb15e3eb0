from dataclasses import replace

import numpy as np
import pytest

from kvassay.conformance import Settings, check
from kvassay.conformance.evidence.schema import KNOWN, Match
from kvassay.conformance.faults import BY_ID, diagnosis
from kvassay.conformance.faults.diagnosis import compared, diagnose
from kvassay.conformance.faults.families import FAMILIES, family_of, likely, without_family
from kvassay.conformance.faults.fault import FAULTS, Fault
from kvassay.conformance.faults.signatures import shipped
from kvassay.conformance.measure.cell import Cell
from kvassay.reference.codecs import Scalar, TurboQuantMSE, TurboQuantProd

pytestmark = pytest.mark.once


def entries(fault, dims=(64,), bits=(2, 4), effort="standard"):
    settings = Settings(kinds=(fault.kind,), dims=dims, bits=bits, effort=effort, seed=77)
    return check(fault, settings).entries


@pytest.mark.parametrize("name", ["A02", "B01", "C-other-dim", "D01", "E10"])
def test_the_family_of_a_known_fault_is_named_first(name):
    first, *_ = diagnose(entries(BY_ID[name]))
    assert first.matches[0].family == family_of(name).id
    assert first.matches[0].fit > KNOWN


def test_quick_evidence_is_enough_for_a_large_fault():
    first, *_ = diagnose(entries(BY_ID["B02"], effort="quick"))
    assert first.matches[0].family == "weak-rotation"


class NarrowTable(Scalar):
    """Other than any form that the signatures have."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        levels = self.book.levels * 0.7
        middle = (levels[1:] + levels[:-1]) / 2
        self.book = replace(self.book, levels=levels, thresholds=middle)


@pytest.mark.parametrize("shared", [False, True])
def test_a_fault_of_a_shared_part_is_named_in_one_codec_and_in_both(shared):
    """Where both have it, claims that compare the two compare two faulty codecs."""
    fault = replace(BY_ID["C02"], codec_class=NarrowTable)
    put = fault.put_into("turboquant-prod", "gaussian", shared)
    (made,) = diagnose(entries(put, effort="quick"))
    assert made.matches[0].family == "table"


class HalfTheSigns(TurboQuantProd):
    def encode(self, x):
        code = super().encode(x)
        return replace(code, signs=code.signs & np.uint8(0x0F))


class TwoAtOnce(TurboQuantMSE):
    """No rotation, and every second vector is read as its negative."""

    def _to_coordinates(self, x):
        return x

    def _from_coordinates(self, y):
        return y

    def decode(self, code):
        return super().decode(code) * np.where(np.arange(len(code)) % 2, -1.0, 1.0)[:, None]

    inner_products = property()


@pytest.mark.parametrize("invented", [HalfTheSigns, TwoAtOnce])
def test_a_fault_that_nobody_has_described_is_unknown(invented):
    prod = issubclass(invented, TurboQuantProd)
    kind, sketch = ("turboquant-prod", "gaussian") if prod else ("turboquant-mse", "")
    (made,) = diagnose(entries(Fault("x", "", "", kind, sketch, 64, 4, invented)))
    assert made.matches == ()
    assert made.nearest is not None


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
    evidence = entries(BY_ID["K03"], effort="quick")
    assert diagnose(evidence) == diagnose(evidence)


def test_cells_in_which_faults_were_measured_are_compared_and_others_only_without_them():
    known = shipped()["turboquant-mse", ""]
    evidence = entries(BY_ID["K10"], dims=(48, 64), bits=(2,), effort="quick")
    assert compared(evidence, known) == [Cell("turboquant-mse", "", 64, 2)]
    unmeasured = [entry for entry in evidence if entry.dim == 48]
    assert compared(unmeasured, known) == [Cell("turboquant-mse", "", 48, 2)]
    assert known.cells[known.nearest(48, 2)] == (80, 2)
    assert known.cells[known.nearest(256, 7)] == (64, 6)
    assert diagnose(unmeasured)[0].matches[0].family == "more-bits"


def test_a_fault_without_a_signature_is_no_harm_to_a_user(monkeypatch):
    """It was added, and the signatures have not been made again."""
    known = dict(shipped())
    mse = known["turboquant-mse", ""]
    kept = [index for index, form in enumerate(mse.forms) if form.fault != "B01"]
    known["turboquant-mse", ""] = replace(
        mse,
        forms=tuple(mse.forms[index] for index in kept),
        coordinates=mse.coordinates[kept],
        doubts=mse.doubts[kept],
    )
    monkeypatch.setattr(diagnosis, "shipped", lambda: known)
    (made,) = diagnose(entries(BY_ID["B01"], effort="quick"))
    assert "B01" not in {match.fault for match in made.matches}
    monkeypatch.setattr(diagnosis, "shipped", dict)
    (made,) = diagnose(entries(BY_ID["B01"], effort="quick"))
    assert made.matches == ()
    assert made.nearest is None


def test_every_fault_stands_in_one_family():
    assert not without_family(), "add them to a family in conformance/faults/families.py"
    members = [member for family in FAMILIES for member in family.members]
    assert len(members) == len(set(members))
    assert set(members) <= {fault.id for fault in FAULTS}
    assert len({family.id for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert family.sentence.endswith(".")
        assert family.look.endswith(".")
        assert family.look[0].islower() or family.look.startswith("inner_products")


def test_a_fault_of_no_family_is_its_own():
    assert family_of("same-signs").sentence == BY_ID["same-signs"].text
    (only,) = likely([Match("Z99", 0.96)])
    assert only.family.id == "Z99"
    assert "does not know" in only.family.sentence
