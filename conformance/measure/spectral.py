"""SpectralQuant: calibration, allocation, stray directions, drift."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kvassay.conformance.measure.study import (
    FILLED,
    MSE,
    UNIFORM,
    Figure,
    Figures,
    calibration_of,
    encoded,
    estimated_scores,
)
from kvassay.conformance.measure.trial import CheckedCodec, StudyTrial
from kvassay.reference import attention, regimes
from kvassay.reference.regimes import Regime
from kvassay.reference.spectral import calibrate, prune_by_gap

CALIBRATIONS = (16, 64, 256, 1024)


def calibration(trial: StudyTrial) -> Figures:
    """The effective dimension that a calibration on N tokens gives at d = 128, on isotropic
    and on low-rank keys, whose norms vary a hundredfold."""
    figures: Figures = {}
    for where, rank in (("isotropic", 128), ("rank=8", 8), ("rank=32", 32)):
        for tokens in CALIBRATIONS:
            regime = regimes.LowRank(rank=rank, dim=128, tokens=1, queries=1, calibration=tokens)
            sample = trial.draw(regime, f"{where} {tokens}")
            norms = 10 ** trial.rng(f"norms {where} {tokens}").uniform(-1, 1, (tokens, 1))
            codec = trial.codec(UNIFORM, 128, 4, "k", calibration=sample.calibration_k * norms)
            figures |= _semantic_dim(tokens, where, codec)
    return figures


def _semantic_dim(number: int, where: str, codec: CheckedCodec | None) -> Figures:
    found = getattr(codec.codec, "semantic_dim", None) if codec else None
    if not isinstance(found, (int, np.integer)):
        return {}
    return {Figure("d-eff", None, number, where): float(found)}


def heavy_tails(trial: StudyTrial) -> Figures:
    """Relative squared error of K on heavy tails, and on isotropic data, at 2, 4 and 6 bits,
    d = 128: spectral, calibrated on few and on many tokens, against TurboQuant."""
    figures: Figures = {}
    for tokens in (32, 256):
        sizes: dict[str, Any] = {"dim": 128, "tokens": 256, "queries": 1, "calibration": tokens}
        cases: dict[str, Regime] = {
            f"nu={nu:g}": regimes.HeavyTailed(nu=nu, **sizes) for nu in (1.05, 2.0, 3.0)
        }
        for where, regime in {**cases, "isotropic": regimes.Isotropic(**sizes)}.items():
            sample = trial.draw(regime, f"{where} {tokens}")
            for half in (MSE, UNIFORM, FILLED):
                for bits in (2, 4, 6):
                    options = calibration_of(half, sample, "k")
                    codec = trial.codec(half, 128, bits, "k", **options)
                    if codec is not None:
                        place = f"{where} calibration={tokens}"
                        figures[Figure("relmse-k", half, bits, place)] = attention.relative_mse(
                            sample.k, encoded(codec, sample.k).decoded
                        )
    return figures


RATIOS = (1, 2, 4, 8, 16, 64, 256, 1024)


def water_filling(trial: StudyTrial) -> Figures:
    """Relative squared error with uniform and with water-filled bits, d = 128, over the ratio
    of the largest to the smallest eigenvalue inside a subspace of 64 dimensions, with d_eff as
    calibrated, and with all 64 directions kept, so that no tail hides the difference."""
    figures: Figures = {}
    for ratio in RATIOS:
        regime = regimes.LowRank(
            rank=64, ratio=float(ratio), dim=128, tokens=256, queries=1, calibration=1024
        )
        sample = trial.draw(regime, str(ratio))
        for kept, label in ((None, "d_eff"), (64, "all 64")):
            for bits in (2, 3, 4):
                for half in (UNIFORM, FILLED):
                    options = {"calibration": sample.calibration_k, "effective_dim": kept}
                    codec = trial.codec(half, 128, bits, "k", **options)
                    if codec is not None:
                        where = f"ratio={ratio} {label}"
                        figures[Figure("relmse-k", half, bits, where)] = attention.relative_mse(
                            sample.k, encoded(codec, sample.k).decoded
                        )
    return figures


SHARES = (0.0, 0.004, 0.1, 0.5, 0.9)


def spurious(trial: StudyTrial) -> Figures:
    """Rank-8 keys at 2 and 4 bits, d = 128, where a share of the 256 calibration tokens is one
    direction that the data do not have: error and cosine of K and the attention output, as
    calibrated, cut back by the spectral-gap rule, and cut at the largest gap of all."""
    sample = trial.draw(regimes.LowRank(rank=8, dim=128, tokens=256, queries=64, calibration=256))
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k))
    output = np.exp(log_p) @ sample.v
    stray = trial.rng("stray").standard_normal(128)
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
                codec = trial.codec(UNIFORM, 128, bits, "k", calibration=tokens, effective_dim=kept)
                if codec is None:
                    continue
                coded = encoded(codec, sample.k)
                log_q = attention.log_softmax(estimated_scores(coded, sample.q))
                where = f"stray={share:g} {rule}"
                figures |= _semantic_dim(bits, where, codec)
                for what, value in (
                    ("relmse-k", attention.relative_mse(sample.k, coded.decoded)),
                    ("cosine-k", 1 - attention.cosine_error(sample.k, coded.decoded)),
                    ("cosine-t", 1 - attention.cosine_error(output, np.exp(log_q) @ sample.v)),
                ):
                    figures[Figure(what, None, bits, where)] = value
    return figures


LENGTHS = (128, 512, 2048)


def context(trial: StudyTrial) -> Figures:
    """Bytes a vector and the error of the attention output as the context grows, d = 128, 2, 4
    and 6 bits, SQU-KV calibrated on 128 tokens against TQ-KV: on a power law that stays, and
    on one that has another eigenbasis, to which the queries belong, after 128 tokens."""
    figures: Figures = {}
    for where in ("stays", "drifts"):
        made = partial(regimes.PowerLaw, dim=128, calibration=128, queries=16)
        sample = trial.draw(made(tokens=LENGTHS[-1]), "data")
        if where == "drifts":
            later = trial.draw(made(tokens=LENGTHS[-1]), "later")
            k, v = later.k.copy(), later.v.copy()
            k[:128], v[:128] = sample.k[:128], sample.v[:128]
            sample = replace(sample, q=later.q, k=k, v=v)
        for bits in (2, 4, 6):
            for half in (MSE, UNIFORM):
                codecs = [
                    trial.codec(half, 128, bits, tensor, **calibration_of(half, sample, tensor))
                    for tensor in ("k", "v")
                ]
                if codecs[0] is None or codecs[1] is None:
                    continue
                keys, values = encoded(codecs[0], sample.k), encoded(codecs[1], sample.v)
                estimate = estimated_scores(keys, sample.q)
                size = codecs[0].nbytes(keys.code) / len(sample.k)
                figures[Figure("bytes", half, bits, where)] = size
                for length in LENGTHS:
                    exact = attention.attend(sample.q, sample.k[:length], sample.v[:length])
                    weights = np.exp(attention.log_softmax(estimate[:, :length]))
                    place = f"{where} N={length}"
                    figures[Figure("relmse-t", half, bits, place)] = attention.relative_mse(
                        exact, weights @ values.decoded[:length]
                    )
    return figures
