"""turboquantcpu: `TurboQuantizer(head_dim, num_kv_heads, layer_idx, mode, bits)`; imports torch.

b counts     the sketch bit in mode `prod` (b-1 scalar + 1 sketch), as here; at b = 1 `prod` would
             take two bits, so that kind's b = 1 is mode `qjl`, the sketch alone. 1..8.
rotates      the package: one randomized Hadamard round, float32, zero-padded to the next power of
             two; all padded coordinates are stored.
normalises   the package, and keeps a float16 norm. The reconstruction is not renormalised.
decode       there is none: `scores` of the unit vectors, which include the sketch in `prod`.
sketch       orthogonal: another randomized Hadamard round, padded, on the residual in the original
             coordinates, with its norm in float16.
table        hard-coded for N(0, 1), over sqrt(padded d): Lloyd-Max at 1, 2, 3 bits; from 4 bits
             others, asymmetric ones, with 28, 46 and 62 levels at 5, 6 and 7 bits.
seed         `layer_idx`, from which both sign vectors are seeded (default_rng, modulo 2**32).
stored       one byte an index, whatever b is, packed signs, float16 norms.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class Codec:
    def __init__(self, dim: int, bits: int, seed: int, mode: str) -> None:
        import turboquantcpu

        self._rotate: Any = turboquantcpu.randomized_fwht_batch
        self._dim = dim
        self._quantizer: Any = turboquantcpu.TurboQuantizer(
            dim, num_kv_heads=1, layer_idx=seed, mode=mode, bits=bits
        )

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.compress(x[:, None])  # (tokens, heads, d)

    def decode(self, code: Any) -> FloatArray:
        return self.inner_products(np.eye(self._dim, dtype=np.float32), code).T

    def nbytes(self, code: Any) -> int:
        return int(code.memory_bytes())

    def inner_products(self, q: FloatArray, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.scores(q[:, None], code)[:, 0])

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._rotate(x, self._signs()))

    def unrotate(self, y: FloatArray) -> FloatArray:  # as in _mse_reconstruct_head
        return np.asarray((self._rotate(y, self._signs()) * self._signs())[:, : self._dim])

    def _signs(self) -> FloatArray:
        if self._quantizer._codebook is None:
            raise NotImplementedError("At b = 1 the sketch stands alone, without a rotation.")
        return np.asarray(self._quantizer._signs_mse[0])

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer._codebook.levels / self._quantizer._coord_scale)


class Backend:
    name = "turboquantcpu"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse"),
            Offer("turboquant-prod", sketches=("orthogonal",)),
        )
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        if kind == "turboquant-mse":
            return Codec(dim, bits, seed, "mse")
        return Codec(dim, bits, seed, "prod" if bits > 1 else "qjl")


def backend() -> Backend:
    return Backend()
