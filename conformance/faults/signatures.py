"""Signatures: how far off each claim is when a known fault is put into the reference.

One coordinate of a signature belongs to one part of one claim in one cell: the deviation of the
estimate from its prediction, in half-widths of the band at standard effort, on a scale that is
linear within the band and logarithmic beyond it.

The signatures of all known faults are measured once and shipped in `data/signatures.npz` (no
pickles). This makes the file again, in a few minutes, and is due whenever a fault, a claim, an
experiment or the reference changes:

    python -m kvassay.conformance.faults.signatures

A fault has several signatures: one for each of its forms (`shades`), and in a codec with a
sketch one for the fault in that codec alone and one for the fault in a part that the codec
shares with the one without a sketch. Claims that compare the two differ.
"""

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from math import asinh, copysign, isfinite, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvassay import reference
from kvassay.conformance.claims import edges
from kvassay.conformance.claims.claim import Claim
from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.claims.codec import CLAIMS as ALL_CLAIMS
from kvassay.conformance.evidence.schema import Entry
from kvassay.conformance.faults.fault import FAULTS, SPECTRAL, Fault
from kvassay.conformance.faults.shades import SHADES
from kvassay.conformance.measure.cell import Cell, codec_name
from kvassay.conformance.measure.codec import EXPERIMENTS
from kvassay.conformance.measure.trial import CellTrial
from kvassay.conformance.run.execution import cores, process_pool
from kvassay.conformance.statistics.intervals import Interval
from kvassay.reference.kinds import JUDGED, KINDS

SHIPPED = Path(__file__).parents[1] / "data" / "signatures.npz"
COMMAND = "python -m kvassay.conformance.faults.signatures"
GRID = (*((64, bits) for bits in range(1, 7)), (80, 2), (80, 4), (128, 2), (128, 4))
CODECS = tuple((kind, sketch) for kind in JUDGED for sketch in KINDS[kind].sketches)

# Edges say themselves what is wrong, and other sizes and designs are in no cell of the grid.
ELSEWHERE = {*edges.BY_ID, "every-size", "declared-rotation"}
CLAIMS = [claim for claim in ALL_CLAIMS if claim.id not in ELSEWHERE]

SEEDS = 5  # for each fault; two where chance has no part
SEED = 20_251  # the faults' randomness has nothing to do with that of a run
ONE_SIGMA = 0.317
FARTHEST = 1000.0  # half-widths; what is farther off is just wrong
STEP = 0.01  # to which coordinates are rounded
MISSING = -(2**15)  # the fault gives no such figure
PEERED = ("isotropic",)  # experiments that ask for another kind of codec beside the cell's
OF_NO_SIGNATURE = ("__init__", "diagnosis", "families", "kills")  # sources here that measure none

Array = NDArray[np.float64]
Place = tuple[str, str]  # claim and part
Signature = Mapping[Place, tuple[float, float]]  # coordinate and its uncertainty


@dataclass(frozen=True)
class Form:
    """One way of having a fault: 0 as it stands in its section, else a number of its shades;
    `shared` with the codec without a sketch, or not."""

    fault: str
    shade: int = 0
    shared: bool = False

    def made(self, kind: str, sketch: str) -> Fault:
        """The backend that has it. StopIteration or IndexError where there is no such form."""
        known = next(fault for fault in FAULTS if fault.id == self.fault)
        return _shaded(known, self.shade).put_into(kind, sketch, self.shared)


def has_signature(fault: Fault) -> bool:
    """Whether it is a fault of a codec as in the papers that `CLAIMS` can tell from others."""
    told = bool(set(fault.caught_by) - ELSEWHERE)
    return not fault.proof and fault.kind != SPECTRAL and fault.design.plain and told


def _shaded(fault: Fault, shade: int) -> Fault:
    return replace(fault, codec_class=SHADES[fault.id][shade - 1]) if shade else fault


def forms(kind: str, sketch: str) -> list[Form]:
    """All forms that faults can have in such a codec, in the order of FAULTS. A fault that no
    claim must catch has none: there is no deviation to compare."""
    found = []
    for fault in FAULTS:
        if not has_signature(fault):
            continue
        for shade in range(len(SHADES.get(fault.id, ())) + 1):
            able = _shaded(fault, shade).kinds
            if kind in able:
                found.append(Form(fault.id, shade))
                if KINDS[kind].without_sketch in able:
                    found.append(Form(fault.id, shade, shared=True))
    return found


@dataclass(frozen=True)
class Signatures:
    """Those of one kind of codec. `coordinates` and `doubts` are of shape (forms, cells,
    places), NaN where a fault gives no figure."""

    forms: tuple[Form, ...]
    cells: tuple[tuple[int, int], ...]
    places: tuple[Place, ...]
    coordinates: Array
    doubts: Array

    def nearest(self, dim: int, bits: int) -> int:
        """The index of the cell that stands for this one: itself where it was measured, else one
        of its own sort, a power of two or not, if there is any."""

        def distance(cell: tuple[int, int]) -> tuple[bool, int, float]:
            other, width = cell
            unlike = _power_of_two(other) != _power_of_two(dim)
            return unlike, abs(width - bits), abs(log(other / dim))

        return min(range(len(self.cells)), key=lambda index: distance(self.cells[index]))


def _power_of_two(dim: int) -> bool:
    return not dim & (dim - 1)


@cache
def shipped(path: Path = SHIPPED) -> dict[tuple[str, str], Signatures]:
    """The shipped signatures by kind and sketch."""
    with np.load(path, allow_pickle=False) as there:
        about = json.loads(there["about"].tobytes())
        made = {}
        for kind, sketch in CODECS:
            key = codec_name(kind, sketch).replace(" ", "_")
            if key not in there:
                continue
            pairs = there[key].astype(np.float64)
            pairs[pairs == MISSING] = np.nan
            made[kind, sketch] = Signatures(
                tuple(Form(*form) for form in about["forms"][key]),
                tuple((dim, bits) for dim, bits in about["cells"]),
                tuple((claim, part) for claim, part in about["places"]),
                *(pairs[..., side] * STEP for side in (0, 1)),
            )
    return made


def made_of(path: Path = SHIPPED) -> str:
    """The `sources` that the shipped signatures were measured with."""
    with np.load(path, allow_pickle=False) as there:
        return str(json.loads(there["about"].tobytes())["sources"])


def sources() -> str:
    """SHA-256 over all sources that decide a signature."""
    here = Path(__file__).parent
    rooms = [here.parent / name for name in ("claims", "measure", "statistics")]
    files = [
        path for room in (*rooms, *map(Path, reference.__path__)) for path in room.glob("*.py")
    ]
    files += [path for path in here.glob("*.py") if path.stem not in OF_NO_SIGNATURE]
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: (path.parent.name, path.name)):
        digest.update(f"{path.parent.name}/{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


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
            signature[entry.id, entry.part] = coordinate(
                claim, cell, entry.part, entry.estimate, spread
            )
    return signature


def measure(backend: Any, cell: Cell, experiments: Iterable[str] | None = None) -> Signature:
    """The signature of a backend in one cell, from a few small seeds, or that part of it which the
    `experiments` give."""
    values: dict[tuple[str, str], list[Any]] = defaultdict(list)
    methods = {part.experiment: claim.method for claim in CLAIMS for part in claim.parts_for(cell)}
    chosen = methods if experiments is None else {name: methods[name] for name in experiments}
    with threadpool_limits(limits=1), np.errstate(all="ignore"):
        for name, method in chosen.items():
            for index in range(2 if method in ("worst", "distance") else SEEDS):
                np.random.seed(index)  # noqa: NPY002  what a fault draws from it is the same again
                try:
                    answers = EXPERIMENTS[name](CellTrial(backend, cell, SEED, index, "quick"))
                except Exception:  # a fault that cannot run here has no such coordinate
                    continue
                for statistic, value in answers.items():
                    values[name, statistic].append(value)
    signature = {}
    for claim in CLAIMS:
        for part in claim.parts_for(cell):
            if samples := values.get((part.experiment, part.statistic)):
                try:
                    interval = claim.interval(samples, ONE_SIGMA)
                except ValueError:  # one seed alone gave a value
                    continue
                if all(map(isfinite, (interval.estimate, interval.low, interval.high))):
                    signature[claim.id, part.name] = coordinate(
                        claim, cell, part.name, interval.estimate, _half(interval, claim)
                    )
    return signature


def _half(interval: Interval, claim: Claim) -> float:
    # The distance claim has a uniform margin, which says little about chance.
    return 0.0 if claim.method == "distance" else (interval.high - interval.low) / 2


def coordinate(
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


def in_cell(kind: str, sketch: str, dim: int, bits: int) -> list[Signature]:
    """The signatures of all forms of faults in one cell, in the order of `forms`."""
    cell = Cell(kind, sketch, dim, bits)
    made: dict[Form, Signature] = {}
    for form in forms(kind, sketch):
        backend = form.made(kind, sketch)
        if form.shared:  # all but the comparison is as it is in this codec alone
            alone = made[replace(form, shared=False)]
            made[form] = {**alone, **measure(backend, cell, PEERED)}
        else:
            made[form] = measure(backend, cell)
    return list(made.values())


def make(executor: Executor, path: Path = SHIPPED) -> None:
    """Measures all signatures and writes them to `path`."""
    cells = [(kind, sketch, *at) for kind, sketch in CODECS for at in GRID]
    order = sorted(cells, key=lambda cell: (not cell[1], -cell[2]))  # those that take longest first
    running = {cell: executor.submit(in_cell, *cell) for cell in order}
    measured = {}
    for done, cell in enumerate(order, 1):
        measured[cell] = running[cell].result()
        print(f"\r{done} of {len(cells)} cells", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    places = [(claim.id, part.name) for claim in CLAIMS for part in claim.parts]
    arrays: dict[str, Any] = {}
    listed = {}
    for kind, sketch in CODECS:
        key = codec_name(kind, sketch).replace(" ", "_")
        listed[key] = [[form.fault, form.shade, form.shared] for form in forms(kind, sketch)]
        by_cell = [measured[kind, sketch, *at] for at in GRID]
        arrays[key] = _packed(by_cell, places).swapaxes(0, 1)
    about = {"sources": sources(), "cells": GRID, "places": places, "forms": listed}
    text = json.dumps(about, separators=(",", ":")).encode()
    content = BytesIO()
    np.savez_compressed(content, about=np.frombuffer(text, dtype=np.uint8), **arrays)
    path.write_bytes(content.getvalue())


def _packed(cells: Sequence[Sequence[Signature]], places: Sequence[Place]) -> NDArray[np.int16]:
    """Signatures, by cell and form, as whole numbers of steps: (cells, forms, places, 2)."""
    packed = np.full((len(cells), len(cells[0]), len(places), 2), MISSING, dtype=np.int16)
    for row, signatures in enumerate(cells):
        for column, signature in enumerate(signatures):
            for index, place in enumerate(places):
                if place in signature:
                    steps = np.round(np.array(signature[place]) / STEP)
                    packed[row, column, index] = np.clip(steps, -32_000, 32_000)
    return packed


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the shipped signatures of faults again.")
    parser.add_argument("--workers", type=int, default=cores())
    with process_pool(parser.parse_args().workers) as executor:
        make(executor)
    print(f"{SHIPPED.name}: {SHIPPED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
