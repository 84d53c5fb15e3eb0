"""Records that the tests of reports share."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from recorded import fault, lines, rewritten

from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.write import suite
from kvassay.conformance.measure.study import TRIALS
from kvassay.conformance.run.reproduce import Settings, reproduce

GRID = ["--dim", "64", "--bits", "2", "--bits", "3", "--effort", "quick", "--no-diagnosis"]
DIAGNOSIS = {
    "record": "diagnosis",
    "kind": "turboquant-mse",
    "sketch": "",
    "sizes": False,
    "cells": ["turboquant-mse d=64 b=2"],
    "matches": [{"fault": "K10", "fit": 0.97}],
    "nearest": {"fault": "K10", "fit": 0.97},
}
STUDIED = (
    "coordinate-law",
    "two-pi",
    "pi-over-2",
    "kqv-beats-qkqv",
    "heavy-tail-protection",
    "low-rank-pathology",
    "waterfilling-uniform",
    "d-eff-calibration",
    "ablation-8",
    "kl-gap",
)


@pytest.fixture(scope="session")
def records(tmp_path_factory) -> Path:
    """A folder with a record of each control and one of `reproduce`, of two trials a study."""
    folder = tmp_path_factory.mktemp("records")
    for name in ("reference", "identity", "zero"):
        kept = folder / f"{name}.jsonl"
        CliRunner().invoke(main, ["check", name, *GRID, "--record", str(kept)])
    *entries, footer = lines(folder / "zero.jsonl")
    rewritten(folder / "zero.jsonl", [*entries, DIAGNOSIS, footer])  # measuring one takes long
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TRIALS, "quick", 2)
        settings = Settings(effort="quick", claims=STUDIED)
        cores = len(os.sched_getaffinity(0))
        reproduce("reference", settings, workers=cores, path=folder / "papers.jsonl")
    faults = [fault("A02", ["distortion"]), fault("looks-wrong", [], proof="It is the same map.")]
    (folder / "faults.json").write_text(
        json.dumps({**suite(), "effort": "quick", "faults": faults})
    )
    return folder
