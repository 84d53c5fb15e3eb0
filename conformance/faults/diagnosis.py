"""Which known fault a violation looks like.

Each claim's estimate, as its deviation from the prediction in units of the band's half
width, is one coordinate of a *signature*. The signature that was found is held against
those of the known faults, each put into the reference and measured in the same cells. A
fault *fits* by the share of the deviation that it explains: 1 - |found - fault|^2 /
|found|^2, coordinates weighted by how well they are known. A violation that the fault does
not have counts against it, and so does one that only the fault has; what lies within its
band on both sides does not count.

What a code takes in memory and what it says are two matters, so sizes are diagnosed apart.
Cells are chosen for contrast: the one with most violations, and then one of another
dimension and one of another width, with fewest.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from math import asinh, copysign, isfinite, sqrt
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kvassay.conformance.claims import edges
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.claims.codec import CLAIMS as ALL_CLAIMS
from kvassay.conformance.evidence.schema import KNOWN, Diagnosis, Entry, Match
from kvassay.conformance.faults.fault import FAULTS, Fault
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.measure.codec import EXPERIMENTS
from kvassay.conformance.measure.inputs import STRUCTURED
from kvassay.conformance.measure.trial import CellTrial
from kvassay.conformance.statistics.intervals import Interval

SIZES = "size-accounting"
CLAIMS = [claim for claim in ALL_CLAIMS if claim.id not in edges.BY_ID]  # edges name themselves
CLOSE = 12  # suspects that are compared in all cells
SEEDS = 5  # for each fault; two where chance has no part
SEED = 20_251  # the faults' randomness has nothing to do with that of the run
BLUR = 0.3  # of a coordinate: implementations with one fault differ otherwise, too
BLUR_ON_STRUCTURE = 1.0  # where one Hadamard round and a dense rotation differ by themselves
BAND = asinh(1.0)  # the coordinate of the band's edge
FARTHEST = 1000.0  # half-widths; what is farther off is just wrong
Place = tuple[str, str]  # claim and part
Signature = Mapping[Place, tuple[float, float]]  # coordinate and its uncertainty


def diagnose(
    entries: Iterable[Entry],
    executor: Executor | None = None,
    faults: Sequence[Fault] = FAULTS,
    advance: Callable[[str], None] = lambda what: None,
) -> list[Diagnosis]:
    """A diagnosis for each kind and sketch that violates something, sizes apart.

    `advance` is called with what was compared.
    """
    kinds: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    there = [entry for entry in entries if entry.id not in edges.BY_ID]
    beside = {entry.cell for entry in there if entry.id == "every-size"}
    if any(entry.cell not in beside for entry in there):  # few claims are judged in those
        there = [entry for entry in there if entry.cell not in beside]
    for entry in there:
        # Without its sketch a reconstruction says nothing of the sketch's faults.
        if entry.cell.sketch_decoded or "decode" not in BY_ID[entry.id].needs:
            kinds[entry.cell.kind, entry.cell.sketch].append(entry)
    diagnoses = []
    for (kind, sketch), group in kinds.items():
        violated = {entry.id for entry in group if entry.verdict == "violates"}
        candidates = [fault.put_into(kind, sketch) for fault in faults if kind in fault.kinds]
        for sizes in (False, True):
            part = [entry for entry in group if (entry.id == SIZES) == sizes]
            here = {entry.id for entry in part} & violated
            suspects = [fault for fault in candidates if here & set(fault.caught_by)]
            if sizes:  # what spoils answers too must have been seen there
                suspects = [fault for fault in suspects if set(fault.caught_by) <= violated]
            if here:
                diagnoses.append(_diagnose(part, suspects, executor, advance))
    return diagnoses


def _diagnose(
    entries: Sequence[Entry],
    suspects: Sequence[Fault],
    executor: Executor | None,
    advance: Callable[[str], None],
) -> Diagnosis:
    """All suspects in the worst cell, and in the others those that came closest there."""
    worst, *others = contrasting(entries)
    pairs: list[tuple[Signature, dict[str, Signature]]] = []
    ranked: list[Match] = []
    for cell in (worst, *others):
        run = executor.map if executor is not None else map
        measured = run(_measure, suspects, [cell] * len(suspects))
        here: dict[str, Signature] = {}
        for fault, signature in zip(suspects, measured, strict=True):
            here[fault.id] = signature
            advance(f"{fault.id} {cell}")
        pairs.append((found(entries, cell), here))
        ranked = [
            Match(fault.id, _fit([(seen, there[fault.id]) for seen, there in pairs]))
            for fault in suspects
        ]
        ranked.sort(key=lambda match: -match.fit)
        close = {match.fault for match in ranked[:CLOSE]}
        suspects = [fault for fault in suspects if fault.id in close]
    return Diagnosis(
        kind=worst.kind,
        sketch=worst.sketch,
        sizes=entries[0].id == SIZES,
        cells=tuple(map(str, (worst, *others))),
        matches=tuple(match for match in ranked if match.fit >= KNOWN),
        nearest=ranked[0] if ranked else None,
    )


def contrasting(entries: Sequence[Entry]) -> list[Cell]:
    """Up to three cells of one kind in which faults look most different."""
    claims: dict[Cell, set[str]] = defaultdict(set)
    for entry in entries:
        claims[entry.cell] |= {entry.id} if entry.verdict == "violates" else set()
    worst = min(claims, key=lambda cell: (-len(claims[cell]), cell.dim, cell.bits))
    contrasts = (
        [cell for cell in claims if cell.dim != worst.dim and cell.bits == worst.bits],
        [cell for cell in claims if cell.bits != worst.bits and cell.dim == worst.dim],
    )
    return [worst] + [
        min(others, key=lambda cell: (len(claims[cell]), cell.dim, cell.bits))
        for others in contrasts
        if others
    ]


def found(entries: Iterable[Entry], cell: Cell) -> Signature:
    """The signature in the evidence of a run."""
    signature = {}
    for entry in entries:
        if entry.cell == cell and entry.estimate is not None:
            assert entry.interval is not None
            low, high = entry.interval
            # Intervals of a run hold at its alpha: some five standard errors to a side.
            spread = (high - low) / 10 if low is not None and high is not None else 0.0
            claim = BY_ID[entry.id]
            signature[entry.id, entry.part] = _coordinate(
                claim, cell, entry.part, entry.estimate, spread
            )
    return signature


def _measure(fault: Fault, cell: Cell) -> Signature:
    """The signature of a fault, from a few seeds of its own."""
    values: dict[tuple[str, str], list[Any]] = defaultdict(list)
    methods = {part.experiment: claim.method for claim in CLAIMS for part in claim.parts_for(cell)}
    with threadpool_limits(limits=1), np.errstate(all="ignore"):
        for name, method in methods.items():
            for index in range(2 if method in ("worst", "distance") else SEEDS):
                try:
                    answers = EXPERIMENTS[name](CellTrial(fault, cell, SEED, index, "standard"))
                except Exception:  # a fault that cannot run here has no such coordinate
                    continue
                for statistic, value in answers.items():
                    values[name, statistic].append(value)
    signature = {}
    for claim in CLAIMS:
        for part in claim.parts_for(cell):
            if samples := values.get((part.experiment, part.statistic)):
                one_sigma = 0.317
                interval = claim.interval(samples, one_sigma)
                if all(map(isfinite, (interval.estimate, interval.low, interval.high))):
                    signature[claim.id, part.name] = _coordinate(
                        claim, cell, part.name, interval.estimate, _half(interval, claim)
                    )
    return signature


def _half(interval: Interval, claim: Claim) -> float:
    # The distance claim has a uniform margin, which says little about chance.
    return 0.0 if claim.method == "distance" else (interval.high - interval.low) / 2


def _coordinate(
    claim: Claim, cell: Cell, part: str, estimate: float, spread: float
) -> tuple[float, float]:
    """The deviation in half-widths of the standard band, on a scale that is linear within
    the band and logarithmic beyond it, and its uncertainty there."""
    band = claim.band(cell, part, "standard")
    predicted = claim.prediction(cell, part)
    width = max(band.high - predicted, 1e-12)
    deviation = (estimate - predicted) / width
    if claim.at_most:
        deviation = max(deviation, 0.0)
    if abs(deviation) > FARTHEST:
        deviation = copysign(FARTHEST, deviation)
    return asinh(deviation), spread / width / sqrt(1 + deviation**2)


def _fit(pairs: Sequence[tuple[Signature, Signature]]) -> float:
    """The share of the deviation in the first of each pair that the second explains. Where
    both lie within the band there is nothing to explain."""
    left = whole = 0.0
    for seen, there in pairs:
        for place, (coordinate, doubt) in seen.items():
            other, its_doubt = there.get(place, (0.0, 0.0))
            if max(abs(coordinate), abs(other)) > BAND:
                blur = BLUR_ON_STRUCTURE if place[1] in STRUCTURED else BLUR
                weight = 1 / (blur**2 + doubt**2 + its_doubt**2)
                left += weight * (coordinate - other) ** 2
                whole += weight * coordinate**2
    return round(max(0.0, 1 - left / whole), 4) if whole else 0.0
