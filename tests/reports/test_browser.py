"""Pages as people see them, in headless Chromium: wide and narrow, light and dark, read by a
screen reader, without script."""

import shutil

import pytest
from click.testing import CliRunner

from kvassay.conformance.doors.cli import main

sync_api = pytest.importorskip("playwright.sync_api", reason="`tox -e reports` has playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
KINDS = ("conformance", "comparison", "papers")
VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: pages were not looked at (apt-get install chromium)"
)


@pytest.fixture(scope="module")
def pages(records, tmp_path_factory):
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    of = {
        "conformance": ["zero.jsonl", "--controls", str(records / "faults.json")],
        "comparison": [f"{name}.jsonl" for name in ("reference", "zero", "identity")],
        "papers": ["papers.jsonl"],
    }
    for kind, arguments in of.items():
        paths = [str(records / text) if text.endswith("jsonl") else text for text in arguments]
        made = CliRunner().invoke(main, ["report", *paths, "-o", str(folder / f"{kind}.html")])
        assert made.exit_code == 0, made.output
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"]
        options += ["--no-first-run", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture
def opened(browser, pages):
    """Opens a page and collects what it complains about and asks for."""
    contexts = []

    def open_page(kind, width=1280, scheme="light", **options):
        view = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        contexts.append(browser.new_context(**view, **options))
        page = contexts[-1].new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda problem: page.complaints.append(str(problem)))
        page.on("request", lambda request: page.complaints.append(request.url))
        page.goto((pages / f"{kind}.html").as_uri())
        page.complaints = [
            text for text in page.complaints if not text.startswith(("file:", "data:"))
        ]
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_page_looks_right_at_any_width_and_scheme(opened, kind):
    for width, scheme in VIEWS if kind == "conformance" else VIEWS[::3]:
        page = opened(kind, width, scheme)
        assert page.complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        figures = page.query_selector_all("figure svg")
        assert len(figures) == {"papers": 11}.get(kind, 3)
        for figure in figures:
            box = figure.bounding_box()
            assert box["width"] > 300
            assert box["height"] > 50
            assert figure.query_selector("title").text_content()
            assert figure.query_selector("desc").text_content()
        paper, ink = page.evaluate(BRIGHTNESS)
        assert (paper > ink) == (scheme == "light")
        assert abs(paper - ink) > 300


BRIGHTNESS = """() => [
  getComputedStyle(document.body).backgroundColor,
  getComputedStyle(document.querySelector('figure text')).fill,
].map(colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"""

OVERLAPS = """svg => {
  const boxes = [...svg.querySelectorAll('text')].map(
    text => [text.textContent, text.getBoundingClientRect()]);
  const found = [];
  boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 2 && high > 4) found.push(a + ' / ' + b);
  }));
  const all = svg.getBoundingClientRect();
  boxes.forEach(([a, p]) => {
    if (p.left < all.left - 2 || p.right > all.right + 2) found.push(a + ' / edge');
  });
  return found;
}"""


@pytest.mark.parametrize("kind", KINDS)
def test_no_labels_of_a_figure_overlap_or_are_cut(opened, kind):
    page = opened(kind)
    for figure in page.query_selector_all("figure svg"):
        assert figure.evaluate(OVERLAPS) == []


def test_tables_sort_and_filter(opened):
    page = opened("comparison")
    table = page.locator("table.matrix")

    def first():
        return table.locator("tbody tr:visible th").first.inner_text()

    assert first().startswith("reference")
    button = table.locator("thead button", has_text="backend")
    button.click()
    assert first().startswith("identity")
    assert table.locator("thead th").first.get_attribute("aria-sort") == "ascending"
    button.click()
    assert first().startswith("zero")
    page.locator("select").first.select_option("conforms")
    assert table.locator("tbody tr:visible").count() == 1
    page = opened("conformance")
    button = page.locator("table[data-filter] thead button", has_text="seeds")
    button.click()
    cells = page.locator("table[data-filter] tbody tr td:nth-child(4)")
    seeds = [float(cell.get_attribute("data-sort")) for cell in cells.all()]
    assert seeds == sorted(seeds)
    assert seeds != sorted(seeds, reverse=True)


def test_page_is_complete_without_script(opened):
    page = opened("conformance", java_script_enabled=False)
    assert "violates" in page.locator("h1").inner_text()
    assert page.locator("table[data-filter] tbody tr:visible").count() > 10
    assert page.locator("figure svg:visible").count() == 3


def test_link_to_a_claim_opens_nothing_but_gets_there(opened):
    page = opened("conformance")
    page.locator("table[data-filter] tbody a").first.click()
    assert page.locator("h3:target").is_visible()


@pytest.mark.parametrize("kind", KINDS)
def test_page_has_no_serious_accessibility_findings(opened, kind):
    scheme = "dark" if kind == "comparison" else "light"
    page = opened(kind, scheme=scheme, bypass_csp=True)  # for the checker's own script
    found = axe.Axe().run(page).response["violations"]
    assert [
        (item["id"], item["nodes"][0]["html"])
        for item in found
        if item["impact"] in ("serious", "critical")
    ] == []
