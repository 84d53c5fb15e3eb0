"""What errors of scores and of V do to softmax attention."""

from dataclasses import replace

import numpy as np

from kvassay.conformance.measure.study import (
    ROTATED_HALVES,
    Array,
    Figure,
    Figures,
    encoded,
    estimated_scores,
)
from kvassay.conformance.measure.trial import CheckedCodec, StudyTrial, rounded
from kvassay.reference import attention, regimes, theory
from kvassay.reference.regimes import Sample
from kvassay.reference.schemes import Half

JENSEN = 0.7  # standard deviation of the score errors that are put through exp
LINEAR = (0.5, 2.0, 4.0)
SURROGATES = 4


def softmax(trial: StudyTrial) -> Figures:
    """What an error of the scores, or of V, does to attention on isotropic data, d = 128, at
    2, 4 and 6 bits; beside it the same with Gaussian noise of the predicted variance on the
    scores."""
    dim, tokens, queries = 128, 256, 256
    sample = trial.draw(regimes.Isotropic(dim=dim, tokens=tokens, queries=queries, calibration=2))
    norms = trial.rng("query norms").chisquare(dim, (queries, 1)) / dim  # of Gaussian queries
    sample = rounded(replace(sample, q=sample.q * np.sqrt(norms)))
    figures: Figures = {}
    for bits in (2, 4, 6):
        for half in ROTATED_HALVES:
            if codec := trial.codec(half, dim, bits, "k"):
                figures |= _of_keys(trial, half, bits, codec, sample)
        for half in ROTATED_HALVES:
            codec = trial.codec(half, dim, bits, "v")
            if codec is not None and codec.decode_complete:
                figures |= _of_values(half, bits, codec, sample)
    return figures


def _of_keys(
    trial: StudyTrial, half: Half, bits: int, codec: CheckedCodec, sample: Sample
) -> Figures:
    """What the errors of quantized keys do to the weights."""
    dim = sample.k.shape[1]
    exact = attention.scores(sample.q, sample.k)
    log_p = attention.log_softmax(exact)
    p = np.exp(log_p)
    lengths = np.linalg.norm(sample.q, axis=1)[:, None] * np.linalg.norm(sample.k, axis=1) / dim
    error = estimated_scores(encoded(codec, sample.k), sample.q) - exact
    variance = theory.product_variance(dim, bits, half.sketch)
    standard = error / (lengths * np.sqrt(variance))
    log_q = attention.log_softmax(exact + error)
    kl = attention.kl_divergence(log_p, log_q)
    mean = np.sum(p * error, axis=1, keepdims=True)
    found = {
        "inflation": np.mean(np.exp(np.minimum(JENSEN * standard, 500))),
        "kl": kl.mean(),
        "half-variance": np.mean(np.sum(p * (error - mean) ** 2, 1)) / 2,
        "kl-max": kl.max(),
        "shifts": attention.argmax_shifts(log_p, log_q).mean(),
    }
    figures = {Figure(what, half, bits): float(value) for what, value in found.items()}
    return figures | _surrogate(trial, half, bits, exact, lengths, variance)


def _of_values(half: Half, bits: int, codec: CheckedCodec, sample: Sample) -> Figures:
    """What the errors of quantized values do to the output, and whether that is linear in them."""
    p = np.exp(attention.log_softmax(attention.scores(sample.q, sample.k)))
    output = p @ sample.v
    error = encoded(codec, sample.v).decoded - sample.v

    def change(factor: float) -> Array:
        return attention.attend(sample.q, sample.k, sample.v + factor * error) - output

    one = change(1.0)
    size = np.sqrt(np.mean(one**2))
    departures = [np.max(np.abs(change(factor) - factor * one)) for factor in LINEAR]
    found = {
        "nonlinear": max(departures) / size if size else 0.0,
        "averaged": np.sum(one**2),
        "independent": np.sum(p**2 @ np.sum(error**2, axis=1)),
    }
    return {Figure(what, half, bits): float(value) for what, value in found.items()}


def _surrogate(
    trial: StudyTrial, half: Half, bits: int, exact: Array, lengths: Array, variance: float
) -> Figures:
    """Maximum KL and argmax shifts with the slope's bias and independent Gaussian noise in
    place of the codec's error, averaged over a few draws."""
    bias = variance if not half.sketch else 0.0  # without a sketch the slope is 1 - D
    spread = np.sqrt(variance * (1 - variance)) if not half.sketch else np.sqrt(variance)
    rng = trial.rng(f"surrogate {half} {bits}")
    log_p = attention.log_softmax(exact)
    worst, shifts = [], []
    for _ in range(SURROGATES):
        noise = spread * lengths * rng.standard_normal(exact.shape)
        log_q = attention.log_softmax((1 - bias) * exact + noise)
        worst.append(attention.kl_divergence(log_p, log_q).max())
        shifts.append(attention.argmax_shifts(log_p, log_q).mean())
    return {
        Figure("predicted-max", half, bits): float(np.mean(worst)),
        Figure("predicted-shifts", half, bits): float(np.mean(shifts)),
    }
