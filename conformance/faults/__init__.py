"""Faults that real implementations had, each as a mutation of the reference, a file a section.

Last come `harmless` changes, which nothing may catch. `kills` holds the suite to the table,
`diagnosis` says which fault a violation looks like.
"""

from collections.abc import Sequence

# isort: off - each registers its faults, in this order
from kvassay.conformance.faults import (  # noqa: F401
    batches,
    codebook,
    harmless,
    layout,
    norms,
    rotation,
    sizes,
    sketch,
    spectral,
)

# isort: on
from kvassay.conformance.faults.fault import FAULTS, Fault

BY_ID = {each.id: each for each in FAULTS}


def select(ids: Sequence[str]) -> list[Fault]:
    """The faults called `ids`, or all. ValueError for one that there is not."""
    if unknown := [name for name in ids if name not in BY_ID]:
        raise ValueError(f"no fault is called {unknown[0]!r}; known are {', '.join(BY_ID)}")
    return [BY_ID[name] for name in ids] or list(FAULTS)
