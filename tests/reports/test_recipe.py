"""docs/recipes/page.md is done here, with the code that stands there."""

import re
from pathlib import Path
from textwrap import dedent

from kvassay.conformance import Settings, check
from kvassay.reports import write

RECIPE = Path(__file__).parents[2] / "docs" / "recipes" / "page.md"


def test_a_format_is_written_from_a_record(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)
    module, line = map(dedent, blocks)
    monkeypatch.setattr(write, "FORMATS", dict(write.FORMATS))
    scope = dict(vars(write))
    exec(module, scope)
    exec(line, scope)
    record = tmp_path / "run.jsonl"
    settings = Settings(dims=(64,), bits=(2,), claims=("distortion",), effort="quick")
    check("zero", settings, record=record)
    (written,) = write.report([record], tmp_path / "run.txt")
    assert written.read_text() == "violates: distortion\n"
