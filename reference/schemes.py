"""Schemes: a pair of codecs, one for K and one for V, at one budget of n bits a coordinate.

The two papers use the letters differently, so a scheme is always a named pair. Q before a
letter means QJL on that tensor (n - 1 bits and a sketch). Paper A: KV is without rotation,
KQV and QKQV are rotated. Paper B: a prefix says what comes first, Plain (nothing), TQ (the
randomized Hadamard rotation) or SQU and SQW (a calibrated eigenbasis, uniform or water-filled
bits), so that its TQ-KQV is paper A's KQV.
"""

from dataclasses import dataclass

from kvassay.reference._checks import require_choice
from kvassay.reference._names import SKETCHES
from kvassay.reference.kinds import KINDS

PREFIXES = {"Plain": "scalar", "TQ": "turboquant-mse", "SQU": "spectral", "SQW": "spectral"}
SKETCHED = {"spectral": "spectral"} | {
    kind.without_sketch: kind.id for kind in KINDS.values() if kind.sketched
}
ALLOCATIONS = {"SQU": "uniform", "SQW": "water-filling"}


@dataclass(frozen=True, order=True)
class Half:
    """What is done with one tensor: the codec's kind, its `sketch` ("" for none), and for a
    spectral one the `allocation` of its bits and whether K and V were calibrated `together`.
    """

    kind: str
    sketch: str = ""
    allocation: str = ""
    together: bool = False

    def __str__(self) -> str:
        parts = [self.kind, self.allocation, self.sketch, "together" * self.together]
        return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class Scheme:
    """A named pair of codecs. `k` and `v` say what is done with either tensor."""

    name: str
    k: Half
    v: Half


def scheme(name: str, sketch: str = "orthogonal", *, together: bool = False) -> Scheme:
    """The scheme called `name`, with `sketch` where it has one.

    Names are those of paper A (KV, KQV, QKQV), or PREFIX-[Q]K[Q]V with a prefix of paper B:
    Plain, TQ, SQU, SQW. If `together`, a spectral scheme calibrates K and V on both. ValueError
    for any other name.

    >>> str(scheme("KQV").v), str(scheme("TQ-QKV", "gaussian").k)
    ('turboquant-prod/orthogonal', 'turboquant-prod/gaussian')
    """
    require_choice("sketch", sketch, SKETCHES)
    full = {"KV": "Plain-KV", "KQV": "TQ-KQV", "QKQV": "TQ-QKQV"}.get(name, name)
    prefix, _, letters = full.partition("-")
    if prefix not in PREFIXES or letters not in LETTERS:
        raise ValueError(
            f"scheme must be KV, KQV, QKQV or one of {', '.join(PREFIXES)} followed by "
            f"-{', -'.join(LETTERS)}, got {name!r}"
        )

    def half(sketched: bool) -> Half:
        kind = PREFIXES[prefix]
        return Half(
            SKETCHED[kind] if sketched else kind,
            sketch if sketched else "",
            ALLOCATIONS.get(prefix, ""),
            together and kind == "spectral",
        )

    return Scheme(name, half(letters.startswith("Q")), half(letters.endswith("QV")))


LETTERS = ("KV", "KQV", "QKV", "QKQV")
TURBOQUANT = tuple(f"{prefix}-{letters}" for prefix in ("Plain", "TQ") for letters in LETTERS)
"""Paper B's eight variants: {rotation} x {QJL on K} x {QJL on V}."""
SPECTRAL = tuple(f"{prefix}-{letters}" for prefix in ("SQU", "SQW") for letters in LETTERS)
