"""K. Size claims and silent inactivity."""

from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import WithExtra, fault
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE
from kvassay.reference.sphere import Array


@fault("K01", "TheTom/turboquant_plus#53", caught_by=("size-accounting",))
class NormsNotCounted(Scalar):
    """The declared size leaves the norms out."""

    def nbytes(self, code: Code) -> int:
        return code.indices.nbytes


@fault("K03", "sgl-project/sglang#22777", caught_by=("size-accounting",))
class DecodedCopy(WithExtra, TurboQuantMSE):
    """The decoded vectors are kept beside the code: nothing is saved."""

    def extra(self, x: Array, code: Code) -> Any:
        return TurboQuantMSE.decode(self, code).astype(np.float16)


@fault("K05", "ekryski/mlx-swift-lm#86", bits=2, caught_by=("distortion", "size-accounting"))
class BitsIgnored(Scalar):
    """The setting is ignored and eight bits are stored: the error is far too good."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, 8, *seed, **options)


@fault(
    "K-fewer-bits", "kvassay", bits=4, caught_by=("distortion", "qjl-unbiased", "kqv-beats-qkqv")
)
class FewerBits(Scalar):
    """A width that has no kernel falls back to the next lower one."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, max(bits - 1, 1), *seed, **options)


@fault("K10", "TheTom/llama-cpp-turboquant#13", dim=80, caught_by=("distortion", "size-accounting"))
class SilentFallback(Scalar):
    """Head sizes that are no multiple of 128 fall back to eight bits; only a log tells."""

    def __init__(self, dim: int, bits: int, *seed: Any, **options: Any) -> None:
        super().__init__(dim, 8 if dim % 128 else bits, *seed, **options)
