"""A cell: one configuration of a backend, and how much a seed of it measures."""

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace

from kvassay.conformance.measure import Effort
from kvassay.reference.designs import AS_IN_THE_PAPERS, Design
from kvassay.reference.kinds import KINDS, Kind

Option = tuple[str, int | float | str]

TAKEN = ("kind", "sketch", "dim", "bits", "part", "claim", "seed", "design")  # not for an option


class Cell(Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True):
    """One configuration of a backend. `sketch` is "" for kinds without one; where
    `sketch_decoded` is False, decode leaves the sketch out. `options`, in the order of their
    names, are further coordinates, which the backend is given by name. `design` is what the backend
    declares of this kind: predictions follow it, randomness does not.

    >>> cell = Cell("turboquant-prod", "orthogonal", 128, 4, options=(("group", 32),))
    >>> str(cell)
    'turboquant-prod/orthogonal d=128 b=4 group=32'
    >>> cell.label
    'turboquant-prod orthogonal d=128 b=4 group=32'
    >>> cell.codec_options
    {'sketch': 'orthogonal', 'group': 32}
    """

    kind: str
    sketch: str
    dim: Annotated[int, Meta(ge=1, le=2**20)]
    bits: Annotated[int, Meta(ge=1, le=64)]
    sketch_decoded: bool = True
    options: tuple[Option, ...] = ()
    design: Design = AS_IN_THE_PAPERS

    def __post_init__(self) -> None:
        if self.design == AS_IN_THE_PAPERS:
            force_setattr(self, "design", AS_IN_THE_PAPERS)  # so that it is left out of records
        ordered = tuple(sorted(self.options, key=lambda option: option[0]))
        names = [name for name, _ in ordered]
        for name in names:
            if not name.isidentifier() or name in TAKEN or names.count(name) > 1:
                raise ValueError(f"option {name!r} must be a new identifier that stands once")
        if ordered != self.options:
            force_setattr(self, "options", ordered)

    @property
    def record(self) -> Kind:
        """What is known of its kind in its design, laws included."""
        return KINDS[self.kind].designed(self.design)

    @property
    def scalar_bits(self) -> int:
        """Bits a coordinate of the codebook: one less where there is a sketch."""
        return self.record.scalar_bits(self.bits)

    @property
    def codec(self) -> str:
        """Its kind and sketch, like "turboquant-prod orthogonal"."""
        return codec_name(self.kind, self.sketch)

    @property
    def label(self) -> str:
        """Where in the grid, like "turboquant-prod orthogonal d=128 b=4", and its design if it is
        not as in the papers."""
        design = f" ({self.design})" if self.design.changed else ""
        return f"{self.codec}{self._size()}{design}"

    def __str__(self) -> str:
        """The name that all randomness of the cell follows from."""
        sketch = f"/{self.sketch}" if self.sketch else ""
        return f"{self.kind}{sketch}{self._size()}"

    def _size(self) -> str:
        further = "".join(f" {name}={value}" for name, value in self.options)
        return f" d={self.dim} b={self.bits}{further}"

    @property
    def codec_options(self) -> dict[str, Any]:
        """What `Backend.codec` is given beside kind, dimension, bits and seed."""
        return ({"sketch": self.sketch} if self.sketch else {}) | dict(self.options)

    @property
    def command_options(self) -> str:
        """The options of `kvassay check` that run this cell. ValueError if none do."""
        if self.options:
            raise ValueError(
                f"`kvassay check` has no option for {self.options[0][0]}: run {self} from Python"
            )
        sketch = f" --sketch {self.sketch}" if self.sketch else ""
        return f"--kind {self.kind}{sketch} --dim {self.dim} --bits {self.bits}"

    @property
    def coordinates(self) -> dict[str, int | float | str]:
        """What a cell can be chosen by, its options included."""
        own = ("kind", "sketch", "dim", "bits")
        return {name: getattr(self, name) for name in own} | dict(self.options)

    def beside(self, kind: str, bits: int) -> "Cell":
        """The cell of another kind or width, with this one's sketch where that kind has one, and
        its design if it is of the same kind."""
        sketch = self.sketch if KINDS[kind].sketched else ""
        design = self.design if kind == self.kind else AS_IN_THE_PAPERS
        return replace(self, kind=kind, bits=bits, sketch=sketch, design=design)


def codec_name(kind: str, sketch: str) -> str:
    """A kind and its sketch, if it has one, as a text."""
    return f"{kind} {sketch}".strip()


class BackendFault(Exception):
    """The backend answered with something that no claim can be judged on."""


class BackendGone(BackendFault):
    """The process in which the backend lived has ended."""


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
