"""Claims about what quantized K and V do to attention."""

from collections.abc import Callable, Iterator
from math import inf

from kvassay.conformance.claims.claim import Standing
from kvassay.conformance.claims.question import (
    AT_LEAST_1,
    OTHERS,
    ROTATED,
    SCATTERED,
    Method,
    PaperClaim,
    Quantity,
    Question,
    by_sketch,
    energy_ratio,
    over_populations,
    place_name,
    within,
)
from kvassay.conformance.measure.attention import JENSEN
from kvassay.conformance.measure.populations import DIRECTION_DIMS, direction_populations
from kvassay.conformance.measure.study import MSE, PROD, ROTATED_HALVES, SCALAR, SCHEMES, Figure
from kvassay.conformance.statistics.intervals import Band
from kvassay.reference import theory
from kvassay.reference.schemes import Half, Scheme


def _softmax(
    method: Method,
    whats: tuple[str, ...],
    band: Band,
    bits: tuple[int, ...],
    predicted: float | None = None,
    label: str = "",
) -> Iterator[Quantity]:
    """A quantity of the softmax study for each rotated codec and width: of its figures `whats`."""
    for half in ROTATED_HALVES:
        for width in bits:
            yield Quantity(
                f"{label}{half}, n={width}",
                "softmax",
                method,
                tuple(Figure(what, half, width) for what in whats),
                band,
                predicted,
            )


def _jensen() -> Iterator[Quantity]:
    predicted = theory.jensen_inflation(JENSEN**2)
    # Not at 6 bits: rare overloads carry the error there, which is far from Gaussian.
    return _softmax("mean", ("inflation",), within(predicted, 0.02), (2, 4), predicted)


def _kl_is_half_variance() -> Iterator[Quantity]:
    for half in ROTATED_HALVES:
        for bits in (4, 6):
            # The next cumulants are smaller than the second by its own order.
            delta = 0.02 + theory.product_variance(128, bits, half.sketch)
            yield Quantity(
                f"{half}, n={bits}",
                "softmax",
                "ratio",
                (Figure("kl", half, bits), Figure("half-variance", half, bits)),
                within(1, delta),
                1.0,
            )


def _kl_ratio_is_variance_ratio() -> Iterator[Quantity]:
    for sketch, half in PROD.items():
        for bits in (4, 6):
            predicted = theory.two_pi(128, bits, sketch)
            delta = 0.05 + theory.product_variance(128, bits, sketch)
            yield Quantity(
                f"{sketch}, n={bits}",
                "softmax",
                "ratio",
                (Figure("kl", half, bits), Figure("kl", MSE, bits)),
                within(predicted, delta),
                predicted,
            )


def _linear() -> Iterator[Quantity]:
    return _softmax("worst", ("nonlinear",), Band(-inf, 1e-9), (2, 4, 6), 0.0)


def _averages_out() -> Iterator[Quantity]:
    # An offset, or one error for all tokens, makes it many times as large.
    return _softmax("ratio", ("averaged", "independent"), within(1, 0.15), (2, 4, 6), 1.0)


def _predicted(name: str, halves: tuple[Half, ...] = ROTATED_HALVES) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{place_name(name)}, {half}, n={bits}",
            f"population/{name}",
            "ratio",
            (Figure("kl", half, bits), Figure("kl-predicted", half, bits)),
            within(1, 0.15),
            1.0,
        )
        for half in halves
        for bits in (4, 6)
    )


def _kl_order(name: str) -> tuple[Quantity, ...]:
    return by_sketch(name, "geometric", _kl_with_and_without, AT_LEAST_1)


def _kl_with_and_without(sketch: str, bits: int) -> tuple[Figure, Figure]:
    return Figure("kl", PROD[sketch], bits), Figure("kl", MSE, bits)


def _recall_order(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[Figure, Figure]:
        return Figure("recall", MSE, bits), Figure("recall", PROD[sketch], bits)

    return by_sketch(name, "difference", figures, Band(-0.03, inf))


def _direction_order(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[Figure, Figure]:
        first, second = SCHEMES[f"TQ-QKQV/{sketch}"], SCHEMES[f"TQ-KQV/{sketch}"]
        return Figure("phi-t", first, bits), Figure("phi-t", second, bits)

    return by_sketch(name, "geometric", figures, Band(0.95, inf))


def _orders(where: str, names: tuple[str, ...], standing: Standing | None) -> Iterator[Question]:
    for what, order in (
        ("KL of QKQV over KQV", _kl_order),
        ("top-5 recall of KQV less QKQV", _recall_order),
        ("output direction error of QKQV over KQV", _direction_order),
    ):
        yield Question(f"{what}, {where}", over_populations(order, names), standing=standing)


def _gap(name: str) -> tuple[Quantity, ...]:
    return by_sketch(
        name,
        "geometric",
        _kl_with_and_without,
        within(2.25, 0.1),
        (4,),
        predicted=two_pi_at_128,
        paper=2.25,
    )


def two_pi_at_128(sketch: str, bits: int) -> float:
    return theory.two_pi(128, bits, sketch)


def _separation(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[Figure, Figure]:
        return Figure("kl", MSE, bits), Figure("kl", PROD[sketch], bits)

    return by_sketch(name, "rank", figures, Band(-1, -0.9), (4,), paper=-0.983)


def _worst_over_mean() -> Iterator[Quantity]:
    # For small errors KL is |q|^2 times the variance of errors per length, so that the largest
    # |q|^2 of the queries alone makes it exceed its mean; half of that excess is asked for.
    excess = theory.largest_squared_norm(128, 256) - 1
    return _softmax("ratio", ("kl-max", "kl"), Band(1 + excess / 2, inf), (2, 4))


def _as_gaussian(label: str, what: str, predicted: str) -> Iterator[Quantity]:
    # Not at more bits: rare overloads of the table, or the length of S q, which all scores of
    # a query share, then make a tail that Gaussian noise does not have.
    return _softmax("ratio", (what, predicted), within(1, 0.25), (2,), 1.0, f"{label}, ")


def _crossover(better: tuple[int, ...], band: Band) -> Iterator[Quantity]:
    for dim in DIRECTION_DIMS:
        for where in direction_populations(dim):
            for sketch, half in PROD.items():
                for bits in better:
                    yield Quantity(
                        f"d={dim}, {where}, {sketch}, n={bits}",
                        f"direction/d={dim}",
                        "ratio",
                        (
                            Figure("phi-k", half, bits, where),
                            Figure("phi-k", MSE, bits, where),
                        ),
                        band,
                        theory.prod_direction_error(dim, bits, sketch)
                        / theory.mse_direction_error(dim, bits),
                    )
    for sketch, half in PROD.items():
        for bits in better:
            yield Quantity(
                f"real tensors, {sketch}, n={bits}",
                "population/tensors",
                "ratio",
                (Figure("phi-k", half, bits), Figure("phi-k", MSE, bits)),
                band,
            )


def _dominates(what: str) -> Callable[[str], tuple[Quantity, ...]]:
    """Whether KQV has a lower figure of its keys than KV and QKQV, at n = 4."""
    others = {"KV": SCALAR, "QKQV": PROD["orthogonal"]}

    def make(name: str) -> tuple[Quantity, ...]:
        return tuple(
            Quantity(
                f"{place_name(name)}, against {other}",
                f"population/{name}",
                "geometric",
                (Figure(what, half, 4), Figure(what, MSE, 4)),
                AT_LEAST_1,
            )
            for other, half in others.items()
        )

    return make


def _six_d(scheme: Scheme, bits: int) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{error}-{place}", codec, bits)
        for error in ("relmse", "phi")
        for place, codec in (("k", scheme.k), ("v", scheme.v), ("t", scheme))
    )


def _energy(name: str) -> tuple[Quantity, ...]:
    clouds = {
        "KV": _six_d(SCHEMES["Plain-KV"], 4),
        "QKQV": _six_d(SCHEMES["TQ-QKQV/orthogonal"], 4),
    }
    own = _six_d(SCHEMES["TQ-KQV/orthogonal"], 4)
    fine = _six_d(SCHEMES["TQ-KV"], 6)
    return tuple(
        Quantity(
            f"{place_name(name)}, against {other}",
            f"population/{name}",
            "jackknife",
            (*cloud, *own, *fine),
            AT_LEAST_1,
            function=energy_ratio,
        )
        for other, cloud in clouds.items()
    )


def _told_apart(name: str) -> tuple[Quantity, ...]:
    figures = (
        *_six_d(SCHEMES["TQ-KQV/orthogonal"], 4),
        *_six_d(SCHEMES["TQ-QKQV/orthogonal"], 4),
    )
    place = f"{place_name(name)}, KQV and QKQV"
    return (Quantity(place, f"population/{name}", "energy", figures, Band(1e-9, inf)),)


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="jensen",
        sentence="A zero-mean score error of variance s^2 inflates E[exp] by exp(s^2/2).",
        source="paper A, section 1; paper B, section 2",
        standing="theorem",
        needs=ROTATED,
        meaning="The error of the scores has another variance than the theory gives, is not "
        "near Gaussian, or is not centred.",
        questions=(Question(f"E exp(s z) at s = {JENSEN}", tuple(_jensen())),),
    ),
    PaperClaim(
        id="kl-is-variance",
        sentence="For small errors KL(p_ref || p_quant) = (1/2) Var_p(score error), so that KL "
        "ratios equal variance ratios.",
        source="paper A, section 1 (follows from it)",
        standing="derived",
        needs=ROTATED,
        meaning="The score error is not what the variance claims say, or depends on the weight.",
        questions=(
            Question("KL over half the variance", tuple(_kl_is_half_variance()), aside=True),
            Question("KL with QJL over KL without", tuple(_kl_ratio_is_variance_ratio())),
            Question(
                "KL over half the variance that theory gives, bias and alignment included",
                (
                    *over_populations(_predicted, ("isotropic", "power-law")),
                    *over_populations(
                        lambda name: _predicted(name, tuple(PROD.values())), ("low-rank", "focused")
                    ),
                ),
            ),
            Question(
                "the same where rare overloads, loud coordinates or real data make another law",
                (
                    *over_populations(
                        lambda name: _predicted(name, (MSE,)), ("low-rank", "focused")
                    ),
                    *over_populations(_predicted, ("heavy-tailed", "very-heavy-tailed", "tensors")),
                ),
                aside=True,
            ),
        ),
    ),
    PaperClaim(
        id="kv-asymmetry",
        sentence="V's error enters the output linearly, and unbiased error averages out over "
        "tokens; K's enters through exp.",
        source="paper A, section 2; paper B, section 2",
        standing="theorem",
        needs=ROTATED,
        meaning="The errors of different tokens are correlated: an offset, a shared scale or a "
        "table that is not centred.",
        questions=(
            Question("output error over that of independent tokens", tuple(_averages_out())),
            Question("departure from linear in V's error", tuple(_linear()), aside=True),
        ),
    ),
    PaperClaim(
        id="kqv-beats-qkqv",
        sentence="KL(KQV) < KL(QKQV) at every n in 2...6 and in every regime; top-5 routing "
        "recall and output direction agree.",
        source="paper A, section 2",
        standing="derived",
        needs=ROTATED,
        meaning="turboquant-mse loses to turboquant-prod on keys: it takes fewer bits than it "
        "should, or its table is wrong.",
        questions=(
            *_orders("queries not in the keys' directions", SCATTERED, None),
            *_orders("in every other regime", OTHERS, "reported"),
        ),
    ),
    PaperClaim(
        id="kl-gap",
        sentence="At n = 4 KQV has 2.25x lower KL than QKQV; Mann-Whitney rank-biserial "
        "r = -0.983, p < 1e-23.",
        source="paper A, section 2",
        standing="reported",
        needs=ROTATED,
        meaning="",
        questions=(
            Question("KL of QKQV over KQV", over_populations(_gap), "somewhere"),
            Question(
                "rank-biserial correlation, KQV to QKQV", over_populations(_separation), aside=True
            ),
        ),
    ),
    PaperClaim(
        id="worst-case-kl",
        sentence="Mean KL is optimistic: the maximum over the queries and argmax shifts say "
        "more, and both follow from the variance of the scores.",
        source="paper A, significance",
        standing="derived",
        needs=ROTATED,
        meaning="The scores' error is larger or smaller than its variance allows, or has outliers.",
        questions=(
            Question("maximum over mean KL", tuple(_worst_over_mean())),
            Question(
                "maximum KL over that of Gaussian noise",
                tuple(_as_gaussian("maximum KL", "kl-max", "predicted-max")),
            ),
            Question(
                "argmax shifts over those of Gaussian noise",
                tuple(_as_gaussian("argmax shifts", "shifts", "predicted-shifts")),
            ),
        ),
    ),
    PaperClaim(
        id="crossover",
        sentence="K direction error: QKQV is better at n = 2, 3, 5 and KQV at n = 4, 6, "
        "whatever the rank and tail.",
        source="paper A, section 4",
        standing="reported",
        needs=ROTATED,
        meaning="",
        questions=(
            Question(
                "angle of QKQV over KQV at n = 2, 3, 5",
                tuple(_crossover((2, 3, 5), Band(0, 1))),
                "somewhere",
            ),
            Question("angle of QKQV over KQV at n = 4, 6", tuple(_crossover((4, 6), AT_LEAST_1))),
        ),
    ),
    PaperClaim(
        id="six-d-dominance",
        sentence="At n = 4 KQV beats QKQV and KV in KL, K error and 6-D energy distance in "
        "every regime.",
        source="paper A, results",
        standing="reported",
        needs=("scalar", *ROTATED),
        meaning="",
        questions=(
            Question(
                "KL over KQV's",
                over_populations(_dominates("kl")),
            ),
            Question(
                "K direction error over KQV's",
                over_populations(_dominates("phi-k")),
            ),
            Question(
                "6-D energy distance from TQ-KV at 6 bits, over KQV's", over_populations(_energy)
            ),
            Question(
                "6-D errors of KQV and QKQV told apart", over_populations(_told_apart), aside=True
            ),
        ),
    ),
)
