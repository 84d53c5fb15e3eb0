"""polarquant (imports as `polarengine_vllm`): `kv_cache.cache.PolarKVQuantizer(head_dim, nbits)`.

b counts     scalar bits, 2..4; the package has no sketch.
rotates      the package: the Walsh-Hadamard matrix itself, float32, without random signs; d must be
             a power of two (elsewhere its cache keeps bfloat16).
normalises   the package, and keeps a bfloat16 norm. The reconstruction is not renormalised.
decode       is the whole reconstruction, in bfloat16; the quantizer has no scores of its own.
sketch       none.
table        Lloyd-Max of N(0, 1), over sqrt(d), from 100 iterations on [-4, 4].
seed         none: every instance is the same, so this adapter ignores it.
stored       packed indices and a bfloat16 norm. `PolarKVCache` holds the same codes and leaves the
             last 128 tokens as they are.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, Any]  # uint8 tensor (N, bytes), bfloat16 norms (N,)


class Codec:
    def __init__(self, dim: int, bits: int) -> None:
        import torch
        from polarengine_vllm.kv_cache import PolarKVQuantizer

        self._from_numpy: Any = torch.from_numpy
        self._quantizer: Any = PolarKVQuantizer(dim, bits, device="cpu")

    def encode(self, x: FloatArray) -> Code:
        packed, norms = self._quantizer.quantize(self._from_numpy(np.ascontiguousarray(x)))
        return packed, norms

    def decode(self, code: Code) -> FloatArray:
        shape = (len(code[0]), self._quantizer.head_dim)
        return np.asarray(self._quantizer.dequantize(*code, shape).float())

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.H.numpy())

    def unrotate(self, y: FloatArray) -> FloatArray:
        return self.rotate(y)  # the matrix is symmetric

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer.centroids / self._quantizer.scale)


class Backend:
    name = "polarquant"
    capabilities = Capabilities(
        offers=(Offer("turboquant-mse", bits=tuple(range(2, 5)), power_of_two=True),)
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits)


def backend() -> Backend:
    return Backend()
