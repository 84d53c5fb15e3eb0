"""Faults that only a property sees, beside those of kvassay.conformance.faults."""

import numpy as np

from kvassay.conformance.faults import FAULTS, MSE, Fault
from kvassay.reference.codecs import TurboQuantMSE


def mutant(codec_class):
    return Fault(codec_class.__name__, "", "", MSE, "", 128, 4, codec_class)


@mutant
class EmptyBatch(TurboQuantMSE):
    def encode(self, x):
        np.max(x)
        return super().encode(x)


@mutant
class ZeroBecomesNaN(TurboQuantMSE):
    def decode(self, code):
        return super().decode(code) * np.where(code.norms > 0, 1, np.nan)[:, None]


@mutant
class StridesIgnored(TurboQuantMSE):
    def encode(self, x):
        return super().encode(x.ravel(order="K").reshape(x.shape))


@mutant
class InPlace(TurboQuantMSE):
    def encode(self, x):
        x *= 0.5
        return super().encode(x)


@mutant
class WidthCropped(TurboQuantMSE):
    def encode(self, x):
        return super().encode(np.resize(x, (len(x), self.dim)).astype(float))


BY_NAME = {fault.id: fault for fault in FAULTS} | {
    fault.id: fault for fault in (EmptyBatch, ZeroBecomesNaN, StridesIgnored, InPlace, WidthCropped)
}
