"""A backend is held to the design that it declares, and told what it looks like if it is not."""

import msgspec
import pytest
from click.testing import CliRunner

from kvassay.conformance import Capabilities, Design, Offer, Settings, check
from kvassay.conformance.adapters.designs import DESIGNS, backend
from kvassay.conformance.doors.cli import main
from kvassay.conformance.faults.declared import undeclared
from kvassay.conformance.isolation.backend import isolated
from kvassay.conformance.measure.cell import Cell
from kvassay.reference.codecs import codec
from kvassay.reference.designed import designed

MODULE = "kvassay.conformance.adapters.designs"
QUICK = Settings(dims=(64,), bits=(1, 3), effort="quick")


@pytest.mark.parametrize("name", DESIGNS)
def test_the_reference_conforms_in_each_design(name):
    report = check(backend(name), QUICK)
    assert report.exit_code == 0, [e for e in report.entries if e.verdict != "conforms"]


def test_predictions_follow_the_design_and_what_it_gives_up_is_not_claimed():
    entries = check(backend("unsigned"), QUICK).entries
    planned = {(entry.id, entry.part) for entry in entries}
    assert ("rotation-spreads", "dc") not in planned
    assert ("rotation-isometry", "two seeds") not in planned
    assert ("declared-rotation", "constant") in planned
    assert ("declared-rotation", "constant") not in {
        (entry.id, entry.part) for entry in check("reference", QUICK).entries
    }


class Undeclared:
    """Codecs of one design, or with one sketch, under another name."""

    version = "1"

    def __init__(self, kind, design=None, declared="", made=""):
        self.kind, self.design, self.made, self.name = kind, design, made, "undeclared"
        self.capabilities = Capabilities((kind,), (declared,) if declared else ())

    def codec(self, kind, dim, bits, seed, **options):
        if self.made:
            return codec(kind, dim, bits, seed, sketch=self.made)
        return designed(kind, dim, bits, seed, self.design)


@pytest.mark.parametrize(
    ("other", "declare"),
    [
        (Undeclared("turboquant-mse", Design(scale="unit")), "scale unit"),
        (Undeclared("scalar", Design(scale="unbiased")), "scale unbiased"),
        (Undeclared("turboquant-mse", Design(grid="uniform")), "grid uniform"),
        (Undeclared("scalar", Design(grid="uniform", group=32)), "grid uniform, group 32"),
        (Undeclared("turboquant-prod", None, "gaussian", "orthogonal"), "sketch orthogonal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_declaration_is_found_and_named(other, declare):
    claims = ("distortion", "qjl-unbiased", "qjl-variance")
    settings = Settings(dims=(64, 128), bits=(2, 3), claims=claims, effort="standard")
    report = check(other, settings)
    assert report.counts["violates"]
    (found,) = undeclared(report.entries, "standard")
    assert found.declare == declare


def test_a_codec_that_is_just_wrong_looks_like_no_design():
    report = check("zero", Settings(dims=(64,), bits=(2, 3), effort="quick"))
    assert report.counts["violates"]
    assert undeclared(report.entries, "quick") == []


def test_the_terminal_shows_what_a_design_gives_up_and_no_violation():
    options = ("--dim", "128", "--bits", "4", "--claim", "distortion", "--effort", "quick")
    result = CliRunner().invoke(main, ["check", f"{MODULE}:unsigned", *options])
    assert result.exit_code == 0, result.output
    assert "rotation hadamard-unsigned" in " ".join(result.output.split())
    assert "distortion of a constant vector" in result.output


def test_a_design_travels_to_another_process_and_back():
    with_design = isolated(f"{MODULE}:groups")
    assert with_design.capabilities.design_of("scalar") == DESIGNS["groups"]


def test_a_record_keeps_the_design_and_leaves_out_that_of_the_papers():
    plain = Cell("scalar", "", 64, 2, design=Design())
    assert b"design" not in msgspec.json.encode(plain)
    other = Cell("scalar", "", 64, 2, design=Design(grid="uniform"))
    assert msgspec.json.decode(msgspec.json.encode(other), type=Cell) == other
    assert other.label == "scalar d=64 b=2 (grid uniform)"
    assert str(other) == str(plain)  # so that the randomness is the same


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Offer("scalar", design=Design(rotation="haar")), "scalar does not rotate"),
        (
            lambda: Capabilities(
                offers=(Offer("scalar", bits=(2,)), Offer("scalar", design=Design(scale="unit")))
            ),
            "all offers of scalar must have one design",
        ),
        (
            lambda: Capabilities(offers=(Offer("scalar"),), design=Design(scale="unit")),
            "design must be left out where offers are given",
        ),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_offer_covers_only_dimensions_that_its_groups_divide():
    offer = Offer("scalar", design=Design(grid="uniform", group=64))
    assert offer.covers("", 128, 2)
    assert not offer.covers("", 80, 2)
