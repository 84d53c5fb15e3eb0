from types import SimpleNamespace

import numpy as np
import pytest

from kvassay.conformance import Capabilities, Settings, check
from kvassay.conformance.adapters.reference import backend as reference
from kvassay.conformance.claims import edges as claims
from kvassay.conformance.faults import select
from kvassay.conformance.measure.cell import BackendGone, Cell
from kvassay.conformance.measure.edges import (
    BY_NAME,
    EDGES,
    Refused,
    Subject,
    allowed,
    norm_tolerance,
    query_tolerance,
)
from kvassay.conformance.run.plan import BITS, DIMS, FURTHER_DIMS, plan
from kvassay.conformance.statistics.design import BEYOND_SHARE, beyond_all, looks
from kvassay.properties.test_codec import PROPERTIES
from kvassay.reference.codecs import Scalar

CELL = Cell("scalar", "", 16, 3)


class Mine:
    """A backend of one kind with a codec of our own."""

    name, version, capabilities = "mine", "1", Capabilities(("scalar",))

    def __init__(self, made):
        self.made = made

    def codec(self, kind, dim, bits, seed):
        return self.made(dim, bits)


def subject(made, cell=CELL):
    return Subject(Mine(made), cell, 3)


def entries(made, *names):
    settings = Settings(dims=(16,), bits=(3,), claims=names, effort="quick")
    return {entry.part: entry for entry in check(Mine(made), settings).entries}


def test_every_edge_is_judged_by_check_or_by_a_property_and_nothing_else_is():
    parts = {part.name for claim in claims.CLAIMS for part in claim.parts}
    assert parts <= set(BY_NAME)
    assert set(BY_NAME) <= parts | set(PROPERTIES)
    assert len(BY_NAME) == len(EDGES)


@pytest.mark.parametrize("edge", [e for e in EDGES if e.name != "many-rows"], ids=lambda e: e.name)
@pytest.mark.parametrize("kind", ["scalar", "turboquant-mse", "gaussian", "orthogonal"])
def test_the_reference_has_no_edge(edge, kind):
    sketch = kind if kind in ("gaussian", "orthogonal") else ""
    for bits in (1, 4, 8):
        cell = Cell("turboquant-prod" if sketch else kind, sketch, 16, bits)
        assert edge.worst(Subject(reference(), cell, 11)) <= edge.limit(cell)


class RefusesLoud(Scalar):
    """Norms in float16; what they do not hold is refused."""

    def encode(self, x):
        code = super().encode(x)
        if np.any(code.norms > 65_504) or np.any((code.norms < 1e-4) & (code.norms > 0)):
            raise ValueError("norms must be within float16")
        return code


def test_a_codec_that_refuses_what_it_cannot_represent_violates_nothing():
    found = entries(RefusesLoud, "rows-apart", "any-scale", "refusals")
    assert found["neighbours-do-not-matter"].verdict == "conforms"
    assert found["norms-beyond-half"].verdict == "conforms"  # those that it takes
    assert found["extreme-norms"].verdict == "not applicable"
    assert found["extreme-norms"].reason.startswith("refused: ValueError: norms must be within")


class CannotBeEmpty(Scalar):
    def encode(self, x):
        np.max(x)
        return super().encode(x)


def test_a_crash_is_an_error_of_its_entry_alone():
    found = entries(CannotBeEmpty, "any-count", "rows-apart")
    assert found["shape-and-dtype"].verdict == "error"
    assert "zero-size array" in found["shape-and-dtype"].reason
    assert found["order-of-tokens"].verdict == "conforms"


def test_a_process_that_ended_has_refused_nothing():
    def gone():
        raise BackendGone("it ended")

    with pytest.raises(BackendGone):
        allowed(gone)
    with pytest.raises(Refused, match="refused: ZeroDivisionError"):
        allowed(lambda: 1 / 0)


def test_a_stated_precision_is_what_a_query_is_held_to():
    (fault,) = select(["N-query-bfloat16"])
    edge = BY_NAME["estimates-are-linear-in-the-query"]
    stated = SimpleNamespace(design=SimpleNamespace(query="bfloat16", norm="float16"))
    worst = max(
        edge.worst(Subject(fault, Cell("turboquant-mse", "", 64, 4), seed)) for seed in range(20)
    )
    assert query_tolerance(CELL) < worst <= query_tolerance(stated)
    assert norm_tolerance(stated, 1.0) == 2.0**-22
    assert norm_tolerance(stated, 1e-8) > 1  # below half of the least float16 there is nothing
    assert norm_tolerance(CELL, 1e-8) < 1e-12


def test_edges_stand_at_the_smallest_dimension_and_repeat_alone():
    tasks = plan("reference", reference(), Settings(kinds=("scalar",), effort="quick"))
    cells = {(task.cell.dim, task.cell.bits): {name for name, _ in task.planned} for task in tasks}
    assert all(("any-scale" in cells[dim, bits]) == (dim == 64) for dim in DIMS for bits in BITS)
    assert {dim for dim, _ in cells} == {16, *DIMS, *FURTHER_DIMS}
    assert cells[16, 4] == {"call-sizes"}
    assert {(64, 7), (64, 8)} <= set(cells)
    assert all("every-size" in cells[dim, 4] for dim in FURTHER_DIMS)
    for dim, bits, claim in ((16, 4, "call-sizes"), (96, 4, "every-size"), (64, 2, "refusals")):
        again = plan(
            "reference",
            reference(),
            Settings(("scalar",), dims=(dim,), bits=(bits,), claims=(claim,), effort="quick"),
        )
        (before,) = (task for task in tasks if (task.cell.dim, task.cell.bits) == (dim, bits))
        wanted = {part.name for name, part in before.planned if name == claim}
        assert wanted <= {part.name for task in again for _, part in task.planned}
    only = Settings(kinds=("scalar",), claims=("size-accounting",), effort="quick")
    assert {task.cell.dim for task in plan("reference", reference(), only)} == set(DIMS)


class Explodes:
    """Answers as wrong as chance has it, by orders of magnitude, in every seed."""

    name, version, capabilities = "explodes", "1", Capabilities(("turboquant-mse",))

    def codec(self, kind, dim, bits, seed):
        from kvassay.reference.codecs import TurboQuantMSE

        made = TurboQuantMSE(dim, bits, seed)
        decode, factor = made.decode, 10.0 ** np.random.default_rng(seed).uniform(1, 6)
        made.decode = lambda code: decode(code) * factor
        return made


def test_a_codec_that_is_far_off_in_every_seed_is_not_left_undecided():
    settings = Settings(dims=(64,), bits=(2,), claims=("distortion",), effort="quick")
    (isotropic, scales) = check(Explodes(), settings).entries
    assert isotropic.verdict == scales.verdict == "violates"
    assert isotropic.interval[0] < isotropic.band[1]  # by its interval alone it would be undecided


def test_beyond_all_spends_a_share_of_alpha_at_the_last_look():
    planned = looks(50, 2e-7)
    assert sum(look.alpha + look.beyond for look in planned) == pytest.approx(2e-7)
    assert [look.beyond > 0 for look in planned] == [False] * (len(planned) - 1) + [True]
    assert planned[-1].beyond == 2e-7 * BEYOND_SHARE


def test_beyond_all_keeps_its_level_under_the_worst_law():
    """Markov's bound is attained by values that are 0 or c high; at n = 2 and a large alpha the
    rate can be counted."""
    alpha, rng = 0.04, np.random.default_rng(0)
    edge = alpha**-0.5 * 1.0001  # just beyond: mean 1, so with probability 1 / edge
    values = edge * (rng.random((40_000, 2)) < 1 / edge)
    rate = np.mean([beyond_all(list(pair), 1.0, alpha) for pair in values])
    assert 0.9 * alpha < rate <= alpha + 4 * np.sqrt(alpha / 40_000)
