"""Figures that a reader of the papers expects.

Intervals are those of the record's findings. Where the papers plot plain figures, points are
the medians of the recorded trials.
"""

from collections.abc import Callable, Iterable, Sequence
from math import log10, sqrt
from statistics import fmean, median

import numpy as np
from matplotlib.lines import Line2D

from kvassay.conformance import words
from kvassay.conformance.evidence.runs import PapersRun
from kvassay.conformance.evidence.schema import Entry, Finding
from kvassay.conformance.measure.populations import DENSITY_EDGES, TAILS
from kvassay.conformance.measure.spectral import CALIBRATIONS, RATIOS
from kvassay.conformance.measure.study import MSE, PROD, SCALAR, SCHEMES, UNIFORM, Figure
from kvassay.reference.schemes import Half, Scheme
from kvassay.reference.sphere import cdf, pdf
from kvassay.reports.figures import (
    BAND,
    BLUE,
    GREEN,
    INK,
    MUTED,
    PAPER,
    PURPLE,
    RED,
    SKY,
    Drawn,
    decades,
    drawn,
    intervals,
    legend_above,
    marked,
    name_ends,
    plain_ticks,
    small_multiples,
    style,
)

POPULATIONS = (
    "isotropic",
    "heavy-tailed",
    "very-heavy-tailed",
    "low-rank",
    "low-rank-apart",
    "focused",
    "power-law",
    "tensors",
)
SKETCHES = {"gaussian": (RED, "s"), "orthogonal": (BLUE, "o")}
WIDTHS = (2, 3, 4, 5, 6)
FARTHEST = 1e30
FINE = np.linspace(-4, 4, 161)


def papers_figures(run: PapersRun) -> list[Drawn]:
    """All figures that the run has evidence for, in the order of the papers."""
    made = [draw(run) for draw in FIGURES]
    return [figure for figure in made if figure is not None]


def _findings(run: PapersRun, claim: str, question: str = "") -> list[Finding]:
    return [
        item
        for item in run.findings
        if item.id == claim and item.question.startswith(question) and item.estimate is not None
    ]


def _first_figure(item: Finding) -> Figure | None:
    """The first of the figures that a finding is made of; None if it has none that is known."""
    try:
        return Figure.parse(item.figures[0]) if item.figures else None
    except ValueError:
        return None


def _column(run: PapersRun, study: str, figure: Figure) -> list[float]:
    """A figure over the trials, none if the study has no such figure."""
    trials = run.studies.get(study)
    return [_drawable(value) for value in trials.columns.get(str(figure), [])] if trials else []


def _medians(run: PapersRun, study: str, what: str, codec: Half | Scheme) -> dict[int, float]:
    """The median over the trials of a figure at each width that has it."""
    found = {bits: _column(run, study, Figure(what, codec, bits)) for bits in WIDTHS}
    return {bits: median(values) for bits, values in found.items() if values}


def _drawable(value: float | None) -> float:
    """The value as far as an axis reaches: a backend may answer with anything."""
    return min(max(value or 0.0, -FARTHEST), FARTHEST)


def _population(name: str) -> str:
    return "real tensors" if name == "tensors" else name


def _points(items: Sequence[Finding | Entry]) -> tuple[list[float], list[tuple[float, float]]]:
    """Estimates and their intervals."""
    estimates = [_drawable(item.estimate) for item in items]
    ends = [
        tuple(at if end is None else _drawable(end) for end in item.interval or (None, None))
        for at, item in zip(estimates, items, strict=True)
    ]
    return estimates, [(low, high) for low, high in ends]


MARGINALS = (
    ("direction/d=64", "isotropic", "isotropic, d = 64", 64),
    ("direction/d=64", "nu=1.05", "Student t, ν = 1.05, d = 64", 64),
    ("direction/d=64", "rank=4", "rank 4, d = 64", 64),
    ("pathology", "heavy-tailed", "Student t, ν = 3, d = 1024", 1024),
    ("pathology", "low-rank", "rank 8, d = 1024", 1024),
)


def marginals(run: PapersRun) -> Drawn | None:
    """Densities of coordinates before and after rotation, and the Beta law."""
    centres = (DENSITY_EDGES[:-1] + DENSITY_EDGES[1:]) / 2
    panels = {}
    for study, where, title, dim in MARGINALS:
        columns = [
            [_column(run, study, Figure(what, None, i, where)) for i in range(len(centres))]
            for what in ("density given", "density rotated")
        ]
        if all(map(all, columns)):
            given, rotated = ([fmean(values) for values in bins] for bins in columns)
            panels[title] = (given, rotated, dim)
    if not panels:
        return None
    far = []
    with style():
        figure, axes = small_multiples(len(panels), 3, height=2.5, sharex=True, sharey=True)
        for ax, (title, (given, rotated, dim)) in zip(axes, panels.items(), strict=True):
            ax.set_title(title, fontsize=9)
            ax.set_yscale("log")
            law = pdf(FINE / sqrt(dim), dim) / sqrt(dim)
            ax.plot(FINE, law, color=INK, linewidth=1.0, label="Beta law")
            ax.plot(centres, given, "x", color=RED, label="before rotation")
            ax.plot(centres, rotated, "o", color=BLUE, markersize=3, label="after")
            shares = np.diff(cdf(DENSITY_EDGES / sqrt(dim), dim))
            off = np.max(np.abs(rotated * np.diff(DENSITY_EDGES) - shares))
            far.append(f"{title}: {words.number(float(off), 2)}")
            ax.set_ylim(1e-5, 20)
            plain_ticks(ax.yaxis, decades(1e-5, 20), _power)
            plain_ticks(ax.xaxis, (-4, -2, 0, 2, 4))
        legend_above(figure, axes[0], columns=3)
        figure.supxlabel("coordinate of a unit vector, times √d", fontsize=9.5)
        figure.supylabel("density", fontsize=9.5)
        return drawn(
            figure,
            "marginals",
            "Marginals against the Beta law",
            "A uniformly random rotation makes coordinates Beta((d−1)/2, (d−1)/2) on [−1, 1], "
            "whatever the vector was. A Hadamard rotation with signs cannot where one coordinate "
            "holds most of the length (ν = 1.05): it spreads that one as ±1. Means over the "
            "trials, in bins.",
            "Largest difference of a bin's share from the law after rotation: "
            + "; ".join(far)
            + ".",
            ["coordinate-law", "low-rank-pathology"],
        )


def marginal_distances(run: PapersRun) -> Drawn | None:
    """Distance of rotated coordinates from the Beta law."""
    rows: dict[str, list[Entry | Finding]] = {}
    for entry in run.entries:
        if entry.id == "coordinate-law" and entry.estimate is not None:
            rows.setdefault(f"{entry.cell.codec}, d = {entry.dim}", []).append(entry)
    for finding in _findings(run, "low-rank-pathology", "marginals agree"):
        where = finding.where.split(",")[0]
        rows[f"TurboQuant, {where} keys, d = 1024"] = [finding]
    if not rows:
        return None
    names = list(rows)[::-1]
    with style():
        figure, (ax,) = small_multiples(1, 1, height=0.6 + 0.3 * len(rows))
        for height, name in enumerate(names):
            group = rows[name]
            (_, edge) = group[0].band or (None, None)
            ax.barh(height, _drawable(edge), height=0.72, color=BAND, zorder=0.5)
            for place, item in enumerate(group):
                y = height + (place - (len(group) - 1) / 2) * 0.1
                (estimate,), ((low, high),) = _points([item])
                ax.hlines(y, low, high, colors=BLUE, linewidth=1.0)
                ax.plot(estimate, y, "o", color=BLUE, markersize=3)
        ax.set_yticks(range(len(names)), names)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        ax.set_ylim(-0.6, len(names) - 0.4)
        ax.set_xlim(left=0)
        ax.set_xlabel("largest distance between the distribution functions")
        far = max(item.estimate or 0.0 for group in rows.values() for item in group)
        return drawn(
            figure,
            "marginal-distances",
            "Distance of the marginals from the Beta law",
            "How far the coordinates of rotated vectors are from Beta((d−1)/2, (d−1)/2), with "
            "intervals; a line for each width. The shade is what conforms.",
            f"The largest distance is {words.number(far, 2)}.",
            ["coordinate-law", "low-rank-pathology"],
        )


def variance(run: PapersRun) -> Drawn | None:
    """Variance inflation by QJL against the finite-d curves and their limits."""
    of = {
        claim: [e for e in run.entries if e.id == claim and e.estimate is not None]
        for claim in ("two-pi", "pi-over-2")
    }
    if not of["two-pi"]:
        return None
    limits = {
        "gaussian": (6.2832, "2π", 1.5708, "π/2"),
        "orthogonal": (2.2832, "4(π/2 − 1)", 0.5708, "π/2 − 1"),
    }
    shapes = {64: (SKY, "v"), 128: (BLUE, "o")}
    with style():
        figure, axes = small_multiples(2, 2, height=3.3)
        for ax, sketch in zip(axes, limits, strict=True):
            top, top_name, bottom, bottom_name = limits[sketch]
            ax.set_title(f"{sketch} sketch")
            labels = []
            for claim, what in (("two-pi", "against n bits"), ("pi-over-2", "same residual")):
                for dim in sorted({entry.dim for entry in of[claim]}):
                    group = sorted(
                        (e for e in of[claim] if (e.sketch, e.dim) == (sketch, dim)),
                        key=lambda e: e.bits,
                    )
                    if not group:
                        continue
                    colour, marker = shapes.get(dim, (PURPLE, "D"))
                    shift = -0.07 if dim == 64 else 0.07
                    x = [e.bits + shift for e in group]
                    theory = [_drawable(e.predicted) for e in group]
                    ax.plot(x, theory, color=colour, linewidth=0.9, linestyle="-")
                    y, ends = _points(group)
                    intervals(ax, x, y, ends, colour, marker, line=False)
                    labels.append((y[-1], f"{what}, d = {dim}", colour))
            ax.set_ylim(0, top * 1.16)
            marked(ax, top, top_name)
            marked(ax, bottom, bottom_name)
            plain_ticks(ax.xaxis, WIDTHS, lambda value: f"{value:.0f}")
            ax.set_xlim(1.7, 6.3)
            ax.set_xlabel("bits n")
            name_ends(ax, labels, gap=0.07)
        axes[0].set_ylabel("variance with QJL / without")
        inside = sum(e.verdict == "conforms" for group in of.values() for e in group)
        count = sum(map(len, of.values()))
        return drawn(
            figure,
            "variance",
            "Variance inflation against π/2 and the curve to 2π",
            "Points are measured, with intervals; thin lines are the exact values at finite d, "
            "dashed ones their limits. Upper: n − 1 bits with QJL against n bits. Lower: the same "
            "n − 1 bits with and without.",
            f"{inside} of {count} measured factors conform; at 6 bits the upper curves come "
            "close to 2π for a gaussian sketch and 2.283 for an "
            "orthogonal one.",
            ["two-pi", "pi-over-2"],
        )


KEYS: tuple[tuple[str, Half, str, str], ...] = (
    ("KV, no rotation", SCALAR, INK, "P"),
    ("KQV", MSE, BLUE, "o"),
    ("QKQV, orthogonal", PROD["orthogonal"], RED, "s"),
    ("QKQV, gaussian", PROD["gaussian"], GREEN, "^"),
    ("SQU-KV", UNIFORM, PURPLE, "D"),
)


def kl_by_budget(run: PapersRun) -> Drawn | None:
    """KL by budget and scheme, a panel for each population."""
    panels = {
        name: {label: _medians(run, f"population/{name}", "kl", half) for label, half, _, _ in KEYS}
        for name in POPULATIONS
    }
    panels = {name: lines for name, lines in panels.items() if any(lines.values())}
    if not panels:
        return None
    with style():
        figure, axes = small_multiples(len(panels), 4, height=2.3, sharex=True, sharey=True)
        for ax, (name, lines) in zip(axes, panels.items(), strict=True):
            ax.set_title(_population(name), fontsize=9)
            ax.set_yscale("log")
            for label, _, colour, marker in KEYS:
                if line := lines[label]:
                    ax.plot(
                        list(line),
                        [max(v, 1e-9) for v in line.values()],
                        color=colour,
                        marker=marker,
                        linewidth=1.0,
                        label=label,
                    )
            plain_ticks(ax.xaxis, WIDTHS, lambda value: f"{value:.0f}")
        low, high = axes[0].get_ylim()
        for ax in axes:
            plain_ticks(ax.yaxis, decades(low, high)[:: 1 if high / low < 1e6 else 2], _power)
        legend_above(figure, axes[0], columns=5)
        figure.supxlabel("bits n of each coordinate of K", fontsize=9.5)
        figure.supylabel("mean KL of a trial, median", fontsize=9.5)
        at = panels.get("isotropic", next(iter(panels.values())))
        return drawn(
            figure,
            "kl-by-budget",
            "KL by budget and scheme",
            "KL divergence of the attention weights, which only K's codec changes: the median of "
            "the trials' means. Where KV is not seen, it lies under KQV.",
            "Isotropic keys at 4 bits: "
            + ", ".join(
                f"{label} {words.number(line[4], 2)}" for label, line in at.items() if 4 in line
            )
            + ".",
            ["kqv-beats-qkqv", "six-d-dominance"],
        )


def _power(value: float) -> str:
    power = f"{log10(value):.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return "1" if power == "⁰" else f"10{power}"


def kl_ratio(run: PapersRun) -> Drawn | None:
    """KL of QKQV over KQV by budget, with the paper's 2.25."""
    found = _findings(run, "kqv-beats-qkqv", "KL of QKQV over KQV")
    panels: dict[str, dict[str, dict[int, Finding]]] = {}
    for item in found:
        name = item.study.removeprefix("population/")
        first = _first_figure(item)
        for sketch, half in PROD.items():
            if first and (first.what, first.codec) == ("kl", half) and first.number in WIDTHS:
                panels.setdefault(name, {}).setdefault(sketch, {})[first.number] = item
    names = [name for name in POPULATIONS if name in panels]
    if not names:
        return None
    with style():
        figure, axes = small_multiples(len(names), 4, height=2.2, sharex=True, sharey=True)
        handles = {}
        for ax, name in zip(axes, names, strict=True):
            ax.set_title(_population(name), fontsize=9)
            ax.set_yscale("log")
            for sketch, by_bits in panels[name].items():
                colour, marker = SKETCHES[sketch]
                items = [by_bits[bits] for bits in sorted(by_bits)]
                y, ends = _points(items)
                intervals(ax, sorted(by_bits), y, ends, colour, marker)
                handles[f"{sketch} sketch"] = ax.lines[-1]
            ax.axhline(1, color=INK, linewidth=0.8)
            ax.axhline(2.25, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            plain_ticks(ax.xaxis, WIDTHS, lambda value: f"{value:.0f}")
        low, high = axes[0].get_ylim()
        for place, ax in enumerate(axes):
            plain_ticks(ax.yaxis, [t for t in (0.2, 0.5, 1, 2.25, 5, 10, 20) if low <= t <= high])
            if place % 4 == 0:
                ax.annotate(
                    "paper A: 2.25",
                    (0.98, 2.25),
                    xycoords=("axes fraction", "data"),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="right",
                    fontsize=7.5,
                    color=MUTED,
                )
        figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=2)
        figure.supxlabel("bits n", fontsize=9.5)
        figure.supylabel("KL of QKQV / KL of KQV", fontsize=9.5)
        four = [
            item
            for name in names
            for by in panels[name].values()
            for n, item in by.items()
            if n == 4
        ]
        text = "; ".join(
            f"{item.where}: {words.measured(item.estimate, item.interval)}" for item in four
        )
        return drawn(
            figure,
            "kl-ratio",
            "KL of QKQV over KQV, and the 2.25 of paper A",
            "Ratio of geometric means with intervals. The dashed line is the paper's 2.25, at "
            "n = 4; above the solid line KQV is better.",
            f"At n = 4: {text}.",
            ["kl-gap", "kqv-beats-qkqv"],
        )


PLANE = (
    ("no rotation (KV)", SCHEMES["Plain-KV"], INK, "P"),
    ("rotated (TQ-KV)", SCHEMES["TQ-KV"], BLUE, "o"),
    ("with orthogonal QJL (QKQV)", SCHEMES["TQ-QKQV/orthogonal"], RED, "s"),
    ("with gaussian QJL (QKQV)", SCHEMES["TQ-QKQV/gaussian"], GREEN, "^"),
    ("spectral (SQU-KV)", SCHEMES["SQU-KV"], PURPLE, "D"),
)


def shannon_phi(run: PapersRun) -> Drawn | None:
    """Scale against direction of the error, for K, V and T."""
    rows = [
        n for n in ("isotropic", "very-heavy-tailed", "tensors") if f"population/{n}" in run.studies
    ]
    if not rows:
        return None
    with style():
        figure, axes = small_multiples(3 * len(rows), 3, height=2.6, sharey=True)
        told = []
        for place, ax in enumerate(axes):
            name, where = rows[place // 3], "kvt"[place % 3]
            ax.set_title(f"{where.upper()}, {_population(name)}", fontsize=9)
            ax.set_yscale("log")
            for label, scheme, colour, marker in PLANE:
                of: dict[str, Half | Scheme] = {"k": scheme.k, "v": scheme.v, "t": scheme}
                errors, angles = (
                    _medians(run, f"population/{name}", f"{error}-{where}", of[where])
                    for error in ("relmse", "phi")
                )
                widths = [b for b in errors if b in angles and errors[b] > 0 and angles[b] > 0]
                snr = [-10 * log10(errors[b]) for b in widths]
                if widths:
                    ax.plot(
                        snr,
                        [angles[b] for b in widths],
                        color=colour,
                        marker=marker,
                        linewidth=0.9,
                        label=label,
                    )
                if where == "t" and 4 in widths:
                    told.append(
                        f"{_population(name)}, {label}: {snr[widths.index(4)]:.1f} dB, "
                        f"{words.number(angles[4], 2)}"
                    )
                if scheme.name == "TQ-KV":
                    for b, x in zip(widths, snr, strict=True):
                        ax.annotate(
                            str(b),
                            (x, angles[b]),
                            xytext=(4, 3),
                            textcoords="offset points",
                            fontsize=8,
                            color=BLUE,
                        )
            if place // 3 == len(rows) - 1:
                ax.set_xlabel("SNR in dB")
            ax.grid(visible=True)
        low, high = axes[0].get_ylim()
        for place, ax in enumerate(axes):
            plain_ticks(ax.yaxis, decades(low, high, (1, 2, 5) if high / low < 300 else (1, 3)))
            if place % 3 == 0:
                ax.set_ylabel("φ = angle / π")
        legend_above(figure, axes[0], columns=3)
        return drawn(
            figure,
            "shannon-phi",
            "The Shannon-φ plane: K, V and the output T",
            "Signal to noise ratio against direction error at 2 to 6 bits (the numbers stand at "
            "TQ-KV): medians over the trials. Better is right and down.",
            "The output at 4 bits: " + "; ".join(told) + ".",
            ["six-d-dominance"],
        )


def direction(run: PapersRun) -> Drawn | None:
    """K direction error as the tail grows heavier."""
    found = {
        _first_figure(item): item
        for item in _findings(run, "heavy-tail-protection", "angle / pi of KQV")
    }
    named = {nu: Figure("phi-k", MSE, 4, f"nu={nu:g}") for nu in sorted(TAILS)}
    tails = [(nu, found[figure]) for nu, figure in named.items() if figure in found]
    if not tails:
        return None
    x = [nu for nu, _ in tails]
    plain = [_column(run, "direction/d=128", Figure("phi-k", SCALAR, 4, f"nu={nu:g}")) for nu in x]
    with style():
        figure, (ax,) = small_multiples(1, 1, height=3.0, width=7.5)
        ax.set_xscale("log")
        ax.set_yscale("log")
        y, ends = _points([item for _, item in tails])
        intervals(ax, x, y, ends, BLUE)
        labels = [(y[0], "KQV, rotated", BLUE)]
        if all(plain):
            medians = [median(values) for values in plain]
            ax.plot(x, medians, color=INK, marker="P", linewidth=1.0)
            labels.append((medians[0], "KV, not rotated", INK))
        ax.set_xlim(max(x) * 1.05, min(x) * 0.97)
        ax.set_ylim(0.02, max(0.5, ax.get_ylim()[1]))
        marked(ax, 0.027, "")
        ax.annotate(
            "paper A: 0.027",
            (0.01, 0.027),
            xycoords=("axes fraction", "data"),
            xytext=(0, -10),
            textcoords="offset points",
            fontsize=8.5,
            color=MUTED,
        )
        plain_ticks(ax.xaxis, x, lambda value: f"{value:g}")
        plain_ticks(ax.yaxis, (0.02, 0.03, 0.05, 0.1, 0.2, 0.5))
        ax.set_xlabel("ν of the Student t keys, heavier tails to the right")
        ax.set_ylabel("φ of K = angle / π")
        name_ends(ax, labels)
        return drawn(
            figure,
            "direction",
            "Direction error of K against ν",
            "d = 128, n = 4. With the rotation it stays flat; without, the loud coordinates take "
            "the table's range. KQV with intervals, KV the medians of the trials.",
            "KQV: "
            + ", ".join(f"{words.number(v, 3)} at ν = {nu:g}" for nu, v in zip(x, y, strict=True))
            + ".",
            ["heavy-tail-protection"],
        )


def pathology(run: PapersRun) -> Drawn | None:
    """Distributions of KL for low-rank and heavy-tailed keys whose marginals agree."""

    def column(what: str, where: str) -> list[float]:
        return sorted(_column(run, "pathology", Figure(what, MSE, 4, where)))

    lines = (
        ("heavy-tailed", "heavy-tailed, ν = 3", BLUE, "-"),
        ("low-rank", "rank 8, same norms", GREEN, "--"),
        ("low-rank product", "rank 8, products of Gaussians", RED, "-."),
    )
    panels = (("kl", "mean KL of a trial"), ("kl-max", "worst KL of a trial's queries"))
    if not any(column("kl", where) for where, *_ in lines):
        return None
    with style():
        figure, axes = small_multiples(2, 2, height=2.9, sharey=True)
        told = []
        for ax, (what, title) in zip(axes, panels, strict=True):
            ax.set_title(title)
            ax.set_xscale("log")
            for where, label, colour, dashes in lines:
                values = column(what, where)
                if values:
                    shares = [i / len(values) for i in range(1, len(values) + 1)]
                    ax.step(
                        values, shares, where="post", color=colour, linestyle=dashes, label=label
                    )
                    told.append(f"{title}, {label}: median {words.number(median(values), 2)}")
            low, high = ax.get_xlim()
            plain_ticks(ax.xaxis, decades(low, high, (1,) if high / low > 50 else (1, 2, 5)))
        axes[0].set_ylabel("share of the trials below")
        legend_above(figure, axes[0], columns=3)
        agree = _findings(run, "low-rank-pathology", "marginals agree")
        near = ", ".join(words.number(item.estimate, 2) for item in agree)
        return drawn(
            figure,
            "kl-distributions",
            "KL, low rank against heavy tails at matched marginals",
            "d = 1024, n = 4, TurboQuant: the share of the trials below a KL."
            + (
                f" Rotated coordinates of the two are within {near} of the same Beta law."
                if near
                else ""
            ),
            "; ".join(told) + ".",
            ["low-rank-pathology"],
        )


def water_filling(run: PapersRun) -> Drawn | None:
    """Gain of water-filling against the ratio of eigenvalues."""
    panels: dict[str, dict[int, list[tuple[float, Finding]]]] = {}
    for item in _findings(run, "waterfilling-uniform", "a gain above 1 %"):
        first = _first_figure(item)
        ratio = next((r for r in RATIOS if first and first.where.startswith(f"ratio={r} ")), None)
        if first and first.number and ratio:
            label = item.question.removeprefix("a gain above 1 %, ")
            panels.setdefault(label, {}).setdefault(first.number, []).append((float(ratio), item))
    if not panels:
        return None
    look = {2: (BLUE, "o"), 3: (GREEN, "^"), 4: (RED, "s")}
    with style():
        figure, axes = small_multiples(len(panels), 2, height=2.9, sharey=True)
        for ax, (label, lines) in zip(axes, panels.items(), strict=True):
            ax.set_title(label)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ends_at = []
            for bits, points in lines.items():
                points = sorted(points, key=lambda point: point[0])
                y, ends = _points([item for _, item in points])
                colour, marker = look.get(bits, (PURPLE, "D"))
                intervals(ax, [x for x, _ in points], y, ends, colour, marker)
                ends_at.append((y[-1], f"n = {bits}", colour))
            ax.axhline(1, color=INK, linewidth=0.8)
            ratios = sorted({x for points in lines.values() for x, _ in points})
            plain_ticks(ax.xaxis, ratios, lambda value: f"{value:.0f}")
            ax.set_xlabel("largest / smallest eigenvalue of the subspace")
            ax.tick_params(axis="x", labelsize=8)
        low, high = axes[0].get_ylim()
        for ax, lines in zip(axes, panels.values(), strict=True):
            plain_ticks(
                ax.yaxis, [t for t in (0.5, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 4, 6) if low <= t <= high]
            )
            labels = []
            for bits, points in lines.items():
                last = max(points, key=lambda point: point[0])[1]
                labels.append(
                    (_drawable(last.estimate), f"n = {bits}", look.get(bits, (PURPLE, ""))[0])
                )
            name_ends(ax, labels)
        axes[0].set_ylabel("error, uniform / water-filled")
        largest = max(
            (
                (_drawable(item.estimate), item.where)
                for lines in panels.values()
                for pts in lines.values()
                for _, item in pts
            )
        )
        return drawn(
            figure,
            "water-filling",
            "Gain of water-filling against the eigenvalue ratio",
            "Squared error of K with uniform bits over that with water-filled ones and intervals: "
            "above 1 water-filling gains.",
            f"The largest gain is {words.number(largest[0], 3)}, at {largest[1].split(':')[0]}.",
            ["waterfilling-uniform"],
        )


def effective_dim(run: PapersRun) -> Drawn | None:
    """d_eff against the number of calibration tokens."""
    lines: dict[str, list[tuple[float, Finding]]] = {}
    for item in _findings(run, "d-eff-calibration"):
        first = _first_figure(item)
        if first and first.what == "d-eff" and first.number in CALIBRATIONS:
            lines.setdefault(first.where, []).append((float(first.number), item))
    if not lines:
        return None
    looks = ((BLUE, "o"), (GREEN, "^"), (RED, "s"), (PURPLE, "D"))
    with style():
        figure, (ax,) = small_multiples(1, 1, height=3.0, width=7.5)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log", base=2)
        labels = []
        for (name, points), (colour, marker) in zip(lines.items(), looks, strict=False):
            points = sorted(points, key=lambda point: point[0])
            x = [tokens for tokens, _ in points]
            ax.plot(
                x, [_drawable(item.predicted) for _, item in points], color=colour, linewidth=0.9
            )
            y, ends = _points([item for _, item in points])
            intervals(ax, x, y, ends, colour, marker, line=False)
            labels.append((y[-1], name.replace("=", " "), colour))
        tokens = sorted({x for points in lines.values() for x, _ in points})
        plain_ticks(ax.xaxis, tokens, lambda value: f"{value:.0f}")
        plain_ticks(ax.yaxis, (4, 8, 16, 32, 64, 128), lambda value: f"{value:.0f}")
        ax.set_xlabel("calibration tokens N")
        ax.set_ylabel("effective dimension")
        name_ends(ax, labels)
        return drawn(
            figure,
            "effective-dim",
            "Effective dimension against calibration size",
            "Points are measured (d_eff is rounded up), thin lines r N / (N + r − 1) at rank r; "
            "isotropic data have rank d = 128.",
            "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{words.number(item.estimate, 3)} from {tokens:.0f} tokens"
                    for tokens, item in points
                )
                for name, points in lines.items()
            )
            + ".",
            ["d-eff-calibration"],
        )


VARIANTS = tuple(
    (rotation, letters) for rotation in ("Plain", "TQ") for letters in ("KV", "QKV", "KQV", "QKQV")
)


def eight_variants(run: PapersRun) -> Drawn | None:
    """The eight variants of rotation and QJL in the plane of scale and direction."""
    bits = 2
    panels: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for name in POPULATIONS:
        for rotation, letters in VARIANTS:
            scheme = SCHEMES[f"{rotation}-{letters}" + "/orthogonal" * (letters != "KV")]
            pair = [
                _column(run, f"population/{name}", Figure(what, scheme, bits))
                for what in ("relmse-t", "phi-t")
            ]
            if all(pair) and min(map(min, pair)) > 0:
                panels.setdefault(name, {})[rotation, letters] = (median(pair[0]), median(pair[1]))
    if not panels:
        return None
    shapes = {"KV": "o", "QKV": ">", "KQV": "^", "QKQV": "D"}
    with style():
        figure, axes = small_multiples(len(panels), 4, height=2.4)
        told = []
        handles = {}
        for ax, (name, points) in zip(axes, panels.items(), strict=True):
            ax.set_title(_population(name), fontsize=9)
            ax.set_xscale("log")
            ax.set_yscale("log")
            best = [v for v, point in points.items() if not _dominated(point, points.values())]
            told.append(f"{_population(name)}: {', '.join('-'.join(v) for v in best)}")
            for (rotation, letters), (x, y) in points.items():
                rotated = rotation == "TQ"  # small, so that it is seen on top of the other
                colour = BLUE if rotated else INK
                ax.plot(
                    x,
                    y,
                    shapes[letters],
                    color=colour,
                    markersize=5 if rotated else 10,
                    markerfacecolor=colour if (rotation, letters) in best else PAPER,
                    markeredgewidth=1.3 if rotated else 0.9,
                    alpha=1 if rotated else 0.75,
                )
                handles[f"{rotation}-{letters}"] = Line2D(
                    [],
                    [],
                    color=colour,
                    marker=shapes[letters],
                    linestyle="none",
                    markersize=5 if rotated else 9,
                    markerfacecolor=PAPER,
                )
            ax.margins(0.16)
            for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
                plain_ticks(axis, _few(*ends), lambda value: words.number(value, 2))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper left",
            ncols=8,
            handletextpad=0.2,
            columnspacing=1.2,
        )
        figure.supxlabel("relative squared error of the output", fontsize=9.5)
        figure.supylabel("φ of the output", fontsize=9.5)
        return drawn(
            figure,
            "eight-variants",
            "The eight TurboQuant variants at 2 bits, as a Pareto plot",
            "Large and black without rotation (Plain), small and blue with (TQ); the shape says "
            "where QJL is used (QKV on K, KQV on V), with an orthogonal sketch. Filled: no other "
            "variant is 5 % better in both. Medians over the trials.",
            "Not dominated: " + "; ".join(told) + ".",
            ["ablation-8"],
        )


def _dominated(point: tuple[float, float], others: Iterable[tuple[float, float]]) -> bool:
    return any(other[0] <= 0.95 * point[0] and other[1] <= 0.95 * point[1] for other in others)


def _few(low: float, high: float) -> list[float]:
    """Two to five ticks of a short logarithmic axis."""
    for steps in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        (1, 1.2, 1.5, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    ):
        ticks = decades(low, high, steps)
        if len(ticks) >= 2:
            break
    return ticks[:: 1 + len(ticks) // 5]


FIGURES: tuple[Callable[[PapersRun], Drawn | None], ...] = (
    marginals,
    marginal_distances,
    variance,
    kl_by_budget,
    kl_ratio,
    shannon_phi,
    direction,
    pathology,
    water_filling,
    effective_dim,
    eight_variants,
)
