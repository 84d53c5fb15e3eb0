import numpy as np
import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, check
from kvassay.conformance.claims.catalogue import PAPERS
from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.outcome import JUDGED
from kvassay.conformance.faults import caught_by, select
from kvassay.conformance.faults.fault import FAULTS
from kvassay.conformance.faults.fault import fault as register_fault
from kvassay.conformance.faults.kills import kill_table
from kvassay.properties.test_codec import PROPERTIES

# Must be caught, says the first issue of this project's suite: by name, by this claim.
NAMED = {
    "B01": "rotation-spreads",
    "B18": "distortion",
    "B02": "rotation-spreads",
    "C02": "distortion",
    "A11": "qjl-unbiased",
    "A02": "qjl-unbiased",
    "A02-one-percent": "qjl-unbiased",
}


# All of them is what `kvassay faults` runs, in the tox environment "reference".
@pytest.mark.once
@pytest.mark.parametrize("name", [*NAMED, "A20", "D09", "E-strides", "F08", "G14", "same-signs"])
def test_a_fault_is_caught_by_all_that_must_and_an_equivalent_change_by_nobody(name):
    (fault,) = select([name])
    (kill,) = kill_table([fault], properties=PROPERTIES)
    assert kill.missed == ()
    assert bool(kill.caught) != bool(fault.proof)
    assert kill.ok


def test_every_check_catches_a_fault_and_every_fault_is_caught_by_a_check():
    judged = [claim.id for claim in (*CLAIMS, *PAPERS) if claim.standing in JUDGED]
    catches = {name: holds.catches for name, holds in PROPERTIES.items()}
    assert all(map(caught_by, judged))
    assert all(catches.values())
    caught = {each for names in catches.values() for each in names}
    for fault in FAULTS:
        assert bool(fault.proof) != bool(fault.caught_by or fault.id in caught), fault.id
    assert caught <= {fault.id for fault in FAULTS}


def test_a_fault_names_claims_that_a_backend_can_fail_once_and_in_their_order():
    places = [claim.id for claim in (*CLAIMS, *PAPERS) if claim.standing in JUDGED]
    for fault in FAULTS:
        named = list(fault.caught_by)
        assert named == [name for name in places if name in named], fault.id


def test_a_fault_that_names_an_unknown_claim_is_refused():
    with pytest.raises(ValueError, match="fault X: caught_by must hold ids of claims, got no-such"):
        register_fault("X", "kvassay", caught_by=("distortion", "no-such"))


def test_faults_stand_in_the_order_of_their_sections_and_equivalent_changes_last():
    sections = [fault.id[0] for fault in FAULTS]
    assert sections == sorted(sections)  # "same-" comes after the capitals


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_docstring_of_a_property_begins_with_its_faults(name):
    holds = PROPERTIES[name]
    assert set(holds.__doc__.split(":")[0].split(", ")) == set(holds.catches)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_can_be_put_into_all_its_kinds(fault):
    for kind in fault.kinds:
        sketch = "orthogonal" if kind == "turboquant-prod" else ""
        put = fault.put_into(kind, sketch)
        for dim, bits in ((64, 3), (80, 4), (96, 1)):
            x = np.random.default_rng(0).standard_normal((6, dim)).astype(np.float32)
            options = {"sketch": sketch} if sketch else {}
            if kind == "spectral":
                options = {"calibration": x.astype(np.float64)}
            codec = put.codec(kind, dim, bits, 1, **options)
            assert np.shape(codec.decode(codec.encode(x))) == (6, dim)


@pytest.mark.parametrize(("fault", "claim"), NAMED.items())
def test_the_claim_one_would_expect_must_catch_it(fault, claim):
    assert fault in caught_by(claim)


def test_faults_are_registered_once_with_text_and_source():
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
    assert all(fault.text.endswith(".") and fault.source for fault in FAULTS)
    assert all(bool(fault.proof) == fault.id.startswith("same-") for fault in FAULTS)


def test_sketch_that_is_the_rotation_is_seen_by_the_slope_alone():
    (kill,) = kill_table(select(["A11"]))
    assert kill.caught == ("qjl-unbiased",)


def test_missing_rotation_is_invisible_on_isotropic_vectors():
    (fault,) = select(["B01"])
    settings = Settings(dims=(fault.dim,), bits=(fault.bits,), claims=("distortion",))
    assert check(fault, settings).counts["conforms"] == 2


def test_a_correct_codec_in_the_place_of_a_fault_fails_the_command(monkeypatch):
    from dataclasses import replace

    from kvassay.conformance import faults
    from kvassay.reference.codecs import TurboQuantMSE

    (fault,) = select(["B09"])
    monkeypatch.setitem(faults.BY_ID, "B09", replace(fault, codec_class=TurboQuantMSE))
    result = CliRunner().invoke(main, ["faults", "--fault", "B09", "--workers", "1"])
    assert result.exit_code == 1
    assert "NOT caught" in result.stdout
    assert "rotation-spreads" in result.stdout


def test_a_fault_declared_to_be_equivalent_fails_the_command(monkeypatch):
    from dataclasses import replace

    from kvassay.conformance import faults

    (fault,) = select(["B09"])
    monkeypatch.setitem(faults.BY_ID, "B09", replace(fault, proof="it looks harmless"))
    result = CliRunner().invoke(main, ["faults", "--fault", "B09", "--workers", "1"])
    assert result.exit_code == 1


def test_command_lists_text_and_who_caught_it():
    ids = ("K01", "B12", "D09", "same-gray")
    result = CliRunner().invoke(main, ["faults", *(f"--fault={name}" for name in ids)])
    assert result.exit_code == 0, result.output
    assert "3 faults at standard effort: all caught, and none of 1 equivalent" in result.stdout
    assert "size-accounting" in result.stdout
    assert "zero-vectors" in result.stdout
    refused = CliRunner().invoke(main, ["faults", "--fault", "Z99"])
    assert refused.exit_code == 2
    assert "no fault is called 'Z99'" in refused.stderr
