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
from kvassay.conformance.measure.trial import Bench, rounded
from kvassay.reference import attention, regimes, theory
from kvassay.reference.schemes import Half

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
            error = estimated_scores(encoded(codec, sample.k), sample.q) - exact
            variance = theory.product_variance(dim, bits, half.sketch)
            standard = error / (lengths * np.sqrt(variance))
            figures[Figure("inflation", half, bits)] = float(
                np.mean(np.exp(np.minimum(JENSEN * standard, 500)))
            )
            log_q = attention.log_softmax(exact + error)
            kl = attention.kl_divergence(log_p, log_q)
            mean = np.sum(p * error, axis=1, keepdims=True)
            figures[Figure("kl", half, bits)] = float(kl.mean())
            figures[Figure("half-variance", half, bits)] = float(
                np.mean(np.sum(p * (error - mean) ** 2, 1)) / 2
            )
            figures[Figure("kl-max", half, bits)] = float(kl.max())
            figures[Figure("shifts", half, bits)] = float(
                attention.argmax_shifts(log_p, log_q).mean()
            )
            figures |= _surrogate(bench, half, bits, exact, lengths, variance)
        for half in ROTATED_HALVES:
            codec = bench.codec(half, dim, bits, "v")
            if codec is None or not codec.decode_complete:
                continue
            error = encoded(codec, sample.v).decoded - sample.v
            change = attention.attend(sample.q, sample.k, sample.v + error) - output
            size = np.sqrt(np.mean(change**2))
            figures[Figure("nonlinear", half, bits)] = (
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
            figures[Figure("averaged", half, bits)] = float(np.sum(change**2))
            figures[Figure("independent", half, bits)] = float(np.sum(p**2 @ energy))
    return figures


def _surrogate(
    bench: Bench, half: Half, bits: int, exact: Array, lengths: Array, variance: float
) -> Figures:
    """Maximum KL and argmax shifts with the slope's bias and independent Gaussian noise in
    place of the codec's error, averaged over a few draws."""
    bias = variance if not half.sketch else 0.0  # without a sketch the slope is 1 - D
    spread = np.sqrt(variance * (1 - variance)) if not half.sketch else np.sqrt(variance)
    rng = bench.rng(f"surrogate {half} {bits}")
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
