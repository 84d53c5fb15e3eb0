"""One line of a record: its bytes, and what they mean."""

import json
import re
import unicodedata
from typing import Any, TypeVar

import msgspec

from kvassay.conformance.evidence.schema import LINES, Line, exact

T = TypeVar("T")

LONGEST_TEXT = 2_000  # characters; the rest is cut off
LONGEST_NAME = 400
TEXTS = ("reason", "detail", "reproduce", "text", "source", "proof", "error")  # all else is names

_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


class RecordError(ValueError):
    """A record that cannot be used. The message is for the user."""


class Malformed(ValueError):
    """A line that is not what its kind must be."""


def encoded(line: Line) -> bytes:
    """The line as a record has it. ValueError for a number that is none."""
    return json.dumps(msgspec.to_builtins(line, enc_hook=exact), allow_nan=False).encode() + b"\n"


def parsed(raw: bytes) -> Any:
    """JSON, whatever it says. Malformed if it is none."""
    try:
        return json.loads(raw, parse_constant=_no_number)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except ValueError:
        raise Malformed("it is no JSON") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def meant(parsed: Any, kind: type[T] | Any) -> T:
    """What parsed JSON says, held against the schema of its kind. Malformed, with the place in
    it, for anything else."""
    if not isinstance(parsed, dict):
        raise Malformed("it is no object")
    try:
        found: T = msgspec.convert(parsed, kind)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except msgspec.ValidationError as problem:
        raise Malformed(_sentence(str(problem))) from None
    return found


def meant_line(parsed: Any) -> Line:
    """The same for a line of a record, which says itself of which kind it is."""
    kind = parsed.get("record") if isinstance(parsed, dict) else "header"
    if not isinstance(kind, str) or kind not in LINES:
        raise Malformed("it is of a kind that is not known")
    found: Line = meant(parsed, LINES[kind])
    return found


def _sentence(problem: str) -> str:
    """msgspec's message in the words of the others, like "expected int, got str, at cell.dim"."""
    what, _, where = problem.replace("`", "").partition(" - at $")
    if chosen := re.search(r"matching regex '\^\((.*)\)\$'", what):
        what = f"a text is not among {chosen[1].replace('|', ', ')}"
    what = what[0].lower() + what[1:]
    return clean(f"{what}, at {where.lstrip('.')}" if where else what, LONGEST_NAME)


def cleaned(parsed: Any, longest: int = LONGEST_NAME) -> Any:
    """Parsed JSON with all texts in it clean, and no longer than a page shows."""
    if isinstance(parsed, str):
        return clean(parsed, longest)
    if isinstance(parsed, dict):
        return {
            clean(name, LONGEST_NAME): cleaned(
                value, LONGEST_TEXT if name in TEXTS else LONGEST_NAME
            )
            for name, value in parsed.items()
        }
    if isinstance(parsed, list):
        return [value if type(value) is float else cleaned(value, longest) for value in parsed]
    return parsed


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """One line without control characters, lone surrogates or marks that turn the direction of
    writing, at most `longest` characters of it."""
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text
    kept = "".join(
        " " if char in "\t\n\r" else "\ufffd" if unicodedata.category(char) in _UNSAFE else char
        for char in text[: longest + 1]
    )
    return kept if len(text) <= longest else kept[: longest - 1] + "…"
