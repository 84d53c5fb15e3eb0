"""The claims of both papers: what the page says, whatever the format."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvassay.conformance import words
from kvassay.conformance.claims import codec
from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.question import PaperClaim
from kvassay.conformance.evidence.runs import PapersRun
from kvassay.conformance.evidence.schema import Entry, Finding, Outcome
from kvassay.conformance.measure.studies import STUDIES

GOOD = ("conforms", "agrees")
OPEN = ("inconclusive", "undecided")
STANDINGS = {
    "theorem": "holds for any correct implementation",
    "derived": "follows from the theorems at finite d",
    "reported": "a figure that a paper measured; no backend can fail it",
    "contested": "the papers disagree; no backend can fail it",
}
HOLDS = {
    "everywhere": "in all",
    "mostly": "in most",
    "somewhere": "in at least one",
}


@dataclass(frozen=True)
class QuestionRow:
    """One thing that a claim says, and what was found."""

    text: str
    so_if: str
    aside: bool
    good: int
    undecided: int
    of: int
    ours: str
    nearest: str
    theory: str
    paper: str
    claimed: str
    items: tuple[Finding, ...]


@dataclass(frozen=True)
class PaperRow:
    """What became of one claim of the papers. A claim about a codec has `entries`, any other
    `questions`."""

    id: str
    sentence: str
    source: str
    standing: str
    meaning: str
    outcome: Outcome
    questions: tuple[QuestionRow, ...]
    entries: tuple[Entry, ...]
    about: str
    paper: str
    claimed: str
    ours: str
    nearest: str
    theory: str
    conditions: tuple[tuple[str, str], ...]
    command: str

    @property
    def needed(self) -> str:
        """In how many of its quantities a claim must be so, question by question."""
        asked = [question.so_if for question in self.questions if not question.aside]
        return "needed " + ", ".join(dict.fromkeys(asked)) if asked else "needed in all"

    @property
    def counted(self) -> tuple[Entry | Finding, ...]:
        """What the outcome is made of."""
        return self.entries + tuple(
            item for question in self.questions if not question.aside for item in question.items
        )


@dataclass(frozen=True)
class PapersPage:
    """All that the papers' page says."""

    run: PapersRun
    verdict: str
    sentence: str
    reported: str
    tally: str
    rows: tuple[PaperRow, ...]
    reasons: tuple[tuple[str, str, int], ...]
    facts: tuple[tuple[str, str], ...]
    untested: tuple[str, ...]


def papers_page(run: PapersRun) -> PapersPage:
    """The page of a run of `kvassay reproduce`."""
    verdict, sentence = words.papers_verdict(run)
    counts: dict[str, int] = {}
    for outcome in run.outcomes:
        said = " but ".join(outcome.words)
        counts[said] = counts.get(said, 0) + 1
    tensors = [(f"real tensors, {name}", text) for name, text in run.tensors.items()]
    return PapersPage(
        run=run,
        verdict=verdict,
        sentence=sentence,
        reported=words.reported(run),
        tally=f"{words.plural(len(run.outcomes), 'claim')} = "
        + " + ".join(f"{count} {word}" for word, count in counts.items()),
        rows=tuple(_row(run, outcome) for outcome in run.outcomes),
        reasons=tuple(_reasons(run)),
        facts=tuple(words.facts(run, *tensors)),
        untested=tuple(_untested(run)),
    )


def _row(run: PapersRun, outcome: Outcome) -> PaperRow:
    claim = ALL.get(outcome.id)
    findings = [item for item in run.findings if item.id == outcome.id]
    entries = tuple(item for item in run.entries if item.id == outcome.id)
    texts = dict.fromkeys(item.question for item in findings)
    questions = tuple(
        _question(claim, text, [item for item in findings if item.question == text])
        for text in texts
    )
    about = paper = claimed = nearest = ""
    ours = theory = "–"
    if entries:
        ours, theory = _of_entries(entries)
    elif main := _main(questions):
        about, paper, claimed = main.text, main.paper, main.claimed
        ours, nearest, theory = main.ours, main.nearest, main.theory
    spec = "" if run.spec == "reference" else f" {run.spec}"
    return PaperRow(
        id=outcome.id,
        sentence=claim.sentence if claim else "This version of kvassay does not know this claim.",
        source=claim.source if claim else "–",
        standing=outcome.standing,
        meaning=claim.meaning if claim and "violates" in outcome.words else "",
        outcome=outcome,
        questions=questions,
        entries=entries,
        about=about,
        paper=paper,
        claimed=claimed,
        ours=ours,
        nearest=nearest,
        theory=theory,
        conditions=tuple(_conditions(run, findings, entries)),
        command=f"kvassay reproduce{spec} --claim {outcome.id} --effort {run.effort} "
        f"--seed {run.seed}",
    )


def _main(questions: Sequence[QuestionRow]) -> QuestionRow | None:
    """The question that the row of a claim shows: one with a figure of the paper, or the first."""
    counted = [question for question in questions if not question.aside]
    return next((q for q in counted if q.paper), counted[0] if counted else None)


def _question(claim: object, text: str, items: Sequence[Finding]) -> QuestionRow:
    known = None
    if isinstance(claim, PaperClaim):
        known = next((q for q in claim.questions if q.text == text), None)
    there = [item for item in items if item.estimate is not None]
    ours, nearest, theory = _figures(there)
    figures = dict.fromkeys(item.paper for item in items if item.paper is not None)
    bands = {claim_of(item) for item in items}
    return QuestionRow(
        text=text,
        so_if=HOLDS[known.holds] if known else "–",
        aside=bool(known and known.aside),
        good=sum(item.verdict in GOOD for item in there),
        undecided=sum(item.verdict in OPEN for item in there),
        of=len(there),
        ours=ours,
        nearest=nearest,
        theory=theory,
        paper=", ".join(words.number(value) for value in figures),
        claimed=", ".join(bands) if len(bands) == 1 else "",
        items=tuple(items),
    )


def claim_of(item: Finding) -> str:
    """What the claim says of one quantity."""
    return "they differ" if item.method == "energy" else words.band(item)


def _figures(there: Sequence[Finding]) -> tuple[str, str, str]:
    """Our figure (the range where there are several), the one nearest to the paper's, and
    theory's."""
    if not there:
        return "–", "", "–"
    estimates = [item.estimate for item in there if item.estimate is not None]
    ours = (
        words.measured(there[0].estimate, there[0].interval)
        if len(there) == 1
        else _span(estimates)
    )
    nearest = ""
    with_figure = [item for item in there if item.paper is not None]
    if with_figure and len(there) > 1:
        item = min(with_figure, key=lambda each: abs((each.estimate or 0) - (each.paper or 0)))
        nearest = f"nearest {words.measured(item.estimate, item.interval)}, {item.where}"
    return ours, nearest, _span([item.predicted for item in there])


def _of_entries(entries: Sequence[Entry]) -> tuple[str, str]:
    """The same for a claim about a codec."""
    there = [entry for entry in entries if entry.estimate is not None]
    theory = _span([entry.predicted for entry in there])
    pairs = [(entry.estimate or 0.0, entry.predicted or 0.0) for entry in there]
    both_ends = all(entry.band and None not in entry.band for entry in there)
    if pairs and both_ends and min(predicted for _, predicted in pairs) > 1e-6:
        ratios = [estimate / predicted for estimate, predicted in pairs]
        return f"{min(ratios):.3f} to {max(ratios):.3f} times theory", theory
    return _span([entry.estimate for entry in there]), theory


def _span(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "–"
    low, high = words.number(min(there), 3), words.number(max(there), 3)
    return low if low == high else f"{low} to {high}"


def _conditions(
    run: PapersRun, findings: Sequence[Finding], entries: Sequence[Entry]
) -> Iterator[tuple[str, str]]:
    """What was drawn and how often, and what was measured."""
    if entries:
        dims = sorted({entry.dim for entry in entries})
        bits = sorted({entry.bits for entry in entries})
        counts = [entry.n for entry in entries if entry.estimate is not None]
        seeds = f"; {words.extent(counts)} seeds" if counts else ""
        yield f"d = {' and '.join(map(str, dims))}; {bits[0]} to {bits[-1]} bits{seeds}", ""
    by_text: dict[str, list[str]] = {}
    for name in dict.fromkeys(item.study for item in findings):
        study = STUDIES.get(name)
        by_text.setdefault(study.about if study else "", []).append(name)
    for text, names in by_text.items():
        trials = max(item.n for item in findings if item.study in names)
        short = words.listed([name.split("/")[-1].replace("=", " = ") for name in names], 9)
        yield f"{short}: {trials:,} trials" + " each" * (len(names) > 1), text


def _reasons(run: PapersRun) -> Iterator[tuple[str, str, int]]:
    counts: dict[tuple[str, str], int] = {}
    items: list[Entry | Finding] = [*run.entries, *run.findings]
    for item in items:
        if item.verdict in ("error", "not applicable"):
            key = (item.verdict, item.reason or "no reason given")
            counts[key] = counts.get(key, 0) + 1
    for (verdict, reason), count in sorted(counts.items(), key=lambda item: -item[1])[:20]:
        yield verdict, reason, count


def _untested(run: PapersRun) -> Iterator[str]:
    there = {outcome.id for outcome in run.outcomes}
    if missing := [name for name in ALL if name not in there]:
        yield f"Claims left out of this run: {', '.join(missing)}."
    interface = [claim.id for claim in codec.CLAIMS if not claim.of_papers]
    yield (
        f"Claims about the interface ({', '.join(interface)}), and dimensions and widths beyond "
        f"these: kvassay check {run.spec}."
    )
    yield (
        "Conditions of the papers that their abstracts and summaries leave open: dimension, "
        "context and populations. So not reproduced says that a figure did not come out under "
        "the conditions given here, no more."
    )
