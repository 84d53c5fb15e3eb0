"""What the command line shows of the papers' claims, with rich. No decisions are made here."""

from collections.abc import Iterator, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvassay.conformance.claims.catalogue import ALL
from kvassay.conformance.claims.question import PaperClaim, Question
from kvassay.conformance.doors.terminal.codec import STYLES, end, measured
from kvassay.conformance.doors.terminal.lists import faults_caught_by
from kvassay.conformance.evidence.schema import Finding, Outcome
from kvassay.conformance.measure.studies import STUDIES
from kvassay.conformance.measure.study import TRIALS
from kvassay.conformance.run.reproduce import Results
from kvassay.conformance.statistics.intervals import ends
from kvassay.conformance.words import STANDINGS

COLOURS = {
    **STYLES,
    "reproduced": "green",
    "not reproduced": "magenta",
    "contested": "cyan",
    "undecided": "yellow",
    "agrees": "green",
    "differs": "magenta",
}
DETAILED = 3  # claims asked for by name whose quantities are all shown


def show_results(results: Results) -> None:
    """What became of each claim, then what each question found, then the sentence."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("standing")
    table.add_column("outcome")
    table.add_column("so in", justify="right")
    for outcome in results.outcomes:
        table.add_row(
            outcome.id,
            outcome.standing,
            _coloured(outcome.words),
            f"{outcome.holds} of {outcome.of}" if outcome.of else "-",
        )
    console.print(table)
    all_of_it = 0 < len(results.settings.claims) <= DETAILED
    for outcome in results.outcomes:
        claim = ALL[outcome.id]
        if isinstance(claim, PaperClaim):
            console.print(Text.assemble((claim.id, "bold"), ": ", claim.sentence))
            for question in claim.questions:
                found = [
                    finding
                    for finding in results.findings
                    if (finding.id, finding.question) == (claim.id, question.text)
                ]
                console.print(_answer(claim, question, found))
                if all_of_it:
                    console.print(_quantities(found))
        elif not {"conforms", "not applicable"} & set(outcome.words):
            console.print(f"{claim.id}: `kvassay check --claim {claim.id}` shows where")
    for line in _reasons(results.findings):
        console.print(line)
    console.print(_sentence(results))


def _coloured(words: Sequence[str]) -> Text:
    return Text("; ").join(Text(word, style=COLOURS[word]) for word in words)


def _answer(claim: PaperClaim, question: Question, found: Sequence[Finding]) -> Text:
    """One line: how many of the quantities are as the claim says, and their range."""
    there = [finding for finding in found if finding.estimate is not None]
    good = sum(finding.verdict in ("conforms", "agrees") for finding in there)
    undecided = sum(finding.verdict in ("inconclusive", "undecided") for finding in there)
    text = Text("  ")
    if question.aside:
        text.append("aside: ", style="dim")
    text.append(f"{question.text}: ")
    if not there:
        return text.append(found[0].verdict if found else "-", style="dim")
    style = "green" if good == len(there) else "yellow" if good or undecided else "magenta"
    text.append(f"{good} of {len(there)}", style=style)
    if undecided:
        text.append(f" ({undecided} undecided)", style="yellow")
    for verdict in ("error", "not applicable"):
        if number := sum(finding.verdict == verdict for finding in found):
            text.append(f" ({number} {verdict})", style=STYLES[verdict])
    estimates = [finding.estimate for finding in there if finding.estimate is not None]
    low, high = min(estimates), max(estimates)
    text.append(f"; {low:.4g} ... {high:.4g}" if low != high else f"; {low:.4g}")
    if claim.standing == "contested":
        other = sum(finding.verdict == "differs" for finding in there)
        text.append(f"; the other paper's way in {other}", style="cyan" if other else "dim")
    if figures := {finding.paper for finding in there if finding.paper is not None}:
        text.append(
            f"; paper {', '.join(f'{figure:g}' for figure in sorted(figures))}", style="bold"
        )
    return text


def _quantities(found: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, show_header=True, header_style="dim")
    for heading in ("where", "measured [interval]", "theory", "claimed", "verdict", "n"):
        justify: Literal["left", "right"] = "right" if heading == "n" else "left"
        table.add_column(escape(heading), justify=justify, overflow="fold")
    for finding in found:
        theory = f"{finding.predicted:.4g}" if finding.predicted is not None else ""
        table.add_row(
            escape(finding.where),
            escape(_measured(finding)),
            theory,
            escape(_claimed(finding)),
            Text(finding.verdict, style=COLOURS[finding.verdict]),
            str(finding.n),
        )
    return table


def _measured(finding: Finding) -> str:
    if finding.estimate is None:
        return "-"
    p = f" p={finding.p:.2g}" if finding.p is not None else ""
    return measured(finding.estimate, finding.interval) + p


def _claimed(finding: Finding) -> str:
    low, high = finding.band
    return "differ" if finding.method == "energy" else _words(low, high)


def _words(low: float | None, high: float | None) -> str:
    if low is None:
        return f"at most {end(high)}"
    return f"at least {end(low)}" if high is None else f"[{end(low)}, {end(high)}]"


def _reasons(findings: Sequence[Finding]) -> Iterator[Text]:
    for verdict in ("error", "not applicable"):
        reasons = dict.fromkeys(f.reason for f in findings if f.verdict == verdict)
        for reason in list(reasons)[:6]:
            yield Text(f"{verdict}: {reason}", style=STYLES[verdict])
        if len(reasons) > 6:
            yield Text(f"... and {len(reasons) - 6} more reasons", style=STYLES[verdict])


def _sentence(results: Results) -> Text:
    judged = [item for item in results.outcomes if item.standing in ("theorem", "derived")]

    def those(items: Sequence[Outcome], word: str) -> list[str]:
        return [item.id for item in items if word in item.words]

    if violated := those(judged, "violates"):
        text = Text(f"{results.backend} VIOLATES {', '.join(violated)}", style="bold red")
    elif results.exit_code:
        text = Text(f"{results.backend}: not everything is decided", style="bold yellow")
    else:
        text = Text(f"{results.backend} conforms to every claim that applies", style="bold green")
    parts = [f"{len(those(judged, 'conforms'))} of {len(judged)} theorem or derived conform"]
    parts += [
        f"{len(those(results.outcomes, word))} {word}"
        for word in (
            "reproduced",
            "not reproduced",
            "contested",
            "undecided",
            "not applicable",
            "error",
        )
        if those(results.outcomes, word)
    ]
    settings = results.settings
    return text.append(
        f"\n{len(results.outcomes)} claim{'s' * (len(results.outcomes) > 1)}: {', '.join(parts)}"
        f"\neffort {settings.effort}, seed {settings.seed}; intervals of theorem and derived "
        "claims all hold in\n999 runs of 1000, those of a reported question together in 95 of 100",
        style="not bold default",
    )


def show_paper_claim(claim: PaperClaim) -> None:
    """The whole record of one claim."""
    console = Console()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    rows = [
        ("claim", claim.sentence),
        ("source", claim.source),
        ("standing", f"{claim.standing}: {STANDINGS[claim.standing]}"),
        ("needs", ", ".join(claim.needs)),
        ("unit", claim.unit),
        ("violated", claim.meaning or "never: it is only reported"),
    ]
    if caught := faults_caught_by(claim.id):
        rows.append(("catches", caught))
    for key, value in rows:
        table.add_row(key, escape(value))
    console.print(Panel(table, title=claim.id, title_align="left"))
    questions = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("question", "holds if it does", "quantities", "for example", "claimed"):
        questions.add_column(heading)
    for question in claim.questions:
        first = question.quantities[0]
        low, high = ends(first.band)
        band = "differ" if first.method == "energy" else _words(low, high)
        questions.add_row(
            escape(question.text),
            "aside" if question.aside else question.holds,
            str(len(question.quantities)),
            escape(first.where),
            escape(band),
        )
    console.print(questions)
    measured = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("study", "trials", "what is measured"):
        measured.add_column(heading)
    chosen = [STUDIES[name] for name in claim.studies]
    for about in dict.fromkeys(study.about for study in chosen):
        alike = [study for study in chosen if study.about == about]
        trials = " / ".join(str(alike[0].trials(effort)) for effort in TRIALS)
        measured.add_row("\n".join(study.id for study in alike), trials, escape(about))
    console.print(measured)
    console.print(Text(f"Repeat: kvassay reproduce --claim {claim.id}", style="bold"))
