"""Backends, devices and claims on the terminal."""

import inspect
import re

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvassay.conformance import discovery
from kvassay.conformance.claims.catalogue import PAPERS as PAPER_CLAIMS
from kvassay.conformance.claims.claim import Claim, Part
from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.measure import EFFORTS, Effort
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.statistics import design
from kvassay.conformance.words import STANDINGS
from kvassay.reference.designs import AS_IN_THE_PAPERS, Design
from kvassay.reference.kinds import KINDS


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
    codec_claims = [claim for claim in CLAIMS if claim.of_papers]
    own = [claim for claim in CLAIMS if not claim.of_papers]
    for title, claims in (
        ("Of a codec: `kvassay check` and `kvassay reproduce`", codec_claims),
        ("Of attention, regimes and SpectralQuant: `kvassay reproduce`", PAPER_CLAIMS),
        ("Of the interface and of single seeds, ours: `kvassay check`", own),
    ):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
        for heading in ("claim", "standing", "sentence"):
            table.add_column(heading)
        for claim in claims:
            table.add_row(claim.id, claim.standing, escape(claim.sentence))
        console.print(table)
    console.print(
        f"{len(codec_claims) + len(PAPER_CLAIMS)} claims of the papers, {len(own)} of the suite's "
        "own; `kvassay explain CLAIM` tells all about one"
    )


def show_claim(claim: Claim) -> None:
    """The whole record of one claim."""
    from kvassay.conformance.measure.codec import EXPERIMENTS

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
        ("catches", faults_caught_by(claim.id)),
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


def faults_caught_by(claim_id: str) -> str:
    """The faults that a claim must catch; "" if none names it."""
    from kvassay.conformance import faults

    found = faults.caught_by(claim_id)
    return f"{', '.join(found)} (`kvassay faults` tells what they are)" if found else ""


def _worked_example(claim: Claim) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title="At d = 128, b = 4: predicted, and what each effort resolves with how many seeds",
        title_justify="left",
    )
    for heading in ("kind", "predicted", *EFFORTS):
        table.add_column(heading)
    for kind in claim.kinds:
        for sketch in KINDS[kind].sketches:
            cell, part = _example(claim, kind, sketch)
            row = [
                f"{_resolved(claim, cell, part, effort)} ({claim.needed(cell, part.name, effort)})"
                for effort in EFFORTS
            ]
            predicted = claim.prediction(cell, part.name)
            name = f"{cell.codec} ({cell.design})" if cell.design.changed else cell.codec
            table.add_row(name, f"{predicted:.5g}", *row)
    if claim.method in ("ratio", "geometric"):
        table.caption = "relative to the prediction"
        table.caption_justify = "left"
    elif claim.method == "every":
        share = design.share_excluded(claim.seeds["standard"])
        table.caption = (
            f"every seed must lie there; if all do at standard effort, at most {share:.1%} of "
            "the seeds are bad (95 %, Clopper-Pearson)"
        )
        table.caption_justify = "left"
    return table


def _example(claim: Claim, kind: str, sketch: str) -> tuple[Cell, Part]:
    """A cell about which the claim says something, and what: as in the papers if it can be."""
    cells = [
        Cell(kind, sketch, 128, 4, design=design)
        for design in (AS_IN_THE_PAPERS, Design(rotation="hadamard-unsigned"))
        if KINDS[kind].rotated or not design.changed
    ]
    return next((cell, parts[0]) for cell in cells if (parts := claim.parts_for(cell)))


def _resolved(claim: Claim, cell: Cell, part: Part, effort: Effort) -> str:
    """What lies within the band: the deviations that do, or where every seed must lie."""
    if claim.method == "every":
        band = claim.band(cell, part.name, effort)
        return f"[{band.low:.3g}, {band.high:.3g}]"
    return f"{'+' if claim.at_most else '±'}{claim.delta(cell, part.name, effort):.3g}"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(inspect.cleandoc(text).split()))[0]


_METHODS = {
    "ratio": "Student-t interval over the seeds",
    "geometric": "Student-t interval over the seeds, of the logarithm",
    "distance": "Dvoretzky-Kiefer-Wolfowitz band for the CDF",
    "worst": "the worst value over the seeds; no chance involved",
    "every": "each seed alone: chance leaves none outside of the limits",
}
