"""What must hold for every single input: the edge contract. Chance has no part in it.

Each part is an edge of kvassay.conformance.measure.edges, which also has its tolerance. It is
judged at the smallest dimension of a grid, where it is cheapest.
"""

from kvassay.conformance.claims.claim import Claim, Part
from kvassay.conformance.measure import Effort
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.measure.edges import BY_NAME
from kvassay.reference.kinds import JUDGED

SEEDS: dict[Effort, int] = {"quick": 1, "standard": 2, "thorough": 4}


def _limit(cell: Cell, part: str, effort: Effort) -> float:
    return BY_NAME[part].limit(cell)


def _claim(id: str, sentence: str, needs: str, parts: tuple[str, ...], meaning: str) -> Claim:
    return Claim(
        id=id,
        sentence=sentence,
        source="interface",
        of_papers=False,
        standing="theorem",
        needs=(needs,),
        kinds=JUDGED,
        parts=tuple(Part(name, name, "deviation") for name in parts),
        method="worst",
        prediction=lambda cell, part: 0.0,
        delta=_limit,
        seeds=SEEDS,
        at_most=True,
        meaning=meaning,
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "any-count",
        "Any number of vectors, 0 among them, and no queries get finite floating-point answers of "
        "the shape that they ask for.",
        "decode",
        ("shape-and-dtype", "no-queries-no-tokens"),
        "Answers are whole numbers. Where a count gets no answer, or one of another shape, the "
        "entry is an error that says so.",
    ),
    _claim(
        "zero-and-constant",
        "A zero vector decodes to zero, whatever stood there before; one with equal coordinates "
        "keeps its direction.",
        "decode",
        ("zero-vectors", "constant-vectors"),
        "A norm or a range of 0 is divided by or stands for the whole vector, an offset is kept, "
        "or what was there before is not overwritten; or all vectors come out wrong, which other "
        "claims then say too.",
    ),
    _claim(
        "any-scale",
        "A vector times a factor, negative ones and factors up to 2^80 among them, decodes to its "
        "reconstruction times that factor, unless it is refused.",
        "decode",
        (
            "scale-equivariance",
            "odd-factors",
            "sign-equivariance",
            "extreme-norms",
            "norms-beyond-half",
        ),
        "The norm is lost, saturates, vanishes or is rounded by more than its stated precision; "
        "or, where sign-equivariance violates, the levels are not symmetric. What cannot be "
        "represented must be refused.",
    ),
    _claim(
        "any-input",
        "Memory layout and type of vectors and queries do not matter, unless they are refused; "
        "encoding leaves them alone.",
        "decode",
        ("memory-layout", "dtypes", "query-dtypes", "input-is-left-alone"),
        "Strides are ignored, arithmetic is done in the type of the input, an array is read as of "
        "another type, or the caller's array is overwritten: the part says which.",
    ),
    _claim(
        "refusals",
        "Vectors of another width and codes that were cut off are refused; NaN and infinity are "
        "refused or show in that vector's own answer alone.",
        "decode",
        ("wrong-width-is-refused", "non-finite-input", "short-code-is-refused"),
        "What cannot be right gets an answer that looks right, or spoils other vectors.",
    ),
    _claim(
        "rows-apart",
        "Vectors in another order give the same reconstructions in that order, and a neighbour "
        "that is far louder changes nothing.",
        "decode",
        ("order-of-tokens", "neighbours-do-not-matter"),
        "A scale, a grid, a buffer or part of a record is shared between vectors.",
    ),
    _claim(
        "call-sizes",
        "A vector's reconstruction and a query's scores are the same in a call of any size: 1 to "
        "1025 vectors, at dimension 16 up to 65,537, and 1 to 65 queries.",
        "decode",
        ("rows-of-a-call", "many-rows", "queries-of-a-call", "keys-of-a-call"),
        "The end of a block is dropped or read from elsewhere, a large call overflows an index or "
        "a buffer, or a call of some size takes a path that disagrees.",
    ),
    _claim(
        "linear-scores",
        "Estimates of <q, x> are linear in the query, to its stated precision; that of a zero "
        "query is 0.",
        "inner_products",
        ("estimates-are-linear-in-the-query", "plain-queries"),
        "The query is rounded by more than the stated precision, only part of it is used (its "
        "signs), or the estimate has a term that does not scale with it. If queries are rounded on "
        "purpose, state that precision.",
    ),
    _claim(
        "codecs-apart",
        "Codecs of two seeds, widths or dimensions go on side by side as each would alone, keep "
        "nothing of what they encoded, and read what is in a code and no other memory.",
        "decode",
        (
            "codecs-together",
            "codec-keeps-nothing",
            "code-with-gaps",
            "memory-is-not-read-before-it-is-written",
        ),
        "A table, a rotation or a buffer is shared by all codecs of a process; the codec stores "
        "vectors that no code counts; or memory is read that the code or the codec did not write. "
        "The part says which.",
    ),
)

BY_ID = {claim.id: claim for claim in CLAIMS}
