"""One backend: what its page says, whatever the format."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvassay.conformance import words
from kvassay.conformance.claims import codec
from kvassay.conformance.evidence import deviations
from kvassay.conformance.evidence.lines import clean
from kvassay.conformance.evidence.runs import CheckRun, KillTable
from kvassay.conformance.evidence.schema import COUNTED, Diagnosis, Entry
from kvassay.conformance.faults import BY_ID
from kvassay.conformance.faults.families import family_of, likely
from kvassay.conformance.run.plan import BITS, DIMS
from kvassay.reference.kinds import JUDGED, STUDIED
from kvassay.reports import controls as known_controls
from kvassay.reports.controls import Control, Controls
from kvassay.reports.figures import deviation

MOST_FINDINGS = 60  # entries of one claim that are listed one by one
MOST_REASONS = 20


@dataclass(frozen=True)
class ClaimRow:
    """What became of one claim. `entry` is the worst of its entries, or the closest to the edge
    of its band."""

    id: str
    sentence: str
    source: str
    standing: str
    meaning: str
    verdict: str
    counts: dict[str, int]
    entry: Entry
    entries: tuple[Entry, ...]
    deviant: tuple[Entry, ...]
    seeds: str
    resolves: str
    looks_like: tuple[str, ...]

    @property
    def tally(self) -> str:
        """Like "3 conforms, 1 violates"."""
        return ", ".join(f"{count:,} {word}" for word, count in self.counts.items())


@dataclass(frozen=True)
class Reason:
    """Why entries have no verdict, and how many."""

    verdict: str
    text: str
    count: int
    command: str


@dataclass(frozen=True)
class Looks:
    """What the violations of one kind look like."""

    where: str
    sentence: str
    cells: str


@dataclass(frozen=True)
class Expected:
    """Whether the result was expected, by a list of known deviations."""

    as_expected: bool
    sentence: str
    known: tuple[tuple[str, str, str, int], ...]  # what, reason, issue, entries
    unexpected: tuple[Entry, ...]
    stale: tuple[str, ...]
    reasons: dict[Entry, str]


@dataclass(frozen=True)
class ConformancePage:
    """All that the page of one backend says."""

    run: CheckRun
    label: str
    verdict: str
    sentence: str
    sums: str
    false_alarms: str
    rows: tuple[ClaimRow, ...]
    looks: tuple[Looks, ...]
    reasons: tuple[Reason, ...]
    controls: tuple[Control, ...]
    wrong_controls: tuple[str, ...]
    kills: KillTable | None
    expected: Expected | None
    facts: tuple[tuple[str, str], ...]
    untested: tuple[str, ...]


def conformance_page(
    run: CheckRun,
    controls: Controls,
    known: Sequence[deviations.Deviation] | None = None,
    label: str = "",
) -> ConformancePage:
    """The page of one run. `known` are the known deviations, if there is a list."""
    verdict, sentence = words.verdict(run)
    control_rows = known_controls.shown(controls, [run])
    return ConformancePage(
        run=run,
        label=label or run.label,
        verdict=verdict,
        sentence=sentence,
        sums=words.sums(run),
        false_alarms=f"{1 / min(max(words.false_alarms(run.entries), 1e-12), 1):,.0f}",
        rows=rows(run),
        looks=looks(run),
        reasons=tuple(_reasons(run.entries)),
        controls=tuple(control_rows),
        wrong_controls=tuple(known_controls.failed(control_rows)),
        kills=controls.kills,
        expected=None if known is None else _expected(known, run),
        facts=tuple(
            words.facts(
                run,
                ("dimensions", ", ".join(map(str, run.dims))),
                ("bits a coordinate", ", ".join(map(str, run.bits))),
            )
        ),
        untested=tuple(_untested(run)),
    )


def rows(run: CheckRun) -> tuple[ClaimRow, ...]:
    """A row for each claim of the run, in the order of the catalogue."""
    return tuple(
        _row(claim_id, entries, run.diagnoses)
        for claim_id, entries in words.by_claim(run.entries).items()
    )


def looks(run: CheckRun) -> tuple[Looks, ...]:
    """What the run's violations look like."""
    return tuple(_looks(diagnosis) for diagnosis in run.diagnoses)


def _row(claim_id: str, entries: Sequence[Entry], diagnoses: Sequence[Diagnosis]) -> ClaimRow:
    claim = codec.BY_ID.get(claim_id)
    verdicts = Counter(entry.verdict for entry in entries)
    deviant = [entry for entry in entries if entry.verdict in deviations.DEVIANT]
    deviant.sort(key=lambda entry: (COUNTED.index(entry.verdict), -deviation(entry)))
    judged = [entry for entry in entries if entry.estimate is not None]
    worst = deviant[0] if deviant else max(judged, key=deviation) if judged else entries[0]
    counts = [entry.n for entry in judged]
    where = {(entry.kind, entry.sketch, claim_id == "size-accounting") for entry in deviant}
    return ClaimRow(
        id=claim_id,
        sentence=claim.sentence if claim else "This version of kvassay does not know this claim.",
        source=claim.source if claim else "–",
        standing=claim.standing if claim else "–",
        meaning=claim.meaning if claim and verdicts["violates"] else "",
        verdict=words.worst(verdicts),
        counts={word: verdicts[word] for word in COUNTED if verdicts[word]},
        entry=worst,
        entries=tuple(entries),
        deviant=tuple(deviant),
        seeds=words.extent(counts),
        resolves=_resolves(judged, claim.method if claim else ""),
        looks_like=tuple(
            dict.fromkeys(
                _best(diagnosis) if diagnosis.matches else "no known fault"
                for diagnosis in diagnoses
                if verdicts["violates"]
                and (diagnosis.kind, diagnosis.sketch, diagnosis.sizes) in where
            )
        ),
    )


def _resolves(judged: Sequence[Entry], method: str) -> str:
    """The smallest violations that the seeds find, over the cells."""
    sizes = [item.smallest_violation for item in judged if item.smallest_violation is not None]
    if not sizes:
        return "–"
    if method == "worst":
        return "no chance involved"
    if method == "every":
        return f"{words.number(100 * max(sizes), 2)} % of seeds bad"
    if method == "distance":
        return f"{words.number(max(sizes), 2)} in distance"
    low, high = (words.number(100 * size, 2) for size in (min(sizes), max(sizes)))
    return f"{high} % off" if low == high else f"{low} to {high} % off"


def _looks(diagnosis: Diagnosis) -> Looks:
    where = diagnosis.codec + (", bytes" if diagnosis.sizes else ", answers")
    cells = ", ".join(diagnosis.cells)
    if not diagnosis.matches:
        sentence = "No known fault explains this."
        if near := diagnosis.near:
            family = family_of(near.fault)
            sentence += f" The nearest explains {near.fit:.0%} of it: {family.sentence}"
            sentence += f" ({family.id}, {near.fault})"
        return Looks(where, sentence, cells)
    best, *others = likely(diagnosis.matches)
    sentence = (
        f"{best.family.sentence} It explains {_share(best.fit)} of the deviation. "
        f"Look first at {best.family.look} As in {_fault(best.matches[0].fault)}"
    )
    if like := [match.fault for match in best.matches[1:]]:
        sentence += f" Others like it: {words.listed(like)}."
    for other in others:
        sentence += f" It may also be this ({_share(other.fit)}): {other.family.sentence}"
    return Looks(where, sentence, cells)


def _best(diagnosis: Diagnosis) -> str:
    """The family that fits best, and those that fit as well but for a hundredth."""
    best, *others = likely(diagnosis.matches)
    near = [each.family.id for each in (best, *others) if each.fit >= best.fit - 0.01]
    return " or ".join(near[:3]) + (f" or {len(near) - 3} more" if len(near) > 3 else "")


def _share(fit: float) -> str:
    return "over 99%" if fit > 0.99 else f"{fit:.0%}"


def _fault(fault_id: str) -> str:
    there = BY_ID.get(fault_id)
    return f"{fault_id}: {there.text}" if there else f"{fault_id}, a fault not known here."


def _reasons(entries: Sequence[Entry]) -> Iterator[Reason]:
    for verdict in ("error", "not applicable"):
        groups: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.verdict == verdict:
                groups.setdefault(entry.reason or "no reason given", []).append(entry)
        ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
        for reason, group in ranked[:MOST_REASONS]:
            yield Reason(verdict, reason, len(group), group[0].reproduce)
        if rest := sum(len(group) for _, group in ranked[MOST_REASONS:]):
            yield Reason(verdict, "other reasons, which the record has", rest, "")


def _expected(known: Sequence[deviations.Deviation], run: CheckRun) -> Expected:
    agreement = deviations.compare(known, run.entries)
    covered = Counter(str(deviation) for _, deviation in agreement.expected)
    by_name = {str(deviation): deviation for _, deviation in agreement.expected}
    judged = any(entry.verdict != "not applicable" for entry in run.entries)
    fine = judged and not run.problems and not agreement.unexpected and not agreement.stale
    if fine:
        sentence = f"As expected: {words.plural(len(agreement.expected), 'deviation')}, all known."
    else:
        parts = []
        if agreement.unexpected:
            parts.append(f"{words.plural(len(agreement.unexpected), 'deviation')} not known")
        if agreement.stale:
            parts.append(f"{len(agreement.stale)} listed but gone")
        if not judged:
            parts.append("nothing was judged")
        if run.problems:
            parts.append("the record is not whole")
        sentence = f"Not as expected: {', '.join(parts)}."
    return Expected(
        fine,
        sentence,
        tuple(
            (name, clean(by_name[name].reason), clean(by_name[name].issue), count)
            for name, count in covered.items()
        ),
        agreement.unexpected,
        tuple(map(str, agreement.stale)),
        {entry: clean(deviation.why) for entry, deviation in agreement.expected},
    )


def _untested(run: CheckRun) -> Iterator[str]:
    """What the run says nothing about."""
    there = {entry.id for entry in run.entries}
    if missing := [claim.id for claim in codec.CLAIMS if claim.id not in there]:
        why = "left out, or they say nothing about what this backend offers"
        yield f"Claims, {why}: {', '.join(missing)}."
    sketches = {entry.sketch for entry in run.entries}
    if unused := [sketch for sketch in run.sketches if sketch not in sketches]:
        yield f"Sketches left out of this run: {', '.join(unused)}."
    kinds = {entry.kind for entry in run.entries}
    if absent := [kind for kind in JUDGED if kind not in run.kinds]:
        yield f"Kinds that the backend does not offer: {', '.join(absent)}."
    if skipped := [kind for kind in run.kinds if kind in JUDGED and kind not in kinds]:
        yield f"Kinds left out of this run: {', '.join(skipped)}."
    if studied := [kind for kind in run.kinds if kind in STUDIED]:
        yield (f"Kinds that only `kvassay reproduce {run.spec}` uses: {', '.join(studied)}.")
    for what, grid, used in (
        ("Dimensions", DIMS, {entry.dim for entry in run.entries}),
        ("Widths in bits", BITS, {entry.bits for entry in run.entries}),
    ):
        if left := [value for value in grid if value not in used]:
            yield f"{what} of the usual grid that were left out: {', '.join(map(str, left))}."
    yield (
        "Properties of single inputs (shapes, zero vectors, scales, memory layout), which are "
        f"tests: pytest --pyargs kvassay.properties --kvassay-backend {run.spec}."
    )
    yield "Speed."
