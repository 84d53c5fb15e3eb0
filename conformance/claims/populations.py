"""Claims about heavy tails and low rank."""

from collections.abc import Iterator
from math import inf

from kvassay.conformance.claims.question import ROTATED, SPECTRAL, PaperClaim, Quantity, Question
from kvassay.conformance.measure.populations import DIRECTION_DIMS, TAILS
from kvassay.conformance.measure.study import BITS, MSE, ROTATED_HALVES, SCALAR, UNIFORM, Figure
from kvassay.conformance.statistics.intervals import Band
from kvassay.reference import theory


def _flat() -> Iterator[Quantity]:
    predicted = theory.mse_direction_error(128, 4)
    for where in ("isotropic", *(f"nu={nu:g}" for nu in TAILS)):
        # Few loud coordinates make few-valued rotated ones, which can lie better or worse
        # between the levels; a Haar rotation would give the prediction itself.
        yield Quantity(
            where,
            "direction/d=128",
            "mean",
            (Figure("phi-k", MSE, 4, where),),
            Band(0.8 * predicted, 1.05 * predicted),
            predicted,
        )


def _unprotected() -> Iterator[Quantity]:
    for where in ("nu=1.2", "nu=1.05"):
        yield Quantity(
            f"{where}, KV over KQV",
            "direction/d=128",
            "ratio",
            (Figure("phi-k", SCALAR, 4, where), Figure("phi-k", MSE, 4, where)),
            Band(3, inf),
        )


def _figure_0027() -> Iterator[Quantity]:
    for dim in DIRECTION_DIMS:
        for where in ("isotropic", "nu=1.05"):
            yield Quantity(
                f"d={dim}, {where}",
                f"direction/d={dim}",
                "mean",
                (Figure("phi-k", MSE, 4, where),),
                Band(0.0265, 0.0275),
                theory.mse_direction_error(dim, 4) if where == "isotropic" else None,
                0.027,
            )


def _pathology(
    low: str, heavy: str, whats: tuple[str, ...] = ("kl", "kl-max")
) -> Iterator[Quantity]:
    for what in whats:
        for half in ROTATED_HALVES:
            yield Quantity(
                f"{what}, {half}, {low} over {heavy}",
                "pathology",
                "ratio",
                (Figure(what, half, 4, low), Figure(what, half, 4, heavy)),
                Band(10, inf),
            )


def _marginals() -> Iterator[Quantity]:
    for where in ("low-rank", "heavy-tailed"):
        yield Quantity(
            f"{where}, distance from the Beta law",
            "pathology",
            "mean",
            (Figure("marginal", where=where),),
            Band(0, 0.05),
            0.0,
        )


def _shifted() -> Iterator[Quantity]:
    for half in ROTATED_HALVES:
        yield Quantity(
            f"share of queries, {half}, K a product of Gaussian matrices",
            "pathology",
            "mean",
            (Figure("shifts", half, 4, "low-rank product"),),
            Band(0.01, 1),
        )


def _cure() -> Iterator[Quantity]:
    yield Quantity(
        "d=1024, n=4, worst KL of KQV over SQU",
        "pathology",
        "ratio",
        tuple(Figure("kl-max", half, 4, "low-rank product") for half in (MSE, UNIFORM)),
        Band(10, inf),
    )
    for name in ("low-rank", "low-rank-apart"):
        for bits in BITS:
            yield Quantity(
                f"d=128, {name}, n={bits}, worst KL of KQV over SQU",
                f"population/{name}",
                "ratio",
                (Figure("kl-max", MSE, bits), Figure("kl-max", UNIFORM, bits)),
                Band(10, inf),
            )


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="heavy-tail-protection",
        sentence="With rotation the K direction error stays flat as the tail grows (nu to 1.05), "
        "near 0.027; without it (KV) it fails.",
        source="paper A, results",
        standing="derived",
        needs=("scalar", "turboquant-mse"),
        meaning="The rotation does not spread the loud coordinates of a heavy-tailed vector.",
        questions=(
            Question("angle / pi of KQV at d = 128, n = 4", tuple(_flat())),
            Question("without rotation", tuple(_unprotected())),
            Question("near 0.027", tuple(_figure_0027()), "somewhere", standing="reported"),
        ),
    ),
    PaperClaim(
        id="low-rank-pathology",
        sentence="At d = 1024 low-rank K gives KL orders of magnitude worse than heavy-tailed K "
        "though the marginals agree; the argmax shifts.",
        source="paper A, section 3",
        standing="reported",
        needs=ROTATED,
        meaning="",
        questions=(
            Question(
                "worst KL of low rank over heavy tail, K a product of Gaussian matrices",
                tuple(_pathology("low-rank product", "heavy-tailed", ("kl-max",))),
            ),
            Question("marginals agree", tuple(_marginals())),
            Question("the argmax shifts", tuple(_shifted())),
            Question(
                "mean KL of the same",
                tuple(_pathology("low-rank product", "heavy-tailed", ("kl",))),
                aside=True,
            ),
            Question(
                "low rank over heavy tail with norms alike",
                tuple(_pathology("low-rank", "heavy-tailed")),
                aside=True,
            ),
            Question(
                "the same with scores of one spread in both",
                (
                    *_pathology("low-rank narrow", "heavy-tailed"),
                    *_pathology("low-rank", "heavy-tailed wide", ("kl", "kl-max", "shifts")),
                ),
                aside=True,
            ),
        ),
    ),
    PaperClaim(
        id="subspace-cure",
        sentence="Handling the subspace explicitly (an eigenbasis codec on K) cures the "
        "low-rank pathology.",
        source="paper A, conclusion",
        standing="reported",
        needs=("turboquant-mse", *SPECTRAL),
        meaning="",
        questions=(Question("worst KL falls at least tenfold", tuple(_cure())),),
    ),
)
