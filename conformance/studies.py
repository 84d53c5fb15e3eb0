"""Studies: what is measured to decide the claims about attention, regimes and SpectralQuant.

A study draws a population of (Q, K, V), quantizes it and returns named figures, once a trial.
The sampling unit is a trial: fresh data, rotation and sketch, all from one seed. Figures are
means over the queries or vectors of the trial; the claims in `papers` say what must hold of
their means over the trials.

Names of figures read "what, codec, bits[, where]": `kl turboquant-mse 4` is the mean KL
divergence of a trial whose keys were coded so. What a backend does not offer is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance import tensors
from kvassay.conformance.experiments import BackendFault, Effort, Judged
from kvassay.conformance.protocol import Backend
from kvassay.reference import attention, regimes, sphere, theory
from kvassay.reference.codecs import codec as reference_codec
from kvassay.reference.regimes import Regime, Sample
from kvassay.reference.schemes import TURBOQUANT, Half, Scheme, scheme
from kvassay.reference.spectral import calibrate, prune_by_gap

Array = NDArray[np.float64]
Figures = dict[str, float]

TRIALS: dict[Effort, int] = {"quick": 10, "standard": 40, "thorough": 200}
BITS = (2, 3, 4, 5, 6)
SKETCHES = ("gaussian", "orthogonal")

SCALAR, MSE = Half("scalar"), Half("turboquant-mse")
PROD = {sketch: Half("turboquant-prod", sketch) for sketch in SKETCHES}
ROTATED_HALVES = (MSE, *PROD.values())
UNIFORM, FILLED = Half("spectral", "", "uniform"), Half("spectral", "", "water-filling")


@dataclass(frozen=True)
class Study:
    """`measure(bench)` gives the figures of one trial; `repeats` trials for each of an
    effort's, where a trial is small."""

    id: str
    measure: Callable[["Bench"], Figures]
    repeats: int = 1

    @property
    def about(self) -> str:
        """What is measured, in a sentence."""
        measure = self.measure.func if isinstance(self.measure, partial) else self.measure
        return " ".join((measure.__doc__ or "").split("\n\n")[0].split())

    def trials(self, effort: Effort) -> int:
        """How many trials an effort has."""
        return TRIALS[effort] * self.repeats


@dataclass(frozen=True)
class Bench:
    """One trial of a study: the backend and the randomness, which follows from (seed, study,
    index) alone. `data` holds the real tensors, where a study uses them."""

    backend: Backend
    study: str
    seed: int
    index: int
    data: tensors.Tensors | None = None

    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for `purpose`; the same name gives the same numbers."""
        return np.random.Generator(np.random.PCG64(self._sequence(purpose)))

    def draw(self, regime: Regime, purpose: str = "data") -> Sample:
        """A sample of the regime, rounded to the float32 that codecs are given."""
        return rounded(regime.draw(self.rng(purpose)))

    def codec(self, half: Half, dim: int, bits: int, tensor: str, **options: Any) -> Judged | None:
        """The backend's codec for one tensor ("k" or "v"), or None where it offers none."""
        offered = self.backend.capabilities
        if half.kind not in offered.kinds or half.sketch not in ("", *offered.sketches):
            return None
        if half.sketch or half.kind == "spectral":
            options["sketch"] = half.sketch
        if half.kind == "spectral":
            options["allocation"] = half.allocation
        try:
            made = self.backend.codec(half.kind, dim, bits, self._codec_seed(tensor), **options)
        except NotImplementedError:
            return None
        whole = not half.sketch or offered.decode_includes_sketch
        if tensor.startswith("k") and not whole and not hasattr(made, "inner_products"):
            return None  # the sketch would not count
        return Judged(made, dim, whole)

    def _codec_seed(self, tensor: str) -> int:
        return int(self._sequence(f"codec {tensor}").generate_state(1)[0] >> 1)

    def _sequence(self, purpose: str) -> np.random.SeedSequence:
        key = (crc32(self.study.encode()), self.index, crc32(purpose.encode()))
        return np.random.SeedSequence(self.seed, spawn_key=key)


def rounded(sample: Sample) -> Sample:
    """The sample with every vector rounded to float32, as float64."""
    names = ("q", "k", "v", "calibration_k", "calibration_v")
    return replace(
        sample,
        **{name: getattr(sample, name).astype(np.float32).astype(np.float64) for name in names},
    )


def run(study: Study, bench: Bench) -> Figures:
    """The figures of one trial, to nine digits; none where the backend offers less than the
    study needs. BackendFault if one is not finite."""
    try:
        figures = study.measure(bench)
    except NotImplementedError:
        return {}
    for name, value in figures.items():
        if not isfinite(value):
            raise BackendFault(f"the answers make {name!r} infinite or undefined")
    return {name: float(f"{value:.9g}") for name, value in figures.items()}


@dataclass(frozen=True)
class Coded:
    """A tensor and what a codec made of it."""

    codec: Judged
    code: Any
    decoded: Array


def _code(codec: Judged, x: Array) -> Coded:
    vectors = x.astype(np.float32)
    code = codec.encode(vectors)
    return Coded(codec, code, codec.decode(code, len(x)))


def _estimates(coded: Coded, q: Array) -> Array:
    """Scores from the code, (M, N)."""
    count, dim = coded.decoded.shape
    return np.asarray(coded.codec.inner_products(q, coded.code, count) / np.sqrt(dim))


def _calibration(half: Half, sample: Sample, tensor: str) -> dict[str, Array]:
    if half.kind != "spectral":
        return {}
    if half.together:
        return {"calibration": np.vstack([sample.calibration_k, sample.calibration_v])}
    return {"calibration": getattr(sample, f"calibration_{tensor}")}


# Schemes over a population ----------------------------------------------------------------

TOGETHER = replace(UNIFORM, together=True)


def compared_schemes() -> Iterator[tuple[str, Scheme]]:
    """Each scheme that the population studies compare, with its name in the figures."""
    for sketch in SKETCHES:
        for name in TURBOQUANT:
            made = scheme(name, sketch)
            if made.k.sketch or made.v.sketch:
                yield f"{name}/{sketch}", made
            elif sketch == SKETCHES[0]:
                yield name, made
    for name in ("SQU-KV", "SQW-KV", "SQU-QKV", "SQU-KQV"):
        yield name, scheme(name)
    yield "SQU-KV/together", scheme("SQU-KV", together=True)


def population(bench: Bench, regime: Regime | None) -> Figures:
    """All schemes at 2 to 6 bits on one population: KL per query (mean and maximum), top-5
    recall, argmax shifts, and relative squared error, direction error and d^2 of K, V and the
    attention output T.

    With no regime, the real tensors: a trial draws one of their heads.
    """
    if regime is None:
        assert bench.data is not None
        regime = bench.data
    sample = bench.draw(regime)
    dim = sample.k.shape[1]
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k), sample.positions)
    output = np.exp(log_p) @ sample.v
    chosen = list(compared_schemes())
    figures: Figures = {}
    for bits in BITS:
        weights: dict[Half, Array] = {}
        values: dict[Half, Array] = {}
        for half in dict.fromkeys(item.k for _, item in chosen):
            codec = bench.codec(half, dim, bits, "k", **_calibration(half, sample, "k"))
            if codec is None:
                continue
            coded = _code(codec, sample.k)
            log_q = attention.log_softmax(_estimates(coded, sample.q), sample.positions)
            weights[half] = np.exp(log_q)
            kl = attention.kl_divergence(log_p, log_q)
            figures[f"kl {half} {bits}"] = float(kl.mean())
            figures[f"kl-max {half} {bits}"] = float(kl.max())
            if half in ROTATED_HALVES:
                figures[f"kl-predicted {half} {bits}"] = _predicted_kl(sample, log_p, half, bits)
                figures[f"recall {half} {bits}"] = float(attention.top_recall(log_p, log_q).mean())
                figures[f"shifts {half} {bits}"] = float(
                    attention.argmax_shifts(log_p, log_q).mean()
                )
            if codec.decode_complete:
                _errors(figures, "k", f"{half} {bits}", sample.k, coded.decoded)
        for half in dict.fromkeys(item.v for _, item in chosen):
            codec = bench.codec(half, dim, bits, "v", **_calibration(half, sample, "v"))
            if codec is None or not codec.decode_complete:
                continue
            values[half] = _code(codec, sample.v).decoded
            _errors(figures, "v", f"{half} {bits}", sample.v, values[half])
        for name, item in chosen:
            if item.k in weights and item.v in values:
                _errors(figures, "t", f"{name} {bits}", output, weights[item.k] @ values[item.v])
    return figures


def _predicted_kl(sample: Sample, log_p: Array, half: Half, bits: int) -> float:
    """Half the variance under p of score errors that are as theory says, independent over the
    keys: E Var_p = Var_p(mean) + sum p (1 - p) variance."""
    dim = sample.k.shape[1]
    lengths = np.linalg.norm(sample.q, axis=1)[:, None] * np.linalg.norm(sample.k, axis=1)
    cosine = np.clip(sample.q @ sample.k.T / np.where(lengths > 0, lengths, 1), -1, 1)
    mean, variance = theory.score_error(dim, bits, half.kind, cosine, half.sketch or "gaussian")
    scale, p = lengths / np.sqrt(dim), np.exp(log_p)
    centre = np.sum(p * mean * scale, axis=1, keepdims=True)
    spread = p * (mean * scale - centre) ** 2 + p * (1 - p) * variance * scale**2
    return float(np.mean(np.sum(spread, axis=1)) / 2)


def _errors(figures: Figures, place: str, name: str, exact: Array, other: Array) -> None:
    figures[f"relmse-{place} {name}"] = attention.relative_mse(exact, other)
    figures[f"phi-{place} {name}"] = attention.direction_error(exact, other)
    if place == "t":
        figures[f"d2-t {name}"] = attention.squared_distance(exact, other)


# Softmax ----------------------------------------------------------------------------------

JENSEN = 0.7  # standard deviation of the score errors that are put through exp
LINEAR = (0.5, 2.0, 4.0)
SURROGATES = 4


def softmax(bench: Bench) -> Figures:
    """What an error of the scores, or of V, does to attention on isotropic data, d = 128, at
    2, 4 and 6 bits; beside it the same with Gaussian noise of the predicted variance on the
    scores."""
    dim, tokens, queries = 128, 256, 256
    sample = bench.draw(regimes.Isotropic(dim=dim, tokens=tokens, queries=queries, calibration=2))
    norms = bench.rng("query norms").chisquare(dim, (queries, 1)) / dim  # of Gaussian queries
    sample = rounded(replace(sample, q=sample.q * np.sqrt(norms)))
    exact = attention.scores(sample.q, sample.k)
    log_p = attention.log_softmax(exact)
    p = np.exp(log_p)
    output = p @ sample.v
    lengths = np.linalg.norm(sample.q, axis=1)[:, None] * np.linalg.norm(sample.k, axis=1) / dim
    figures: Figures = {}
    for bits in (2, 4, 6):
        for half in ROTATED_HALVES:
            codec = bench.codec(half, dim, bits, "k")
            if codec is None:
                continue
            name = f"{half} {bits}"
            error = _estimates(_code(codec, sample.k), sample.q) - exact
            variance = theory.product_variance(dim, bits, half.kind, half.sketch or "gaussian")
            standard = error / (lengths * np.sqrt(variance))
            figures[f"inflation {name}"] = float(
                np.mean(np.exp(np.minimum(JENSEN * standard, 500)))
            )
            log_q = attention.log_softmax(exact + error)
            kl = attention.kl_divergence(log_p, log_q)
            mean = np.sum(p * error, axis=1, keepdims=True)
            figures[f"kl {name}"] = float(kl.mean())
            figures[f"half-variance {name}"] = float(
                np.mean(np.sum(p * (error - mean) ** 2, 1)) / 2
            )
            figures[f"kl-max {name}"] = float(kl.max())
            figures[f"shifts {name}"] = float(attention.argmax_shifts(log_p, log_q).mean())
            figures |= _surrogate(bench, name, half, exact, lengths, variance)
        for half in ROTATED_HALVES:
            codec = bench.codec(half, dim, bits, "v")
            if codec is None or not codec.decode_complete:
                continue
            error = _code(codec, sample.v).decoded - sample.v
            change = attention.attend(sample.q, sample.k, sample.v + error) - output
            size = np.sqrt(np.mean(change**2))
            figures[f"nonlinear {half} {bits}"] = (
                max(
                    float(
                        np.max(
                            np.abs(
                                attention.attend(sample.q, sample.k, sample.v + factor * error)
                                - output
                                - factor * change
                            )
                        )
                        / size
                    )
                    for factor in LINEAR
                )
                if size
                else 0.0
            )
            energy = np.sum(error**2, axis=1)
            figures[f"averaged {half} {bits}"] = float(np.sum(change**2))
            figures[f"independent {half} {bits}"] = float(np.sum(p**2 @ energy))
    return figures


def _surrogate(
    bench: Bench, name: str, half: Half, exact: Array, lengths: Array, variance: float
) -> Figures:
    """Maximum KL and argmax shifts with the slope's bias and independent Gaussian noise in
    place of the codec's error, averaged over a few draws."""
    bias = variance if not half.sketch else 0.0  # without a sketch the slope is 1 - D
    spread = np.sqrt(variance * (1 - variance)) if not half.sketch else np.sqrt(variance)
    rng = bench.rng(f"surrogate {name}")
    log_p = attention.log_softmax(exact)
    worst, shifts = [], []
    for _ in range(SURROGATES):
        noise = spread * lengths * rng.standard_normal(exact.shape)
        log_q = attention.log_softmax((1 - bias) * exact + noise)
        worst.append(attention.kl_divergence(log_p, log_q).max())
        shifts.append(attention.argmax_shifts(log_p, log_q).mean())
    return {
        f"predicted-max {name}": float(np.mean(worst)),
        f"predicted-shifts {name}": float(np.mean(shifts)),
    }


# Direction of K ---------------------------------------------------------------------------


DIRECTION_DIMS = (64, 128, 256, 1024)


def direction(bench: Bench, dim: int, populations: Mapping[str, Regime]) -> Figures:
    """Direction error of K, angle / pi, of all codecs without calibration at 2 to 6 bits, over
    tails and ranks.

    At the smallest dimension also how coordinates are distributed before and after rotation.
    """
    figures: Figures = {}
    for where, regime in populations.items():
        sample = bench.draw(regime, where)
        for bits in BITS:
            for half in (SCALAR, *ROTATED_HALVES):
                codec = bench.codec(half, dim, bits, f"k {where}")
                if codec is not None and codec.decode_complete:
                    decoded = _code(codec, sample.k).decoded
                    figures[f"phi-k {half} {bits}, {where}"] = attention.direction_error(
                        sample.k, decoded
                    )
        if dim == DIRECTION_DIMS[0] and (codec := bench.codec(MSE, dim, 4, f"k {where}")):
            figures |= _marginals(where, codec, sample.k)
    return figures


TAILS = (10.0, 5.0, 3.0, 2.0, 1.5, 1.2, 1.05)


def direction_populations(dim: int) -> dict[str, Regime]:
    """The populations of K whose direction error is measured at `dim`."""
    sizes: dict[str, Any] = {"dim": dim, "tokens": 128, "queries": 1, "calibration": 1}
    tails, ranks = (TAILS, (2, 4, 16, 64)) if dim == 128 else ((2.0, 1.05), (4,))
    return {
        "isotropic": regimes.Isotropic(**sizes),
        **{f"nu={nu:g}": regimes.HeavyTailed(nu=nu, **sizes) for nu in tails},
        **{f"rank={rank}": regimes.LowRank(rank=rank, **sizes) for rank in ranks},
    }


# Low rank at d = 1024 ---------------------------------------------------------------------


def pathology(bench: Bench) -> Figures:
    """Low-rank against heavy-tailed K at d = 1024 and 4 bits, queries in the keys' subspace: KL
    (mean and maximum), argmax shifts, and how far rotated coordinates are from their law.

    With norms of sqrt(d) low-rank scores are sqrt(d / rank) times as wide. "product" makes them
    those of K = Z B with Gaussian Z (N, rank), B (rank, d) and queries alike, whose norms are
    sqrt(rank) times as large; "narrow" has the spread of heavy-tailed scores, and "wide" gives
    heavy-tailed ones that of low-rank scores.
    """
    dim, rank, bits = 1024, 8, 4
    sizes: dict[str, Any] = {"dim": dim, "tokens": 256, "queries": 64, "calibration": 256}
    wide = float(np.sqrt(dim / rank))
    cases: dict[str, tuple[Regime, dict[str, float]]] = {
        "low-rank": (
            regimes.LowRank(rank=rank, **sizes),
            {"": 1.0, " product": float(rank), " narrow": 1 / wide},
        ),
        "heavy-tailed": (regimes.HeavyTailed(nu=3.0, **sizes), {"": 1.0, " wide": wide}),
    }
    figures: Figures = {}
    for where, (regime, factors) in cases.items():
        sample = bench.draw(regime, where)
        exact = attention.scores(sample.q, sample.k)
        exact_weights = {
            label: attention.log_softmax(factor * exact) for label, factor in factors.items()
        }
        for half in (*ROTATED_HALVES, UNIFORM):
            options = _calibration(half, sample, "k")
            codec = bench.codec(half, dim, bits, f"k {where}", **options)
            if codec is None:
                continue
            coded = _code(codec, sample.k)
            estimates = _estimates(coded, sample.q)
            for label, factor in factors.items():
                log_p = exact_weights[label]
                log_q = attention.log_softmax(factor * estimates)
                kl = attention.kl_divergence(log_p, log_q)
                name = f"{half} {bits}, {where}{label}"
                figures[f"kl {name}"] = float(kl.mean())
                figures[f"kl-max {name}"] = float(kl.max())
                figures[f"shifts {name}"] = float(attention.argmax_shifts(log_p, log_q).mean())
            if half == MSE:
                figures |= _marginals(where, codec, sample.k)
    return figures


DENSITY_EDGES = 0.3 * np.arange(-13, 14)  # of coordinates of unit vectors, times sqrt(d)


def _marginals(where: str, codec: Judged, x: Array) -> Figures:
    """Largest distance of the CDF of all rotated coordinates of unit vectors from the law, and
    the density of coordinates before and after the rotation, in bins."""
    try:
        rotated = codec.rotate(x.astype(np.float32))
    except NotImplementedError:
        return {}
    norms = np.linalg.norm(x, axis=1)[:, None]
    uniform = np.sort(sphere.cdf((rotated / norms).ravel(), x.shape[1]))
    steps = np.arange(1, uniform.size + 1) / uniform.size
    figures = {f"marginal, {where}": float(np.max(np.abs(uniform - steps)))}
    for name, vectors in (("given", x), ("rotated", rotated)):
        counts, _ = np.histogram(vectors / norms * np.sqrt(x.shape[1]), DENSITY_EDGES)
        shares = counts / vectors.size / np.diff(DENSITY_EDGES)
        figures |= {
            f"density {name} {place}, {where}": float(share) for place, share in enumerate(shares)
        }
    return figures


# SpectralQuant ----------------------------------------------------------------------------

CALIBRATIONS = (16, 64, 256, 1024)


def calibration(bench: Bench) -> Figures:
    """The effective dimension that a calibration on N tokens gives at d = 128, on isotropic
    and on low-rank keys, whose norms vary a hundredfold."""
    figures: Figures = {}
    for where, rank in (("isotropic", 128), ("rank=8", 8), ("rank=32", 32)):
        for tokens in CALIBRATIONS:
            regime = regimes.LowRank(rank=rank, dim=128, tokens=1, queries=1, calibration=tokens)
            sample = bench.draw(regime, f"{where} {tokens}")
            norms = 10 ** bench.rng(f"norms {where} {tokens}").uniform(-1, 1, (tokens, 1))
            codec = bench.codec(UNIFORM, 128, 4, "k", calibration=sample.calibration_k * norms)
            figures |= _semantic_dim(f"{tokens}, {where}", codec)
    return figures


def _semantic_dim(name: str, codec: Judged | None) -> Figures:
    found = getattr(codec.codec, "semantic_dim", None) if codec else None
    return {f"d-eff {name}": float(found)} if isinstance(found, (int, np.integer)) else {}


def heavy_tails(bench: Bench) -> Figures:
    """Relative squared error of K on heavy tails, and on isotropic data, at 2, 4 and 6 bits,
    d = 128: spectral, calibrated on few and on many tokens, against TurboQuant."""
    figures: Figures = {}
    for tokens in (32, 256):
        sizes: dict[str, Any] = {"dim": 128, "tokens": 256, "queries": 1, "calibration": tokens}
        cases: dict[str, Regime] = {
            f"nu={nu:g}": regimes.HeavyTailed(nu=nu, **sizes) for nu in (1.05, 2.0, 3.0)
        }
        for where, regime in {**cases, "isotropic": regimes.Isotropic(**sizes)}.items():
            sample = bench.draw(regime, f"{where} {tokens}")
            for half in (MSE, UNIFORM, FILLED):
                for bits in (2, 4, 6):
                    options = _calibration(half, sample, "k")
                    codec = bench.codec(half, 128, bits, "k", **options)
                    if codec is not None:
                        figures[f"relmse-k {half} {bits}, {where} calibration={tokens}"] = (
                            attention.relative_mse(sample.k, _code(codec, sample.k).decoded)
                        )
    return figures


RATIOS = (1, 2, 4, 8, 16, 64, 256, 1024)


def water_filling(bench: Bench) -> Figures:
    """Relative squared error with uniform and with water-filled bits, d = 128, over the ratio
    of the largest to the smallest eigenvalue inside a subspace of 64 dimensions, with d_eff as
    calibrated, and with all 64 directions kept, so that no tail hides the difference."""
    figures: Figures = {}
    for ratio in RATIOS:
        regime = regimes.LowRank(
            rank=64, ratio=float(ratio), dim=128, tokens=256, queries=1, calibration=1024
        )
        sample = bench.draw(regime, str(ratio))
        for kept, label in ((None, "d_eff"), (64, "all 64")):
            for bits in (2, 3, 4):
                for half in (UNIFORM, FILLED):
                    options = {"calibration": sample.calibration_k, "effective_dim": kept}
                    codec = bench.codec(half, 128, bits, "k", **options)
                    if codec is not None:
                        figures[f"relmse-k {half} {bits}, ratio={ratio} {label}"] = (
                            attention.relative_mse(sample.k, _code(codec, sample.k).decoded)
                        )
    return figures


SHARES = (0.0, 0.004, 0.1, 0.5, 0.9)


def spurious(bench: Bench) -> Figures:
    """Rank-8 keys at 2 and 4 bits, d = 128, where a share of the 256 calibration tokens is one
    direction that the data do not have: error and cosine of K and the attention output, as
    calibrated, cut back by the spectral-gap rule, and cut at the largest gap of all."""
    sample = bench.draw(regimes.LowRank(rank=8, dim=128, tokens=256, queries=64, calibration=256))
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k))
    output = np.exp(log_p) @ sample.v
    stray = bench.rng("stray").standard_normal(128)
    figures: Figures = {}
    for share in SHARES:
        tokens = sample.calibration_k.copy()
        tokens[: round(share * len(tokens))] = stray
        found = calibrate(tokens)
        rules = {
            "as calibrated": None,
            "pruned": prune_by_gap(found.spectrum, found.effective_dim),
            "gap of all": prune_by_gap(found.spectrum, found.dim - 2),
        }
        for rule, kept in rules.items():
            for bits in (2, 4):
                codec = bench.codec(UNIFORM, 128, bits, "k", calibration=tokens, effective_dim=kept)
                if codec is None:
                    continue
                coded = _code(codec, sample.k)
                log_q = attention.log_softmax(_estimates(coded, sample.q))
                where = f"{bits}, stray={share:g} {rule}"
                figures |= _semantic_dim(where, codec)
                figures[f"relmse-k {where}"] = attention.relative_mse(sample.k, coded.decoded)
                figures[f"cosine-k {where}"] = 1 - attention.cosine_error(sample.k, coded.decoded)
                figures[f"cosine-t {where}"] = 1 - attention.cosine_error(
                    output, np.exp(log_q) @ sample.v
                )
    return figures


LENGTHS = (128, 512, 2048)


def context(bench: Bench) -> Figures:
    """Bytes a vector and the error of the attention output as the context grows, d = 128, 2, 4
    and 6 bits, SQU-KV calibrated on 128 tokens against TQ-KV: on a power law that stays, and
    on one that has another eigenbasis, to which the queries belong, after 128 tokens."""
    figures: Figures = {}
    for where in ("stays", "drifts"):
        made = partial(regimes.PowerLaw, dim=128, calibration=128, queries=16)
        sample = bench.draw(made(tokens=LENGTHS[-1]), "data")
        if where == "drifts":
            later = bench.draw(made(tokens=LENGTHS[-1]), "later")
            k, v = later.k.copy(), later.v.copy()
            k[:128], v[:128] = sample.k[:128], sample.v[:128]
            sample = replace(sample, q=later.q, k=k, v=v)
        for bits in (2, 4, 6):
            for half in (MSE, UNIFORM):
                codecs = [
                    bench.codec(half, 128, bits, tensor, **_calibration(half, sample, tensor))
                    for tensor in ("k", "v")
                ]
                if codecs[0] is None or codecs[1] is None:
                    continue
                keys, values = _code(codecs[0], sample.k), _code(codecs[1], sample.v)
                estimate = _estimates(keys, sample.q)
                size = codecs[0].nbytes(keys.code) / len(sample.k)
                figures[f"bytes {half} {bits}, {where}"] = size
                for length in LENGTHS:
                    exact = attention.attend(sample.q, sample.k[:length], sample.v[:length])
                    weights = np.exp(attention.log_softmax(estimate[:, :length]))
                    figures[f"relmse-t {half} {bits}, {where} N={length}"] = attention.relative_mse(
                        exact, weights @ values.decoded[:length]
                    )
    return figures


# QJL on V, and two generators -------------------------------------------------------------

V_MEANS = (0.0, 0.5, 0.9)
SCORE_STDS = (0.3, 1.0, 4.0)


def values(bench: Bench) -> Figures:
    """The output's error with exact weights and quantized V, d = 128, 512 tokens, 2 to 4 bits,
    over how much of V all tokens share and how many tokens a query attends to."""
    figures: Figures = {}
    for share in V_MEANS:
        for std in SCORE_STDS:
            regime = regimes.Isotropic(
                dim=128, tokens=512, queries=64, calibration=1, v_mean=share, score_std=std
            )
            where = f"mean={share:g} score-std={std:g}"
            sample = bench.draw(regime, where)
            weights = np.exp(attention.log_softmax(attention.scores(sample.q, sample.k)))
            exact = weights @ sample.v
            figures[f"attended, {where}"] = float(np.mean(1 / np.sum(weights**2, axis=1)))
            for bits in (2, 3, 4):
                for half in ROTATED_HALVES:
                    codec = bench.codec(half, 128, bits, "v")
                    if codec is not None and codec.decode_complete:
                        decoded = _code(codec, sample.v).decoded
                        figures[f"relmse-t {half} {bits}, {where}"] = attention.relative_mse(
                            exact, weights @ decoded
                        )
    return figures


METRICS = ("kl", "phi-k", "relmse-v", "relmse-t", "phi-t")


def generators(bench: Bench) -> Figures:
    """TQ-KV and TQ-QKV at 3 bits, d = 64: the backend (its own generator) and the reference
    with MT19937, on the same data (their gap) and on data of its own (two samples)."""
    dim, bits = 64, 3
    regime = regimes.Isotropic(dim=dim, tokens=64, queries=16, calibration=1)
    figures: Figures = {}
    for name, half in (("TQ-KV", MSE), *((f"TQ-QKV/{s}", PROD[s]) for s in SKETCHES)):
        codecs = [bench.codec(half, dim, bits, "k"), bench.codec(MSE, dim, bits, "v")]
        if codecs[0] is None or codecs[1] is None or not codecs[0].decode_complete:
            continue
        seeds = bench.rng(f"MT19937 {name}").integers(2**31, size=2)
        peers = [_peer(half, dim, bits, int(seeds[0])), _peer(MSE, dim, bits, int(seeds[1]))]
        sample, other = bench.draw(regime, "data"), bench.draw(regime, "other data")
        own = _outcome(codecs[0], codecs[1], sample)
        same = _outcome(peers[0], peers[1], sample)
        apart = _outcome(peers[0], peers[1], other)
        for metric in METRICS:
            figures[f"own {metric} {name}"] = own[metric]
            figures[f"peer {metric} {name}"] = apart[metric]
            figures[f"gap {metric} {name}"] = own[metric] - same[metric]
    return figures


def _peer(half: Half, dim: int, bits: int, seed: int) -> Judged:
    options: dict[str, Any] = {"sketch": half.sketch} if half.sketch else {}
    made: Any = reference_codec(half.kind, dim, bits, seed, generator="MT19937", **options)
    return Judged(made, dim)


def _outcome(k_codec: Judged, v_codec: Judged, sample: Sample) -> Figures:
    keys, decoded = _code(k_codec, sample.k), _code(v_codec, sample.v).decoded
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k))
    log_q = attention.log_softmax(_estimates(keys, sample.q))
    exact, found = np.exp(log_p) @ sample.v, np.exp(log_q) @ decoded
    return {
        "kl": float(attention.kl_divergence(log_p, log_q).mean()),
        "phi-k": attention.direction_error(sample.k, keys.decoded),
        "relmse-v": attention.relative_mse(sample.v, decoded),
        "relmse-t": attention.relative_mse(exact, found),
        "phi-t": attention.direction_error(exact, found),
    }


STUDIES: dict[str, Study] = {
    study.id: study
    for study in (
        Study("softmax", softmax),
        *(
            Study(f"population/{name}", partial(population, regime=regime))
            for name, regime in regimes.REGIMES.items()
        ),
        Study("population/tensors", partial(population, regime=None)),
        *(
            Study(
                f"direction/d={dim}",
                partial(direction, dim=dim, populations=direction_populations(dim)),
            )
            for dim in DIRECTION_DIMS
        ),
        Study("pathology", pathology),
        Study("calibration", calibration, repeats=4),
        Study("heavy-tails", heavy_tails),
        Study("water-filling", water_filling),
        Study("spurious", spurious),
        Study("context", context),
        Study("values", values),
        Study("generators", generators, repeats=32),
    )
}
