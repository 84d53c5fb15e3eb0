"""Claims about SpectralQuant."""

from collections.abc import Iterator
from math import inf

from kvassay.conformance.claims.question import (
    AT_LEAST_1,
    SPECTRAL,
    PaperClaim,
    Quantity,
    Question,
    over_populations,
    place_name,
    within,
)
from kvassay.conformance.measure.spectral import CALIBRATIONS, RATIOS, SHARES
from kvassay.conformance.measure.study import FILLED, MSE, TOGETHER, UNIFORM, Figure
from kvassay.conformance.statistics.intervals import Band
from kvassay.reference import theory
from kvassay.reference.schemes import Half


def _more_bits(where: str, tokens: int) -> Iterator[Quantity]:
    where = f"{where} calibration={tokens}"
    for half in (UNIFORM, FILLED):
        yield Quantity(
            f"{half}, {where}: error at 6 bits over TurboQuant's at 2",
            "heavy-tails",
            "ratio",
            (Figure("relmse-k", half, 6, where), Figure("relmse-k", MSE, 2, where)),
            AT_LEAST_1,
        )
        yield Quantity(
            f"{half}, {where}: error at 6 bits over its own at 2",
            "heavy-tails",
            "ratio",
            (Figure("relmse-k", half, 6, where), Figure("relmse-k", half, 2, where)),
            Band(0.5, inf),
        )


def _structured(half_of: dict[str, Half]) -> Iterator[Quantity]:
    for name in ("low-rank", "low-rank-apart"):
        for place in ("k", "v"):
            for label, half in half_of.items():
                for bits in (2, 3):
                    yield Quantity(
                        f"{name}, {place.upper()}, {label}, n={bits}: TQ over SQ",
                        f"population/{name}",
                        "ratio",
                        (
                            Figure(f"relmse-{place}", MSE, bits),
                            Figure(f"relmse-{place}", half, bits),
                        ),
                        AT_LEAST_1,
                    )


def _no_gain(name: str) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{place_name(name)}, n={bits}: uniform over water-filled",
            f"population/{name}",
            "ratio",
            (Figure("relmse-k", UNIFORM, bits), Figure("relmse-k", FILLED, bits)),
            within(1, 0.01),
            1.0,
        )
        for bits in (2, 3, 4)
    )


def _gain_by_ratio(label: str) -> Iterator[Quantity]:
    for ratio in RATIOS:
        for bits in (2, 3, 4):
            where = f"ratio={ratio} {label}"
            yield Quantity(
                f"eigenvalue ratio {ratio}, n={bits}: uniform over water-filled",
                "water-filling",
                "ratio",
                (
                    Figure("relmse-k", UNIFORM, bits, where),
                    Figure("relmse-k", FILLED, bits, where),
                ),
                Band(1.01, inf),
            )


def _effective_dims() -> Iterator[Quantity]:
    for where, rank in (("isotropic", 128), ("rank=8", 8), ("rank=32", 32)):
        for tokens in CALIBRATIONS:
            predicted = theory.calibrated_dim(rank, tokens)
            # d_eff is the participation ratio rounded up.
            yield Quantity(
                f"{where}, {tokens} tokens",
                "calibration",
                "mean",
                (Figure("d-eff", None, tokens, where),),
                Band(predicted * 0.97, predicted * 1.03 + 1),
                predicted,
            )


def _ruined(band: Band) -> Iterator[Quantity]:
    for share in SHARES[1:]:
        for bits in (2, 4):
            yield Quantity(
                f"{share:.1%} stray tokens, n={bits}: cosine of the output",
                "spurious",
                "mean",
                (Figure("cosine-t", None, bits, f"stray={share:g} as calibrated"),),
                band,
            )


def _pruned(rule: str) -> Iterator[Quantity]:
    for share in SHARES[1:]:
        for bits in (2, 4):
            yield Quantity(
                f"{share:.1%} stray tokens, n={bits}: error of K as calibrated over {rule}",
                "spurious",
                "ratio",
                tuple(
                    Figure("relmse-k", None, bits, f"stray={share:g} {name}")
                    for name in ("as calibrated", rule)
                ),
                Band(1.1, inf),
            )


CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="sq-heavy-tail",
        sentence="Spectral fails on heavy tails, and more bits do not help.",
        source="paper B, section 3",
        standing="derived",
        needs=("turboquant-mse", *SPECTRAL),
        meaning="The tail gets more than its floor of bits, or the codec is not calibrated.",
        questions=(
            Question(
                "nu = 1.05 and 2, 32 calibration tokens",
                tuple(item for nu in ("nu=1.05", "nu=2") for item in _more_bits(nu, 32)),
            ),
            Question(
                "other tails and calibrations, and no tail at all",
                tuple(
                    item
                    for where, tokens in (
                        ("nu=1.05", 256),
                        ("nu=2", 256),
                        ("nu=3", 32),
                        ("nu=3", 256),
                        ("isotropic", 32),
                        ("isotropic", 256),
                    )
                    for item in _more_bits(where, tokens)
                ),
                aside=True,
            ),
        ),
    ),
    PaperClaim(
        id="sq-structured",
        sentence="On low-rank K and V at 2 and 3 bits spectral beats TQ when K and V are "
        "calibrated apart.",
        source="paper B, section 3",
        standing="derived",
        needs=("turboquant-mse", *SPECTRAL),
        meaning="The eigenbasis is not that of the calibration tokens, or the bits do not go "
        "to its leading directions.",
        questions=(
            Question(
                "calibrated apart",
                tuple(_structured({"uniform": UNIFORM, "water-filling": FILLED})),
            ),
            Question("calibrated together", tuple(_structured({"together": TOGETHER})), aside=True),
        ),
    ),
    PaperClaim(
        id="waterfilling-uniform",
        sentence="Water-filling gains nothing over uniform bits in the regimes tested.",
        source="paper B, section 3",
        standing="reported",
        needs=SPECTRAL,
        meaning="",
        questions=(
            Question("within 1 % of each other", over_populations(_no_gain)),
            Question(
                "a gain above 1 %, d_eff as calibrated", tuple(_gain_by_ratio("d_eff")), aside=True
            ),
            Question(
                "a gain above 1 %, all 64 directions kept",
                tuple(_gain_by_ratio("all 64")),
                aside=True,
            ),
        ),
    ),
    PaperClaim(
        id="d-eff-calibration",
        sentence="d_eff follows the calibration budget, not the rank: isotropic d N/(N + d - 1).",
        source="paper B, section 3",
        standing="derived",
        needs=SPECTRAL,
        meaning="The second moments are not those of unit-normalised tokens, or d_eff is not "
        "the participation ratio rounded up.",
        questions=(Question("d_eff at d = 128", tuple(_effective_dims())),),
    ),
    PaperClaim(
        id="spurious-eigenvalue",
        sentence="One spurious eigenvalue can ruin the output (anti-correlated); a spectral-gap "
        "rule prunes it.",
        source="paper B, section 3",
        standing="reported",
        needs=SPECTRAL,
        meaning="",
        questions=(
            Question(
                "the output is ruined, cosine below 1/2", tuple(_ruined(Band(-1, 0.5))), "somewhere"
            ),
            Question("the output is anti-correlated", tuple(_ruined(Band(-1, 0))), "somewhere"),
            Question(
                "pruning at the gap lowers the error by 10 %", tuple(_pruned("pruned")), "somewhere"
            ),
            Question(
                "cutting at the largest gap of the whole spectrum does",
                tuple(_pruned("gap of all")),
                aside=True,
            ),
        ),
    ),
)
