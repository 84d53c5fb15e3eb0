"""The claims that studies decide: attention, regimes and SpectralQuant.

A claim asks one or more questions, and a question is a list of quantities: means of a study's
figures over its trials, each with a band that the claim says it lies in. Quantities of
theorem and derived claims are judged at a share of the run's false-alarm budget and make a
verdict; those of a reported or contested question share 5 % and make an outcome, which no
backend can fail.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance import statistics, studies
from kvassay.conformance.claims import Standing
from kvassay.conformance.statistics import Band, Interval
from kvassay.conformance.studies import (
    BITS,
    DIRECTION_DIMS,
    FILLED,
    MSE,
    PROD,
    ROTATED_HALVES,
    SCALAR,
    SKETCHES,
    TAILS,
    TOGETHER,
    UNIFORM,
)
from kvassay.reference import regimes, theory
from kvassay.reference.schemes import Half

Array = NDArray[np.float64]
Method = Literal[
    "mean",
    "ratio",
    "geometric",
    "difference",
    "worst",
    "squares",
    "least",
    "jackknife",
    "rank",
    "distance",
    "energy",
]

POPULATIONS = (*regimes.REGIMES, "tensors")
SCATTERED = ("isotropic", "heavy-tailed", "very-heavy-tailed")
OTHERS = tuple(name for name in POPULATIONS if name not in SCATTERED)
AT_LEAST_1 = Band(1, inf)
TIED = Band(0.9, inf)  # no better, but for a tie: 10 % in d^2 are 5 % in the size of the error


@dataclass(frozen=True)
class Quantity:
    """One number that the claim makes a statement about.

    `figures` are names of the study's figures, `method` what is made of them:
      "mean"       mean of the one
      "ratio"      mean of the first over mean of the second
      "geometric"  the same of the means of their logarithms
      "difference" mean of the first less the second
      "worst"      the largest of the one
      "squares"    mean square of the first over mean square of the second
      "least"      the least "geometric" of the others over the first
      "jackknife"  `function` of them all over the trials, with a jackknife interval
      "rank"       two samples: rank-biserial correlation (Mann-Whitney)
      "distance"   two samples: Kolmogorov-Smirnov distance and its test
      "energy"     two 6-D samples: energy distance and its permutation test
    It lies in `band` if the claim holds. `predicted` is what theory says, `paper` the figure
    that the paper gives.
    """

    where: str
    study: str
    method: Method
    figures: tuple[str, ...]
    band: Band
    predicted: float | None = None
    paper: float | None = None
    function: Callable[[Array], float] | None = None

    def interval(self, columns: list[Array], alpha: float) -> tuple[Interval, float | None]:
        """Estimate and 1 - alpha interval from the figures over the trials, and the p-value
        of the two-sample methods."""
        first, second = columns[0], columns[-1]
        ones = np.ones(len(first))
        if self.method == "mean":
            return statistics.ratio_interval(first, ones, alpha), None
        if self.method == "ratio":
            return statistics.ratio_interval(first, second, alpha), None
        if self.method == "geometric":
            logs = np.log(first) - np.log(second)
            return statistics.exponential(statistics.ratio_interval(logs, ones, alpha)), None
        if self.method == "difference":
            return statistics.ratio_interval(first - second, ones, alpha), None
        if self.method == "worst":
            return statistics.worst_interval([float(value) for value in first]), None
        if self.method == "squares":
            return statistics.ratio_interval(first**2, second**2, alpha), None
        if self.method == "least":
            return statistics.least_ratio_interval(columns[1:], first, alpha), None
        if self.method == "distance":
            return statistics.distance_interval(first, second, alpha)
        if self.method == "rank":
            # Every other trial of either, since both share a trial's data.
            return statistics.rank_interval(first[::2], second[1::2], alpha)
        if self.method == "energy":
            return _energy_interval(np.stack(columns), alpha)
        assert self.function is not None
        return statistics.jackknife_interval(self.function, np.stack(columns), alpha), None


@dataclass(frozen=True)
class Question:
    """One thing that the claim says. It is so if all its quantities lie in their bands
    ("everywhere"), more than half ("mostly"), or one ("somewhere"). An `aside` is shown and
    does not count."""

    text: str
    quantities: tuple[Quantity, ...]
    holds: Literal["everywhere", "mostly", "somewhere"] = "everywhere"
    standing: Standing | None = None
    aside: bool = False


@dataclass(frozen=True)
class PaperClaim:
    """One sentence of a paper that studies decide. A question's standing is the claim's, or
    its own where the paper only reports that part. `kills` are the faults (of
    `conformance/faults.py`) that the first study with a judged quantity must catch."""

    id: str
    sentence: str
    source: str
    standing: Standing
    needs: tuple[str, ...]
    meaning: str
    questions: tuple[Question, ...] = field(repr=False)
    kills: tuple[str, ...] = ()
    unit: str = "a trial: fresh data, rotation and sketch"

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies that it takes, in their order."""
        used = {item.study for question in self.questions for item in question.quantities}
        return tuple(name for name in studies.STUDIES if name in used)

    def standing_of(self, question: Question) -> Standing:
        """The standing of one question."""
        return question.standing or self.standing


def within(value: float, share: float) -> Band:
    """The values within a share of `value`."""
    return Band(value * (1 - share), value * (1 + share))


def _where(name: str) -> str:
    return "real tensors" if name == "tensors" else name


def _populations(
    make: Callable[[str], tuple[Quantity, ...]], names: tuple[str, ...] = POPULATIONS
) -> tuple[Quantity, ...]:
    return tuple(quantity for name in names for quantity in make(name))


def _by_sketch(
    name: str,
    method: Method,
    figures: Callable[[str, int], tuple[str, str]],
    band: Band,
    bits: tuple[int, ...] = BITS,
    *,
    predicted: Callable[[str, int], float] | None = None,
    paper: float | None = None,
) -> tuple[Quantity, ...]:
    """A quantity of one population for each sketch and width. `figures` and `predicted` are
    those of a sketch at a width; theory's hold where queries are not in the keys' directions.
    """
    known = predicted if name in SCATTERED else None
    return tuple(
        Quantity(
            f"{_where(name)}, {sketch}" + f", n={width}" * (len(bits) > 1),
            f"population/{name}",
            method,
            figures(sketch, width),
            band,
            known(sketch, width) if known else None,
            paper,
        )
        for sketch in SKETCHES
        for width in bits
    )


def _softmax(
    method: Method,
    figures: tuple[str, ...],
    band: Band,
    bits: tuple[int, ...],
    predicted: float | None = None,
    label: str = "",
) -> Iterator[Quantity]:
    """A quantity of the softmax study for each rotated codec and width."""
    for half in ROTATED_HALVES:
        for width in bits:
            yield Quantity(
                f"{label}{half}, n={width}",
                "softmax",
                method,
                tuple(f"{figure} {half} {width}" for figure in figures),
                band,
                predicted,
            )


# Attention --------------------------------------------------------------------------------


def _jensen() -> Iterator[Quantity]:
    predicted = theory.jensen_inflation(studies.JENSEN**2)
    # Not at 6 bits: rare overloads carry the error there, which is far from Gaussian.
    return _softmax("mean", ("inflation",), within(predicted, 0.02), (2, 4), predicted)


def _kl_is_half_variance() -> Iterator[Quantity]:
    for half in ROTATED_HALVES:
        for bits in (4, 6):
            # The next cumulants are smaller than the second by its own order.
            delta = 0.02 + theory.product_variance(128, bits, half.kind, half.sketch or "gaussian")
            yield Quantity(
                f"{half}, n={bits}",
                "softmax",
                "ratio",
                (f"kl {half} {bits}", f"half-variance {half} {bits}"),
                within(1, delta),
                1.0,
            )


def _kl_ratio_is_variance_ratio() -> Iterator[Quantity]:
    for sketch, half in PROD.items():
        for bits in (4, 6):
            predicted = theory.two_pi(128, bits, sketch)
            delta = 0.05 + theory.product_variance(128, bits, half.kind, sketch)
            yield Quantity(
                f"{sketch}, n={bits}",
                "softmax",
                "ratio",
                (f"kl {half} {bits}", f"kl {MSE} {bits}"),
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
            f"{_where(name)}, {half}, n={bits}",
            f"population/{name}",
            "ratio",
            (f"kl {half} {bits}", f"kl-predicted {half} {bits}"),
            within(1, 0.15),
            1.0,
        )
        for half in halves
        for bits in (4, 6)
    )


def _kl_order(name: str) -> tuple[Quantity, ...]:
    return _by_sketch(name, "geometric", _kl_with_and_without, AT_LEAST_1)


def _kl_with_and_without(sketch: str, bits: int) -> tuple[str, str]:
    return f"kl {PROD[sketch]} {bits}", f"kl {MSE} {bits}"


def _recall_order(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[str, str]:
        return f"recall {MSE} {bits}", f"recall {PROD[sketch]} {bits}"

    return _by_sketch(name, "difference", figures, Band(-0.03, inf))


def _direction_order(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[str, str]:
        return f"phi-t TQ-QKQV/{sketch} {bits}", f"phi-t TQ-KQV/{sketch} {bits}"

    return _by_sketch(name, "geometric", figures, Band(0.95, inf))


def _orders(where: str, names: tuple[str, ...], standing: Standing | None) -> Iterator[Question]:
    for what, order in (
        ("KL of QKQV over KQV", _kl_order),
        ("top-5 recall of KQV less QKQV", _recall_order),
        ("output direction error of QKQV over KQV", _direction_order),
    ):
        yield Question(f"{what}, {where}", _populations(order, names), standing=standing)


def _gap(name: str) -> tuple[Quantity, ...]:
    return _by_sketch(
        name,
        "geometric",
        _kl_with_and_without,
        within(2.25, 0.1),
        (4,),
        predicted=_two_pi,
        paper=2.25,
    )


def _two_pi(sketch: str, bits: int) -> float:
    return theory.two_pi(128, bits, sketch)


def _separation(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[str, str]:
        return f"kl {MSE} {bits}", f"kl {PROD[sketch]} {bits}"

    return _by_sketch(name, "rank", figures, Band(-1, -0.9), (4,), paper=-0.983)


def _worst_over_mean() -> Iterator[Quantity]:
    # For small errors KL is |q|^2 times the variance of errors per length, so that the largest
    # |q|^2 of the queries alone makes it exceed its mean; half of that excess is asked for.
    excess = theory.largest_squared_norm(128, 256) - 1
    return _softmax("ratio", ("kl-max", "kl"), Band(1 + excess / 2, inf), (2, 4))


def _as_gaussian(label: str, figure: str) -> Iterator[Quantity]:
    # Not at more bits: rare overloads of the table, or the length of S q, which all scores of
    # a query share, then make a tail that Gaussian noise does not have.
    figures = (figure, f"predicted-{figure.removeprefix('kl-')}")
    return _softmax("ratio", figures, within(1, 0.25), (2,), 1.0, f"{label}, ")


def _crossover(better: tuple[int, ...], band: Band) -> Iterator[Quantity]:
    for dim in DIRECTION_DIMS:
        for where in studies.direction_populations(dim):
            for sketch, half in PROD.items():
                for bits in better:
                    yield Quantity(
                        f"d={dim}, {where}, {sketch}, n={bits}",
                        f"direction/d={dim}",
                        "ratio",
                        (f"phi-k {half} {bits}, {where}", f"phi-k {MSE} {bits}, {where}"),
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
                (f"phi-k {half} {bits}", f"phi-k {MSE} {bits}"),
                band,
            )


def _dominates(figure: str) -> Callable[[str], tuple[Quantity, ...]]:
    """Whether KQV has a lower figure of its keys than KV and QKQV, at n = 4."""
    others = {"KV": SCALAR, "QKQV": PROD["orthogonal"]}

    def make(name: str) -> tuple[Quantity, ...]:
        return tuple(
            Quantity(
                f"{_where(name)}, against {other}",
                f"population/{name}",
                "geometric",
                (f"{figure} {half} 4", f"{figure} {MSE} 4"),
                AT_LEAST_1,
            )
            for other, half in others.items()
        )

    return make


def _six_d(scheme: str, k: str, v: str, bits: int) -> tuple[str, ...]:
    return (
        f"relmse-k {k} {bits}",
        f"relmse-v {v} {bits}",
        f"relmse-t {scheme} {bits}",
        f"phi-k {k} {bits}",
        f"phi-v {v} {bits}",
        f"phi-t {scheme} {bits}",
    )


def _energy(name: str) -> tuple[Quantity, ...]:
    prod = str(PROD["orthogonal"])
    clouds = {
        "KV": _six_d("Plain-KV", str(SCALAR), str(SCALAR), 4),
        "QKQV": _six_d("TQ-QKQV/orthogonal", prod, prod, 4),
    }
    own = _six_d("TQ-KQV/orthogonal", str(MSE), prod, 4)
    fine = _six_d("TQ-KV", str(MSE), str(MSE), 6)
    return tuple(
        Quantity(
            f"{_where(name)}, against {other}",
            f"population/{name}",
            "jackknife",
            (*cloud, *own, *fine),
            AT_LEAST_1,
            function=_energy_ratio,
        )
        for other, cloud in clouds.items()
    )


def _told_apart(name: str) -> tuple[Quantity, ...]:
    prod = str(PROD["orthogonal"])
    figures = (
        *_six_d("TQ-KQV/orthogonal", str(MSE), prod, 4),
        *_six_d("TQ-QKQV/orthogonal", prod, prod, 4),
    )
    place = f"{_where(name)}, KQV and QKQV"
    return (Quantity(place, f"population/{name}", "energy", figures, Band(1e-9, inf)),)


def _energy_interval(columns: Array, alpha: float) -> tuple[Interval, float]:
    """Energy distance of two clouds; the low end is 0 where the permutation test does not
    reject. The permutations are the same each time."""
    first, second = _cloud(columns[:6]), _cloud(columns[6:])
    distance, p = statistics.energy_distance(first, second, np.random.default_rng(0))
    spread = statistics.jackknife_interval(_energy_of_two, columns, alpha)
    low = max(spread.low, 1e-9) if p < alpha else 0.0
    return Interval(distance, min(low, distance), max(spread.high, distance)), p


def _energy_of_two(columns: Array) -> float:
    first, second = _clouds(columns)
    return statistics.energy(first, second)


def _energy_ratio(columns: Array) -> float:
    """6-D energy distance of the first cloud from the third over that of the second."""
    first, second, fine = _clouds(columns)
    return statistics.energy(first, fine) / statistics.energy(second, fine)


def _clouds(columns: Array) -> Array:
    """The clouds of six columns each, on one scale: all have a standard deviation of 1."""
    clouds = np.stack([_cloud(columns[i : i + 6]) for i in range(0, len(columns), 6)])
    return np.asarray(clouds / np.std(clouds, axis=(0, 1)))


def _cloud(columns: Array) -> Array:
    snr = -10 * np.log10(columns[:3])
    return np.vstack([snr, columns[3:]]).T


# Regimes and SpectralQuant ----------------------------------------------------------------


def _flat() -> Iterator[Quantity]:
    predicted = theory.mse_direction_error(128, 4)
    for where in ("isotropic", *(f"nu={nu:g}" for nu in TAILS)):
        # Few loud coordinates make few-valued rotated ones, which can lie better or worse
        # between the levels; a Haar rotation would give the prediction itself.
        yield Quantity(
            where,
            "direction/d=128",
            "mean",
            (f"phi-k {MSE} 4, {where}",),
            Band(0.8 * predicted, 1.05 * predicted),
            predicted,
        )


def _unprotected() -> Iterator[Quantity]:
    for nu in (1.2, 1.05):
        yield Quantity(
            f"nu={nu:g}, KV over KQV",
            "direction/d=128",
            "ratio",
            (f"phi-k {SCALAR} 4, nu={nu:g}", f"phi-k {MSE} 4, nu={nu:g}"),
            Band(3, inf),
        )


def _figure_0027() -> Iterator[Quantity]:
    for dim in DIRECTION_DIMS:
        for where in ("isotropic", "nu=1.05"):
            yield Quantity(
                f"d={dim}, {where}",
                f"direction/d={dim}",
                "mean",
                (f"phi-k {MSE} 4, {where}",),
                Band(0.0265, 0.0275),
                theory.mse_direction_error(dim, 4) if where == "isotropic" else None,
                0.027,
            )


def _pathology(
    low: str, heavy: str, figures: tuple[str, ...] = ("kl", "kl-max")
) -> Iterator[Quantity]:
    for figure in figures:
        for half in ROTATED_HALVES:
            yield Quantity(
                f"{figure}, {half}, {low} over {heavy}",
                "pathology",
                "ratio",
                (f"{figure} {half} 4, {low}", f"{figure} {half} 4, {heavy}"),
                Band(10, inf),
            )


def _marginals() -> Iterator[Quantity]:
    for where in ("low-rank", "heavy-tailed"):
        yield Quantity(
            f"{where}, distance from the Beta law",
            "pathology",
            "mean",
            (f"marginal, {where}",),
            Band(0, 0.05),
            0.0,
        )


def _shifted() -> Iterator[Quantity]:
    for half in ROTATED_HALVES:
        yield Quantity(
            f"share of queries, {half}, K a product of Gaussian matrices",
            "pathology",
            "mean",
            (f"shifts {half} 4, low-rank product",),
            Band(0.01, 1),
        )


def _cure() -> Iterator[Quantity]:
    yield Quantity(
        "d=1024, n=4, worst KL of KQV over SQU",
        "pathology",
        "ratio",
        (f"kl-max {MSE} 4, low-rank product", f"kl-max {UNIFORM} 4, low-rank product"),
        Band(10, inf),
    )
    for name in ("low-rank", "low-rank-apart"):
        for bits in BITS:
            yield Quantity(
                f"d=128, {name}, n={bits}, worst KL of KQV over SQU",
                f"population/{name}",
                "ratio",
                (f"kl-max {MSE} {bits}", f"kl-max {UNIFORM} {bits}"),
                Band(10, inf),
            )


def _more_bits(where: str, tokens: int) -> Iterator[Quantity]:
    where = f"{where} calibration={tokens}"
    for half in (UNIFORM, FILLED):
        yield Quantity(
            f"{half}, {where}: error at 6 bits over TurboQuant's at 2",
            "heavy-tails",
            "ratio",
            (f"relmse-k {half} 6, {where}", f"relmse-k {MSE} 2, {where}"),
            AT_LEAST_1,
        )
        yield Quantity(
            f"{half}, {where}: error at 6 bits over its own at 2",
            "heavy-tails",
            "ratio",
            (f"relmse-k {half} 6, {where}", f"relmse-k {half} 2, {where}"),
            Band(0.5, inf),
        )


def _structured(half_of: dict[str, str]) -> Iterator[Quantity]:
    for name in ("low-rank", "low-rank-apart"):
        for place in ("k", "v"):
            for label, half in half_of.items():
                for bits in (2, 3):
                    yield Quantity(
                        f"{name}, {place.upper()}, {label}, n={bits}: TQ over SQ",
                        f"population/{name}",
                        "ratio",
                        (f"relmse-{place} {MSE} {bits}", f"relmse-{place} {half} {bits}"),
                        AT_LEAST_1,
                    )


def _no_gain(name: str) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(
            f"{_where(name)}, n={bits}: uniform over water-filled",
            f"population/{name}",
            "ratio",
            (f"relmse-k {UNIFORM} {bits}", f"relmse-k {FILLED} {bits}"),
            within(1, 0.01),
            1.0,
        )
        for bits in (2, 3, 4)
    )


def _gain_by_ratio(label: str) -> Iterator[Quantity]:
    for ratio in studies.RATIOS:
        for bits in (2, 3, 4):
            where = f"ratio={ratio} {label}"
            yield Quantity(
                f"eigenvalue ratio {ratio}, n={bits}: uniform over water-filled",
                "water-filling",
                "ratio",
                (f"relmse-k {UNIFORM} {bits}, {where}", f"relmse-k {FILLED} {bits}, {where}"),
                Band(1.01, inf),
            )


def _effective_dims() -> Iterator[Quantity]:
    for where, rank in (("isotropic", 128), ("rank=8", 8), ("rank=32", 32)):
        for tokens in studies.CALIBRATIONS:
            predicted = theory.calibrated_dim(rank, tokens)
            # d_eff is the participation ratio rounded up.
            yield Quantity(
                f"{where}, {tokens} tokens",
                "calibration",
                "mean",
                (f"d-eff {tokens}, {where}",),
                Band(predicted * 0.97, predicted * 1.03 + 1),
                predicted,
            )


def _ruined(band: Band) -> Iterator[Quantity]:
    for share in studies.SHARES[1:]:
        for bits in (2, 4):
            yield Quantity(
                f"{share:.1%} stray tokens, n={bits}: cosine of the output",
                "spurious",
                "mean",
                (f"cosine-t {bits}, stray={share:g} as calibrated",),
                band,
            )


def _pruned(rule: str) -> Iterator[Quantity]:
    for share in studies.SHARES[1:]:
        for bits in (2, 4):
            yield Quantity(
                f"{share:.1%} stray tokens, n={bits}: error of K as calibrated over {rule}",
                "spurious",
                "ratio",
                tuple(
                    f"relmse-k {bits}, stray={share:g} {name}" for name in ("as calibrated", rule)
                ),
                Band(1.1, inf),
            )


def _against(first: str, second: str, bits: int, band: Band, *names: str) -> Iterator[Quantity]:
    """d^2 of the output under the first scheme over that under the second."""
    for name in names:
        yield Quantity(
            f"{_where(name)}, n={bits}: {first} over {second}",
            f"population/{name}",
            "geometric",
            (f"d2-t {first} {bits}", f"d2-t {second} {bits}"),
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
            f"{_where(name)}, n={bits}: the best other scheme over TQ-KV",
            f"population/{name}",
            "least",
            (f"d2-t TQ-KV {bits}", *(f"d2-t {rival} {bits}" for rival in RIVALS)),
            TIED,
        )
        for bits in (4, 6)
    )


def _variant(name: str, sketch: str, bits: int) -> str:
    """The figure of one of the eight variants."""
    plain = name.removeprefix("Plain").removeprefix("TQ") == "-KV"
    return f"d2-t {name} {bits}" if plain else f"d2-t {name}/{sketch} {bits}"


def _pairs(*pairs: tuple[str, str], band: Band) -> tuple[Quantity, ...]:
    """d^2 of the output under the first of each pair over that under the second."""
    return tuple(
        Quantity(
            f"{_where(name)}, {sketch}, n={bits}: {first} over {second}",
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
    def figures(sketch: str, bits: int) -> tuple[str, str]:
        return f"relmse-t TQ-KQV/{sketch} {bits}", f"relmse-t TQ-KV {bits}"

    return _by_sketch(name, "geometric", figures, AT_LEAST_1)


def _qjl_on_v_itself(name: str) -> tuple[Quantity, ...]:
    def figures(sketch: str, bits: int) -> tuple[str, str]:
        return f"relmse-v {PROD[sketch]} {bits}", f"relmse-v {MSE} {bits}"

    return _by_sketch(name, "geometric", figures, AT_LEAST_1, predicted=_two_pi)


def _qjl_on_shared_v() -> Iterator[Quantity]:
    for share in studies.V_MEANS:
        for std in studies.SCORE_STDS:
            where = f"mean={share:g} score-std={std:g}"
            for sketch, half in PROD.items():
                for bits in (2, 3, 4):
                    yield Quantity(
                        f"{share:.0%} of V shared, scores {std:g}, {sketch}, n={bits}",
                        "values",
                        "ratio",
                        (f"relmse-t {half} {bits}, {where}", f"relmse-t {MSE} {bits}, {where}"),
                        AT_LEAST_1,
                    )


def _stored() -> Iterator[Quantity]:
    for where in ("stays", "drifts"):
        for bits in (4, 6):
            yield Quantity(
                f"power law that {where}, n={bits}: bytes of TQ over SQ",
                "context",
                "ratio",
                (f"bytes {MSE} {bits}, {where}", f"bytes {UNIFORM} {bits}, {where}"),
                Band(1.01, inf),
            )


def _accumulates() -> Iterator[Quantity]:
    for where in ("stays", "drifts"):
        for bits in (2, 4, 6):
            long, short = f"N={studies.LENGTHS[-1]}", f"N={studies.LENGTHS[0]}"
            yield Quantity(
                f"power law that {where}, n={bits}: SQ over TQ at {long} against {short}",
                "context",
                "jackknife",
                tuple(
                    f"relmse-t {half} {bits}, {where} {length}"
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
        for metric in studies.METRICS:
            yield Quantity(
                f"{name}, {metric}",
                "generators",
                "distance",
                (f"own {metric} {name}", f"peer {metric} {name}"),
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
                (f"gap {metric} TQ-QKV/{sketch}", f"gap {metric} TQ-KV"),
                AT_LEAST_1,
            )


SPECTRAL = ("spectral",)
ROTATED = ("turboquant-mse", "turboquant-prod")

CLAIMS: tuple[PaperClaim, ...] = (
    PaperClaim(
        id="jensen",
        sentence="A zero-mean score error of variance s^2 inflates E[exp] by exp(s^2/2).",
        source="paper A, section 1; paper B, section 2",
        standing="theorem",
        needs=ROTATED,
        meaning="The error of the scores has another variance than the theory gives, is not "
        "near Gaussian, or is not centred.",
        questions=(Question(f"E exp(s z) at s = {studies.JENSEN}", tuple(_jensen())),),
        kills=("A02", "C02"),
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
                    *_populations(_predicted, ("isotropic", "power-law")),
                    *_populations(
                        lambda name: _predicted(name, tuple(PROD.values())), ("low-rank", "focused")
                    ),
                ),
            ),
            Question(
                "the same where rare overloads, loud coordinates or real data make another law",
                (
                    *_populations(lambda name: _predicted(name, (MSE,)), ("low-rank", "focused")),
                    *_populations(_predicted, ("heavy-tailed", "very-heavy-tailed", "tensors")),
                ),
                aside=True,
            ),
        ),
        kills=("A02", "A-half-rows"),
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
        kills=("C-floor",),
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
        kills=("K-fewer-bits",),
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
            Question("KL of QKQV over KQV", _populations(_gap), "somewhere"),
            Question(
                "rank-biserial correlation, KQV to QKQV", _populations(_separation), aside=True
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
                tuple(_as_gaussian("maximum KL", "kl-max")),
            ),
            Question(
                "argmax shifts over those of Gaussian noise",
                tuple(_as_gaussian("argmax shifts", "shifts")),
            ),
        ),
        kills=("A-half-rows",),
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
                _populations(_dominates("kl")),
            ),
            Question(
                "K direction error over KQV's",
                _populations(_dominates("phi-k")),
            ),
            Question("6-D energy distance from TQ-KV at 6 bits, over KQV's", _populations(_energy)),
            Question(
                "6-D errors of KQV and QKQV told apart", _populations(_told_apart), aside=True
            ),
        ),
    ),
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
        kills=("B01",),
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
        kills=("L-no-floor",),
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
                tuple(_structured({"uniform": str(UNIFORM), "water-filling": str(FILLED)})),
            ),
            Question(
                "calibrated together", tuple(_structured({"together": str(TOGETHER)})), aside=True
            ),
        ),
        kills=("L-rising",),
    ),
    PaperClaim(
        id="waterfilling-uniform",
        sentence="Water-filling gains nothing over uniform bits in the regimes tested.",
        source="paper B, section 3",
        standing="reported",
        needs=SPECTRAL,
        meaning="",
        questions=(
            Question("within 1 % of each other", _populations(_no_gain)),
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
        kills=("L-largest", "L-raw-tokens"),
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
            Question("no other is 10 % better in the output's d^2", _populations(_leads), "mostly"),
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
            Question("output error of KQV over TQ-KV", _populations(_qjl_on_v)),
            Question("where tokens share a part of V", tuple(_qjl_on_shared_v())),
            Question("error of V itself", _populations(_qjl_on_v_itself)),
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
        kills=("A02", "A-half-rows"),
    ),
)

BY_ID = {claim.id: claim for claim in CLAIMS}
