"""Faults that real implementations had, each as a mutation of the reference, a file a section.

Each names the claims that must catch it. Last come the equivalent changes of `harmless`, which
nothing may catch. `kills` runs the suite on each, `diagnosis` says which fault a violation looks
like.
"""

from collections.abc import Sequence

# Each registers its faults, in this order. (Text behind "isort: off" would make it no directive.)
# isort: off
from kvassay.conformance.faults import (  # noqa: F401
    sketch,
    rotation,
    codebook,
    norms,
    layout,
    batches,
    sizes,
    spectral,
    designs,
    edges,
    harmless,
)

# isort: on
from kvassay.conformance.faults.fault import FAULTS, Fault

BY_ID = {each.id: each for each in FAULTS}


def caught_by(claim_id: str) -> list[str]:
    """The ids of the faults that the claim must catch, in the order of FAULTS."""
    return [each.id for each in FAULTS if claim_id in each.caught_by]


def select(ids: Sequence[str]) -> list[Fault]:
    """The faults called `ids`, or all. ValueError for one that there is not."""
    if unknown := [name for name in ids if name not in BY_ID]:
        raise ValueError(f"no fault is called {unknown[0]!r}; known are {', '.join(BY_ID)}")
    return [BY_ID[name] for name in ids] or list(FAULTS)
