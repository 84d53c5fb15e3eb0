"""A cell: one configuration of a backend, and how much a seed of it measures."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kvassay.reference.kinds import KINDS, Kind

Effort = Literal["quick", "standard", "thorough"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, order=True)
class Cell:
    """One configuration of a backend. `sketch` is "" for kinds without one; where
    `sketch_decoded` is False, decode leaves the sketch out."""

    kind: str
    sketch: str
    dim: int
    bits: int
    sketch_decoded: bool = True

    @property
    def record(self) -> Kind:
        """What is known of its kind, laws included."""
        return KINDS[self.kind]

    @property
    def scalar_bits(self) -> int:
        """Bits a coordinate of the codebook: one less where there is a sketch."""
        return self.record.scalar_bits(self.bits)

    def __str__(self) -> str:
        sketch = f"/{self.sketch}" if self.sketch else ""
        return f"{self.kind}{sketch} d={self.dim} b={self.bits}"


class BackendFault(Exception):
    """The backend answered with something that no claim can be judged on."""


class BackendHung(BackendFault):
    """The backend did not answer in time, and would most likely not do so again."""


@dataclass(frozen=True)
class Batch:
    """How many of each a seed uses: isotropic vectors, queries, structured vectors, and
    vectors that are only rotated."""

    vectors: int
    queries: int
    structured: int
    rotated: int


def batch(dim: int, effort: Effort) -> Batch:
    """Fewer vectors at higher dimensions, where each says more; small ones if quick."""
    if effort == "quick":
        few = _within(2**11 // dim, 8, 16)
        return Batch(_within(2**12 // dim, 16, 48), 16, few, 512)
    return Batch(_within(2**15 // dim, 64, 256), 128, 64, 1024)


def _within(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def cell_options(claim: str, cell: Any, effort: str, seed: int) -> str:
    """The options of `kvassay check` that run one claim in one cell."""
    sketch = f" --sketch {cell.sketch}" if cell.sketch else ""
    return (
        f" --claim {claim} --kind {cell.kind}{sketch} --dim {cell.dim} --bits {cell.bits} "
        f"--effort {effort} --seed {seed}"
    )
