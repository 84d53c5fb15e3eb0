"""The claim about EDEN, which is unbiased without a sketch."""

from collections.abc import Iterator

from kvassay.conformance.claims.question import AT_LEAST_1, ROTATED, PaperClaim, Quantity, Question
from kvassay.conformance.measure.eden import DIM
from kvassay.conformance.measure.study import MSE, PROD, Figure
from kvassay.reference import design_theory, theory


def _qjl_over_eden(what: str, fewer: int) -> Iterator[Quantity]:
    """QJL at n bits over EDEN at n - `fewer`."""
    for sketch, half in PROD.items():
        for bits in (2, 3, 4):
            eden = design_theory.scaled(DIM, bits - fewer, "unbiased").distortion
            yield Quantity(
                f"{sketch}, n={bits}",
                "eden",
                "ratio",
                (Figure(what, half, bits), Figure(f"{what} eden", MSE, bits - fewer)),
                AT_LEAST_1,
                theory.product_variance(DIM, bits, sketch) / eden,
            )


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="eden",
        sentence="EDEN, which scales each reconstruction so that its product with the vector is "
        "exact, is unbiased at a lower variance than QJL, even with one bit less.",
        source="arXiv:2604.18555; arXiv:2605.19972; EDEN, arXiv:2108.08842",
        standing="contested",
        needs=ROTATED,
        meaning="",
        questions=(
            Question(
                "error of scores, QJL over EDEN at the same bits",
                tuple(_qjl_over_eden("score-error", 0)),
            ),
            Question(
                "KL of the weights, QJL over EDEN at the same bits",
                tuple(_qjl_over_eden("kl", 0)),
            ),
            Question(
                "error of scores, QJL over EDEN with one bit less",
                tuple(_qjl_over_eden("score-error", 1)),
            ),
            Question(
                "KL of the weights, QJL over EDEN with one bit less",
                tuple(_qjl_over_eden("kl", 1)),
            ),
        ),
    ),
)
