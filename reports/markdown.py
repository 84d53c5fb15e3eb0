"""Markdown that GitHub renders, short enough for a comment on a pull request.

Text from a record is escaped for Markdown and HTML both, and names nobody: an at sign or a
number sign is followed by a space of no width, so that no user is called and no issue linked.
"""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from kvassay.conformance import words
from kvassay.reports import html
from kvassay.reports.comparison_page import ComparisonPage
from kvassay.reports.conformance_page import ConformancePage
from kvassay.reports.papers_page import PapersPage

LONGEST = 60_000  # GitHub takes 65,536 characters
LONGEST_TEXT = 300


def render(page: ConformancePage | ComparisonPage | PapersPage) -> str:
    """The page as Markdown. Where there is much to tell, the details are cut, and it says so."""
    name = {ConformancePage: "conformance", ComparisonPage: "comparison"}.get(type(page), "papers")
    template = _environment().get_template(f"{name}.md")
    for most in (30, 10, 3, 0):
        text: str = template.render(page=page, most=most)
        if len(text) <= LONGEST:
            break
    return text.strip()[:LONGEST] + "\n"


def escaped(value: Any) -> str:
    """The value as text that means nothing to Markdown, HTML or GitHub."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 1] + "…"
    return _LIST.sub(r"\g<0>\\", _SPECIAL.sub(_harmless, text))


_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$@#]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_LIST = re.compile(r"^\s*(?:\d{1,9}(?=[.)](?:\s|$)))?(?=[-+=.)])")  # or an underline, at a start


def _harmless(match: re.Match[str]) -> str:
    char = match[0]
    if char in "<>&|$@#\\":  # two backslashes before the end of a table's cell would not end it
        return f"&#{ord(char)};" + "&#8203;" * (char in "@#")
    return f"\\{char}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(html.template_file),
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"words": words, "Markup": Markup}
    return environment
