"""The one format of records: JSON lines, a header, what was found, a footer.

A record without a footer is not a valid report: the run was stopped. What a line may hold
stands here, as types; `json_schema` gives the same as JSON Schema (docs/record.schema.json):

    python -m kvassay.conformance.evidence.schema > docs/record.schema.json

`kvassay check` writes entries and then diagnoses, one for each kind that violates something.
`kvassay reproduce` writes entries, the trials of its studies, each study's figures before its
first trial, and then findings and outcomes. All but the header, which names versions and
machine, is the same bytes for the same seed, whatever ran it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Struct

from kvassay.conformance.measure.cell import Cell, codec_name

SCHEMA = 2

COUNTED = ("conforms", "violates", "inconclusive", "not applicable", "error")
FOUND = (*COUNTED, "agrees", "differs", "undecided")

KNOWN = 0.9  # the least share that a fault must explain to be named

Number = Annotated[float, Meta(ge=-1e300, le=1e300)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Seed = Annotated[int, Meta(ge=0)]
Ends = tuple[Number | None, Number | None]
Names = Annotated[tuple[str, ...], Meta(max_length=1000)]
Figures = Annotated[tuple[str, ...], Meta(max_length=5000)]
Facts = dict[str, str | int | float | bool | None]
Effort = Annotated[str, Meta(pattern="^(quick|standard|thorough)$")]


class _Line(Struct, frozen=True, forbid_unknown_fields=True, tag_field="record"):
    """A line says in its field "record" which kind it is."""


class BackendFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """What was held against the claims. `spec` is how the command line names it."""

    spec: str
    name: str
    version: str
    kinds: Names
    sketches: Names
    decode_includes_sketch: bool


class CheckAsked(Struct, frozen=True, forbid_unknown_fields=True, tag_field="command", tag="check"):
    """What `kvassay check` was asked for. Empty lists mean all."""

    kinds: Names
    sketches: Names
    dims: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**20)], ...], Meta(max_length=100)]
    bits: Annotated[tuple[Annotated[int, Meta(ge=1, le=64)], ...], Meta(max_length=100)]
    claims: Names
    effort: Effort
    seed: Seed
    diagnose: bool


class PapersAsked(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="command", tag="reproduce"
):
    """What `kvassay reproduce` was asked for, and which tensors it used."""

    papers: Names
    claims: Names
    effort: Effort
    seed: Seed
    tensors: Facts


class Header(_Line, frozen=True, tag="header", omit_defaults=True):
    """What ran, on what and how. `measured_by` is a hash of the sources that decide the
    evidence; a `device` is there where the backend names one."""

    schema: Count
    suite: str
    machine: Facts
    backend: BackendFacts
    run: CheckAsked | PapersAsked
    measured_by: str
    device: Facts = {}


class Entry(_Line, frozen=True, tag="entry"):
    """What was found for one part of one claim in one cell.

    `interval` and `band` are [low, high] with None for no end; `n` counts seeds; `alpha` is
    this entry's share of the run's false-alarm budget; `smallest_violation` is what n seeds
    detect with probability 1 - beta, relative to the prediction where that is not 0.
    `reason` explains "not applicable" and "error".
    """

    id: str
    part: str
    cell: Cell
    verdict: Annotated[str, Meta(pattern=f"^({'|'.join(COUNTED)})$")]
    estimate: Number | None
    interval: Ends | None
    predicted: Number | None
    band: Ends | None
    n: Count
    alpha: Share
    beta: Share
    smallest_violation: Number | None
    seed: Seed
    reason: str
    reproduce: str

    @property
    def place(self) -> tuple[str, str, Cell]:
        """What no two entries of a run share."""
        return (self.id, self.part, self.cell)

    @property
    def kind(self) -> str:
        return self.cell.kind

    @property
    def sketch(self) -> str:
        return self.cell.sketch

    @property
    def dim(self) -> int:
        return self.cell.dim

    @property
    def bits(self) -> int:
        return self.cell.bits


def entry_options(claim: str, cell: Cell, effort: str, seed: int) -> str:
    """The options of `kvassay check` that repeat the entries of one claim in one cell."""
    return f"--claim {claim} {cell.command_options} --effort {effort} --seed {seed}"


class Match(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A known fault, the share of the deviation that it explains, and its family: faults that
    come to the same thing from outside."""

    fault: str
    fit: Share
    family: str = ""


class Diagnosis(_Line, frozen=True, tag="diagnosis"):
    """What is known about the violations of one kind, in its answers or in its `sizes`.

    `matches`, best first, are all faults that explain at least KNOWN; none if the fault is
    unknown, and then `nearest` still names the one that comes closest. `cells` are those
    that were compared.
    """

    kind: str
    sketch: str
    sizes: bool
    cells: Names
    matches: Annotated[tuple[Match, ...], Meta(max_length=1000)]
    nearest: Match | None

    @property
    def codec(self) -> str:
        """The kind and sketch that it is about."""
        return codec_name(self.kind, self.sketch)

    @property
    def near(self) -> Match | None:
        """The nearest fault, if it explains as much as a rounded hundredth."""
        return self.nearest if self.nearest and self.nearest.fit >= 0.005 else None


class StudyLine(_Line, frozen=True, tag="study"):
    """The names of the figures that each trial of a study has."""

    study: str
    figures: Figures


class TrialLine(_Line, frozen=True, tag="trial", omit_defaults=True):
    """The figures of one trial, or the error that left none."""

    study: str
    trial: Count
    values: Annotated[tuple[Number, ...], Meta(max_length=5000)] = ()
    error: str = ""


class Finding(_Line, frozen=True, tag="finding"):
    """What was found for one quantity of a question.

    `verdict` is "conforms", "violates" or "inconclusive" where a backend can fail it,
    "agrees", "differs" or "undecided" where it cannot, else "not applicable" or "error" with a
    `reason`. `interval` holds the true value with probability 1 - `alpha`, from `n` trials;
    `band` is what the claim says; `predicted` is theory's figure, `paper` the paper's.
    """

    id: str
    question: str
    where: str
    study: str
    method: str
    figures: Names
    verdict: Annotated[str, Meta(pattern=f"^({'|'.join(FOUND)})$")]
    estimate: Number | None
    interval: Ends | None
    band: Ends
    predicted: Number | None
    paper: Number | None
    p: Number | None
    n: Count
    alpha: Share
    reason: str


class Outcome(_Line, frozen=True, tag="outcome"):
    """What became of one claim: in `words` the verdict and, where no backend can fail,
    "reproduced", "not reproduced", "undecided" or "contested", both where a claim has both;
    and for how many of its quantities it is so."""

    id: str
    standing: str
    words: Annotated[tuple[str, ...], Meta(max_length=2)]
    detail: str
    holds: Count
    of: Count


class Footer(_Line, frozen=True, tag="footer"):
    """The run is complete: how many lines were planned or made, and how many say what."""

    counts: dict[str, Count]


Line = Header | Entry | Diagnosis | StudyLine | TrialLine | Finding | Outcome | Footer
LINES: dict[str, type[Line]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Line)}


class Kill(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the kill table: a seeded fault, the claims and properties that caught it and
    those that had to but did not. One with a `proof` is an equivalent change, which nobody
    may catch. It is `ok` if all is as it must be."""

    id: str
    text: str
    source: str
    proof: str
    caught: Names
    missed: Names
    ok: bool


def as_it_must(proof: str, caught: Sequence[str], missed: Sequence[str]) -> bool:
    """Whether a fault was caught by all that must, or what has a `proof` that it is none, by
    nobody."""
    return not caught if proof else bool(caught) and not missed


class KillFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What `kvassay faults --json` prints."""

    schema: Count
    suite: str
    machine: Facts
    effort: Effort
    faults: Annotated[tuple[Kill, ...], Meta(min_length=1, max_length=5000)]


def tally(planned: int, entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries were planned, and how many have each verdict."""
    counts = Counter(entry.verdict for entry in entries)
    return {"planned": planned} | {
        verdict.replace(" ", "_"): counts[verdict] for verdict in COUNTED
    }


def outcome_counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many claims there are, and of how many each word is said."""
    there = list(outcomes)
    return {"claims": len(there)} | Counter(word for item in there for word in item.words)


@dataclass(frozen=True)
class Report:
    """The outcome of a run. `counts` has "planned" and a number for each verdict."""

    name: str
    version: str
    planned: int
    entries: tuple[Entry, ...]
    diagnoses: tuple[Diagnosis, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        return tally(self.planned, self.entries)

    @property
    def judged(self) -> bool:
        """Whether any claim could be judged at all."""
        counts = self.counts
        return bool(counts["conforms"] + counts["violates"] + counts["inconclusive"])

    @property
    def exit_code(self) -> int:
        """0 all that applies conforms, 1 something violates, 3 something is undecided,
        failed or missing, or nothing was judged at all."""
        counts = self.counts
        if counts["violates"]:
            return 1
        if counts["inconclusive"] or counts["error"] or not counts["conforms"]:
            return 3
        if len(self.entries) != self.planned:
            return 3
        return 0


def plain(item: Struct) -> dict[str, Any]:
    """A line for people's JSON: its fields, without the kind of line that it is."""
    fields: dict[str, Any] = msgspec.to_builtins(item, enc_hook=exact)
    fields.pop("record", None)
    return fields


def exact(value: Any) -> Any:
    """Of NumPy's numbers, which are of its own types, Python's."""
    return value.item()


def json_schema() -> str:
    """The JSON Schema of a line."""
    (line,), parts = msgspec.json.schema_components([Line], ref_template="#/$defs/{name}")
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a record of kvassay, schema {SCHEMA}",
    }
    return json.dumps({**about, **line, "$defs": parts}, indent=1) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
