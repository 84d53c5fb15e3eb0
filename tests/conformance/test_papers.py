from math import inf
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats
from threadpoolctl import threadpool_limits

from kvassay.conformance import discovery
from kvassay.conformance.claims.catalogue import ALL, PAPERS, PAPERS_BY_ID
from kvassay.conformance.claims.question import Quantity, Question
from kvassay.conformance.evidence.outcome import JUDGED, _answer
from kvassay.conformance.evidence.schema import Finding
from kvassay.conformance.faults import BY_ID, caught_by
from kvassay.conformance.faults.fault import Throughout
from kvassay.conformance.measure import tensors
from kvassay.conformance.measure.populations import DENSITY_EDGES
from kvassay.conformance.measure.studies import STUDIES
from kvassay.conformance.measure.study import FIGURES, MSE, SCHEMES, Figure, run
from kvassay.conformance.measure.trial import StudyTrial
from kvassay.conformance.run.reproduce import SPLIT, violates
from kvassay.conformance.statistics.intervals import Band, ends
from kvassay.reference import sphere

THE_33 = [
    "coordinate-law",
    "gaussian-limit",
    "codebook-optimal",
    "distortion",
    "rotation-isometry",
    "rotation-spreads",
    "rank-kept",
    "qjl-unbiased",
    "qjl-variance",
    "pi-over-2",
    "two-pi",
    "jensen",
    "kl-is-variance",
    "kv-asymmetry",
    "kqv-beats-qkqv",
    "kl-gap",
    "worst-case-kl",
    "crossover",
    "six-d-dominance",
    "heavy-tail-protection",
    "low-rank-pathology",
    "subspace-cure",
    "sq-heavy-tail",
    "sq-structured",
    "waterfilling-uniform",
    "d-eff-calibration",
    "spurious-eigenvalue",
    "budget-2",
    "budget-4",
    "ablation-8",
    "v-qjl",
    "storage",
    "two-generators",
]


def judged(claim):
    return [
        item
        for question in claim.questions
        if claim.standing_of(question) in JUDGED and not question.aside
        for item in question.quantities
    ]


def test_all_claims_of_the_papers_are_there():
    assert sorted(ALL) == sorted([*THE_33, "eden"])


def test_the_false_alarm_budget_covers_every_judged_quantity():
    assert 0 < sum(len(judged(claim)) for claim in PAPERS) <= SPLIT


@pytest.mark.parametrize("claim", PAPERS, ids=lambda claim: claim.id)
def test_a_claim_is_well_formed(claim):
    assert claim.questions
    assert len({question.text for question in claim.questions}) == len(claim.questions)
    assert any(not question.aside for question in claim.questions)
    if claim.standing in JUDGED:
        assert judged(claim)
        assert caught_by(claim.id)
        assert claim.meaning
    for question in claim.questions:
        assert question.quantities
        places = [item.where for item in question.quantities]
        assert len(set(places)) == len(places)
    for item in judged(claim):  # a claim that its own prediction contradicts
        if item.predicted is not None:
            assert item.band.low <= item.predicted <= item.band.high


@pytest.mark.once
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_of_the_reference_has_every_figure_that_a_claim_asks_for(name):
    bench = StudyTrial(discovery.load("reference"), name, 0, 0, tensors.shipped())
    with threadpool_limits(limits=1):
        found = run(STUDIES[name], bench)
    wanted = {
        figure
        for claim in PAPERS
        for question in claim.questions
        for item in question.quantities
        if item.study == name
        for figure in item.figures
    }
    assert wanted
    assert wanted <= set(found)
    written = list(map(str, found))
    assert len(set(written)) == len(found)
    assert list(map(Figure.parse, written)) == list(found)


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (Figure("kl", MSE, 4), "kl turboquant-mse 4"),
        (Figure("d2-t", SCHEMES["TQ-KQV/gaussian"], 2), "d2-t TQ-KQV/gaussian 2"),
        (Figure("own kl", SCHEMES["TQ-KV"]), "own kl TQ-KV"),
        (Figure("relmse-t", MSE, 2, "stays N=128"), "relmse-t turboquant-mse 2, stays N=128"),
        (Figure("d-eff", None, 16, "rank=8"), "d-eff 16, rank=8"),
        (Figure("marginal", where="low-rank"), "marginal, low-rank"),
    ],
)
def test_a_figure_is_read_as_it_is_written(figure, text):
    assert str(figure) == text
    assert Figure.parse(text) == figure


@pytest.mark.parametrize(
    "text", ["", "4", "kll scalar 4", "kl scalr 4", "kl scalar 04", "kl  scalar"]
)
def test_what_is_no_figure_is_refused(text):
    with pytest.raises(ValueError, match=r"figure is written|what must be one of"):
        Figure.parse(text)


def test_a_misspelt_figure_fails_where_it_is_named():
    with pytest.raises(ValueError, match="what must be one of kl, kl eden,"):
        Figure("kl-maximum", MSE, 4)
    assert all(FIGURES.values())


@pytest.mark.parametrize("name", ["calibration", "generators"])
def test_a_trial_follows_from_its_seed_and_index(name):
    def figures(seed, index):
        bench = StudyTrial(discovery.load("reference"), name, seed, index)
        return run(STUDIES[name], bench)

    assert figures(3, 1) == figures(3, 1)
    assert figures(3, 1) != figures(3, 2)
    assert figures(3, 1) != figures(4, 1)


# `kvassay faults` runs all of them.
@pytest.mark.once
@pytest.mark.parametrize(
    ("claim", "fault"), [("d-eff-calibration", "L-largest"), ("heavy-tail-protection", "B01")]
)
def test_a_break_turns_a_claim_to_violates_and_the_reference_does_not(claim, fault):
    assert claim in BY_ID[fault].caught_by
    assert violates(Throughout(BY_ID[fault]), PAPERS_BY_ID[claim])
    assert not violates(discovery.load("reference"), PAPERS_BY_ID[claim])


def quantity(method, count=1, **options):
    figures = tuple(Figure("kl", MSE, number) for number in range(count))
    return Quantity("here", "softmax", method, figures, Band(0, 1), **options)


@pytest.mark.parametrize("what", ["given", "rotated"])
def test_densities_of_isotropic_coordinates_are_those_of_the_law(what):
    name, dim, vectors = "direction/d=64", 64, 128
    bench = StudyTrial(discovery.load("reference"), name, 0, 0)
    figures = run(STUDIES[name], bench)
    edges = DENSITY_EDGES
    density = [
        figures[Figure(f"density {what}", None, i, "isotropic")] for i in range(len(edges) - 1)
    ]
    shares = np.diff(sphere.cdf(edges / np.sqrt(dim), dim))
    expected = shares * vectors * dim
    counts = np.array(density) * np.diff(edges) * vectors * dim
    often = expected >= 5
    # Coordinates of one vector crowd each other out, so counts vary less than independent ones.
    distance = np.sum((counts - expected)[often] ** 2 / expected[often])
    assert stats.chi2.sf(distance, np.sum(often)) > 1e-6


def test_quantities_are_what_they_say():
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 0.1, 400), rng.normal(2, 0.1, 400)

    def estimate(method, *columns, **options):
        interval, _ = quantity(method, len(columns), **options).interval(list(columns), 0.01)
        assert interval.low <= interval.estimate <= interval.high
        return interval.estimate

    assert estimate("mean", a) == pytest.approx(a.mean())
    assert estimate("ratio", a, b) == pytest.approx(a.mean() / b.mean())
    assert estimate("geometric", a, b) == pytest.approx(np.exp(np.log(a / b).mean()))
    assert estimate("difference", a, b) == pytest.approx(a.mean() - b.mean())
    assert estimate("worst", a) == a.max()
    assert estimate("squares", a, b) == pytest.approx((a**2).mean() / (b**2).mean())
    assert estimate("rank", a, b) == 1
    assert estimate("rank", b, a) == -1
    assert estimate("distance", a, b) == 1
    assert estimate("least", a, b, a) == pytest.approx(np.exp(np.log(b / a).mean()))
    cloud = np.exp(rng.normal(-3, 0.1, (12, 40)))
    assert 0 <= estimate("energy", *cloud) < 0.5
    cloud[6:] *= 2
    assert estimate("energy", *cloud) > 1
    best = {"function": lambda columns: float(columns[1:].mean(axis=1).min() - columns[0].mean())}
    assert estimate("jackknife", a, b, a, **best) == pytest.approx(b.mean() - a.mean())


def test_intervals_cover_the_truth_and_shrink():
    rng = np.random.default_rng(1)
    missed = {"ratio": 0, "geometric": 0, "squares": 0, "jackknife": 0, "rank": 0}
    wide = {}
    for _ in range(300):
        a, b = rng.lognormal(0, 0.2, 80), rng.lognormal(0, 0.2, 80)
        for method in missed:
            function = {"function": lambda c: float(np.log(c).mean(axis=1) @ [1, -1])}
            item = quantity(method, 2, **(function if method == "jackknife" else {}))
            interval, _ = item.interval([a, b], 0.05)
            truth = 0.0 if method in ("jackknife", "rank") else 1.0
            missed[method] += not interval.low <= truth <= interval.high
            wide.setdefault(method, interval.high - interval.low)
    # 5 % of 300 are 15; 32 or more has a chance below 1e-4.
    assert max(missed.values()) < 32
    a, b = rng.lognormal(0, 0.2, 6000), rng.lognormal(0, 0.2, 6000)
    for method in ("ratio", "geometric", "squares", "rank"):
        interval, _ = quantity(method, 2).interval([a, b], 0.05)
        assert interval.high - interval.low < wide[method] / 5


def test_two_samples_of_one_law_are_near_and_of_two_are_not():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=4000), rng.normal(size=4000)
    same, p = quantity("distance", 2).interval([a, b], 1e-3)
    assert (same.low, p > 1e-3) == (0, True)
    assert same.high < 0.12
    other, p = quantity("distance", 2).interval([a, b + 1], 1e-3)
    truth = 2 * stats.norm.cdf(0.5) - 1
    assert 0 < other.low < truth < other.high
    assert p < 1e-3


def test_the_least_of_many_equal_ratios_is_no_less_than_one():
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(200):
        columns = list(rng.lognormal(0, 0.3, (12, 40)))
        interval, _ = quantity("least", 12).interval(columns, 0.05)
        missed += not interval.low <= 1 <= interval.high
    assert missed < 24  # 5 % are 10; 24 or more has a chance below 1e-4


def answer(holds, verdicts):
    question = Question("so", (quantity("mean"),), holds)
    blank = Finding(
        "x",
        "so",
        "here",
        "softmax",
        "mean",
        ("a",),
        "",
        1,
        (0, 2),
        (0, 1),
        None,
        None,
        None,
        9,
        0.05,
        "",
    )
    return _answer(question, [replace(blank, verdict=verdict) for verdict in verdicts])


@pytest.mark.parametrize(
    ("holds", "verdicts", "outcome"),
    [
        ("everywhere", ["agrees", "agrees"], "reproduced"),
        ("everywhere", ["agrees", "differs"], "not reproduced"),
        ("everywhere", ["agrees", "undecided"], "undecided"),
        ("everywhere", ["agrees", "not applicable"], "reproduced"),
        ("mostly", ["agrees", "agrees", "differs"], "reproduced"),
        ("mostly", ["agrees", "differs"], "not reproduced"),
        ("mostly", ["agrees", "undecided", "differs"], "undecided"),
        ("somewhere", ["differs", "agrees"], "reproduced"),
        ("somewhere", ["differs", "undecided"], "undecided"),
        ("somewhere", ["differs", "differs"], "not reproduced"),
        ("somewhere", ["not applicable"], "not applicable"),
        ("somewhere", ["agrees", "error"], "error"),
    ],
)
def test_what_a_question_comes_to(holds, verdicts, outcome):
    assert answer(holds, verdicts) == outcome


def test_bands_without_an_end_are_recorded_as_none():
    assert ends(Band(-inf, 1)) == (None, 1)
    assert ends(Band(0, inf)) == (0, None)


def test_the_document_tells_what_became_of_every_claim():
    text = (Path(__file__).parents[2] / "docs" / "reproduced.md").read_text()
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row in ALL] == list(ALL)
