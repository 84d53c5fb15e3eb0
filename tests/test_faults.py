import pytest
from click.testing import CliRunner

from kvassay.conformance import Settings, check
from kvassay.conformance.catalogue import CLAIMS
from kvassay.conformance.cli import main
from kvassay.conformance.faults import FAULTS, kill_table, select

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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_every_fault_is_caught_by_every_claim_that_must(fault):
    (kill,) = kill_table([fault])
    assert kill.caught
    assert kill.missed == ()


def test_every_claim_has_a_victim_and_every_fault_a_hunter():
    assert all(claim.kills for claim in CLAIMS)
    assert {fault.id for fault in FAULTS} == {name for claim in CLAIMS for name in claim.kills}


@pytest.mark.parametrize(("fault", "claim"), NAMED.items())
def test_the_claim_one_would_expect_is_among_the_hunters(fault, claim):
    assert fault in next(each for each in CLAIMS if each.id == claim).kills


def test_faults_are_registered_once_with_text_and_source():
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
    assert all(fault.text.endswith(".") and fault.source for fault in FAULTS)


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


def test_command_lists_text_and_hunters():
    result = CliRunner().invoke(main, ["faults", "--fault", "K01", "--fault", "B12"])
    assert result.exit_code == 0, result.output
    assert "2 faults at standard effort: all caught" in result.stdout
    assert "size-accounting" in result.stdout
    refused = CliRunner().invoke(main, ["faults", "--fault", "Z99"])
    assert refused.exit_code == 2
    assert "no fault is called 'Z99'" in refused.stderr
