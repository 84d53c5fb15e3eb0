"""Families of faults: those that come to the same thing from outside, under one name and with one
piece of advice.

A diagnosis names the family first. Its members are the ways in which that went wrong in real
implementations; which of them it is, outside figures seldom say.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvassay.conformance.evidence.schema import Match
from kvassay.conformance.faults.fault import FAULTS
from kvassay.conformance.faults.signatures import has_signature


@dataclass(frozen=True)
class Family:
    """`sentence` says what is wrong, `look` which line or formula to look at first; `members`
    are ids of faults."""

    id: str
    sentence: str
    look: str
    members: tuple[str, ...]


FAMILIES: tuple[Family, ...] = (
    Family(
        "correction-size",
        "The sketch's correction has the wrong size or sign.",
        "the scale of the correction: S^T sign(S r) times |r| sqrt(pi/2)/d for a gaussian sketch "
        "(rows of N(0, 1)), about |r| sqrt(pi/2)/sqrt(d) for an orthogonal one (orthonormal rows).",
        ("A01", "A02", "A02-blown-up", "A02-one-percent", "A-subtracted"),
    ),
    Family(
        "residual-norm",
        "The norm of the residual is not the residual's.",
        "what is stored as the residual's norm: |y - levels| of the unit vector, for each vector, "
        "multiplied by the vector's norm once.",
        ("A06", "A08", "A-absolute"),
    ),
    Family(
        "correction-direction",
        "The sketch's correction points elsewhere than the residual.",
        "the way of the signs: sign(S r) of the residual r, packed and unpacked in one order, and "
        "then multiplied by S^T.",
        ("A04", "A-of-vector", "A-sign-order"),
    ),
    Family(
        "dependent-sketch",
        "The sketch depends on the rotation.",
        "the seed of the sketch: it must not be the rotation's, nor the same stream of numbers.",
        ("A11",),
    ),
    Family(
        "other-sketch",
        "The sketch is orthogonal, and a gaussian one is declared.",
        "the offer: a sketch with orthonormal rows is declared as orthogonal.",
        ("A-family",),
    ),
    Family(
        "sketch-rows",
        "The sketch has another number of rows than d.",
        "the number of rows (and of sign bits) of the sketch.",
        ("A-half-rows",),
    ),
    Family(
        "score-formula",
        "inner_products is not <q, decode(code)>.",
        "inner_products: it must be linear in q, with the norms, the scale and the correction that "
        "decode uses.",
        ("A15", "A18", "D04"),
    ),
    Family(
        "zero-residual",
        "A vector that needs no correction is divided by zero.",
        "the division by the residual's norm, for a norm of 0.",
        ("A20",),
    ),
    Family(
        "weak-rotation",
        "The rotation is missing, or does not mix all coordinates.",
        "the forward transform: random signs first, then one Hadamard transform (or random "
        "orthogonal matrix) over all d coordinates.",
        ("B01", "B02", "B09", "B-permutation", "B-short-signs", "F02"),
    ),
    Family(
        "wrong-inverse",
        "Decoding does not undo the rotation that encoding applied.",
        "the inverse: unrotate(rotate(x)) must be x. For rotate = H D it is D H, in that order.",
        ("B04", "B18", "B21", "B-signs-twice"),
    ),
    Family(
        "not-orthogonal",
        "The rotation is not orthogonal.",
        "the transform's normaliser, 1/sqrt of its own size, and what becomes of coordinates "
        "that padding added: R R^T must be the identity.",
        ("B07", "B07-no-normaliser", "B20"),
    ),
    Family(
        "seed-ignored",
        "The seed does not choose the rotation.",
        "where the seed goes: two seeds must give two rotations.",
        ("B-seed",),
    ),
    Family(
        "rare-seeds",
        "Some seeds give a codec that does not work.",
        "the seeds that `every-seed` names: what is drawn from them, and what is cached by them.",
        ("H-rare-seeds",),
    ),
    Family(
        "table",
        "The table of levels is not the one of least error for these coordinates.",
        "the table: the Lloyd-Max levels of N(0, 1) at this width (of b - 1 bits beside a sketch), "
        "divided by sqrt(d), with the nearest level taken.",
        (
            "C01",
            "C02",
            "C03",
            "C05",
            "C07",
            "C-other-dim",
            "C-equal-cells",
            "C-early-stop",
            "C-uniform",
        ),
    ),
    Family(
        "thresholds",
        "The index is not that of the nearest level.",
        "the thresholds: each lies half way between two neighbouring levels.",
        ("C-floor", "C-even-thresholds"),
    ),
    Family(
        "index-order",
        "Indices are read otherwise than they were written.",
        "packing: unpack(pack(indices)) must be the indices, at each width, with indices that "
        "differ from coordinate to coordinate.",
        ("C09", "E05", "E09", "E-bit-order", "E-off-by-one"),
    ),
    Family(
        "indices-lost",
        "Some coordinates are lost.",
        "loops over coordinates: their last block, and what is written twice or never.",
        ("E03", "F01"),
    ),
    Family(
        "offset",
        "An offset stays in what is decoded.",
        "the zero point: for x = 0 and on average what is decoded must be 0.",
        ("C10",),
    ),
    Family(
        "no-norm",
        "Vectors are quantized without being divided by their norms.",
        "encode: the norm is taken out before quantizing, and the table is for unit vectors.",
        ("C14", "D01"),
    ),
    Family(
        "output-scale",
        "What is decoded is too long or too short, by one factor.",
        "the last line of decode: level times norm, the scale the one that encode divided by.",
        ("D02",),
    ),
    Family(
        "renormalised",
        "What is decoded is stretched to the norm of the vector.",
        "whether decode restores the exact norm on purpose: this is another design, with a larger "
        "error and another slope than 1 - D.",
        ("D-renormalised", "D-renormalised-small"),
    ),
    Family(
        "stored-norm",
        "The stored norm is not the vector's norm.",
        "the norm: its formula (a root, taken once) and the type that it is computed and stored "
        "in, for norms from 1e-3 to 1e3.",
        ("D06", "D-coarse", "D-squared", "D-overflow", "D-half-input"),
    ),
    Family(
        "batch-scale",
        "One scale is shared by all vectors of a batch.",
        "the axis of the norm or of the range: one for each vector.",
        ("D-global", "D-shared"),
    ),
    Family(
        "not-finite",
        "Some vectors become NaN.",
        "divisions by a norm or a spread that can be 0.",
        ("D09", "D-nan"),
    ),
    Family(
        "rows-mixed",
        "A vector is read from another vector's place.",
        "the stride of rows, in encode and decode: a batch must give what its rows give alone.",
        ("E02", "G04", "H04"),
    ),
    Family(
        "one-token-path",
        "One vector alone takes another path than many.",
        "the branch for a batch of one.",
        ("B05", "E06", "H06"),
    ),
    Family(
        "not-deterministic",
        "The same input and seed do not give the same answer.",
        "buffers that are reused or read before they are written, and randomness that does not "
        "come from the seed.",
        ("B12", "H01", "H13", "E-uninitialised"),
    ),
    Family(
        "input-contract",
        "Input of another form is not read as it stands.",
        "what encode does with views, other widths, empty batches and the caller's own array.",
        ("E-strides", "E-in-place", "E-short-code", "F08", "G14"),
    ),
    Family(
        "more-bits",
        "More bits are stored than the width says.",
        "the width that the codec really uses: a fallback, or padding that is kept.",
        ("F-padded", "K05", "K10"),
    ),
    Family(
        "fewer-bits",
        "Fewer bits are used than the width says.",
        "the width that the codec really uses: a fallback to a lower one.",
        ("K-fewer-bits",),
    ),
    Family(
        "unpacked",
        "Indices are stored unpacked.",
        "packing: d b / 8 bytes a vector, for widths that do not divide 8 as well.",
        ("E10", "E10-odd-widths"),
    ),
    Family(
        "undeclared",
        "The code holds more than nbytes says.",
        "nbytes: it counts all that decoding needs, norms and scales included, and nothing "
        "else is kept in the code.",
        ("E10-undeclared", "K01", "K03"),
    ),
    Family(
        "whole-numbers",
        "What is decoded is rounded to whole numbers.",
        "the type of what decode returns.",
        ("N-whole-numbers",),
    ),
    Family(
        "one-size",
        "One dimension or one width alone does not work.",
        "what is special to that size: its table, its transform, its packing, its index type.",
        ("N-seven-bits", "N-one-size"),
    ),
)

BY_FAULT = {member: family for family in FAMILIES for member in family.members}
BY_ID = {family.id: family for family in FAMILIES}


def family_of(fault: str) -> Family:
    """The family of a fault; one of its own where it stands in none."""
    if fault in BY_FAULT:
        return BY_FAULT[fault]
    known = {each.id: each.text for each in FAULTS}
    text = known.get(fault, "A fault that this version does not know.")
    return Family(fault, text, "the lines that do this.", (fault,))


def without_family() -> list[str]:
    """The faults with a signature that stand in no family."""
    return [fault.id for fault in FAULTS if has_signature(fault) and fault.id not in BY_FAULT]


@dataclass(frozen=True)
class Likely:
    """A family that fits, with those of its faults that do, best first."""

    family: Family
    matches: tuple[Match, ...]

    @property
    def fit(self) -> float:
        """The share of the deviation that it explains: that of its best member."""
        return self.matches[0].fit


def likely(matches: Iterable[Match]) -> list[Likely]:
    """The families of faults that fit, in the order of their best members.

    >>> first, second = likely([Match("B18", 0.99), Match("E05", 0.98), Match("B04", 0.97)])
    >>> first.family.id, [match.fault for match in first.matches], second.family.id
    ('wrong-inverse', ['B18', 'B04'], 'index-order')
    """
    found: dict[str, list[Match]] = {}
    for match in matches:
        found.setdefault(family_of(match.fault).id, []).append(match)
    return [Likely(family_of(group[0].fault), tuple(group)) for group in found.values()]
