"""Several backends side by side: what the page says, whatever the format."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvassay.conformance import words
from kvassay.conformance.claims import codec
from kvassay.conformance.evidence.runs import CheckRun, KillTable
from kvassay.conformance.evidence.schema import Entry
from kvassay.reports import controls as known_controls
from kvassay.reports.conformance_page import ClaimRow, Looks, looks, rows
from kvassay.reports.controls import Control, Controls


@dataclass(frozen=True)
class Square:
    """One claim for one backend: how many of its entries deviate, of how many that apply."""

    verdict: str
    deviant: int
    of: int


@dataclass(frozen=True)
class BackendRow:
    """One backend of the comparison. `href` is its own page, or its section of this one."""

    label: str
    href: str
    anchor: str
    run: CheckRun
    verdict: str
    sentence: str
    sums: str
    squares: dict[str, Square]
    violated: tuple[ClaimRow, ...]
    looks: tuple[Looks, ...]

    @property
    def settings(self) -> str:
        """How it was run, for those that differ in it."""
        source = self.run.sources[0]
        device = source.device.get("name", "")
        parts = [
            f"{self.run.effort.capitalize()} effort",
            f"seed {self.run.seed}",
            f"kvassay {source.suite}",
        ]
        return ", ".join(parts + [device] * bool(device))


@dataclass(frozen=True)
class ComparisonPage:
    """All that a comparison says."""

    runs: tuple[CheckRun, ...]
    labels: tuple[str, ...]
    sentence: str
    claims: tuple[tuple[str, str], ...]
    rows: tuple[BackendRow, ...]
    controls: tuple[Control, ...]
    wrong_controls: tuple[str, ...]
    kills: KillTable | None
    one_setting: str

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(problem for run in self.runs for problem in run.problems)


def comparison_page(
    runs: Sequence[CheckRun],
    labels: Sequence[str],
    controls: Controls,
    slugs: Sequence[str] | None = None,
) -> ComparisonPage:
    """The comparison of several runs. `slugs` name the backends' own pages, if they have any."""
    backends = tuple(
        _row(run, label, f"backend-{place}", f"{slugs[place]}.html" if slugs else "")
        for place, (run, label) in enumerate(zip(runs, labels, strict=True))
    )
    there = {claim_id for row in backends for claim_id in row.squares}
    known = [(claim.id, claim.sentence) for claim in codec.CLAIMS if claim.id in there]
    unknown = sorted(there - {claim_id for claim_id, _ in known})
    settings = {row.settings for row in backends}
    control_rows = known_controls.shown(controls, runs)
    return ComparisonPage(
        runs=tuple(runs),
        labels=tuple(labels),
        sentence=_sentence(backends),
        claims=(*known, *((claim_id, "") for claim_id in unknown)),
        rows=backends,
        controls=tuple(control_rows),
        wrong_controls=tuple(known_controls.failed(control_rows)),
        kills=controls.kills,
        one_setting=settings.pop() if len(settings) == 1 else "",
    )


def _row(run: CheckRun, label: str, anchor: str, href: str) -> BackendRow:
    verdict, sentence = words.verdict(run)
    return BackendRow(
        label=label,
        href=href or f"#{anchor}",
        anchor=anchor,
        run=run,
        verdict=verdict,
        sentence=sentence,
        sums=words.sums(run),
        squares={
            claim_id: _square(entries) for claim_id, entries in words.by_claim(run.entries).items()
        },
        violated=tuple(
            row for row in rows(run) if row.verdict not in ("conforms", "not applicable")
        ),
        looks=looks(run),
    )


def _square(entries: Sequence[Entry]) -> Square:
    counts = Counter(entry.verdict for entry in entries)
    verdict = words.worst(counts)
    of = len(entries) - counts["not applicable"]
    quiet = verdict in ("conforms", "not applicable")
    return Square(verdict, 0 if quiet else counts[verdict], of)


def _sentence(backends: Sequence[BackendRow]) -> str:
    """How many conform. Controls are none of them: what they do is known beforehand."""
    about = [row for row in backends if row.run.name not in known_controls.WANTED] or backends
    counts = Counter(row.verdict for row in about)
    good, bad = counts["conforms"], counts["violates"]
    parts = [
        f"{good} of {words.plural(len(about), 'backend')} "
        f"{'conforms' if good == 1 else 'conform'} to every claim that applies"
    ]
    if bad:
        parts.append(f"{bad} {'violates' if bad == 1 else 'violate'} at least one")
    if rest := len(about) - good - bad:
        parts.append(f"{rest} {'is' if rest == 1 else 'are'} not decided")
    return "; ".join(parts) + "."
