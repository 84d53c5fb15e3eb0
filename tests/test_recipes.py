"""What docs/recipes says is done here, with the code that stands there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from kvassay.conformance import Capabilities, Settings, check
from kvassay.conformance.claims import claim as claims
from kvassay.conformance.claims import codec as catalogue
from kvassay.conformance.claims import edges
from kvassay.conformance.doors.cli import main
from kvassay.conformance.faults import fault as faults
from kvassay.conformance.faults.kills import kill
from kvassay.conformance.measure import codec as experiments
from kvassay.reference.codecs import TurboQuantMSE

ROOT = Path(__file__).parents[1]


def blocks(name):
    """The Python of a recipe, block by block."""
    text = (ROOT / "docs" / "recipes" / f"{name}.md").read_text()
    return [dedent(block) for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


class Shifted(TurboQuantMSE):
    def decode(self, code):
        return super().decode(code) + 0.1


class Backend:
    name, version = "recipe", "1"
    capabilities = Capabilities(("turboquant-mse",))

    def __init__(self, codec_class=TurboQuantMSE):
        self.codec_class = codec_class

    def codec(self, kind, dim, bits, seed, **options):
        return self.codec_class(dim, bits, seed)


def test_a_claim_is_planned_judged_and_explained(monkeypatch):
    experiment, record = blocks("claim")
    monkeypatch.setattr(experiments, "EXPERIMENTS", dict(experiments.EXPERIMENTS))
    scope = dict(vars(experiments))
    exec(experiment, scope)
    added = eval(record, {**vars(claims), **vars(catalogue)})
    monkeypatch.setitem(experiments.EXPERIMENTS, "offset", scope["offset"])
    monkeypatch.setattr("kvassay.conformance.run.cell.EXPERIMENTS", experiments.EXPERIMENTS)
    monkeypatch.setitem(catalogue.BY_ID, added.id, added)

    settings = Settings(dims=(64,), bits=(1, 4), claims=("no-offset",), effort="quick")
    assert check("reference", settings).exit_code == 0
    assert check(Backend(Shifted), settings).counts["violates"] == 2
    shown = CliRunner().invoke(main, ["explain", "no-offset"])
    assert "Errors have no offset" in shown.output


def test_a_fault_is_caught_by_the_claims_that_it_names(monkeypatch):
    from kvassay.conformance.faults import norms

    (code,) = blocks("fault")
    monkeypatch.setattr(faults, "FAULTS", list(faults.FAULTS))
    exec(code, dict(vars(norms)))
    added = faults.FAULTS[-1]
    assert added.id == "D-example"
    made = kill(added, "quick", {})
    assert made.ok
    assert {"distortion", "qjl-unbiased"} <= set(made.caught)


@pytest.mark.once
def test_a_kind_is_held_to_the_claims_whose_laws_it_has(tmp_path):
    """In a copy of the checkout, since claims ask for the kinds when they are loaded."""
    law, record = blocks("kind")
    tree = tmp_path / "kvassay"
    for name in ("conformance", "reference"):
        shutil.copytree(ROOT / name, tree / name)
    kinds = tree / "reference" / "kinds.py"
    text = kinds.read_text().replace("KINDS = {", f"{law}\n\nKINDS = {{", 1)
    last = '        Kind("spectral"'
    assert last in text
    kinds.write_text(text.replace(last, f"{record.strip()},\n{last}"))
    (tmp_path / "mine.py").write_text(BACKEND)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", HELD], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    violated, judged = map(str.split, done.stdout.splitlines())
    assert violated == ["none"]
    expected = {"distortion", "every-seed", "qjl-unbiased"}
    expected |= {"coordinate-law", "rotation-isometry", "rank-kept"}
    expected |= {"size-accounting", "batch-invariance", "determinism", "finite-answers"}
    expected |= set(edges.BY_ID)
    assert set(judged) == expected


BACKEND = """
from kvassay.conformance import Capabilities, Offer
from kvassay.reference import theory
from kvassay.reference.codecs import TurboQuantMSE

class Unbiased(TurboQuantMSE):
    def decode(self, code):
        return super().decode(code) / (1 - theory.lloyd_max_distortion(self.dim, self.bits))

    def inner_products(self, q, code):
        return super().inner_products(q, code) / (
            1 - theory.lloyd_max_distortion(self.dim, self.bits))

class Backend:
    name, version = "mine", "1"
    capabilities = Capabilities(offers=(Offer("turboquant-unbiased"),))

    def codec(self, kind, dim, bits, seed, **options):
        return Unbiased(dim, bits, seed)
"""
HELD = """
from kvassay.conformance import Settings, check
from mine import Backend
settings = Settings(dims=(64,), bits=(2,), effort="quick")
entries = check(Backend(), settings).entries
print(*({e.id for e in entries if e.verdict not in ("conforms",)} or ["none"]))
print(*{e.id for e in entries})
"""
