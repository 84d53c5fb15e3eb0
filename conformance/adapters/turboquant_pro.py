"""turboquant-pro: `turboquant_pro.TurboQuantKV(head_dim, n_heads, bits, use_gpu, seed)`.

b counts     scalar bits, 2..4; the package has no sketch.
rotates      the package: dense, QR without the sign correction, float32, up to d=4096; above it
             only flips signs and permutes.
normalises   the package, and keeps a float32 norm. The reconstruction is not renormalised.
decode       is the whole reconstruction; the quantizer has no scores of its own.
sketch       none.
table        hard-coded to three digits over sqrt(d), said to be Lloyd-Max of N(0, 1): it is at
             2 bits; at 3 and 4 bits it is another, too narrow table.
seed         the rotation, PCG64 (default_rng). No global generator.
stored       with packed=True packed indices and a float32 norm. `TurboQuantPGVector` has the same
             table and rotation, and a Hadamard one. The cache's per-channel keys share their scale
             across a page of tokens, so they are none of these kinds.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        from turboquant_pro import TurboQuantKV

        self._quantizer: Any = TurboQuantKV(dim, n_heads=1, bits=bits, use_gpu=False, seed=seed)

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.compress(x[None, None], packed=True)  # (batch, heads, tokens, d)

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.decompress(code)[0, 0])

    def nbytes(self, code: Any) -> int:
        return int(code.nbytes())

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._quantizer._rotate(x))  # has no public name

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._quantizer._unrotate(y))

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer.centroids)


class Backend:
    name = "turboquant-pro"
    capabilities = Capabilities(offers=(Offer("turboquant-mse", bits=tuple(range(2, 5))),))

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
