"""What every adapter of a published package asks before it answers."""

from collections.abc import Container
from importlib.metadata import packages_distributions, version
from typing import Any

from kvassay.conformance.protocol import Backend


def version_alone(distribution: str, module: str) -> str:
    """The version installed. ImportError if another distribution has the top-level `module`
    too, as a dozen have `turboquant`: one overwrites the other."""
    installed = version(distribution)
    owners = sorted(set(packages_distributions().get(module, ())))
    if owners != [distribution]:
        raise ImportError(f"module {module} must be {distribution}'s alone, but is of {owners}")
    return installed


def require_offered(
    backend: Backend, kind: str, bits: int, offered: Container[int], options: dict[str, Any]
) -> None:
    """NotImplementedError, with the reason, for a kind or sketch that is not among the
    backend's capabilities, or a width that is not among `offered`."""
    if kind not in backend.capabilities.kinds:
        raise NotImplementedError(f"{backend.name} has no kind {kind}.")
    if bits not in offered:
        raise NotImplementedError(f"{backend.name} has no {kind} at {bits} bits.")
    if "sketch" in options and options["sketch"] not in backend.capabilities.sketches:
        raise NotImplementedError(f"{backend.name}'s sketch is not {options['sketch']}.")
