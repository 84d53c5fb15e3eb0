import pickle
from dataclasses import replace

import msgspec
import pytest

from kvassay.conformance import discovery
from kvassay.conformance.evidence.deviations import load
from kvassay.conformance.faults.diagnosis import compared
from kvassay.conformance.faults.signatures import shipped
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.run.cell import run_cell
from kvassay.conformance.run.plan import Settings, Task, plan
from kvassay.reference.codecs import codec

PROD = Cell("turboquant-prod", "orthogonal", 128, 4)
GROUPED = Cell("scalar", "", 64, 2, options=(("scale", 0.5), ("group", 32)))


def test_texts_and_options_of_a_cell():
    assert str(PROD) == "turboquant-prod/orthogonal d=128 b=4"
    assert PROD.label == "turboquant-prod orthogonal d=128 b=4"
    assert PROD.codec_options == {"sketch": "orthogonal"}
    options = "--kind turboquant-prod --sketch orthogonal --dim 128 --bits 4"
    assert PROD.command_options == options
    assert str(Cell("scalar", "", 64, 2, sketch_decoded=False)) == "scalar d=64 b=2"


def test_options_stand_in_the_order_of_their_names_and_go_to_the_codec():
    assert GROUPED.options == (("group", 32), ("scale", 0.5))
    assert str(GROUPED) == "scalar d=64 b=2 group=32 scale=0.5"
    assert GROUPED.codec_options == {"group": 32, "scale": 0.5}
    assert Cell("scalar", "", 64, 2) != GROUPED
    with pytest.raises(ValueError, match="has no option for group: run scalar d=64 b=2 group=32"):
        _ = GROUPED.command_options


@pytest.mark.parametrize("options", [(("dim", 3),), (("a", 1), ("a", 2)), (("a b", 1),)])
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match="must be a new identifier that stands once"):
        Cell("scalar", "", 64, 2, options=options)


@pytest.mark.parametrize("cell", [PROD, GROUPED])
def test_a_cell_survives_a_record_and_a_process(cell):
    assert msgspec.convert(msgspec.to_builtins(cell), Cell) == cell
    assert pickle.loads(pickle.dumps(cell)) == cell


def test_another_kind_beside_a_cell_has_a_sketch_only_where_that_kind_has_one():
    assert PROD.beside("turboquant-mse", 3) == Cell("turboquant-mse", "", 128, 3)
    assert PROD.beside("turboquant-prod", 3) == Cell("turboquant-prod", "orthogonal", 128, 3)


class Asks:
    """A backend that notes what its codecs are asked for."""

    name, version, asked = "asks", "1", None

    def codec(self, kind, dim, bits, seed, **options):
        self.asked = options
        return codec(kind, dim, bits, seed)


def test_a_backend_is_given_the_options_of_a_cell(monkeypatch):
    monkeypatch.setattr(Task, "command", lambda task, claim: "")
    settings = Settings(kinds=("scalar",), dims=(64,), bits=(2,), claims=("determinism",))
    (task,) = plan("reference", discovery.load("reference"), replace(settings, effort="quick"))
    backend = Asks()
    (entry,) = run_cell(replace(task, spec=backend, cell=GROUPED))
    assert backend.asked == {"group": 32, "scale": 0.5}
    assert entry.verdict == "conforms"
    assert compared([entry], shipped()["scalar", ""]) == [GROUPED]


def test_a_deviation_can_be_narrowed_by_any_option(tmp_path):
    path = tmp_path / "known.toml"
    start = '[[deviation]]\nclaim = "distortion"\nreason = "r"\n'
    path.write_text(f"{start}dim = 64\noptions = {{group = [32, 64]}}\n")
    (known,) = load(path)
    assert str(known) == "distortion dim 64 group 32, 64"

    class Found:
        id, part, cell = "distortion", "isotropic", GROUPED

    assert known.is_about(Found)
    Found.cell = Cell("scalar", "", 64, 2, options=(("group", 16),))
    assert not known.is_about(Found)
    Found.cell = Cell("scalar", "", 64, 2)
    assert not known.is_about(Found)
    for options, message in (
        ("3", "options must be a table"),
        ("{dim = 3}", "dim is no option"),
        ("{group = true}", "group must be int or float or str"),
    ):
        path.write_text(f"{start}options = {options}\n")
        with pytest.raises(ValueError, match=message):
            load(path)
