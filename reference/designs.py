"""What a codec means to do, where that is more than one thing: its design.

A kind says whether a codec rotates and whether it has a sketch. A design says how: which rotation,
which grid, how the reconstruction is scaled, and in which precision norms and queries are kept. The
defaults are those of the papers. A backend is held to the design that it declares; `design_theory`
predicts what each design does.

Loads neither NumPy nor SciPy.
"""

from dataclasses import dataclass, fields

ROTATIONS = ("hadamard", "haar", "hadamard-unsigned")
BLOCK = "block-"
GRIDS = ("lloyd-max", "uniform")
SCALES = ("none", "unit", "unbiased")
PRECISIONS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, order=True)
class Design:
    """How a codec works, part by part.

    `rotation`, of kinds that rotate:
      "hadamard"          random signs, then Walsh-Hadamard
      "haar"              a dense random orthogonal matrix
      "hadamard-unsigned" Walsh-Hadamard alone: nothing is random
      "block-K"           a signed Hadamard rotation of each K neighbours, like "block-64"
    `grid`, the levels of a coordinate:
      "lloyd-max"         the norm of the vector apart, and one table for all
      "uniform"           2^b equidistant levels from the least to the largest coordinate of the
                          vector, or of each `group` neighbours; no norm
    `scale`, of a reconstruction c of the unit vector u on a Lloyd-Max grid, without a sketch:
      "none"              c itself: slope 1 - D
      "unit"              c / |c|, as long as the vector was
      "unbiased"          c / <u, c>, whose product with the vector itself is exact (EDEN)
    `norm` and `query`: the precision in which norms are stored and queries are read.

    ValueError for a part that is not known, or parts that do not go together.

    >>> str(Design(rotation="hadamard-unsigned", scale="unit"))
    'rotation hadamard-unsigned, scale unit'
    >>> str(Design())
    'as in the papers'
    """

    rotation: str = "hadamard"
    grid: str = "lloyd-max"
    scale: str = "none"
    group: int = 0
    norm: str = "float32"
    query: str = "float32"

    def __post_init__(self) -> None:
        for name, known in (
            ("grid", GRIDS),
            ("scale", SCALES),
            ("norm", PRECISIONS),
            ("query", PRECISIONS),
        ):
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        if self.rotation not in ROTATIONS and not self._block():
            raise ValueError(
                f"rotation must be one of {', '.join(ROTATIONS)} or block-K with a whole number K "
                f"of at least 2, got {self.rotation!r}"
            )
        if type(self.group) is not int or self.group < 0 or self.group in (1, 2, 3):
            raise ValueError(
                f"group must be a whole number of at least 4 coordinates, or 0 for the whole "
                f"vector, got {self.group!r}"
            )
        if self.group and self.grid != "uniform":
            raise ValueError("group is a part of a uniform grid: a table has one norm a vector")
        if self.grid == "uniform" and self.scale != "none":
            raise ValueError(f"a uniform grid has its own scale, got scale {self.scale!r}")

    def _block(self) -> int:
        text = str(self.rotation)
        size = text.removeprefix(BLOCK)
        known = text.startswith(BLOCK) and size.isascii() and size.isdigit()
        return int(size) if known and int(size) >= 2 else 0

    @property
    def block(self) -> int:
        """The K of a rotation in blocks of K coordinates; 0 for another."""
        return self._block()

    @property
    def random_rotation(self) -> bool:
        """Whether the seed fixes the rotation."""
        return self.rotation != "hadamard-unsigned"

    @property
    def plain(self) -> bool:
        """Whether it predicts what the papers do: only precisions differ, if anything."""
        return not set(self.changed) - {"norm", "query"}

    @property
    def changed(self) -> dict[str, str | int]:
        """The parts that are not as in the papers."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in own.items() if value != getattr(type(self), name)}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.changed.items()) or PAPERS


PAPERS = "as in the papers"
AS_IN_THE_PAPERS = Design()
