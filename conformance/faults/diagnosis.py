"""Which known fault a violation looks like.

The signature that was found (see `signatures`) is held against those of the known faults, in
the cells of the run that they were measured in. A fault *fits* by the share of the deviation
that it explains: 1 - |found - fault|^2 / |found|^2, coordinates weighted by how well they are
known; of its forms the one counts that fits best. A violation that the fault does not have
counts against it, and so does one that only the fault has; what lies within its band on both
sides, as far as chance lets one tell, does not count.

What a code takes in memory and what it says are two matters, so sizes are diagnosed apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import asinh

import numpy as np

from kvassay.conformance.claims import edges
from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.evidence.schema import KNOWN, Diagnosis, Entry, Match
from kvassay.conformance.faults.families import family_of
from kvassay.conformance.faults.fault import FAULTS
from kvassay.conformance.faults.signatures import Array, Signatures, found, shipped
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.measure.inputs import STRUCTURED

SIZES = "size-accounting"
BLUR = 0.3  # of a coordinate: implementations with one fault differ otherwise, too
BLUR_ON_STRUCTURE = 1.0  # where one Hadamard round and a dense rotation differ by themselves
BAND = asinh(1.0)  # the coordinate of the band's edge
SURE = 2.0  # standard errors by which a coordinate must lie beyond it
CAUGHT_BY = {fault.id: set(fault.caught_by) for fault in FAULTS}


def diagnose(entries: Iterable[Entry]) -> list[Diagnosis]:
    """A diagnosis for each kind and sketch that violates something, sizes apart. Faults are known
    in codecs that are designed as in the papers; of others nothing is said."""
    kinds: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    there = [entry for entry in entries if entry.id not in edges.BY_ID and entry.cell.design.plain]
    beside = {entry.cell for entry in there if entry.id == "every-size"}
    if any(entry.cell not in beside for entry in there):  # few claims are judged in those
        there = [entry for entry in there if entry.cell not in beside]
    for entry in there:
        # Without its sketch a reconstruction says nothing of the sketch's faults.
        if entry.cell.sketch_decoded or "decode" not in BY_ID[entry.id].needs:
            kinds[entry.cell.kind, entry.cell.sketch].append(entry)
    diagnoses = []
    for codec, group in kinds.items():
        violated = {entry.id for entry in group if entry.verdict == "violates"}
        for sizes in (False, True):
            part = [entry for entry in group if (entry.id == SIZES) == sizes]
            if {entry.id for entry in part} & violated:
                # What spoils answers too must have been seen there.
                possible = {name for name, caught in CAUGHT_BY.items() if caught <= violated}
                diagnoses.append(_diagnose(codec, part, possible if sizes else set(CAUGHT_BY)))
    return diagnoses


def _diagnose(codec: tuple[str, str], entries: Sequence[Entry], possible: set[str]) -> Diagnosis:
    """How well the faults called `possible` explain what these entries found."""
    known = shipped().get(codec)
    ranked: list[Match] = []
    cells: list[Cell] = []
    if known is not None:
        cells = compared(entries, known)
        best: dict[str, float] = {}
        for form, fit in zip(known.forms, _fits(entries, cells, known), strict=True):
            if form.fault in possible:
                best[form.fault] = max(best.get(form.fault, 0.0), fit)
        ranked = [Match(fault, fit, family_of(fault).id) for fault, fit in best.items()]
        ranked.sort(key=lambda match: -match.fit)
    return Diagnosis(
        kind=codec[0],
        sketch=codec[1],
        sizes=entries[0].id == SIZES,
        cells=tuple(map(str, cells)),
        matches=tuple(match for match in ranked if match.fit >= KNOWN),
        nearest=ranked[0] if ranked else None,
    )


def compared(entries: Iterable[Entry], known: Signatures) -> list[Cell]:
    """The cells in which faults were measured, too; all of them where there are none such."""
    cells = list(dict.fromkeys(entry.cell for entry in entries))
    return [cell for cell in cells if (cell.dim, cell.bits) in known.cells] or cells


def _fits(entries: Sequence[Entry], cells: Sequence[Cell], known: Signatures) -> list[float]:
    """For each form of a fault, the share of the deviation that it explains. Where both lie
    within the band there is nothing to explain."""
    seen = np.full((len(cells), len(known.places)), np.nan)
    doubt = np.zeros_like(seen)
    for row, cell in enumerate(cells):
        signature = found(entries, cell)
        for column, place in enumerate(known.places):
            if place in signature:
                seen[row, column], doubt[row, column] = signature[place]
    stand_ins = [known.nearest(cell.dim, cell.bits) for cell in cells]
    there = np.nan_to_num(known.coordinates[:, stand_ins])
    its_doubt = np.nan_to_num(known.doubts[:, stand_ins])
    structured = np.array([part in STRUCTURED for _, part in known.places])
    blur = np.where(structured, BLUR_ON_STRUCTURE, BLUR)
    weight: Array = 1 / (blur**2 + doubt**2 + its_doubt**2)
    beyond = np.maximum(np.abs(seen) - SURE * doubt, np.abs(there) - SURE * its_doubt)
    matters = beyond > BAND  # never where nothing was seen
    weight = np.where(matters, weight, 0.0)
    left = np.sum(weight * np.nan_to_num(seen - there) ** 2, axis=(1, 2))
    whole = np.sum(weight * np.nan_to_num(seen) ** 2, axis=(1, 2))
    share = 1 - left / np.where(whole > 0, whole, np.inf)
    return [round(float(fit), 4) for fit in np.where(whole > 0, np.maximum(share, 0.0), 0.0)]
