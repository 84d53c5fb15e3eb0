"""What it means to conform. The function door:

from kvassay.conformance import Settings, check
report = check("reference", Settings(effort="quick"))

The rooms, in the order of the data: `protocol`, `packages` and `discovery` (a backend), `measure`
(what is done with it for one seed), `statistics` (what the seeds leave possible), `claims` (what
must hold), `evidence` (verdicts, records), `run` (plan and execution), `faults` (what a violation
looks like), `assay` (all of it in one call), `doors` (command line, terminal, pytest).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvassay.conformance.assay import check
    from kvassay.conformance.evidence.schema import Entry, Report
    from kvassay.conformance.protocol import Backend, Capabilities, Codec, Offer
    from kvassay.conformance.run.plan import Settings
    from kvassay.reference.designs import Design

__all__ = [
    "Backend",
    "Capabilities",
    "Codec",
    "Design",
    "Entry",
    "Offer",
    "Report",
    "Settings",
    "check",
]

_HOMES = {
    "Backend": "conformance.protocol",
    "Capabilities": "conformance.protocol",
    "Codec": "conformance.protocol",
    "Design": "reference.designs",
    "Offer": "conformance.protocol",
    "Entry": "conformance.evidence.schema",
    "Report": "conformance.evidence.schema",
    "Settings": "conformance.run.plan",
    "check": "conformance.assay",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the command line answers --help before SciPy is loaded.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"kvassay.{_HOMES[name]}"), name)
