"""What the command line shows, with rich. No decisions are made here."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvassay.conformance import words
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.codec import BY_ID, CLAIMS
from kvassay.conformance.evidence.deviations import Agreement
from kvassay.conformance.evidence.schema import COUNTED, Diagnosis, Entry, Report
from kvassay.conformance.faults import BY_ID as FAULTS_BY_ID
from kvassay.conformance.faults.families import family_of, likely
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.run.plan import Settings
from kvassay.conformance.statistics.design import share_excluded
from kvassay.reference import design_theory

STYLES = {
    "conforms": "green",
    "violates": "bold red",
    "inconclusive": "yellow",
    "not applicable": "dim",
    "error": "bold magenta",
}


HINT = 0.5  # share of the deviation from which a fault that does not fit is worth a look
LIKELY = 3  # families that fit which are shown
SHOWN = 6  # violations of one claim that are shown in full


def show_report(
    report: Report,
    settings: Settings,
    diagnoses: Sequence[Diagnosis],
    agreement: Agreement | None,
    undeclared: Sequence[str] = (),
) -> None:
    """The table, then each finding, what it looks like, what could not be judged, then the
    sentence, and apart from that whether it was expected."""
    console = Console()
    console.print(_summary(report.entries))
    by_claim: dict[str, list[Entry]] = defaultdict(list)
    for entry in report.entries:
        if entry.verdict in ("violates", "inconclusive"):
            by_claim[entry.id].append(entry)
    for claim_id, entries in by_claim.items():
        console.print(_finding(BY_ID[claim_id], entries))
    for other in undeclared:
        console.print(Text.assemble(("Looks like: ", "bold yellow"), other))
    for diagnosis in diagnoses:
        for line in _looks_like(diagnosis):
            console.print(line)
    for verdict in ("error", "not applicable"):
        for line in _reasons(report.entries, verdict):
            console.print(line)
    for costs in _costs(report.entries):
        console.print(costs)
    console.print(_sentence(report, settings))
    if agreement is not None:
        for line in _agreement(agreement):
            console.print(line)


def _looks_like(diagnosis: Diagnosis) -> Iterator[Text]:
    """The families of faults that fit, what to look at first and known cases; or that none does."""
    where = f"Looks like: {diagnosis.codec + ', size' * diagnosis.sizes}: "
    if not diagnosis.matches:
        lead = Text(f"{where}no known fault.", style="bold yellow")
        if near := diagnosis.near:
            family = family_of(near.fault)
            lead.append(f" The nearest explains {near.fit:.0%}: {family.sentence}")
        yield lead
        if near and near.fit > HINT:
            yield Text(f"  If it is that, look first at {family.look}")
        return
    first, *others = likely(diagnosis.matches)[:LIKELY]
    yield Text(f"{where}{first.family.sentence}", style="bold yellow")
    yield Text(f"  It explains {first.fit:.0%}. Look first at {first.family.look}")
    best, *like = (match.fault for match in first.matches)
    text = FAULTS_BY_ID[best].text if best in FAULTS_BY_ID else "not known here."
    also = f" Others like it: {words.listed(like)}." if like else ""
    yield Text(f"  As in {best}: {text}{also}", style="dim")
    for other in others:
        yield Text(f"  This explains {other.fit:.0%}, too: {other.family.sentence}")


def _agreement(agreement: Agreement) -> Iterator[Text]:
    """Each known deviation with its reason, then what was not known or is so no more."""
    covered = Counter(str(known) for _, known in agreement.expected)
    reasons = {str(known): known for _, known in agreement.expected}
    for name, number in covered.items():
        known = reasons[name]
        issue = f" ({known.issue})" if known.issue else ""
        yield Text(f"known deviation, {number} entries: {name}: {known.reason}{issue}", style="dim")
    for entry in agreement.unexpected[:SHOWN]:
        text = f"NOT known: {entry.id}, {entry.part}, {entry.cell.label}: {entry.verdict}"
        yield Text(text, style="bold red")
    if len(agreement.unexpected) > SHOWN:
        yield Text(f"... and {len(agreement.unexpected) - SHOWN} more", style="bold red")
    for stale in agreement.stale:
        yield Text(f"STALE: {stale} conforms now; remove it from the file", style="bold red")
    if not agreement.unexpected and not agreement.stale:
        number = len(agreement.expected)
        yield Text(f"as expected: {number} entries deviate, all known", style="bold green")


def _reasons(entries: Iterable[Entry], verdict: str) -> Iterator[Text]:
    """A line for each reason that entries have this verdict, the first few of them."""
    by_reason: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.verdict == verdict:
            by_reason[entry.reason].append(entry)
    ranked = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for reason, group in ranked[:SHOWN]:
        yield Text(f"{verdict} ({len(group)}): {reason}", style=STYLES[verdict])
        if verdict == "error":
            yield Text(f"  Repeat: {group[0].reproduce}")
    if len(ranked) > SHOWN:
        yield Text(f"... and {len(ranked) - SHOWN} more reasons", style=STYLES[verdict])


def _costs(entries: Iterable[Entry]) -> Iterator[Table]:
    """For each kind of another design than the papers', what that gives up or gains."""
    cells: dict[str, list[Cell]] = defaultdict(list)
    for entry in entries:
        if entry.cell.design.changed and not entry.cell.sketch:
            cells[entry.cell.kind].append(entry.cell)
    for kind, found in cells.items():
        cell = min(found, key=lambda cell: (abs(cell.dim - 128), abs(cell.bits - 4)))
        table = Table(box=None, pad_edge=False, title_justify="left", title_style="")
        table.title = escape(
            f"{kind} is designed otherwise than in the papers: {cell.design}. By theory, which is "
            f"no verdict, at d={cell.dim} b={cell.bits}:"
        )
        for heading in ("", "this design", "the papers'"):
            table.add_column(heading, justify="right" if heading else "left", header_style="dim")
        for cost in design_theory.costs(cell.dim, cell.bits, cell.design, cell.record.rotated):
            if cost.own is not None and cost.own != cost.papers:
                papers = "not known" if cost.papers is None else f"{cost.papers:.4g}"
                table.add_row(cost.what, f"{cost.own:.4g}", papers)
        yield table


def _summary(entries: Iterable[Entry]) -> Table:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        counts[entry.id][entry.verdict] += 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("claim", no_wrap=True)
    for verdict in COUNTED:
        table.add_column(verdict.replace("not applicable", "n/a"), justify="right")
    for claim in CLAIMS:
        if claim.id in counts:
            cells = [
                Text(str(number), style=STYLES[verdict]) if number else Text("·", style="dim")
                for verdict in COUNTED
                for number in [counts[claim.id][verdict]]
            ]
            table.add_row(claim.id, *cells)
    return table


def _finding(claim: Claim, entries: Sequence[Entry]) -> Panel:
    worst = sorted(entries, key=lambda entry: list(COUNTED).index(entry.verdict))
    table = Table(box=None, pad_edge=False, expand=True, show_header=True, header_style="dim")
    for heading in ("where", "measured [interval]", "should be [band]", "seeds"):
        table.add_column(escape(heading), justify="right" if heading == "seeds" else "left")
    for entry in worst[:SHOWN]:
        where = f"{entry.cell.label}, {entry.part}"
        style = STYLES[entry.verdict]
        table.add_row(
            escape(where),
            Text(measured(entry.estimate, entry.interval), style=style),
            _band(entry),
            str(entry.n),
        )
    hidden = len(entries) - min(SHOWN, len(entries))
    verdicts = Counter(entry.verdict for entry in entries)
    title = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in COUNTED if verdicts[verdict])
    lines: list[RenderableType] = [
        Text(f"Claim: {claim.sentence}"),
        Text(f"From: {claim.source} ({claim.standing})", style="dim"),
        table,
    ]
    if hidden:
        lines.append(Text(f"... and {hidden} more; --json or --record has all", style="dim"))
    if verdicts["violates"]:
        lines.append(Text(f"Means: {claim.meaning}"))
    if verdicts["inconclusive"]:
        lines.append(
            Text(
                "Inconclusive: the interval still crosses the band's edge after the "
                "last planned seed; a larger --effort draws more.",
                style="yellow",
            )
        )
    lines.append(Text.assemble("Repeat: ", (worst[0].reproduce, "bold")))
    return Panel(
        Group(*lines),
        title=f"{claim.id} · {title}",
        title_align="left",
        border_style=STYLES[worst[0].verdict],
    )


def measured(estimate: float | None, interval: tuple[float | None, float | None] | None) -> str:
    """The estimate and, where it is not a point, its interval."""
    assert estimate is not None
    assert interval is not None
    low, high = interval
    return f"{estimate:.4g}" if low == high else f"{estimate:.4g} [{end(low)}, {end(high)}]"


def _band(entry: Entry) -> str:
    assert entry.band is not None
    low, high = entry.band
    if low is None:
        return f"at most {end(high)}"
    return escape(f"{end(entry.predicted)} [{end(low)}, {end(high)}]")


def end(value: float | None) -> str:
    """One end of an interval or a band."""
    return "-" if value is None else f"{value:.4g}"


def _every_seed(report: Report) -> str:
    """What share of bad seeds is excluded, where every seed was looked at and none was bad."""
    found = [entry for entry in report.entries if entry.id == "every-seed"]
    if not found or any(entry.verdict != "conforms" for entry in found):
        return ""
    seeds = min(entry.n for entry in found)
    share = share_excluded(seeds)
    return f"\n{seeds} seeds a cell without a bad one: at most {share:.1%} are bad (95 %)"


def _sentence(report: Report, settings: Settings) -> Text:
    counts = report.counts
    name = f"{report.name} {report.version}"
    if counts["violates"]:
        kinds = sorted({entry.id for entry in report.entries if entry.verdict == "violates"})
        verdict, style = f"{name} VIOLATES {', '.join(kinds)}", "bold red"
    elif report.exit_code:
        verdict, style = f"{name}: nothing violates, but not everything is decided", "yellow"
    else:
        verdict, style = f"{name} conforms to every claim that applies", "bold green"
    if not report.judged:
        verdict, style = f"{name}: nothing was judged", "bold yellow"
    parts = [
        f"{counts[key.replace(' ', '_')]} {key.replace('not applicable', 'n/a')}" for key in COUNTED
    ]
    tail = (
        f"\n{counts['planned']} planned = {' + '.join(parts)}"
        f"\neffort {settings.effort}, seed {settings.seed}, "
        f"false alarms at most {words.false_alarm_rate(report.entries)} (nominal)"
        f"{_every_seed(report)}"
    )
    return Text(verdict, style=style).append(tail, style="not bold default")
