"""The suite over a published package: what it finds must be what is known, and proved.

    pytest tests/packages --package faiss

Each finding stands with its cause and the independent proof: the change that restores the
prediction. A claim that is violated anew, or no longer, fails.
"""

import pytest

from kvassay.conformance import Settings, check

SKETCH = {"qjl-unbiased", "qjl-variance", "pi-over-2", "two-pi"}

# package -> kind -> violated claims
KNOWN = {
    "turboquant-py": {
        # An orthonormal sketch with the scale of a gaussian one, so sqrt(d) too small: the
        # slope is 1 - D_{b-1}(1 - 1/sqrt(d)). projection *= sqrt(d) restores slope 1.
        # size-accounting: the in-memory container holds a byte an index; only save() packs.
        "turboquant-prod": SKETCH | {"size-accounting"},
        # gaussian-limit: tables from a grid of 10,000 points on [-1, 1], too coarse at d = 576.
        "turboquant-mse": {"size-accounting", "gaussian-limit"},
    },
    "turbo-quant-lite": {
        # One table, that of d = 512, at every d: centroids *= sqrt(512/d) restores D_b.
        # size-accounting: pack() at 3 bits spends a byte an index.
        "turboquant-mse": {
            "codebook-optimal",
            "distortion",
            "gaussian-limit",
            "qjl-unbiased",
            "size-accounting",
        },
    },
    "faiss": {
        # QT_{b}bit_tq: an orthonormal sketch with the scale sqrt(pi/2)/d. Its stored residual
        # norm times sqrt(d) restores slope 1. Where d is no power of two the rows are those
        # of a padded transform, which are not orthogonal.
        "turboquant-prod": SKETCH | {"distortion"},
        "turboquant-mse": set(),
        "scalar": set(),
    },
}


@pytest.fixture(scope="session")
def report(package):
    return check(package, Settings(effort="standard"), workers=2)


def test_findings_are_the_known_ones(package, report):
    violated = {
        kind: {e.id for e in report.entries if e.verdict == "violates" and e.kind == kind}
        for kind in {entry.kind for entry in report.entries}
    }
    assert violated == KNOWN[package]


def test_nothing_failed_to_run(report):
    counts = report.counts
    assert counts["error"] == 0
    assert counts["conforms"] > 200
