"""Pages as HTML: one file each, that needs neither network nor script to be read.

Whatever a template prints is escaped (jinja2, autoescape). A content security policy lets the
page run its own script and nothing else, should anything slip through all the same.
"""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kvassay.conformance import words
from kvassay.conformance.evidence.runs import Run
from kvassay.conformance.evidence.schema import Entry
from kvassay.reports import codec_figures, figures, papers_figures
from kvassay.reports.comparison_page import ComparisonPage
from kvassay.reports.conformance_page import MOST_FINDINGS, ConformancePage
from kvassay.reports.papers_page import STANDINGS, PapersPage, claim_of

Row = tuple[tuple[str, str, int], dict[int, Entry]]


def render(page: ConformancePage | ComparisonPage | PapersPage, up: str = "") -> str:
    """The page as HTML. `up` is the address of the comparison that it belongs to, if any."""
    if isinstance(page, ConformancePage):
        drawn = [codec_figures.ratios_of_codecs(page.run, name) for name in codec_figures.RATIOS]
        drawn.append(codec_figures.bytes_of_backends([page.run], [page.label]))
        return _page("conformance.html", page, drawn, [page.run], up=up)
    if isinstance(page, ComparisonPage):
        runs, labels = page.runs, page.labels
        drawn = [
            codec_figures.ratios_of_backends(runs, labels, name) for name in codec_figures.RATIOS
        ]
        drawn.append(codec_figures.bytes_of_backends(runs, labels))
        return _page("comparison.html", page, drawn, runs)
    return _page("papers.html", page, papers_figures.papers_figures(page.run), [page.run])


def _page(
    template: str,
    page: Any,
    drawn: Sequence[figures.Drawn | None],
    runs: Sequence[Run],
    **more: Any,
) -> str:
    text = (
        _environment()
        .get_template(template)
        .render(
            page=page,
            figures=[figure for figure in drawn if figure],
            files=[source.file for run in runs for source in run.sources],
            **more,
        )
    )
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(template_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = template_file("tables.js")
    environment.globals |= {
        "css": Markup(template_file("style.css")),  # ours, like the script
        "script": Markup(script),
        "script_hash": b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "words": words,
        "strip": figures.strip,
        "link": link,
        "grid": grid,
        "most": MOST_FINDINGS,
        "standings": STANDINGS,
        "claim_of": claim_of,
    }
    environment.filters |= {
        "name_of": lambda word: word.replace(" ", "-"),
        "number": words.number,
        "bits": lambda entry: entry.bits,
        "options": lambda command: command.replace(" --", "\n--").split("\n"),
    }
    return environment


def template_file(name: str) -> str:
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def link(text: str) -> str:
    """The text if it is an address of the web, else nothing: no other kind becomes a link."""
    return text if text.startswith(("https://", "http://")) and " " not in text else ""


def grid(entries: Sequence[Entry]) -> list[Row]:
    """The entries of a claim as a table: a row for each codec, part and dimension, which has a
    cell for each width."""
    rows: dict[tuple[str, str, int], dict[int, Entry]] = {}
    for entry in entries:
        rows.setdefault((entry.cell.codec, entry.part, entry.dim), {})[entry.bits] = entry
    return sorted(rows.items(), key=lambda row: row[0])
