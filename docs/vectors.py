"""The tables of docs/vectors.md, from the golden vectors that are shipped.

python docs/vectors.py            # exit code 1 if the page is not what they say
python docs/vectors.py --write    # makes it so
"""

import re
import sys
from collections import Counter
from pathlib import Path

from kvassay.conformance.faults import BY_ID
from kvassay.conformance.vectors import judge, make
from kvassay.conformance.vectors.questions import ABOUT

PAGE = Path(__file__).parent / "vectors.md"


def tables() -> dict[str, str]:
    """The text of each table, by the name in its marks."""
    vectors = judge.asked()
    groups = Counter(each.question.group for each in vectors)
    shown = {name: Counter[str]() for name, fault in BY_ID.items() if not fault.proof}
    for each in vectors:
        for flag in each.flags:
            shown[flag][each.question.group] += 1
    seen = [name for name, where in shown.items() if where]
    alike = [name for name, fault in BY_ID.items() if fault.proof]
    others = [n for n in alike if any(make.shows(e.question, e.right, BY_ID[n]) for e in vectors)]
    count = (
        f"{len(vectors)} vectors show {len(seen)} of the {len(shown)} faults of the kill table "
        f"({len(seen) / len(shown):.0%}; the list is fixed, no sample: there is no interval). "
        f"Of the {len(alike)} equivalent changes they let {len(alike) - len(others)} pass; the "
        f"others ({', '.join(others)}) rotate, store or sketch otherwise than is given."
    )
    return {
        "groups": _table(
            ("group", "vectors", "what is asked"),
            [(f"`{name}`", str(groups[name]), about) for name, about in ABOUT.items()],
        ),
        "count": count + "\n",
        "shown": _table(
            ("fault", "what is wrong and what that costs", "vectors that show it"),
            [(name, BY_ID[name].text, _places(shown[name])) for name in seen],
        ),
        "unshown": _table(
            ("fault", "what is wrong", "why no vector shows it"),
            [(name, BY_ID[name].text, why) for name, why in make.UNSHOWN.items()],
        ),
    }


def page(text: str) -> str:
    """The page with its tables as they should be."""
    for name, table in tables().items():
        between = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = between.sub(lambda found, table=table: found[1] + table + found[2], text)
    return text


def _places(where: Counter[str]) -> str:
    return ", ".join(f"{group} {count}" for group, count in where.most_common())


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(text), encoding="utf-8")
    elif text != page(text):
        print("docs/vectors.md is not current: python docs/vectors.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
