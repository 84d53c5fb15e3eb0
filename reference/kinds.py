"""The kinds of codec: the one place where a kind is known.

A kind is a record: whether it rotates, whether a sketch corrects its residual, and its laws, the
predictions that a claim may ask for. A kind without a law is never held to a claim that needs
that law; `reproduce` may still use it in a study.

Loads neither NumPy nor SciPy, so that the command line can list the kinds at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache

from kvassay.reference._names import SKETCHES as SKETCHES
from kvassay.reference.designs import Design

Law = Callable[[int, int, str], float]  # (dim, bits, sketch), sketch "" for none


@dataclass(frozen=True)
class Laws:
    """What theory says of a kind; None where it says nothing.

    `distortion` is E|x - x_hat|^2 / |x|^2 of what decode gives, sketch included; `slope` that of
    the estimate of <q, x> on <q, x>; `variance` is d E(estimate - <q, x>)^2 / (|q|^2 |x|^2) for
    independent q and x. `distortion_scatter` (dim, bits, sketch, count) is the relative standard
    deviation of one seed's mean distortion over `count` vectors: it sets sample sizes. `table`
    is whether the codebook is Lloyd-Max for the coordinate law, `single_seeds` whether
    reference/tails.py says how far one seed's distortion and slope can lie from their means.
    """

    distortion: Law | None = None
    slope: Law | None = None
    variance: Law | None = None
    distortion_scatter: Callable[[int, int, str, int], float] | None = None
    table: bool = False
    single_seeds: bool = False

    def __contains__(self, name: str) -> bool:
        return bool(getattr(self, name))


LAWS = tuple(each.name for each in fields(Laws))


@dataclass(frozen=True)
class Kind:
    """`rotated` kinds turn the vector first. A kind with a sketch spends one of its bits on a
    sketch of the residual, in one of SKETCHES; `without_sketch` is the same kind without it."""

    id: str
    sentence: str
    rotated: bool = False
    without_sketch: str = ""
    laws: Laws = Laws()

    @property
    def sketched(self) -> bool:
        """Whether it has a sketch of the residual."""
        return bool(self.without_sketch)

    @property
    def sketches(self) -> tuple[str, ...]:
        """The sketches that a codec of this kind may have: "" alone where it has none."""
        return SKETCHES if self.sketched else ("",)

    @property
    def judged(self) -> bool:
        """Whether `check` has claims on it: whether it has any law."""
        return any(name in self.laws for name in LAWS)

    def scalar_bits(self, bits: int) -> int:
        """Bits a coordinate of the codebook: one less where there is a sketch."""
        return bits - self.sketched

    def designed(self, design: Design) -> "Kind":
        """The same kind with the laws of that design. ValueError for one that it cannot have."""
        return self if design.plain else _designed(self, design)


@cache
def _designed(kind: Kind, design: Design) -> Kind:
    if not kind.judged:
        raise ValueError(f"{kind.id} has no other design, got {design}")
    if not kind.rotated and "rotation" in design.changed:
        raise ValueError(f"{kind.id} does not rotate, got rotation {design.rotation}")
    if kind.sketched and set(design.changed) & {"grid", "scale", "group"}:
        raise ValueError(f"{kind.id} is known on a Lloyd-Max grid without a scale, got {design}")
    if design.grid == "lloyd-max" and design.scale == "none":  # a rotation alone
        return kind

    def distortion(dim: int, bits: int, sketch: str) -> float:
        from kvassay.reference import design_theory

        return design_theory.outcome(dim, bits, design).distortion

    def slope(dim: int, bits: int, sketch: str) -> float:
        from kvassay.reference import design_theory

        return design_theory.outcome(dim, bits, design).slope

    def scatter(dim: int, bits: int, sketch: str, count: int) -> float:
        from kvassay.reference import design_theory

        return float(design_theory.outcome(dim, bits, design).scatter / count**0.5)

    # Given its error e, <q, e> of an independent isotropic q has the variance |q|^2 |e|^2 / d
    # whatever e is: the variance is again the distortion.
    laws = Laws(distortion, slope, distortion, scatter, table=design.grid == "lloyd-max")
    return replace(kind, laws=laws)


def _distortion(dim: int, bits: int, sketch: str) -> float:
    from kvassay.reference import theory

    return theory.product_variance(dim, bits, sketch)


def _slope(dim: int, bits: int, sketch: str) -> float:
    from kvassay.reference import theory

    return theory.prod_slope(dim, bits) if sketch else theory.mse_slope(dim, bits)


def _distortion_scatter(dim: int, bits: int, sketch: str, count: int) -> float:
    from kvassay.reference import theory

    if sketch:
        return theory.sketch_scatter(dim, bits, sketch, count)
    return theory.distortion_scatter(dim, bits, count)


# The variance of <q, x_hat> for an independent q is the distortion of x_hat: see
# theory.product_variance.
_LLOYD_MAX = Laws(
    _distortion, _slope, _distortion, _distortion_scatter, table=True, single_seeds=True
)

KINDS = {
    kind.id: kind
    for kind in (
        Kind(
            "scalar", "norm and Lloyd-Max levels of each coordinate, no rotation", laws=_LLOYD_MAX
        ),
        Kind(
            "turboquant-mse",
            "random rotation, then norm and Lloyd-Max levels",
            rotated=True,
            laws=_LLOYD_MAX,
        ),
        Kind(
            "turboquant-prod",
            "the same with one bit less, and a QJL sketch of the residual",
            rotated=True,
            without_sketch="turboquant-mse",
            laws=_LLOYD_MAX,
        ),
        Kind(
            "scalar-prod",
            "scalar with one bit less, and a sketch of the residual",
            without_sketch="scalar",
        ),
        Kind("spectral", "calibrated eigenbasis, bits allocated by eigenvalue", rotated=True),
    )
}

JUDGED = tuple(kind.id for kind in KINDS.values() if kind.judged)
STUDIED = tuple(kind.id for kind in KINDS.values() if not kind.judged)


def kinds_with(
    *laws: str, rotated: bool | None = None, sketched: bool | None = None
) -> tuple[str, ...]:
    """The judged kinds that have all these laws, in the order of KINDS.

    If `rotated` or `sketched` is given, only those that are, or are not. ValueError for a law
    that no kind could have.

    >>> kinds_with("distortion", rotated=True)
    ('turboquant-mse', 'turboquant-prod')
    """
    if unknown := [name for name in laws if name not in LAWS]:
        raise ValueError(f"a law must be one of {', '.join(LAWS)}, got {unknown[0]!r}")
    return tuple(
        kind.id
        for kind in KINDS.values()
        if kind.judged
        and all(name in kind.laws for name in laws)
        and rotated in (None, kind.rotated)
        and sketched in (None, kind.sketched)
    )
