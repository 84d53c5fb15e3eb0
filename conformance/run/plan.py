"""What a run of `check` does: its settings, and the tasks that they make."""

from dataclasses import dataclass

from msgspec.structs import replace

from kvassay.conformance.claims import edges
from kvassay.conformance.claims.claim import Part
from kvassay.conformance.claims.codec import BY_ID, CLAIMS
from kvassay.conformance.discovery import arguments_for
from kvassay.conformance.evidence.schema import entry_options
from kvassay.conformance.measure import EFFORTS, Effort
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.protocol import Backend, Capabilities
from kvassay.reference.kinds import KINDS

DIMS = (64, 80, 128, 576)
BITS = (1, 2, 3, 4, 5, 6)
FURTHER_DIMS = (96, 192, 256, 512, 1024)  # beside DIMS, at one width, for the cheap claims
FURTHER_BITS = (7, 8)  # beside BITS, at the smallest of DIMS on offer
FURTHER_CLAIMS = ("every-size", "rotation-isometry", "rank-kept", "size-accounting")
SMALLEST_DIM = 16  # below, two seeds may well share their signs, and limits are far off


MANY_ROWS = "many-rows"  # 65,537 of them are cheap at SMALLEST_DIM alone


@dataclass(frozen=True)
class Settings:
    """What a run does: the grid, the claims, the effort and the seed.

    Empty `kinds` or `sketches` mean all that the backend has, empty `claims` all there are.
    """

    kinds: tuple[str, ...] = ()
    sketches: tuple[str, ...] = ()
    dims: tuple[int, ...] = DIMS
    bits: tuple[int, ...] = BITS
    claims: tuple[str, ...] = ()
    effort: Effort = "standard"
    seed: int = 0

    def __post_init__(self) -> None:
        if unknown := [name for name in self.claims if name not in BY_ID]:
            raise ValueError(f"no claim is called {unknown[0]!r}; `kvassay claims` lists them")
        if wrong := [dim for dim in self.dims if dim < SMALLEST_DIM]:
            raise ValueError(f"dim must be at least {SMALLEST_DIM}, got {wrong[0]}")
        if wrong := [bits for bits in self.bits if not 1 <= bits <= 8]:
            raise ValueError(f"bits must be in 1..8, got {wrong[0]}")
        if self.effort not in EFFORTS:
            raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, got {self.effort!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")


@dataclass(frozen=True)
class Task:
    """One cell and what is planned for it."""

    spec: str | Backend
    cell: Cell
    planned: tuple[tuple[str, Part], ...]
    effort: Effort
    seed: int

    def command(self, claim: str) -> str:
        """The command line that repeats what this task finds for one claim."""
        options = entry_options(claim, self.cell, self.effort, self.seed)
        return f"kvassay check {arguments_for(self.spec)} {options}"


def planned_entries(backend: Backend, settings: Settings) -> int:
    """How many entries a run will have."""
    return sum(len(task.planned) for task in plan(backend, backend, settings))


def plan(spec: str | Backend, backend: Backend, settings: Settings) -> list[Task]:
    """The cells of the grid and the parts of claims planned for each, most expensive cells first.

    ValueError where the backend has none of the kinds or sketches asked for, or where a
    claim's delta cannot be resolved at a dimension asked for.
    """
    capabilities = backend.capabilities
    for what, asked, offered in (
        ("kind", settings.kinds, capabilities.kinds),
        ("sketch", settings.sketches, capabilities.sketches),
    ):
        if missing := [name for name in asked if name not in offered]:
            raise ValueError(
                f"{what} {missing[0]!r} is not among what {backend.name} offers: "
                f"{', '.join(offered) or 'none'}"
            )
    claims = [BY_ID[name] for name in dict.fromkeys(settings.claims)] or list(CLAIMS)
    tasks = []
    grid = _cells(capabilities, settings)
    small = _smallest(grid)
    for cell, further in [(cell, ()) for cell in grid] + _further(capabilities, settings, grid):
        planned = tuple(
            (claim.id, part)
            for claim in claims
            for part in claim.parts_for(cell)
            if (claim.id in further if further else _applies(claim.id, cell, cell in small))
            and _fits(part, cell, further)
        )
        for claim_id, part in planned:
            BY_ID[claim_id].needed(cell, part.name, settings.effort)  # refuses what cannot be had
        if planned:
            tasks.append(Task(spec, cell, planned, settings.effort, settings.seed))
    return tasks


def _fits(part: Part, cell: Cell, further: tuple[str, ...]) -> bool:
    """The longest calls are made at SMALLEST_DIM, where beside a default grid nothing else is."""
    if part.experiment == MANY_ROWS:
        return cell.dim == SMALLEST_DIM
    if part.experiment == "contract":  # takes codecs of many seeds
        return not further
    return "call-sizes" not in further


def _applies(claim: str, cell: Cell, smallest: bool) -> bool:
    """Whether a claim is judged in a cell of the grid: the edges at its smallest dimension,
    `every-size` where no default grid comes."""
    if claim == "every-size":
        return cell.dim not in DIMS or cell.bits not in BITS
    return smallest or claim not in edges.BY_ID


def _smallest(cells: list[Cell]) -> set[Cell]:
    """Of each kind, sketch and width the cell of the smallest dimension."""
    found: dict[tuple[str, int], Cell] = {}
    for cell in sorted(cells, key=lambda cell: -cell.dim):
        found[cell.codec, cell.bits] = cell
    return set(found.values())


def _further(
    capabilities: Capabilities, settings: Settings, grid: list[Cell]
) -> list[tuple[Cell, tuple[str, ...]]]:
    """Cells beside the default grid, with the claims that are judged there, unless only others are
    asked for: FURTHER_DIMS at a middle width, FURTHER_BITS at the smallest dimension, and the
    longest calls at SMALLEST_DIM."""
    found: dict[Cell, tuple[str, ...]] = {}
    if settings.claims and "every-size" not in settings.claims:
        return []
    for example in {cell.codec: cell for cell in grid}.values():
        own = [cell for cell in grid if cell.codec == example.codec]

        def add(dim: int, bits: int, claims: tuple[str, ...], cell: Cell = example) -> None:
            if capabilities.has(cell.kind, cell.sketch, dim, bits):
                found[replace(cell, dim=dim, bits=bits)] = claims

        middle = min({cell.bits for cell in own}, key=lambda bits: abs(bits - 4))
        if settings.dims == DIMS:
            for dim in FURTHER_DIMS:
                add(dim, middle, FURTHER_CLAIMS)
            add(SMALLEST_DIM, middle, ("call-sizes",))
        if settings.bits == BITS:
            for bits in FURTHER_BITS:
                add(min(cell.dim for cell in own), bits, FURTHER_CLAIMS)
    return list(found.items())


def _cells(capabilities: Capabilities, settings: Settings) -> list[Cell]:
    """The cells of the grid that are on offer, the most expensive first."""
    kinds = dict.fromkeys(settings.kinds or capabilities.kinds)
    sketches = dict.fromkeys(settings.sketches or capabilities.sketches)
    codecs = [
        (kind, sketch)
        for kind in kinds
        if KINDS[kind].judged
        for sketch in (sketches if KINDS[kind].sketched else ("",))
    ]
    cells = [
        Cell(
            kind,
            sketch,
            dim,
            bits,
            not sketch or capabilities.decode_includes_sketch,
            design=capabilities.design_of(kind),
        )
        for kind, sketch in codecs
        for dim in sorted(set(settings.dims), reverse=True)
        for bits in sorted(set(settings.bits))
        if capabilities.has(kind, sketch, dim, bits)
    ]
    return sorted(cells, key=lambda cell: (-cell.dim, not cell.sketch))
