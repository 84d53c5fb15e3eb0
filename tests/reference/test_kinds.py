import subprocess
import sys

import pytest

from kvassay.reference import kinds, theory
from kvassay.reference.kinds import JUDGED, KINDS, LAWS, SKETCHES, STUDIED, Kind, Laws, kinds_with


def test_a_kind_without_laws_is_never_judged():
    assert {"scalar-prod", "spectral"} == set(STUDIED)
    assert not Kind("new", "with no law").judged
    assert all(kind in JUDGED for law in LAWS for kind in kinds_with(law))


def test_a_law_that_no_kind_could_have_is_refused():
    with pytest.raises(ValueError, match="a law must be one of distortion"):
        kinds_with("colour")


def test_a_new_kind_is_held_to_the_laws_that_it_has_and_to_no_others(monkeypatch):
    laws = Laws(slope=lambda dim, bits, sketch: 1.0)
    monkeypatch.setitem(kinds.KINDS, "new", Kind("new", "unbiased by its scale", laws=laws))
    assert "new" in kinds_with("slope")
    assert "new" not in kinds_with("distortion")
    assert "new" not in kinds_with("slope", rotated=True)


@pytest.mark.parametrize("sketch", ("", *SKETCHES))
def test_the_laws_are_those_of_theory(sketch):
    kind = KINDS["turboquant-prod" if sketch else "turboquant-mse"]
    assert kind.laws.distortion(128, 3, sketch) == theory.product_variance(128, 3, sketch)
    expected = 1.0 if sketch else 1 - theory.lloyd_max_distortion(128, 3)
    assert kind.laws.slope(128, 3, sketch) == expected
    assert kind.scalar_bits(3) == 3 - bool(sketch)


def test_the_list_of_kinds_loads_nothing_heavy():
    code = (
        "import sys, kvassay.reference.kinds; sys.exit(bool({'numpy', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
