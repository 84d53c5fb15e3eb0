"""What it means to conform. The function door:

from kvassay.conformance import Settings, check
report = check("reference", Settings(effort="quick"))

Read in this order: protocol, inputs, experiments, statistics, claims, catalogue, runner; for
the papers' claims about attention, regimes and SpectralQuant: studies, papers, reproduce.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvassay.conformance.protocol import Backend, Capabilities, Codec
    from kvassay.conformance.record import Entry
    from kvassay.conformance.runner import Report, Settings, check

__all__ = ["Backend", "Capabilities", "Codec", "Entry", "Report", "Settings", "check"]

_HOMES = {
    "Backend": "protocol",
    "Capabilities": "protocol",
    "Codec": "protocol",
    "Entry": "record",
    "Report": "runner",
    "Settings": "runner",
    "check": "runner",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the command line answers --help before SciPy is loaded.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
