"""Pages in every format: what they say, that they repeat, and what cannot get through them."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import example, given, strategies
from recorded import lines, rewritten

from kvassay.conformance.doors.cli import main
from kvassay.conformance.evidence.lines import clean

NEEDED = "reports need kvassay[reports]: `tox -e reports` has it"
markdown = pytest.importorskip("kvassay.reports.markdown", reason=NEEDED)
pytest.importorskip("matplotlib", reason=NEEDED)
junitparser = pytest.importorskip("junitparser", reason="`tox -e reports` has junitparser")
markdown_it = pytest.importorskip("markdown_it", reason="`tox -e reports` has markdown-it-py")
xmlschema = pytest.importorskip("xmlschema", reason="`tox -e reports` has xmlschema")

NASTY = "</style></svg><script>alert(1)</script><img src=x onerror=alert(2)>"
FIGURES = [
    "marginals",
    "marginal-distances",
    "variance",
    "kl-by-budget",
    "kl-ratio",
    "shannon-phi",
    "direction",
    "kl-distributions",
    "water-filling",
    "effective-dim",
    "eight-variants",
]


def report(out, *paths, **options):
    """The report that the command makes of records, and what it printed."""
    arguments = ["report", *map(str, paths), "-o", str(out)]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            arguments += [f"--{name}"] + ([] if each is True else [str(each)])
    return CliRunner().invoke(main, arguments)


def page(tmp_path, *paths, ending="html", **options):
    out = tmp_path / f"page.{ending}"
    result = report(out, *paths, **options)
    assert result.exit_code == 0, result.output
    return out.read_text()


@pytest.fixture(scope="module")
def plain(records, tmp_path_factory):
    """The page of a record alone, made once."""
    folder = tmp_path_factory.mktemp("pages")
    return cache(lambda kind, ending="html": page(folder, records / kind, ending=ending))


@pytest.fixture(scope="module")
def all_controls(records):
    return [
        records / name
        for name in ("reference.jsonl", "zero.jsonl", "identity.jsonl", "faults.json")
    ]


def test_conformance_page_says_what_the_record_says(tmp_path, records, all_controls):
    text = page(tmp_path, records / "zero.jsonl", controls=all_controls)
    footer = lines(records / "zero.jsonl")[-1]["counts"]
    assert "zero 0.1.0 violates" in text
    assert (
        f"{footer['planned']} planned = {footer['conforms']} conforms + {footer['violates']} "
        f"violates + 0 inconclusive + {footer['not_applicable']} not applicable + 0 error"
    ) in text
    for entry in lines(records / "zero.jsonl")[1:-1]:
        if entry["record"] == "entry":
            assert f'id="claim-{entry["id"]}"' in text
    assert "1 of 1 seeded fault caught; 1 of 1 equivalent change" in text
    assert "reference 0.1.0 conforms to all" in text
    for figure in ("distortion-by-codec", "qjl-unbiased-by-codec", "bytes"):
        assert f'id="figure-{figure}"' in text
    for heading in ("Not tested", "How it was run", "What it looks like"):
        assert heading in text
    assert "More bits are stored than the width says. It explains 97% of the deviation." in text
    assert "Look first at the width that the codec really uses" in text


def test_controls_that_were_not_run_are_named_with_their_command(plain):
    text = re.sub(r"<[^>]+>", "", plain("zero.jsonl"))
    assert text.count("– not run") == 4
    assert "kvassay check zero --effort quick --record zero.jsonl" in text


def test_control_that_comes_out_wrong_is_told_in_red_at_the_top(tmp_path, records):
    wrong = lines(records / "reference.jsonl")
    wrong[0]["backend"] |= {"name": "zero", "spec": "zero"}
    wrong = rewritten(tmp_path / "wrong.jsonl", wrong)
    text = page(tmp_path, records / "reference.jsonl", controls=[wrong])
    assert "A control came out wrong: zero" in text
    assert text.index("A control came out wrong") < text.index("<h1")


def test_result_and_as_expected_stand_apart(tmp_path, records):
    known = tmp_path / "known.toml"
    known.write_text('[[deviation]]\nclaim = "distortion"\nreason = "It is all zeros."\n')
    text = page(tmp_path, records / "zero.jsonl", deviations=known)
    assert "zero 0.1.0 violates" in text
    assert "Not as expected" in text
    assert "It is all zeros." in text
    xml = ElementTree.fromstring(
        page(tmp_path, records / "zero.jsonl", ending="xml", deviations=known)
    )
    skipped = [case.find("skipped") for case in xml.iter("testcase")]
    assert any(s is not None and "It is all zeros." in s.get("message") for s in skipped)
    assert int(xml[0].get("failures")) > 0


def test_papers_page_has_every_claim_and_figure(records, plain):
    text = plain("papers.jsonl")
    assert re.findall(r'figure id="figure-([^"]+)"', text) == FIGURES
    for line in lines(records / "papers.jsonl"):
        if line["record"] == "outcome":
            assert f'id="claim-{line["id"]}"' in text
    assert "paper</span> <strong>2.25</strong>" in text


def test_comparison_has_every_backend_and_claim_and_folder_links_them(tmp_path, records):
    folder = tmp_path / "all"
    names = ("reference", "zero", "identity")
    result = report(folder, *(records / f"{name}.jsonl" for name in names))
    assert result.exit_code == 0, result.output
    index = (folder / "index.html").read_text()
    for name in names:
        assert f'href="{name}-0.1.0.html#claim-distortion"' in index
        assert 'id="claim-distortion"' in (folder / f"{name}-0.1.0.html").read_text()
    for ending in ("md", "xml"):
        assert (folder / f"index.{ending}").stat().st_size > 1000
    for figure in ("distortion-by-backend", "qjl-unbiased-by-backend", "bytes"):
        assert f'id="figure-{figure}"' in index


@pytest.mark.parametrize("kind", ["zero.jsonl", "papers.jsonl"])
def test_same_records_give_the_same_bytes_in_another_process(tmp_path, records, plain, kind):
    cli = [sys.executable, "-m", "kvassay.conformance.doors.cli", "report", str(records / kind)]
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([*cli, "-o", str(tmp_path / "all")], check=True, env=environment)
    for ending in ("html", "md", "xml"):
        assert (tmp_path / f"all/index.{ending}").read_text() == plain(kind, ending)


def test_pages_need_nothing_from_outside_and_are_small(plain):
    for kind in ("zero.jsonl", "papers.jsonl"):
        text = plain(kind)
        assert len(text.encode()) < 3e6
        assert not re.findall(r'(?:src|href)="(?!#|data:,)[^"]*"', text)
        assert not re.findall(r"@import|url\((?!#)", text)
        ids = re.findall(r'\bid="([^"]+)"', text)
        assert len(ids) == len(set(ids))
        wanted = set(re.findall(r'(?:href="#|url\(#|labelledby=")([^")\s]+)', text))
        assert wanted <= set(ids)
        for header in re.findall(r"<th\b[^>]*>", text):
            assert "scope=" in header


def nasty(lines, text):
    """A record with `text` wherever a text can be."""
    lines[0]["backend"] |= {"name": text, "version": text, "spec": text}
    lines[0]["machine"] = {text: text}
    lines[0]["device"] = {"name": text}
    for line in lines[1:-1]:
        for name in ("part", "reason", "cells", "where"):
            if name in line:
                line[name] = [text] if isinstance(line[name], list) else f"{line[name]} {text}"
    return lines


@pytest.mark.parametrize("kind", ["zero.jsonl", "papers.jsonl"])
def test_script_in_a_record_gets_nowhere(tmp_path, records, kind):
    path = rewritten(tmp_path / "nasty.jsonl", nasty(lines(records / kind), NASTY))
    text = page(tmp_path, path)
    assert "&lt;script&gt;alert" in text
    assert text.count("<script") == 1
    assert "<img" not in text
    assert text.count("</style>") == 1
    markdown = page(tmp_path, path, ending="md")
    assert "<script" not in markdown
    assert "<img" not in markdown
    ElementTree.fromstring(page(tmp_path, path, ending="xml"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("outcome", {"standing": "reported"}),
        ("outcome", {"holds": 99, "of": 99}),
        ("diagnosis", {"matches": [{"fault": "K10", "fit": 0.5}]}),
    ],
)
def test_what_does_not_follow_from_the_record_is_refused(tmp_path, records, kind, values):
    changed = lines(records / ("papers.jsonl" if kind == "outcome" else "zero.jsonl"))
    line = next(line for line in changed if line["record"] == kind)
    line |= values
    refused = report(tmp_path / "no.html", rewritten(tmp_path / "changed.jsonl", changed))
    assert refused.exit_code == 2
    assert "does not follow" in refused.output or "explain enough" in refused.output


def test_addresses_other_than_of_the_web_are_no_links(tmp_path, records):
    known = tmp_path / "known.toml"
    known.write_text(
        '[[deviation]]\nclaim = "distortion"\nreason = "r"\nissue = "javascript:alert(1)"\n'
        '[[deviation]]\nclaim = "two-pi"\nreason = "r"\nissue = "https://example.org/7"\n'
    )
    text = page(tmp_path, records / "zero.jsonl", deviations=known)
    assert 'href="javascript' not in text
    assert 'href="https://example.org/7"' in text


def test_markdown_from_a_record_calls_nobody_and_breaks_no_table(tmp_path, records):
    evil = "@root #1 | `x` **b** [l](javascript:1) <b> www.evil.org https://evil.org ~~s~~"
    path = rewritten(tmp_path / "evil.jsonl", nasty(lines(records / "zero.jsonl"), evil))
    text = page(tmp_path, path, ending="md")
    for raw in ("@root", "#1 ", "`x`", "**b**", "[l](", "<b>", "www.", "https://", "~~s"):
        assert raw not in text
    for row in text.splitlines():
        if row.startswith("|"):
            assert row.count("|") in (3, 6)


@given(strategies.text())
@example("_a_ *b* `c` ~~d~~ <e> &amp; $f$ #1 @g")
@example("1. a")
@example("- a")
@example("a \\")
@example("a | b \\| c")
@example("[a]: b")
@example("mailto:a@b.example www.c.example http://d.example")
def test_markdown_shows_any_text_as_it_is(anything):
    wanted = " ".join(clean(anything, markdown.LONGEST_TEXT).split())
    github = markdown_it.MarkdownIt("gfm-like")
    shown = f"{markdown.escaped(wanted)}\n\n|a|\n|-|\n|{markdown.escaped(wanted)}|\n"
    tree = ElementTree.fromstring(f"<page>{github.render(shown)}</page>")
    paragraphs = [tree.find("p"), tree.find("table/tbody/tr/td")]
    for element in paragraphs:
        if element is None:
            assert not wanted
        else:
            assert len(element) == 0
            assert (element.text or "").replace("\u200b", "") == wanted


def test_markdown_fits_in_a_comment(plain):
    for kind in ("zero.jsonl", "papers.jsonl"):
        assert len(plain(kind, "md")) <= markdown.LONGEST


def test_junit_is_valid_and_counts_what_there_is(tmp_path, records):
    schema = xmlschema.XMLSchema(str(Path(__file__).with_name("junit.xsd")))
    controls = nasty(lines(records / "zero.jsonl"), "\x1b[1m\x00\ufffe</testcase>")
    path = rewritten(tmp_path / "control.jsonl", controls)
    for kind in (path, records / "zero.jsonl", records / "papers.jsonl"):
        text = page(tmp_path, kind, ending="xml")
        root = ElementTree.fromstring(text)
        schema.validate(root)
        others = junitparser.JUnitXml.fromstring(text)
        others.update_statistics()  # counts the cases
        for name in ("tests", "failures", "errors", "skipped"):
            assert getattr(others, name) == sum(int(suite.get(name)) for suite in root)
        for suite in root:
            for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
                assert int(suite.get(name)) == len(suite.findall(f"testcase/{tag}"))
            assert int(suite.get("tests")) == len(suite.findall("testcase"))
    root = ElementTree.fromstring(page(tmp_path, records / "zero.jsonl", ending="xml"))
    footer = lines(records / "zero.jsonl")[-1]["counts"]
    assert int(root[0].get("failures")) == footer["violates"] + footer["inconclusive"]
    assert int(root[0].get("tests")) == footer["planned"]


def test_partial_page_says_so_in_red_at_the_top(tmp_path, records):
    path = rewritten(tmp_path / "cut.jsonl", lines(records / "zero.jsonl")[:-1])
    refused = report(tmp_path / "no.html", path)
    assert refused.exit_code == 2
    assert "no footer" in refused.output
    assert "Traceback" not in refused.output
    assert not (tmp_path / "no.html").exists()
    text = page(tmp_path, path, partial=True)
    assert text.index('class="alarm"') < text.index("no footer") < text.index("<h1")
    assert "no footer" in page(tmp_path, path, ending="md", partial=True)
    xml = ElementTree.fromstring(page(tmp_path, path, ending="xml", partial=True))
    assert int(xml[0].get("errors")) >= 1


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (["zero.jsonl", "papers.jsonl"], {}, "name a folder"),
        (["faults.json"], {}, "give it as --controls"),
        (["zero.jsonl"], {"controls": ["papers.jsonl"]}, "no control"),
        (["zero.jsonl"], {"controls": ["zero.jsonl", "zero.jsonl"]}, "second control"),
        (["zero.jsonl", "zero.jsonl"], {}, "same record"),
    ],
)
def test_what_makes_no_page_is_refused_in_a_sentence(tmp_path, records, files, options, message):
    options = {name: [records / file for file in value] for name, value in options.items()}
    result = report(tmp_path / "page.html", *(records / file for file in files), **options)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.startswith("Error: ")


@pytest.mark.parametrize("out", ["page.pdf", "missing/page.html"])
def test_place_that_cannot_be_is_refused(tmp_path, records, out):
    result = report(tmp_path / out, records / "zero.jsonl")
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def test_check_and_reproduce_report_on_their_run(tmp_path, monkeypatch):
    out = tmp_path / "page.html"
    small = ["--dim", "64", "--bits", "2", "--effort", "quick", "--no-diagnosis"]
    result = CliRunner().invoke(main, ["check", "zero", *small, "--report", str(out)])
    assert result.exit_code == 1, result.output
    assert "zero 0.1.0 violates" in out.read_text()
    bad = CliRunner().invoke(main, ["check", "zero", *small, "--report", "page.pdf"])
    assert bad.exit_code == 2
    assert "conforms" not in bad.output  # refused before the run
    claim = ["--claim", "d-eff-calibration", "--effort", "quick"]
    result = CliRunner().invoke(main, ["reproduce", *claim, "--report", str(out)])
    assert result.exit_code == 0, result.output
    assert "claim-d-eff-calibration" in out.read_text()


def test_twenty_five_backends_make_one_page(tmp_path, records):
    paths = []
    for number in range(25):
        path = tmp_path / f"{number}.jsonl"
        changed = lines(records / ("reference.jsonl", "zero.jsonl")[number % 2])
        changed[0]["backend"]["name"] = f"a-codec-called-{number}"
        paths.append(rewritten(path, changed))
    text = page(tmp_path, *paths)
    assert len(text.encode()) < 3e6
    assert all(f"a-codec-called-{number} 0.1.0" in text for number in range(25))
