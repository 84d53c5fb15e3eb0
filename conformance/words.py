"""Numbers, verdicts and sentences, as every format writes them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import floor, log10

from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.evidence.outcome import WORST_FIRST
from kvassay.conformance.evidence.runs import CheckRun, PapersRun, Run
from kvassay.conformance.evidence.schema import COUNTED, Entry, Finding, Kill

Ends = tuple[float | None, float | None] | None

SIGNS = {
    "conforms": "✓",
    "violates": "✗",
    "inconclusive": "?",
    "error": "!",
    "not applicable": "–",
    "agrees": "✓",
    "differs": "≠",
    "undecided": "?",
    "reproduced": "✓",
    "not reproduced": "≠",
    "contested": "⇄",
}

STANDINGS = {
    "theorem": "holds for any correct implementation",
    "derived": "follows from the theorems at finite d",
    "reported": "a figure that a paper measured",
    "contested": "the papers disagree",
}


def number(value: float | None, digits: int = 4) -> str:
    """A number to some significant digits, as people write it."""
    if value is None:
        return "–"
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:,.0f}"
    return text.replace("-", "−")


def measured(estimate: float | None, interval: Ends) -> str:
    """The estimate with its interval, to the digits that the interval leaves it."""
    if estimate is None:
        return "–"
    low, high = interval or (None, None)
    if low is None or high is None or low == high:
        return number(estimate)
    if not (half := (high - low) / 2) > 0:
        return number(estimate)
    decimals = 1 - floor(log10(half))
    largest = max(abs(low), abs(high))
    if not 0 <= decimals <= 6 or largest >= 1e6 or largest < 1e-3:
        return f"{number(estimate, 3)} [{number(low, 3)}, {number(high, 3)}]"
    texts = [f"{value:.{decimals}f}".replace("-", "−") for value in (estimate, low, high)]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def band(item: Entry | Finding) -> str:
    """What the claim says."""
    low, high = item.band or (None, None)
    if low is None and high is None:
        return "–"
    if low is None:
        return f"at most {number(high)}"
    if high is None:
        return f"at least {number(low)}"
    if item.predicted is None:
        return f"{number(low)} to {number(high)}"
    return f"{number(item.predicted)} [{number(low)}, {number(high)}]"


def share(value: float) -> str:
    """A small probability, like "1 in 3,000,000"."""
    return f"1 in {round(1 / value):,}" if value > 1e-12 else "never"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a row, the first of them."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def extent(counts: Sequence[int]) -> str:
    """Like "10 to 97", or "10" where all are."""
    if not counts:
        return "–"
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def plural(count: int, what: str) -> str:
    """Like "1 entry" and "3 entries"."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{count:,} {what if count == 1 else many}"


def worst(verdicts: Iterable[str]) -> str:
    """The one that decides, for several of a claim."""
    there = set(verdicts)
    return next(word for word in WORST_FIRST if word in there)


def by_claim(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The entries of each claim, in the order of the catalogue, unknown claims last."""
    groups: dict[str, list[Entry]] = {claim.id: [] for claim in CLAIMS}
    for entry in entries:
        groups.setdefault(entry.id, []).append(entry)
    return {name: group for name, group in groups.items() if group}


def decided_claims(run: CheckRun) -> dict[str, str]:
    """The verdict on each claim: the worst of its entries'."""
    groups = by_claim(run.entries)
    return {name: worst(entry.verdict for entry in group) for name, group in groups.items()}


def badge(run: CheckRun) -> dict[str, str | int]:
    """What a shields endpoint shows of a run: verdict, number of claims, version of the suite, and
    the effort where it is not the standard one (https://shields.io/badges/endpoint-badge)."""
    word, _ = verdict(run)
    counts = Counter(decided_claims(run).values())
    applicable = sum(counts.values()) - counts["not applicable"]
    message = {
        "conforms": f"conforms to {plural(applicable, 'claim')}",
        "violates": f"violates {counts['violates']} of {plural(applicable, 'claim')}",
        "not applicable": "nothing judged",
    }.get(word, f"{counts['conforms']} of {plural(applicable, 'claim')} conform, not all decided")
    if run.effort != "standard":
        message += f" ({run.effort})"
    colors = {"conforms": "brightgreen", "violates": "red", "not applicable": "lightgrey"}
    return {
        "schemaVersion": 1,
        "label": f"kvassay {run.sources[0].suite}",
        "message": message,
        "color": colors.get(word, "yellow"),
    }


def verdict(run: CheckRun) -> tuple[str, str]:
    """The verdict on a backend in a word (of `WORST_FIRST`) and as a sentence. What is left of a
    record that is not whole shows no conformance."""
    word, sentence = _verdict(run)
    if not run.problems:
        return word, sentence
    return (
        "inconclusive" if word == "conforms" else word,
        f"By what is left of its record, {sentence}",
    )


def _verdict(run: CheckRun) -> tuple[str, str]:
    decided = decided_claims(run)
    counts = Counter(decided.values())
    applicable = len(decided) - counts["not applicable"]
    of = f"the {applicable} claims that apply" if applicable != 1 else "the one claim that applies"
    undecided = [name for name, word in decided.items() if word in ("error", "inconclusive")]
    if counts["violates"]:
        violated = [name for name, word in decided.items() if word == "violates"]
        some = f"{counts['violates']} of {of}" if applicable != 1 else of
        rest = f"; not decided: {listed(undecided, 20)}" if undecided else ""
        return "violates", f"{run.label} violates {some}: {listed(violated, 20)}{rest}."
    if not (counts["conforms"] + counts["inconclusive"]):
        word = "error" if counts["error"] else "not applicable"
        return word, f"{run.label}: nothing could be judged."
    if counts["error"] or counts["inconclusive"]:
        return (
            "error" if counts["error"] else "inconclusive",
            f"{run.label} violates nothing, but not all is decided: {listed(undecided, 20)}.",
        )
    return "conforms", f"{run.label} conforms to " + (
        of.replace("the ", "all ") if applicable != 1 else of
    ) + "."


def papers_verdict(run: PapersRun) -> tuple[str, str]:
    """The same for a run of `kvassay reproduce`."""
    judged = [item for item in run.outcomes if item.standing in ("theorem", "derived")]
    if violated := [item.id for item in judged if "violates" in item.words]:
        return "violates", (
            f"{run.label} violates {len(violated)} of {plural(len(judged), 'claim')} that are "
            f"theorems or follow from them: {listed(violated, 20)}."
        )
    open_ = [item.id for item in judged if {"inconclusive", "error"} & set(item.words)]
    good = sum("conforms" in item.words for item in judged)
    if not judged or not (good or open_):
        return "not applicable", f"{run.label}: no theorem was judged."
    every = "All" if good == len(judged) else f"{good} of"
    sentence = (
        f"{every} {plural(len(judged), 'claim')} that are theorems or follow from them conform "
        f"with the codecs of {run.label}"
    )
    if open_:
        return "inconclusive", f"{sentence}; not decided: {listed(open_)}."
    return "conforms", f"{sentence}."


def reported(run: PapersRun) -> str:
    """What became of what the papers only report."""
    counts = {
        word: sum(word in item.words for item in run.outcomes)
        for word in ("reproduced", "not reproduced", "undecided", "contested")
    }
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"Of what the papers only report: {told}." if told else ""


def sums(run: CheckRun) -> str:
    """The sum that must come out, like "9 planned = 8 conforms + ..."."""
    counts = run.counts
    parts = [f"{counts[name.replace(' ', '_')]:,} {name}" for name in COUNTED]
    what = "left in the record" if run.problems else "planned"
    return f"{counts['planned']:,} {what} = {' + '.join(parts)}"


def kills_sentence(kills: Sequence[Kill]) -> str:
    """How many seeded faults were caught."""
    faults = [kill for kill in kills if not kill.proof]
    alike = [kill for kill in kills if kill.proof]
    text = f"{sum(kill.ok for kill in faults)} of {plural(len(faults), 'seeded fault')} caught"
    if alike:
        unharmed = sum(kill.ok for kill in alike)
        text += f"; {unharmed} of {plural(len(alike), 'equivalent change')} caught by nobody"
    return text


def false_alarm_rate(entries: Sequence[Entry | Finding]) -> str:
    """The same as a text: the promise of 1 run in 1000, or more where there is more."""
    rate = false_alarms(entries)
    return "1 run in 1000" if rate <= 1e-3 else f"{rate * 1000:.1f} runs in 1000"


def false_alarms(entries: Sequence[Entry | Finding]) -> float:
    """The most that all intervals together can miss the truth: the sum of their shares."""
    return sum(entry.alpha for entry in entries)


def labels(runs: Sequence[Run]) -> list[str]:
    """A label for each run; where two have one name and version, the record's file tells them
    apart."""
    plain = Counter(run.label for run in runs)
    return [
        run.label if plain[run.label] == 1 else f"{run.label} ({run.sources[0].file})"
        for run in runs
    ]


def facts(run: Run, *settings: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """How a run was made, name and value: backend, seed, further settings, and of each record
    its versions, machine, device and driver."""
    yield "backend", run.label
    yield "named on the command line", run.spec
    yield "offers", ", ".join((*run.kinds, *(f"{sketch} sketch" for sketch in run.sketches)))
    yield "effort", run.effort
    yield "seed", str(run.seed)
    yield from settings
    for place, source in enumerate(run.sources, 1):
        of = f" ({place} of {len(run.sources)})" if len(run.sources) > 1 else ""
        yield f"record{of}", source.file
        yield f"kvassay{of}", source.suite
        for name, value in source.machine.items():
            yield f"{name}{of}", value
        for name, value in source.device.items():
            yield f"device {name}{of}", value
