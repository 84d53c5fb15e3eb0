"""JUnit for CI: a test case for each entry, as Jenkins, GitLab and others read it.

What violates, is inconclusive or fails is a failure or an error, as in the pytest door; what
is not applicable, or a known deviation, is skipped with its reason. What a paper only reports
never fails. Times are 0: a record has none, so that it is the same on every machine.

Both schemas that readers of JUnit go by are satisfied, that of Jenkins's xUnit plugin and the
stricter one for Ant; but Ant's wants a time of start, which records lack.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from kvassay.conformance import words
from kvassay.conformance.evidence.runs import Run
from kvassay.conformance.evidence.schema import Entry
from kvassay.reports.comparison_page import ComparisonPage
from kvassay.reports.conformance_page import ConformancePage
from kvassay.reports.papers_page import PaperRow, PapersPage

Names = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Case:
    """One test: `kind` is "" if it passes, or "failure", "error" or "skipped"."""

    classname: str
    name: str
    kind: str
    type: str
    message: str
    text: str


def render(page: ConformancePage | ComparisonPage | PapersPage) -> str:
    """The page as JUnit XML."""
    if isinstance(page, ComparisonPage):
        suites = [
            _suite(place, label, run, [_entry(label, entry) for entry in run.entries])
            for place, (label, run) in enumerate(zip(page.labels, page.runs, strict=True))
        ]
    elif isinstance(page, ConformancePage):
        known = page.expected.reasons if page.expected else {}
        cases = [_entry(page.label, entry, known.get(entry, "")) for entry in page.run.entries]
        cases += [_stale(page.label, name) for name in page.expected.stale] if page.expected else []
        suites = [_suite(0, page.label, page.run, cases)]
    else:
        cases = [_paper(page.run.label, row) for row in page.rows]
        suites = [_suite(0, page.run.label, page.run, cases)]
    root = ElementTree.Element("testsuites")
    root.extend(suites)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(place: int, label: str, run: Run, cases: Sequence[Case]) -> ElementTree.Element:
    broken = [
        Case(label, "the record can be trusted", "error", "record", problem, problem)
        for problem in run.problems
    ]
    cases = [*broken, *cases]
    counts = {
        kind: sum(case.kind == kind for case in cases) for kind in ("failure", "error", "skipped")
    }
    suite = ElementTree.Element(
        "testsuite",
        {
            "name": label,
            "package": "kvassay",
            "id": str(place),
            "hostname": "localhost",
            "time": "0",
            "tests": str(len(cases)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
            "skipped": str(counts["skipped"]),
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(run):
        ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    for case in cases:
        element = ElementTree.SubElement(
            suite, "testcase", {"classname": case.classname, "name": case.name, "time": "0"}
        )
        if case.kind:
            found = ElementTree.SubElement(
                element, case.kind, {"type": case.type, "message": case.message}
            )
            found.text = case.text
    told = (f"{case.name}: {case.text}" for case in cases if case.text and not case.kind)
    ElementTree.SubElement(suite, "system-out").text = "\n\n".join(told)
    ElementTree.SubElement(suite, "system-err")
    return suite


def _properties(run: Run) -> Iterator[tuple[str, str]]:
    yield "effort", run.effort
    yield "seed", str(run.seed)
    for source in run.sources:
        yield "kvassay", source.suite
        yield from source.machine.items()
        yield from ((f"device {name}", value) for name, value in source.device.items())


def _entry(label: str, entry: Entry, known: str = "") -> Case:
    kind = {
        "violates": "failure",
        "inconclusive": "failure",
        "error": "error",
        "not applicable": "skipped",
    }.get(entry.verdict, "")
    found = entry.reason
    if entry.verdict in ("violates", "inconclusive"):
        found = (
            f"measured {words.measured(entry.estimate, entry.interval)}, should be "
            f"{words.band(entry)}, {words.plural(entry.n, 'seed')}"
        )
    type_, text = entry.verdict, f"{found}\n{entry.reproduce}"
    if known:
        kind, type_, found = "skipped", "known deviation", f"known deviation: {known}"
    return Case(
        f"{label}.{entry.id}",
        f"{entry.cell.label}, {entry.part}",
        kind,
        type_,
        found or "no reason given",
        text if kind else "",
    )


def _stale(label: str, name: str) -> Case:
    gone = f"{name} is listed as a known deviation and conforms: take it off the list"
    return Case(label, f"known deviation {name}", "failure", "stale deviation", gone, gone)


def _paper(label: str, row: PaperRow) -> Case:
    outcome = row.outcome
    kind = "skipped" if outcome.words == ("not applicable",) else ""
    if {"violates", "inconclusive"} & set(outcome.words):
        kind = "failure"
    if "error" in outcome.words:
        kind = "error"
    figures = f"ours {row.ours}, paper {row.paper or '–'}"
    said = "; ".join(outcome.words)
    text = f"{said}: {outcome.detail}\n{figures}\n{row.command}"
    return Case(f"{label}.{row.standing}", row.id, kind, said, outcome.detail, text)
