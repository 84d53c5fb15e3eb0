"""What the command line shows, with rich. No decisions are made here."""

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvassay.conformance import discovery
from kvassay.conformance.catalogue import BY_ID, CLAIMS
from kvassay.conformance.claims import Claim
from kvassay.conformance.deviations import Agreement
from kvassay.conformance.diagnosis import Diagnosis
from kvassay.conformance.faults import BY_ID as FAULTS_BY_ID
from kvassay.conformance.faults import Kill
from kvassay.conformance.papers import CLAIMS as PAPER_CLAIMS
from kvassay.conformance.record import COUNTED, Entry
from kvassay.conformance.runner import Report, Settings

STYLES = {
    "conforms": "green",
    "violates": "bold red",
    "inconclusive": "yellow",
    "not applicable": "dim",
    "error": "bold magenta",
}
LIKELY = 3  # faults that fit which are shown
SHOWN = 6  # violations of one claim that are shown in full


def show_report(
    report: Report,
    settings: Settings,
    diagnoses: Sequence[Diagnosis],
    agreement: Agreement | None,
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
    for diagnosis in diagnoses:
        for line in _looks_like(diagnosis):
            console.print(line)
    for verdict in ("error", "not applicable"):
        for line in _reasons(report.entries, verdict):
            console.print(line)
    console.print(_sentence(report, settings))
    if agreement is not None:
        for line in _agreement(agreement):
            console.print(line)


def _looks_like(diagnosis: Diagnosis) -> Iterator[Text]:
    """The known faults that fit, or that none does."""
    where = f"{diagnosis.kind} {diagnosis.sketch}".strip() + ", size" * diagnosis.sizes
    if not diagnosis.matches:
        near = diagnosis.near
        near_text = f" (nearest, {near.fit:.0%}: {near.fault})" if near else ""
        yield Text(f"Looks like: {where}: no known fault{near_text}", style="bold yellow")
    for match in diagnosis.matches[:LIKELY]:
        text = FAULTS_BY_ID[match.fault].text
        lead = f"Looks like: {where}: {match.fault}, which explains {match.fit:.0%}: "
        yield Text.assemble((lead, "bold yellow"), text)


def _agreement(agreement: Agreement) -> Iterator[Text]:
    """Each known deviation with its reason, then what was not known or is so no more."""
    covered = Counter(str(known) for _, known in agreement.expected)
    reasons = {str(known): known for _, known in agreement.expected}
    for name, number in covered.items():
        known = reasons[name]
        issue = f" ({known.issue})" if known.issue else ""
        yield Text(f"known deviation, {number} entries: {name}: {known.reason}{issue}", style="dim")
    for entry in agreement.unexpected[:SHOWN]:
        text = f"NOT known: {entry.id}, {entry.part}, {_cell(entry)}: {entry.verdict}"
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
        where = f"{_cell(entry)}, {entry.part}"
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


def _cell(entry: Entry) -> str:
    return f"{entry.kind} {entry.sketch}".strip() + f" d={entry.dim} b={entry.bits}"


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
        f"\neffort {settings.effort}, seed {settings.seed}, false alarms at most 1 run in 1000"
    )
    return Text(verdict, style=style).append(tail, style="not bold default")


def show_kills(kills: Sequence[Kill], effort: str) -> None:
    """A row for each fault: what it is and who caught it."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault", no_wrap=True)
    table.add_column("what is wrong")
    table.add_column("caught by")
    for kill in kills:
        style = "green" if kill.ok else "bold red"
        caught = Text(", ".join(kill.caught) or "nobody", style=style)
        if kill.missed:
            caught.append(f"; missed by {', '.join(kill.missed)}", style="bold red")
        if kill.fault.proof:
            caught.append(f", and no fault: {kill.fault.proof}", style="dim" if kill.ok else style)
        table.add_row(kill.fault.id, escape(kill.fault.text), caught)
    console.print(table)
    bad = [kill.fault.id for kill in kills if not kill.ok]
    alike = sum(bool(kill.fault.proof) for kill in kills)
    verdict = "all caught" + (f", and none of {alike} changes that are no faults" if alike else "")
    if bad:
        verdict = f"NOT caught as they must be: {', '.join(bad)}"
    console.print(
        Text(
            f"{len(kills) - alike} faults at {effort} effort: {verdict}",
            style="bold red" if bad else "bold green",
        )
    )


def show_backends() -> None:
    """A row for each announced backend, installed or not."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("backend", "version", "kinds", "sketches"):
        table.add_column(heading)
    for name in discovery.names():
        try:
            backend = discovery.load(name)
        except discovery.BackendError as problem:
            table.add_row(name, "-", Text(str(problem), style="dim"), "")
            continue
        capabilities = backend.capabilities
        table.add_row(
            name, backend.version, "\n".join(capabilities.kinds), "\n".join(capabilities.sketches)
        )
    Console().print(table)


def show_devices(devices: list[dict[str, str]], chosen: int | None, why_none: str) -> None:
    """A row for each OpenCL device; the chosen one is marked, or it says why none is."""
    console = Console()
    if not devices:
        console.print(
            "0 devices. `pip install 'pyopencl[pocl]'` brings a driver for CPUs; a GPU needs that "
            "of its maker, whose .icd file OCL_ICD_VENDORS can name.",
            markup=False,
        )
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "device", "driver", "limits"):
        table.add_column(heading)
    for number, facts in enumerate(devices):
        table.add_row(
            f"{number}{'*' * (number == chosen)}",
            escape(f"{facts['device']}\n{facts['type']}, variant {facts['variant']}"),
            escape(f"{facts['platform']}\n{facts['driver']}\n{facts['language']}"),
            f"{facts['compute units']} units, groups of {facts['work-group']}\n"
            f"{facts['memory']}, a buffer {facts['largest buffer']}\n"
            f"local {facts['local memory']}, float64 {facts['float64']}",
        )
    console.print(table)
    if why_none:
        console.print(f"None is used: {why_none}.", markup=False, highlight=False)
        return
    console.print("* is used. --device NUMBER or NAME, or KVASSAY_DEVICE, chooses another.")


def show_claims() -> None:
    """A row for each claim, those of the papers first."""
    console = Console()
    codec_claims = [claim for claim in CLAIMS if claim.source != "interface"]
    interface = [claim for claim in CLAIMS if claim.source == "interface"]
    for title, claims in (
        ("Of a codec: `kvassay check` and `kvassay reproduce`", codec_claims),
        ("Of attention, regimes and SpectralQuant: `kvassay reproduce`", PAPER_CLAIMS),
        ("Of the interface, ours: `kvassay check`", interface),
    ):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        for heading in ("claim", "standing", "sentence"):
            table.add_column(heading)
        for claim in claims:
            table.add_row(claim.id, claim.standing, escape(claim.sentence))
        console.print(table)
    console.print(
        f"{len(codec_claims) + len(PAPER_CLAIMS)} claims of the papers, {len(interface)} of the "
        "interface; `kvassay explain CLAIM` tells all about one"
    )


def show_claim(claim: Claim) -> None:
    """The whole record of one claim."""
    from kvassay.conformance.experiments import EXPERIMENTS

    console = Console()
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    needed = ", ".join(claim.needs)
    rows = [
        ("claim", claim.sentence),
        ("source", claim.source),
        ("standing", f"{claim.standing}: {STANDINGS[claim.standing]}"),
        ("kinds", ", ".join(claim.kinds)),
        ("needs", needed),
        ("unit", "one seed: a fresh rotation, sketch and data"),
        (
            "judged by",
            _METHODS[claim.method] + ("; only too much violates" if claim.at_most else ""),
        ),
        ("violated", claim.meaning),
        ("catches", f"{', '.join(claim.kills)} (`kvassay faults` tells what they are)"),
    ]
    for key, value in rows:
        table.add_row(key, escape(value))
    console.print(Panel(table, title=claim.id, title_align="left"))
    parts = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("part", "statistic", "what is done"):
        parts.add_column(heading)
    for part in claim.parts:
        done = _first_sentence(EXPERIMENTS[part.experiment].__doc__ or "")
        parts.add_row(part.name, part.statistic.replace("_", " "), escape(done))
    console.print(parts)
    console.print(_worked_example(claim))


def _worked_example(claim: Claim) -> Table:
    from kvassay.conformance.claims import EFFORTS
    from kvassay.conformance.experiments import Cell
    from kvassay.conformance.runner import ALPHA, SPLIT

    alpha = ALPHA / SPLIT
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title="At d = 128, b = 4: predicted, and what each effort resolves with how many seeds",
        title_justify="left",
    )
    for heading in ("kind", "predicted", *EFFORTS):
        table.add_column(heading)
    for kind in claim.kinds:
        for sketch in ("gaussian", "orthogonal") if kind == "turboquant-prod" else ("",):
            cell = Cell(kind, sketch, 128, 4)
            part = claim.parts_for(cell)[0]
            row = [
                f"±{claim.delta(cell, part.name, effort):.3g} "
                f"({claim.needed(cell, part.name, effort, alpha)})"
                for effort in EFFORTS
            ]
            if claim.at_most:
                row = [text.replace("±", "+") for text in row]
            predicted = claim.prediction(cell, part.name)
            table.add_row(f"{kind} {sketch}".strip(), f"{predicted:.5g}", *row)
    if claim.method in ("ratio", "geometric"):
        table.caption = "relative to the prediction"
        table.caption_justify = "left"
    return table


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(inspect.cleandoc(text).split()))[0]


STANDINGS = {
    "theorem": "holds for any correct implementation",
    "derived": "follows from the theorems at finite d",
    "reported": "a figure that a paper measured",
    "contested": "the papers disagree",
}

_METHODS = {
    "ratio": "Student-t interval over the seeds",
    "geometric": "Student-t interval over the seeds, of the logarithm",
    "distance": "Dvoretzky-Kiefer-Wolfowitz band for the CDF",
    "worst": "the worst value over the seeds; no chance involved",
}
