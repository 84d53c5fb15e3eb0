"""Records in, files out: which pages the records make, and in which format."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from kvassay.conformance import words
from kvassay.conformance.evidence.deviations import Deviation
from kvassay.conformance.evidence.lines import RecordError
from kvassay.conformance.evidence.merge import merge_checks, merge_papers
from kvassay.conformance.evidence.read import read
from kvassay.conformance.evidence.runs import CheckRun, KillTable, PapersRun
from kvassay.conformance.run.execution import cores, process_pool
from kvassay.reports import comparison_page, conformance_page, html, junit, markdown
from kvassay.reports.comparison_page import ComparisonPage
from kvassay.reports.conformance_page import ConformancePage
from kvassay.reports.controls import Controls, read_controls
from kvassay.reports.papers_page import PapersPage, papers_page

MANY = 8  # pages that are worth processes of their own

Page = ConformancePage | ComparisonPage | PapersPage

# What makes the text of a page, by the ending of the file. `up` names the page above it, if any.
FORMATS: dict[str, Callable[[Page, str], str]] = {
    ".html": html.render,
    ".md": lambda page, up: markdown.render(page),
    ".xml": lambda page, up: junit.render(page),
}


def report(
    records: Sequence[Path],
    out: Path,
    *,
    controls: Sequence[Path] = (),
    known: Sequence[Deviation] | None = None,
    partial: bool = False,
) -> list[Path]:
    """Writes the report that the records make to `out`, and gives the files written.

    One record of `kvassay check` makes the page of a backend, several a comparison, one of
    `kvassay reproduce` the papers' page. The ending of `out` chooses the format; without one it
    is a folder, which gets all formats and a page for each backend. `known` are deviations
    that one backend's implementer lives with. RecordError for records that cannot be used, or
    do not make one page.
    """
    kind = format_of(out)
    evidence = [read(path, partial) for path in records]
    for path, record in zip(records, evidence, strict=True):
        if isinstance(record, KillTable):
            raise RecordError(f"{str(path)!r} is a kill table: give it as --controls")
    checks = merge_checks([item for item in evidence if isinstance(item, CheckRun)])
    papers = merge_papers([item for item in evidence if isinstance(item, PapersRun)])
    if known is not None and len(checks) != 1:
        raise RecordError(
            f"--deviations is one backend's list, and these records are of {len(checks)}"
        )
    if papers and (controls or checks) and kind:
        raise RecordError(
            "records of `kvassay check`, or controls, and those of `kvassay reproduce` make "
            "different pages: report on each apart, or name a folder"
        )
    if len(papers) > 1 and kind:
        raise RecordError(
            f"these records are of {len(papers)} runs of `kvassay reproduce`, a page each: report "
            "on each apart, or name a folder"
        )
    files = _files(checks, papers, read_controls(controls, partial), known, kind)
    return _written(files, out, kind)


def format_of(out: Path) -> str:
    """The format of a report by its name's ending, "" for a folder. RecordError for another
    ending, or a place that cannot be."""
    kind = out.suffix.lower()
    if out.is_dir():
        return ""
    if kind and kind not in FORMATS:
        raise RecordError(f"{str(out)!r} must end in {', '.join(FORMATS)}, or name a folder")
    if not kind and out.exists():
        raise RecordError(f"{str(out)!r} is a file without an ending; name a folder")
    if kind and not out.parent.is_dir():
        raise RecordError(f"{str(out)!r} cannot be written: there is no folder {str(out.parent)!r}")
    return kind


def _files(
    checks: Sequence[CheckRun],
    papers: Sequence[PapersRun],
    controls: Controls,
    known: Sequence[Deviation] | None,
    kind: str,
) -> dict[str, str]:
    """The text of each file by its name; by its format alone if there is one file."""
    kinds = (kind,) if kind else tuple(FORMATS)
    pages: dict[str, Page] = {}
    if len(checks) == 1:
        pages["index"] = conformance_page.conformance_page(checks[0], controls, known)
    elif checks:
        labels = words.labels(checks)
        slugs = _slugs(labels)
        if not kind:
            for run, label, slug in zip(checks, labels, slugs, strict=True):
                pages[slug] = conformance_page.conformance_page(run, controls, None, label)
        linked = None if kind else slugs
        pages["index"] = comparison_page.comparison_page(checks, labels, controls, linked)
    taken = len(papers) > 1 or bool(checks)
    slugs = _slugs([f"papers {paper.label}" for paper in papers])
    for paper, slug in zip(papers, slugs, strict=True):
        pages[slug if taken else "index"] = papers_page(paper)
    up = "index.html" if len(checks) > 1 else ""
    jobs = {
        f"{name}{ending}": (page, ending, "" if name == "index" else up)
        for name, page in pages.items()
        for ending in kinds
    }
    if len(pages) < MANY:
        texts = [_text(job) for job in jobs.values()]
    else:  # drawing takes a second a page
        with process_pool(cores()) as pool:
            texts = list(pool.map(_text, jobs.values(), chunksize=3))
    return dict(zip(jobs, texts, strict=True))


def _text(job: tuple[Page, str, str]) -> str:
    page, ending, up = job
    return FORMATS[ending](page, up)


def _slugs(labels: Sequence[str]) -> list[str]:
    """File names for backends, whatever they are called."""
    slugs: list[str] = []
    for label in labels:
        plain = re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.")[:60] or "backend"
        slug, number = plain, 2
        while slug in (*slugs, "index"):
            slug, number = f"{plain}-{number}", number + 1
        slugs.append(slug)
    return slugs


def _written(files: dict[str, str], out: Path, kind: str) -> list[Path]:
    try:
        if kind:
            (text,) = files.values()
            out.write_text(text, encoding="utf-8", newline="\n")
            return [out]
        out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8", newline="\n")
        return [out / name for name in files]
    except OSError as problem:
        raise RecordError(f"{str(out)!r} cannot be written: {problem.strerror}") from None
