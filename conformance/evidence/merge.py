"""Which records are parts of one run.

Two records merge where they are about one version of one backend, with the same suite, effort
and seed, on the same device if they name one, and neither repeats the other: two halves of a
grid, or the claims in two goes. The same grid on two machines is two runs, to be compared.
Records that overlap in part are neither, and are refused.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kvassay.conformance.evidence.lines import RecordError
from kvassay.conformance.evidence.runs import CheckRun, PapersRun, Run

Same = TypeVar("Same", CheckRun, PapersRun)


def merge_checks(runs: Sequence[CheckRun]) -> list[CheckRun]:
    """The runs with parts joined, in the order of their first parts. RecordError where two
    overlap in part, or are the same record."""
    merged = []
    for group in _grouped(runs):
        if _disjoint(group, lambda run: {entry.place for entry in run.entries}):
            merged.append(_joined_check(group))
        else:
            merged.extend(group)
    return merged


def merge_papers(runs: Sequence[PapersRun]) -> list[PapersRun]:
    """The same for runs of `kvassay reproduce`."""
    merged = []
    for group in _grouped(runs):
        if _disjoint(group, lambda run: {outcome.id for outcome in run.outcomes}):
            merged.append(_joined_papers(group))
        else:
            merged.extend(group)
    return merged


def _grouped(runs: Sequence[Same]) -> list[list[Same]]:
    groups: dict[tuple[Any, ...], list[Same]] = defaultdict(list)
    for run in runs:
        key: tuple[Any, ...] = (run.name, run.version, run.kinds, run.sketches, run.effort)
        key += (run.seed, run.decode_includes_sketch, run.sources[0].suite)
        key += (run.measured_by, tuple(run.sources[0].device.items()))
        if isinstance(run, PapersRun):
            key += tuple(run.tensors.items())
        groups[key].append(run)
    return list(groups.values())


def _disjoint(group: Sequence[Run], content: Any) -> bool:
    """Whether no two share anything; False if all that do share everything."""
    seen = [(run, content(run)) for run in group]
    disjoint = True
    for place, (run, here) in enumerate(seen):
        for other, there in seen[:place]:
            if not here & there:
                continue
            disjoint = False
            names = f"{other.sources[0].file!r} and {run.sources[0].file!r}"
            if here != there:
                raise RecordError(
                    f"{names} are both about {run.label} and share {len(here & there)} of their "
                    f"{len(there)} and {len(here)} results: they neither make one run nor can "
                    "they be compared; leave one out"
                )
            if replace(other, sources=()) == replace(run, sources=()) and (
                replace(other.sources[0], file="") == replace(run.sources[0], file="")
            ):
                raise RecordError(f"{names} are the same record; leave one out")
    if not disjoint and any(
        not here & there for place, (_, here) in enumerate(seen) for _, there in seen[:place]
    ):
        raise RecordError(
            f"the records about {group[0].label} are of several grids, some of them twice; "
            "report on each grid apart"
        )
    return disjoint


def _joined(group: Sequence[Same]) -> dict[str, Any]:
    return {
        "sources": tuple(source for run in group for source in run.sources),
        "entries": tuple(entry for run in group for entry in run.entries),
        "claims": _union([run.claims for run in group], empty_is_all=True),
    }


def _joined_check(group: Sequence[CheckRun]) -> CheckRun:
    return replace(
        group[0],
        **_joined(group),
        dims=_union([run.dims for run in group]),
        bits=_union([run.bits for run in group]),
        diagnoses=tuple(item for run in group for item in run.diagnoses),
    )


def _joined_papers(group: Sequence[PapersRun]) -> PapersRun:
    studies = {name: trials for run in group for name, trials in run.studies.items()}
    return replace(
        group[0],
        **_joined(group),
        papers=_union([run.papers for run in group], empty_is_all=True),
        studies=studies,
        findings=tuple(item for run in group for item in run.findings),
        outcomes=tuple(item for run in group for item in run.outcomes),
    )


def _union(lists: Sequence[tuple[Any, ...]], empty_is_all: bool = False) -> tuple[Any, ...]:
    if empty_is_all and not all(lists):
        return ()
    return tuple(dict.fromkeys(item for each in lists for item in each))
