"""The evidence of a run, as reports use it: what a record says, and where it comes from."""

from dataclasses import dataclass, field

from kvassay.conformance.evidence.schema import Diagnosis, Entry, Finding, Kill, Outcome, tally


@dataclass(frozen=True)
class Source:
    """Where a run's evidence comes from: the record's file name, what made it, and what is
    wrong with it."""

    file: str
    suite: str
    machine: dict[str, str]
    device: dict[str, str]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """What the header of a record says. `spec` is how the command line names the backend."""

    spec: str
    name: str
    version: str
    kinds: tuple[str, ...]
    sketches: tuple[str, ...]
    decode_includes_sketch: bool
    effort: str
    seed: int
    claims: tuple[str, ...]
    measured_by: str
    sources: tuple[Source, ...]
    entries: tuple[Entry, ...]

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for source in self.sources for problem in source.problems)


@dataclass(frozen=True)
class CheckRun(Run):
    """The evidence of one run of `kvassay check`, or of several that were merged."""

    dims: tuple[int, ...]
    bits: tuple[int, ...]
    diagnoses: tuple[Diagnosis, ...]

    @property
    def counts(self) -> dict[str, int]:
        return tally(len(self.entries), self.entries)


@dataclass(frozen=True)
class Trials:
    """The figures of one study, a column each, over its trials."""

    columns: dict[str, list[float]]
    failed: int = 0


@dataclass(frozen=True)
class PapersRun(Run):
    """The evidence of one run of `kvassay reproduce`, or of several that were merged."""

    papers: tuple[str, ...]
    tensors: dict[str, str]
    studies: dict[str, Trials] = field(repr=False)
    findings: tuple[Finding, ...] = field(repr=False)
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class KillTable:
    """The output of `kvassay faults --json`."""

    source: Source
    effort: str
    kills: tuple[Kill, ...]


Evidence = CheckRun | PapersRun | KillTable
