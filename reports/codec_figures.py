"""Figures of what codecs do: distortion against D_b, slope against 1, bytes."""

from collections.abc import Sequence
from math import inf

from matplotlib.ticker import NullLocator

from kvassay.conformance import words
from kvassay.conformance.evidence.runs import CheckRun
from kvassay.conformance.evidence.schema import Entry
from kvassay.reports.figures import (
    BAND,
    BLUE,
    INK,
    MUTED,
    PAPER,
    RED,
    SERIES,
    Drawn,
    drawn,
    intervals,
    plain_ticks,
    small_multiples,
    style,
)

Panel = tuple[str, dict[str, list[Entry]]]  # a title, and entries by series

RATIOS = {
    "distortion": "distortion / D_b",
    "qjl-unbiased": "slope / predicted",
}
SIZES = "size-accounting"
TICKS = (
    (0.1, 1, 10),
    (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20),
    (0.4, 0.6, 0.8, 1, 1.2, 1.5, 2),
    (0.7, 0.8, 0.9, 1, 1.1, 1.2),
    (0.9, 0.95, 1, 1.05, 1.1),
)
LEAST, MOST = 0.03, 30.0  # a ratio beyond stands at the edge
LEAST_SIZE = 0.125


def ratios_of_codecs(run: CheckRun, claim: str) -> Drawn | None:
    """What a claim's estimates are of their predictions, a panel for each codec, a line for each
    dimension. None where there is none."""
    panels: dict[str, dict[str, list[Entry]]] = {}
    for entry in _comparable(run, claim):
        series = panels.setdefault(entry.cell.codec, {})
        series.setdefault(f"d = {entry.dim}", []).append(entry)
    return _ratios(list(panels.items()), claim, f"{claim}-by-codec", across=4, height=2.5)


def ratios_of_backends(runs: Sequence[CheckRun], labels: Sequence[str], claim: str) -> Drawn | None:
    """The same with a panel for each backend and a line for each codec, at the dimension that
    most of them were checked at."""
    dim = common_dim(runs)
    panels = []
    for run, label in zip(runs, labels, strict=True):
        series: dict[str, list[Entry]] = {}
        for entry in _comparable(run, claim):
            if entry.dim == dim:
                series.setdefault(entry.cell.codec, []).append(entry)
        panels.append((label, series))
    return _ratios(panels, claim, f"{claim}-by-backend", across=5, height=1.75, note=f", d = {dim}")


def common_dim(runs: Sequence[CheckRun]) -> int:
    """The dimension that most runs have, 128 before others."""
    counts: dict[int, int] = {}
    for run in runs:
        for dim in {entry.dim for entry in run.entries}:
            counts[dim] = counts.get(dim, 0) + 1
    return max(counts, key=lambda dim: (counts[dim], dim == 128, -dim)) if counts else 128


def _comparable(run: CheckRun, claim: str) -> list[Entry]:
    return [
        entry
        for entry in run.entries
        if entry.id == claim
        and entry.part == "isotropic"
        and entry.estimate is not None
        and entry.predicted
    ]


def _ratios(
    panels: Sequence[Panel],
    claim: str,
    id: str,
    across: int,
    height: float,
    note: str = "",
) -> Drawn | None:
    shown = [entry for _, series in panels for group in series.values() for entry in group]
    if not shown:
        return None
    points = {id_: _ratio(entry) for id_, entry in enumerate(shown)}
    low = max(min(min(point[1] for point in points.values()) * 0.97, 0.9), LEAST)
    high = min(max(max(point[2] for point in points.values()) * 1.03, 1.1), MOST)
    margin = (high / low) ** 0.06
    bits = sorted({entry.bits for entry in shown})
    names = list(dict.fromkeys(name for _, series in panels for name in series))
    # Lines of one panel stand side by side, so that their intervals can be told apart.
    shift = {name: (i - (len(names) - 1) / 2) * 0.5 / len(names) for i, name in enumerate(names)}
    with style():
        figure, axes = small_multiples(len(panels), across, height=height, sharex=True, sharey=True)
        spec = axes[0].get_subplotspec()
        columns = spec.get_gridspec().ncols if spec else across
        thick = 500 / columns / max(len(bits), 3) / len(names) * 0.5
        size = 9 if across < 5 else 7.5
        longest = 1000 / columns / size  # characters of a title
        handles = {}
        for ax, (title, series) in zip(axes, panels, strict=True):
            ax.set_title(_short(title, int(longest)), fontsize=size)
            ax.set_yscale("log")
            ax.axhline(1, color=MUTED, linewidth=0.9)
            bands = [
                (entry.bits + shift[name], *_ratio(entry)[3:])
                for name, group in series.items()
                for entry in group
            ]
            ax.vlines(
                [x for x, _, _ in bands],
                [bottom for _, bottom, _ in bands],
                [top for _, _, top in bands],
                colors=BAND,
                linewidth=thick,
                zorder=0.5,
            )
            for name, group in series.items():
                colour, marker = SERIES[names.index(name) % len(SERIES)]
                group = sorted(group, key=lambda entry: entry.bits)
                x = [entry.bits + shift[name] for entry in group]
                found = [_ratio(entry) for entry in group]
                intervals(
                    ax,
                    x,
                    [point[0] for point in found],
                    [(point[1], point[2]) for point in found],
                    colour,
                    marker,
                )
                handles[name] = ax.lines[-1]
            if not series:
                ax.text(0.5, 0.5, "not judged", transform=ax.transAxes, ha="center", color=MUTED)
            ax.set_ylim(low / margin, high * margin)
            ax.set_xlim(bits[0] - 0.6, bits[-1] + 0.6)
            plain_ticks(ax.xaxis, bits, lambda value: f"{value:.0f}")
            plain_ticks(ax.yaxis, _ratio_ticks(low, high))
        figure.supylabel(RATIOS[claim], fontsize=9.5)
        figure.supxlabel("bits a coordinate", fontsize=9.5)
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper left",
            ncols=min(len(handles), 4),
        )
        what = {
            "distortion": "Distortion against what a Lloyd-Max codec has",
            "qjl-unbiased": "Slope of inner products against what it should be",
        }[claim]
        inside = sum(entry.verdict == "conforms" for entry in shown)
        return drawn(
            figure,
            id,
            what + note,
            f"Isotropic vectors{note}. Dots are estimates over their predictions, lines their "
            "intervals, the shade what conforms"
            + (
                f"; values beyond {words.number(LEAST)} and {words.number(MOST)} stand at the edge."
                if low == LEAST or high == MOST
                else "."
            ),
            f"{inside} of {len(shown)} intervals lie inside their bands.",
            [claim],
        )


def _ratio(entry: Entry) -> tuple[float, float, float, float, float]:
    """Estimate, interval and band over the prediction, within what is drawn."""
    assert entry.estimate is not None
    assert entry.predicted is not None
    ends = [*(entry.interval or (None, None)), *(entry.band or (None, None))]
    low, high, bottom, top = (
        (-inf if i % 2 == 0 else inf) if end is None else end / entry.predicted
        for i, end in enumerate(ends)
    )
    point = entry.estimate / entry.predicted

    def inside(value: float) -> float:
        return min(max(value, LEAST), MOST)

    return inside(point), inside(low), inside(high), inside(bottom), inside(top)


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Ticks for a range of ratios, the coarsest set that has three there."""
    for ticks in TICKS:
        there = [value for value in ticks if low <= value <= high]
        if len(there) >= 3:
            break
    return there


def bytes_of_backends(runs: Sequence[CheckRun], labels: Sequence[str]) -> Drawn | None:
    """Bytes a vector: the payload asked for, what the backend declares and what it holds."""
    rows = sizes(runs, labels)
    if not rows:
        return None
    rows = rows[::-1]
    with style():
        figure, (ax,) = small_multiples(1, 1, height=0.5 + 0.23 * len(rows))
        heights = range(len(rows))
        held = [max(row.held / row.payload, LEAST_SIZE) for row in rows]
        declared = [max(row.declared / row.payload, LEAST_SIZE) for row in rows]
        ax.hlines(
            heights,
            [min(pair) for pair in zip(declared, held, strict=True)],
            [max(pair) for pair in zip(declared, held, strict=True)],
            colors=MUTED,
            linewidth=1.2,
        )
        ax.plot(held, heights, "s", color=RED, label="held in memory", markersize=5)
        ax.plot(
            declared,
            heights,
            "o",
            color=BLUE,
            markerfacecolor=PAPER,
            markersize=5,
            markeredgewidth=1.4,
            label="declared",
        )
        ax.axvline(1, color=INK, linewidth=0.9)
        ax.set_xscale("log", base=2)
        most = max([*held, *declared, 2.0]) * 1.15
        ax.set_xlim(min([*held, *declared, 0.8]) * 0.9, most)
        plain_ticks(ax.xaxis, [t for t in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64) if t <= most])
        ax.set_yticks(list(heights), [_short(row.label, 48) for row in rows], fontsize=8.5)
        ax.yaxis.set_minor_locator(NullLocator())
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(-0.7, len(rows) - 0.3)
        ax.set_xlabel("bytes a vector / payload of d b / 8 bytes")
        figure.legend(loc="outside upper left", ncols=2)
        return drawn(
            figure,
            "bytes",
            "Bytes declared and bytes held",
            f"What a further vector takes, over the d b / 8 bytes that b bits a coordinate make; "
            f"{rows[0].where}. A norm of four bytes adds to both."
            + (
                " At the left edge stands what holds less than an eighth: a vector that is kept "
                "where Python does not see it."
                if LEAST_SIZE in held
                else ""
            ),
            "; ".join(
                f"{row.label}: declared {words.number(row.declared)}, held "
                f"{words.number(row.held)}, payload {words.number(row.payload)}"
                for row in rows[::-1]
            )
            + ".",
            [SIZES],
        )


class Size:
    """Bytes of one vector under one codec of a backend."""

    def __init__(self, label: str, where: str, taken: Entry, declared: Entry) -> None:
        # The record has the larger of held and declared, and held less declared.
        assert taken.estimate is not None
        assert declared.estimate is not None
        self.label = label
        self.where = where
        self.payload = taken.predicted or 1.0
        self.held = max(taken.estimate + min(0.0, declared.estimate), 1e-3)
        self.declared = max(taken.estimate - max(0.0, declared.estimate), 1e-3)


def sizes(runs: Sequence[CheckRun], labels: Sequence[str]) -> list[Size]:
    """The sizes of each codec of each backend, at the dimension most have and 4 bits, or else
    the width nearest to it."""
    dim = common_dim(runs)
    rows = []
    for run, label in zip(runs, labels, strict=True):
        places: dict[tuple[str, int], dict[str, Entry]] = {}
        for entry in run.entries:
            if entry.id == SIZES and entry.dim == dim and entry.estimate is not None:
                places.setdefault((entry.cell.codec, entry.bits), {})[entry.part] = entry
        full = {
            place: parts for place, parts in places.items() if {"taken", "declared"} <= set(parts)
        }
        for codec in dict.fromkeys(codec for codec, _ in full):
            bits = min((b for c, b in full if c == codec), key=lambda b: (abs(b - 4), b))
            parts = full[codec, bits]
            name = f"{label}, {codec}" + (f", b = {bits}" if bits != 4 else "")
            where = f"d = {dim}, b = 4 unless said"
            rows.append(Size(name, where, parts["taken"], parts["declared"]))
    return rows


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
