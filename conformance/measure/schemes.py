"""Schemes, pairs of codecs, over a population of (Q, K, V)."""

from typing import Any

import numpy as np

from kvassay.conformance.measure.study import (
    BITS,
    METRICS,
    MSE,
    PROD,
    ROTATED_HALVES,
    SCHEMES,
    Array,
    Figure,
    Figures,
    calibration_of,
    encoded,
    estimated_scores,
)
from kvassay.conformance.measure.trial import CheckedCodec, StudyTrial
from kvassay.reference import attention, regimes, theory
from kvassay.reference.codecs import codec as reference_codec
from kvassay.reference.kinds import SKETCHES
from kvassay.reference.regimes import Regime, Sample
from kvassay.reference.schemes import Half, Scheme


def population(trial: StudyTrial, regime: Regime | None) -> Figures:
    """All schemes at 2 to 6 bits on one population: KL per query (mean and maximum), top-5
    recall, argmax shifts, and relative squared error, direction error and d^2 of K, V and the
    attention output T.

    With no regime, the real tensors: a trial draws one of their heads.
    """
    if regime is None:
        assert trial.data is not None
        regime = trial.data
    sample = trial.draw(regime)
    dim = sample.k.shape[1]
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k), sample.positions)
    output = np.exp(log_p) @ sample.v
    figures: Figures = {}
    for bits in BITS:
        weights: dict[Half, Array] = {}
        values: dict[Half, Array] = {}
        for half in dict.fromkeys(scheme.k for scheme in SCHEMES.values()):
            codec = trial.codec(half, dim, bits, "k", **calibration_of(half, sample, "k"))
            if codec is None:
                continue
            coded = encoded(codec, sample.k)
            log_q = attention.log_softmax(estimated_scores(coded, sample.q), sample.positions)
            weights[half] = np.exp(log_q)
            kl = attention.kl_divergence(log_p, log_q)
            figures[Figure("kl", half, bits)] = float(kl.mean())
            figures[Figure("kl-max", half, bits)] = float(kl.max())
            if half in ROTATED_HALVES:
                figures[Figure("kl-predicted", half, bits)] = _predicted_kl(
                    sample, log_p, half, bits
                )
                figures[Figure("recall", half, bits)] = float(
                    attention.top_recall(log_p, log_q).mean()
                )
                figures[Figure("shifts", half, bits)] = float(
                    attention.argmax_shifts(log_p, log_q).mean()
                )
            if codec.decode_complete:
                _errors(figures, "k", half, bits, sample.k, coded.decoded)
        for half in dict.fromkeys(scheme.v for scheme in SCHEMES.values()):
            codec = trial.codec(half, dim, bits, "v", **calibration_of(half, sample, "v"))
            if codec is None or not codec.decode_complete:
                continue
            values[half] = encoded(codec, sample.v).decoded
            _errors(figures, "v", half, bits, sample.v, values[half])
        for scheme in SCHEMES.values():
            if scheme.k in weights and scheme.v in values:
                found = weights[scheme.k] @ values[scheme.v]
                _errors(figures, "t", scheme, bits, output, found)
    return figures


def _predicted_kl(sample: Sample, log_p: Array, half: Half, bits: int) -> float:
    """Half the variance under p of score errors that are as theory says, independent over the
    keys: E Var_p = Var_p(mean) + sum p (1 - p) variance."""
    dim = sample.k.shape[1]
    lengths = np.linalg.norm(sample.q, axis=1)[:, None] * np.linalg.norm(sample.k, axis=1)
    cosine = np.clip(sample.q @ sample.k.T / np.where(lengths > 0, lengths, 1), -1, 1)
    mean, variance = theory.score_error(dim, bits, cosine, half.sketch)
    scale, p = lengths / np.sqrt(dim), np.exp(log_p)
    centre = np.sum(p * mean * scale, axis=1, keepdims=True)
    spread = p * (mean * scale - centre) ** 2 + p * (1 - p) * variance * scale**2
    return float(np.mean(np.sum(spread, axis=1)) / 2)


def _errors(
    figures: Figures, place: str, codec: Half | Scheme, bits: int, exact: Array, other: Array
) -> None:
    figures[Figure(f"relmse-{place}", codec, bits)] = attention.relative_mse(exact, other)
    figures[Figure(f"phi-{place}", codec, bits)] = attention.direction_error(exact, other)
    if place == "t":
        figures[Figure("d2-t", codec, bits)] = attention.squared_distance(exact, other)


V_MEANS = (0.0, 0.5, 0.9)
SCORE_STDS = (0.3, 1.0, 4.0)


def values(trial: StudyTrial) -> Figures:
    """The output's error with exact weights and quantized V, d = 128, 512 tokens, 2 to 4 bits,
    over how much of V all tokens share and how many tokens a query attends to."""
    figures: Figures = {}
    for share in V_MEANS:
        for std in SCORE_STDS:
            regime = regimes.Isotropic(
                dim=128, tokens=512, queries=64, calibration=1, v_mean=share, score_std=std
            )
            where = f"mean={share:g} score-std={std:g}"
            sample = trial.draw(regime, where)
            weights = np.exp(attention.log_softmax(attention.scores(sample.q, sample.k)))
            exact = weights @ sample.v
            figures[Figure("attended", where=where)] = float(
                np.mean(1 / np.sum(weights**2, axis=1))
            )
            for bits in (2, 3, 4):
                for half in ROTATED_HALVES:
                    codec = trial.codec(half, 128, bits, "v")
                    if codec is not None and codec.decode_complete:
                        decoded = encoded(codec, sample.v).decoded
                        figures[Figure("relmse-t", half, bits, where)] = attention.relative_mse(
                            exact, weights @ decoded
                        )
    return figures


def generators(trial: StudyTrial) -> Figures:
    """TQ-KV and TQ-QKV at 3 bits, d = 64: the backend (its own generator) and the reference
    with MT19937, on the same data (their gap) and on data of its own (two samples)."""
    dim, bits = 64, 3
    regime = regimes.Isotropic(dim=dim, tokens=64, queries=16, calibration=1)
    figures: Figures = {}
    for name, half in (("TQ-KV", MSE), *((f"TQ-QKV/{s}", PROD[s]) for s in SKETCHES)):
        codecs = [trial.codec(half, dim, bits, "k"), trial.codec(MSE, dim, bits, "v")]
        if codecs[0] is None or codecs[1] is None or not codecs[0].decode_complete:
            continue
        seeds = trial.rng(f"MT19937 {name}").integers(2**31, size=2)
        peers = [_peer(half, dim, bits, int(seeds[0])), _peer(MSE, dim, bits, int(seeds[1]))]
        sample, other = trial.draw(regime, "data"), trial.draw(regime, "other data")
        own = _outcome(codecs[0], codecs[1], sample)
        same = _outcome(peers[0], peers[1], sample)
        apart = _outcome(peers[0], peers[1], other)
        for metric in METRICS:
            figures[Figure(f"own {metric}", SCHEMES[name])] = own[metric]
            figures[Figure(f"peer {metric}", SCHEMES[name])] = apart[metric]
            figures[Figure(f"gap {metric}", SCHEMES[name])] = own[metric] - same[metric]
    return figures


def _peer(half: Half, dim: int, bits: int, seed: int) -> CheckedCodec:
    options: dict[str, Any] = {"sketch": half.sketch} if half.sketch else {}
    made: Any = reference_codec(half.kind, dim, bits, seed, generator="MT19937", **options)
    return CheckedCodec(made, dim)


def _outcome(k_codec: CheckedCodec, v_codec: CheckedCodec, sample: Sample) -> dict[str, float]:
    keys, decoded = encoded(k_codec, sample.k), encoded(v_codec, sample.v).decoded
    log_p = attention.log_softmax(attention.scores(sample.q, sample.k))
    log_q = attention.log_softmax(estimated_scores(keys, sample.q))
    exact, found = np.exp(log_p) @ sample.v, np.exp(log_q) @ decoded
    return {
        "kl": float(attention.kl_divergence(log_p, log_q).mean()),
        "phi-k": attention.direction_error(sample.k, keys.decoded),
        "relmse-v": attention.relative_mse(sample.v, decoded),
        "relmse-t": attention.relative_mse(exact, found),
        "phi-t": attention.direction_error(exact, found),
    }
