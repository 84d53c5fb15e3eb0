"""Figures as inline SVG: drawn with matplotlib, then made fit for a page.

Every colour is one of the page's, so that figures follow light and dark; each has a title and
a description for those who do not see it, and ids of its own. Shape or position says what
colour says. Equal input makes equal bytes.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import asinh, floor, log10
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from kvassay.conformance import words

# What matplotlib draws, and the variable of style.css that takes its place.
INK, MUTED, GRID, BAND, PAPER = "#1b1f24", "#57606a", "#d8dee4", "#dfe7ef", "#fefefe"
BLUE, RED, GREEN, PURPLE, SKY = "#0b6bb0", "#bf4a0a", "#0a7a5c", "#96488a", "#4a90a8"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    BAND: "--band",
    PAPER: "--paper",
    BLUE: "--blue",
    RED: "--red",
    GREEN: "--green",
    PURPLE: "--purple",
    SKY: "--sky",
}
SERIES = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (PURPLE, "D"), (SKY, "v"), (INK, "P"))

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,  # a name may hold a dollar sign
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.facecolor": "none",
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.6,
}


@dataclass(frozen=True)
class Drawn:
    """A figure on a page: what it shows, how to read it, and the drawing."""

    id: str
    title: str
    caption: str
    svg: Markup
    claims: tuple[str, ...] = ()


@contextmanager
def style() -> Iterator[None]:
    """How figures look. Glyphs that the measuring font lacks are no reason to warn."""
    everywhere_the_same = {**matplotlib.rcParamsDefault, **STYLE}
    with matplotlib.rc_context(everywhere_the_same), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def small_multiples(
    panels: int, across: int, width: float = 9.0, height: float = 2.3, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with that many panels, `height` inches each, in full rows of at most `across` where
    that is possible."""
    down = -(-panels // across)
    across = -(-panels // down)
    figure = Figure(figsize=(width, height * down + 0.35), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, **options)
    flat = [ax for row in axes for ax in row]
    for ax in flat[panels:]:
        ax.remove()
    for ax in flat[panels - across : panels]:  # the lowest of each column
        ax.tick_params(labelbottom=True)
    return figure, flat[:panels]


def drawn(
    figure: Figure, id: str, title: str, caption: str, alternative: str, claims: Sequence[str] = ()
) -> Drawn:
    """The figure as SVG for a page. `alternative` is its text for those who do not see it."""
    file = BytesIO()
    no_date = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context({"svg.hashsalt": id}):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(file, metadata=no_date)  # savefig would draw all twice
    root = ElementTree.fromstring(file.getvalue())
    _simplify(root)
    _own_ids(root, id)
    _colours_of_the_page(root)
    for name in ("height", "version"):
        root.attrib.pop(name, None)
    root.set("width", "100%")
    root.set("role", "img")
    root.set("aria-labelledby", f"{id}-title {id}-text")
    for name, text, place in (("title", title, 0), ("desc", alternative, 1)):
        element = ElementTree.Element(f"{{{SVG}}}{name}", {"id": f"{id}-{name}"})
        element.text = text
        root.insert(place, element)
    root[0].set("id", f"{id}-title")
    root[1].set("id", f"{id}-text")
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    text = ElementTree.tostring(root, encoding="unicode")
    return Drawn(id, title, caption, Markup(text), tuple(claims))


def _simplify(root: ElementTree.Element) -> None:
    """Takes out what a page does not need: metadata, comments, styles for all, and numbers finer
    than a hundredth of a point."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for name in ("d", "transform", "x", "y", "points"):
            if name in element.attrib:
                element.set(name, _DECIMALS.sub(_rounded, element.attrib[name]).strip())


_DECIMALS = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _own_ids(root: ElementTree.Element, prefix: str) -> None:
    """Ids that are pointed to, with the figure's own name before them; no others."""
    link = f"{{{XLINK}}}href"
    used = {element.get(link, "")[1:] for element in root.iter()}
    for element in root.iter():
        for value in element.attrib.values():
            used.update(_REFERENCE.findall(value))
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                if value in used:
                    element.set(name, f"{prefix}-{value}")
                else:
                    del element.attrib[name]
            elif name == link:
                element.set(name, f"#{prefix}-{value[1:]}")
            elif "url(#" in value:
                element.set(name, _REFERENCE.sub(rf"url(#{prefix}-\1)", value))


_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def _colours_of_the_page(root: ElementTree.Element) -> None:
    for element in root.iter():
        style = {
            name.strip(): value.strip()
            for name, _, value in (
                part.partition(":") for part in element.get("style", "").split(";") if part.strip()
            )
        }
        for name in ("fill", "stroke"):  # what stands as an attribute, as on markers
            if name in element.attrib:
                style.setdefault(name, element.attrib.pop(name))
        if element.tag == f"{{{SVG}}}text":
            style.setdefault("fill", INK)
        for name, value in style.items():
            if value in VARIABLES:
                style[name] = f"var({VARIABLES[value]})"
        style.pop("stroke-linecap", None)
        style.pop("stroke-linejoin", None)
        if style:
            element.set("style", "; ".join(f"{name}: {value}" for name, value in style.items()))


# Parts of figures -------------------------------------------------------------------------


def plain_ticks(
    axis: Any, places: Sequence[float], name: Callable[[float], str] | None = None
) -> None:
    """Ticks at these places alone, written as people write numbers. On an upright axis those are
    left out that would stand too close to another."""
    kept = list(places)
    if axis.axis_name == "y" and kept:
        low, high = axis.get_view_interval()
        bottom, top, *heights = axis.get_transform().transform([low, high, *kept])
        least = 0.08 * abs(top - bottom)
        by_height = sorted(zip(heights, kept, strict=True), key=lambda pair: pair[1] != 1)
        chosen: list[tuple[float, float]] = []
        for height, place in by_height:  # 1 first: it is what ratios are read against
            if all(abs(height - other) >= least for other, _ in chosen):
                chosen.append((height, place))
        kept = [place for _, place in chosen]
    axis.set_major_locator(FixedLocator(kept))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    text = name or (lambda value: words.number(value, 3))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def decades(low: float, high: float, steps: Sequence[float] = (1,)) -> list[float]:
    """The numbers 1, or `steps`, times a power of ten between two numbers; where they are many,
    some of them."""
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    there = [tick for tick in ticks if low <= tick <= high * 1.0001]
    return there[:: 1 + len(there) // 12]


def intervals(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float],
    ends: Sequence[tuple[float, float]],
    colour: str,
    marker: str = "o",
    line: bool = True,
) -> None:
    """Points with their intervals, joined by a line if `line`."""
    ax.vlines(x, [low for low, _ in ends], [high for _, high in ends], colors=colour, linewidth=1.3)
    ax.plot(
        x,
        y,
        color=colour,
        marker=marker,
        linestyle="-" if line else "none",
        linewidth=1.0,
        markersize=4.2,
    )


def name_ends(
    ax: Axes, labels: Sequence[tuple[float, str, str]], gap: float = 0.075, x: float = 1.02
) -> None:
    """Names at the right end of lines, (height, name, colour), moved apart where they are closer
    than `gap` of the axis."""
    low, high = ax.get_ylim()
    scale = ax.yaxis.get_transform()
    bottom, top = scale.transform([low, high])
    placed = sorted(
        ((scale.transform([height])[0] - bottom) / (top - bottom), name, colour)
        for height, name, colour in labels
    )
    heights = [min(max(height, 0.0), 1.0) for height, _, _ in placed]
    for _ in range(200):  # push neighbours apart, a little each time
        moved = False
        for i in range(len(heights) - 1):
            short = gap - (heights[i + 1] - heights[i])
            if short > 1e-6:
                heights[i] -= short / 2
                heights[i + 1] += short / 2
                moved = True
        if not moved:
            break
    for height, (_, name, colour) in zip(heights, placed, strict=True):
        ax.annotate(
            name,
            (x, height),
            xycoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=colour,
            annotation_clip=False,
        )


def legend_above(figure: Figure, ax: Axes, columns: int) -> None:
    """What the lines of one panel, which stand for those of all, are called."""
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=columns)


def marked(ax: Axes, height: float, name: str) -> None:
    """A dashed level with its name just above it."""
    ax.axhline(height, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.annotate(
        name,
        (0.01, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        va="bottom",
        fontsize=8.5,
        color=MUTED,
    )


# Strips: one claim's estimates against their bands -----------------------------------------

STRIP_WIDTH, ROWS = 220.0, 9
FARTHEST = 20.0  # half-widths of the band; what is farther off stands at the edge


@dataclass(frozen=True)
class Mark:
    """One estimate in a strip: where it and its interval lie."""

    x: float
    low: float
    high: float
    y: float
    verdict: str


@dataclass(frozen=True)
class Strip:
    """All estimates of a claim on one scale: 0 is the prediction, the band ends at ±1."""

    marks: tuple[Mark, ...]
    band_low: float
    band_high: float
    centre: float
    text: str

    @property
    def layers(self) -> list[tuple[str, str, str]]:
        """Of each verdict its intervals and its points, as two SVG paths: dots for what lies in
        its band, crosses for what does not."""
        layers = []
        for verdict in dict.fromkeys(mark.verdict for mark in self.marks):
            here = [mark for mark in self.marks if mark.verdict == verdict]
            dot = "h0" if words.SIGNS[verdict] == "✓" else "m-2.5-2.5l5 5m0-5l-5 5"
            lines = "".join(f"M{m.low:g} {m.y:g}H{m.high:g}" for m in here if m.low < m.high)
            layers.append((verdict, lines, "".join(f"M{m.x:g} {m.y:g}{dot}" for m in here)))
        return layers


def strip(items: Sequence[Any], what: str) -> Strip | None:
    """The strip of entries or findings, or None where none has an estimate."""
    there = [item for item in items if item.estimate is not None and item.band and item.interval]
    if not there:
        return None
    marks = []
    for place, item in enumerate(there):
        low, high = item.interval
        middle, width = _scale(item)
        marks.append(
            Mark(
                x=_place((item.estimate - middle) / width),
                low=0.0 if low is None else _place((low - middle) / width),
                high=STRIP_WIDTH if high is None else _place((high - middle) / width),
                y=5 + place * 7 % ROWS * 3,  # the height only keeps points apart
                verdict=item.verdict,
            )
        )
    marks.sort(key=lambda mark: words.SIGNS[mark.verdict] != "✓")  # those are drawn last, on top
    open_low = all(item.band[0] is None for item in there)
    open_high = all(item.band[1] is None for item in there)
    inside = sum(words.SIGNS[mark.verdict] == "✓" for mark in marks)
    return Strip(
        tuple(marks),
        band_low=0.0 if open_low else _place(-1.0),
        band_high=STRIP_WIDTH if open_high else _place(1.0),
        centre=_place(0.0),
        text=f"{what}: {inside} of {len(marks)} intervals lie inside the band",
    )


def deviation(item: Any) -> float:
    """How far an estimate is from the middle of its band, in half-widths."""
    if item.estimate is None or not item.band:
        return 0.0
    middle, width = _scale(item)
    off = (item.estimate - middle) / width
    low, high = item.band
    return float(off if low is None else -off if high is None else abs(off))


def _scale(item: Any) -> tuple[float, float]:
    """The middle of the band and its half-width. A band with one end has its prediction, or 0
    or 1 by its nature, for a middle."""
    low, high = item.band
    if low is not None and high is not None:
        return (low + high) / 2, max((high - low) / 2, 1e-12)
    end = high if high is not None else low if low is not None else 0.0
    middle = item.predicted if item.predicted is not None else 0.0
    width = abs(end - middle) or max(abs(end) / 2, 1e-12)
    if high is None:  # at least: the prediction lies inside, at a distance from the end
        middle = end + width
    elif middle == end:  # nothing at all is allowed: what is nothing stands in the middle
        width = 1e-12
    elif middle > end:
        middle = end - width
    return middle, width


def _place(off: float) -> float:
    """Where a deviation stands: linear about the band, logarithmic beyond."""
    bounded = min(max(off, -FARTHEST), FARTHEST)
    return round(STRIP_WIDTH / 2 * (1 + 0.96 * asinh(2 * bounded) / asinh(2 * FARTHEST)), 1)
