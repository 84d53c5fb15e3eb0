"""Whether violations are what another design, or another sketch, would give.

A codec that is right but not what its backend declares violates every claim whose prediction
depends on the design. Here the measured distortion, slope and variance are held against the
predictions of the designs that it could have.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as redesigned
from math import inf

from msgspec.structs import replace

from kvassay.conformance.claims.codec import BY_ID
from kvassay.conformance.evidence.schema import Entry
from kvassay.conformance.measure import Effort
from kvassay.conformance.measure.cell import Cell, codec_name
from kvassay.reference.designs import GRIDS, SCALES
from kvassay.reference.kinds import KINDS

TELLING = ("distortion", "qjl-unbiased", "qjl-variance")  # claims, on isotropic vectors
GROUPS = (16, 32, 64, 128)
LEFT = 0.3  # of a violating estimate's deviation that another design may leave unexplained


@dataclass(frozen=True)
class LooksLike:
    """The codec of `kind` and `sketch` gives in all `cells` cells what `declare` predicts, a part
    of a design like 'scale="unit"', or a sketch."""

    kind: str
    sketch: str
    declare: str
    cells: int

    def __str__(self) -> str:
        return (
            f"{codec_name(self.kind, self.sketch)}: {self.declare}: distortion and slope are those "
            f"of such a codec in all {self.cells} cells; if it is meant, declare it"
        )


def undeclared(entries: Iterable[Entry], effort: Effort) -> list[LooksLike]:
    """What could be declared so that nothing violates in distortion, slope and variance."""
    codecs: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.id in TELLING and entry.part == "isotropic" and entry.estimate is not None:
            codecs[entry.cell.kind, entry.cell.sketch].append(entry)
    found = []
    for (kind, sketch), group in codecs.items():
        if not any(entry.verdict == "violates" for entry in group):
            continue
        fitting = [
            (distance, declare)
            for declare, cells in _alternatives(group)
            if (distance := _distance(group, cells, effort)) <= 1
        ]
        if fitting:
            count = len({entry.cell for entry in group})
            found.append(LooksLike(kind, sketch, min(fitting)[1], count))
    return found


def _alternatives(group: Sequence[Entry]) -> Iterator[tuple[str, list[Cell]]]:
    """What else could be declared, and the cell of each entry then."""
    first = group[0].cell
    kind = KINDS[first.kind]
    for sketch in kind.sketches:
        if sketch != first.sketch:
            yield f"sketch {sketch}", [replace(entry.cell, sketch=sketch) for entry in group]
    if kind.sketched:
        return
    designs = {
        f"scale {scale}": redesigned(first.design, grid="lloyd-max", group=0, scale=scale)
        for scale in SCALES
    }
    for grid in GRIDS:
        for size in (0, *GROUPS) if grid == "uniform" else (0,):
            name = f"grid {grid}" + f", group {size}" * bool(size)
            designs[name] = redesigned(first.design, grid=grid, group=size, scale="none")
    for name, design in designs.items():
        divides = all(entry.cell.dim % (design.group or 1) == 0 for entry in group)
        if design != first.design and divides:
            yield name, [replace(entry.cell, design=design) for entry in group]


def _distance(group: Sequence[Entry], cells: Sequence[Cell], effort: Effort) -> float:
    """How far the worst estimate is from its prediction, in half-widths of its band and interval;
    at most 1 where all of them touch."""
    worst = 0.0
    for entry, cell in zip(group, cells, strict=True):
        assert entry.estimate is not None
        low, high = entry.interval or (None, None)
        if low is None or high is None:
            return inf
        predicted = BY_ID[entry.id].prediction(cell, entry.part)
        band = BY_ID[entry.id].band(cell, entry.part, effort)
        off = abs(entry.estimate - predicted)
        worst = max(worst, off / ((high - low) / 2 + band.high - predicted))
        assert entry.predicted is not None
        if entry.verdict == "violates" and off > LEFT * abs(entry.estimate - entry.predicted):
            return inf
    return worst
