"""The reference's codecs of other designs, as backends that declare what they are."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from kvassay.conformance.protocol import Capabilities, Offer
from kvassay.reference.designed import designed
from kvassay.reference.designs import Design

DESIGNS = {
    "unit": Design(scale="unit"),
    "unbiased": Design(scale="unbiased"),
    "unsigned": Design(rotation="hadamard-unsigned", scale="unit"),
    "blocks": Design(rotation="block-16"),
    "haar": Design(rotation="haar"),
    "uniform": Design(grid="uniform"),
    "groups": Design(grid="uniform", group=16),
}


@dataclass(frozen=True)
class Designed:
    """The reference in one design, for both kinds without a sketch."""

    name: str
    capabilities: Capabilities
    version: str = metadata.version("kvassay")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        design = self.capabilities.design_of(kind)
        return designed(kind, dim, bits, seed, design, **options)


def backend(name: str) -> Designed:
    """The reference in the design called `name`, one of DESIGNS."""
    design = DESIGNS[name]
    kinds = ["turboquant-mse"]
    if "rotation" not in design.changed:
        kinds.append("scalar")
    return Designed(
        f"reference-{name}", Capabilities(offers=tuple(Offer(k, design=design) for k in kinds))
    )


def _factory(name: str) -> Callable[[], Designed]:
    return lambda: backend(name)


unit, unbiased, unsigned, blocks, haar, uniform, groups = map(_factory, DESIGNS)
