"""Claims that compare schemes: budgets, QJL on V, storage, two generators."""

from collections.abc import Iterator
from math import inf

import numpy as np

from kvassay.conformance.claims.attention import two_pi_at_128
from kvassay.conformance.claims.question import (
    AT_LEAST_1,
    POPULATIONS,
    ROTATED,
    SPECTRAL,
    TIED,
    Array,
    PaperClaim,
    Quantity,
    Question,
    by_sketch,
    over_populations,
    place_name,
    within,
)
from kvassay.conformance.measure.schemes import SCORE_STDS, V_MEANS
from kvassay.conformance.measure.spectral import LENGTHS
from kvassay.conformance.measure.study import METRICS, MSE, PROD, SCHEMES, UNIFORM, Figure
from kvassay.conformance.statistics.intervals import Band
from kvassay.reference.kinds import SKETCHES


def _d2(name: str, bits: int) -> Figure:
    return Figure("d2-t", SCHEMES[name], bits)


def _against(first: str, second: str, bits: int, band: Band, *names: str) -> Iterator[Quantity]:
    """d^2 of the output under the first scheme over that under the second."""
    for name in names:
        yield Quantity(
            f"{place_name(name)}, n={bits}: {first} over {second}",
            f"population/{name}",
            "geometric",
            (_d2(first, bits), _d2(second, bits)),
            band,
        )


RIVALS = (
    "Plain-KV",
    "SQU-KV",
    "SQW-KV",
    *(f"TQ-{letters}/{sketch}" for letters in ("QKV", "KQV", "QKQV") for sketch in SKETCHES),
)


def _leads(name: str) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{place_name(name)}, n={bits}: the best other scheme over TQ-KV",
            f"population/{name}",
            "least",
            (_d2("TQ-KV", bits), *(_d2(rival, bits) for rival in RIVALS)),
            TIED,
        )
        for bits in (4, 6)
    )


def _variant(name: str, sketch: str, bits: int) -> Figure:
    """The figure of one of the eight variants."""
    return _d2(name if name in SCHEMES else f"{name}/{sketch}", bits)


def _pairs(*pairs: tuple[str, str], band: Band) -> tuple[Quantity, ...]:
    """d^2 of the output under the first of each pair over that under the second."""
    return tuple(
        Quantity(
            f"{place_name(name)}, {sketch}, n={bits}: {first} over {second}",
            f"population/{name}",
            "geometric",
            (_variant(first, sketch, bits), _variant(second, sketch, bits)),
            band,
        )
        for first, second in pairs
        for name in POPULATIONS
        for sketch in SKETCHES
        for bits in (2, 4)
    )


def _qjl_on_v(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[Figure, Figure]:
        first, second = SCHEMES[f"TQ-KQV/{sketch}"], SCHEMES["TQ-KV"]
        return Figure("relmse-t", first, bits), Figure("relmse-t", second, bits)

    return by_sketch(name, "geometric", figures, AT_LEAST_1)


def _qjl_on_v_itself(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[Figure, Figure]:
        return Figure("relmse-v", PROD[sketch], bits), Figure("relmse-v", MSE, bits)

    return by_sketch(name, "geometric", figures, AT_LEAST_1, predicted=two_pi_at_128)


def _qjl_on_shared_v() -> Iterator[Quantity]:
    for share in V_MEANS:
        for std in SCORE_STDS:
            where = f"mean={share:g} score-std={std:g}"
            for sketch, half in PROD.items():
                for bits in (2, 3, 4):
                    yield Quantity(
                        f"{share:.0%} of V shared, scores {std:g}, {sketch}, n={bits}",
                        "values",
                        "ratio",
                        (
                            Figure("relmse-t", half, bits, where),
                            Figure("relmse-t", MSE, bits, where),
                        ),
                        AT_LEAST_1,
                    )


def _stored() -> Iterator[Quantity]:
    for where in ("stays", "drifts"):
        for bits in (4, 6):
            yield Quantity(
                f"power law that {where}, n={bits}: bytes of TQ over SQ",
                "context",
                "ratio",
                (Figure("bytes", MSE, bits, where), Figure("bytes", UNIFORM, bits, where)),
                Band(1.01, inf),
            )


def _accumulates() -> Iterator[Quantity]:
    for where in ("stays", "drifts"):
        for bits in (2, 4, 6):
            long, short = f"N={LENGTHS[-1]}", f"N={LENGTHS[0]}"
            yield Quantity(
                f"power law that {where}, n={bits}: SQ over TQ at {long} against {short}",
                "context",
                "jackknife",
                tuple(
                    Figure("relmse-t", half, bits, f"{where} {length}")
                    for length in (long, short)
                    for half in (UNIFORM, MSE)
                ),
                Band(1.1, inf),
                function=_double_ratio,
            )


def _double_ratio(columns: Array) -> float:
    logs = np.mean(np.log(columns), axis=1)
    return float(np.exp(logs[0] - logs[1] - logs[2] + logs[3]))


def _same() -> Iterator[Quantity]:
    for name in ("TQ-KV", *(f"TQ-QKV/{sketch}" for sketch in SKETCHES)):
        for metric in METRICS:
            yield Quantity(
                f"{name}, {metric}",
                "generators",
                "distance",
                (
                    Figure(f"own {metric}", SCHEMES[name]),
                    Figure(f"peer {metric}", SCHEMES[name]),
                ),
                Band(0, 0.25),
                0.0,
            )


def _spread() -> Iterator[Quantity]:
    for sketch in SKETCHES:
        for metric in ("kl", "relmse-t"):
            yield Quantity(
                f"{metric}, TQ-QKV/{sketch} over TQ-KV",
                "generators",
                "squares",
                (
                    Figure(f"gap {metric}", SCHEMES[f"TQ-QKV/{sketch}"]),
                    Figure(f"gap {metric}", SCHEMES["TQ-KV"]),
                ),
                AT_LEAST_1,
            )


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="budget-2",
        sentence="At b = 2 nobody dominates: SQ wins on low rank, TQ-KV on heavy tails, and "
        "Plain-KV is on a par on isotropic data.",
        source="paper B, results",
        standing="reported",
        needs=("scalar", "turboquant-mse", *SPECTRAL),
        meaning="",
        questions=(
            Question(
                "SQ wins on low rank",
                tuple(
                    item
                    for other in ("TQ-KV", "Plain-KV")
                    for item in _against(
                        other, "SQU-KV", 2, AT_LEAST_1, "low-rank", "low-rank-apart"
                    )
                ),
            ),
            Question(
                "TQ-KV wins on heavy tails",
                tuple(
                    item
                    for other in ("Plain-KV", "SQU-KV")
                    for item in _against(
                        other, "TQ-KV", 2, AT_LEAST_1, "heavy-tailed", "very-heavy-tailed"
                    )
                ),
            ),
            Question(
                "Plain-KV on a par on isotropic data",
                tuple(_against("Plain-KV", "TQ-KV", 2, within(1, 0.05), "isotropic")),
            ),
            Question(
                "elsewhere",
                tuple(
                    item
                    for other in ("Plain-KV", "SQU-KV", "SQW-KV")
                    for item in _against(
                        other, "TQ-KV", 2, AT_LEAST_1, "focused", "power-law", "tensors"
                    )
                ),
                aside=True,
            ),
            Question(
                "QJL on the semantic part alone",
                tuple(
                    item
                    for sketched in ("SQU-QKV", "SQU-KQV")
                    for bits in (2, 4)
                    for item in _against(sketched, "SQU-KV", bits, AT_LEAST_1, *POPULATIONS)
                ),
                aside=True,
            ),
        ),
    ),
    PaperClaim(
        id="budget-4",
        sentence="At b >= 4 TQ-KV leads in most regimes.",
        source="paper B, results",
        standing="reported",
        needs=("scalar", *ROTATED, *SPECTRAL),
        meaning="",
        questions=(
            Question(
                "no other is 10 % better in the output's d^2", over_populations(_leads), "mostly"
            ),
        ),
    ),
    PaperClaim(
        id="ablation-8",
        sentence="Of the eight {rotation} x {QJL on K} x {QJL on V} variants three are "
        "non-dominated: Plain-KV, TQ-KV, TQ-QKV.",
        source="paper B, section 1",
        standing="reported",
        needs=("scalar", "scalar-prod", *ROTATED),
        meaning="",
        questions=(
            Question(
                "TQ-QKV is better than TQ-KV somewhere",
                _pairs(("TQ-KV", "TQ-QKV"), band=AT_LEAST_1),
                "somewhere",
            ),
            Question(
                "Plain-KV is not behind TQ-KV everywhere",
                _pairs(("TQ-KV", "Plain-KV"), band=TIED),
                "somewhere",
            ),
            Question(
                "the four with QJL on V are nowhere better than TQ-KV",
                _pairs(
                    ("Plain-KQV", "TQ-KV"),
                    ("Plain-QKQV", "TQ-KV"),
                    ("TQ-KQV", "TQ-KV"),
                    ("TQ-QKQV", "TQ-KV"),
                    band=TIED,
                ),
            ),
            Question(
                "Plain-QKV is nowhere better than TQ-QKV",
                _pairs(("Plain-QKV", "TQ-QKV"), band=TIED),
            ),
        ),
    ),
    PaperClaim(
        id="v-qjl",
        sentence="Paper A: QJL on V helps (KQV is best). Paper B: QJL on V always hurts.",
        source="paper A, section 2; paper B, section 1",
        standing="contested",
        needs=ROTATED,
        meaning="",
        questions=(
            Question("output error of KQV over TQ-KV", over_populations(_qjl_on_v)),
            Question("where tokens share a part of V", tuple(_qjl_on_shared_v())),
            Question("error of V itself", over_populations(_qjl_on_v_itself)),
        ),
    ),
    PaperClaim(
        id="storage",
        sentence="SQ stores less at high budgets; on long contexts its tail error accumulates.",
        source="paper B, results",
        standing="reported",
        needs=("turboquant-mse", *SPECTRAL),
        meaning="",
        questions=(
            Question("SQ stores less at n = 4 and 6", tuple(_stored()), "somewhere"),
            Question(
                "its error grows against TQ's with the context", tuple(_accumulates()), "somewhere"
            ),
        ),
    ),
    PaperClaim(
        id="two-generators",
        sentence="Two correct implementations with unrelated generators (PCG64, MT19937) cannot "
        "be told apart by KS; the spread between them is larger for TQ-QKV than for TQ-KV.",
        source="paper B, section 2",
        standing="derived",
        needs=ROTATED,
        meaning="The backend's errors follow another law than the reference's.",
        questions=(
            Question("distance from the reference with MT19937", tuple(_same())),
            Question("mean squared gap, TQ-QKV over TQ-KV", tuple(_spread())),
        ),
        unit="a trial: fresh rotation and sketch from either generator, and fresh data",
    ),
)
