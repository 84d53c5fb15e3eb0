"""hqq: `hqq.core.quantize.Quantizer.quantize(W, nbits, group_size, axis, device)`.

Quantizes the weights of a model and, in transformers, its KV cache; offered as kind `scalar`, with
the design that it has: a uniform grid for each group of 64 coordinates.

b counts     the bits of the integers, 1..6 and 8; the package has no sketch.
rotates      nobody.
normalises   nobody: each group of 64 coordinates (here axis=1) has its own affine grid of 2^b
             levels, from its minimum to its maximum, whose zero is then fitted to the batch's mean
             error (`optimize`, on by default). d must be a multiple of 64, or groups reach across
             vectors.
decode       is the whole reconstruction; there are no scores.
sketch       none.
table        none.
seed         none: nothing is random.
stored       packed integers (5 and 6 bits: a byte each), and a float32 scale and zero a group.
             Packing takes the first half (quarter, eighth) of all groups with the second, so their
             number must be a multiple of 8/b at 1, 2 and 4 bits.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer
from kvassay.reference.designs import Design

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, dict[str, Any]]  # packed tensor, meta data with scale and zero
GROUP = 64


class Codec:
    def __init__(self, bits: int) -> None:
        import torch
        from hqq.core.quantize import Quantizer

        self._bits = bits
        self._from_numpy: Any = torch.from_numpy
        self._quantizer: Any = Quantizer

    def encode(self, x: FloatArray) -> Code:
        tensor = self._from_numpy(np.ascontiguousarray(x))
        packed, meta = self._quantizer.quantize(
            tensor, nbits=self._bits, group_size=GROUP, axis=1, device="cpu"
        )
        return packed, meta

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(*code))

    def nbytes(self, code: Code) -> int:
        return int(code[0].nbytes + code[1]["scale"].nbytes + code[1]["zero"].nbytes)


class Backend:
    name = "hqq"
    capabilities = Capabilities(
        offers=(
            Offer(
                "scalar",
                bits=(1, 2, 3, 4, 5, 6, 8),
                design=Design(grid="uniform", group=GROUP),
            ),
        )
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(bits)


def backend() -> Backend:
    return Backend()
