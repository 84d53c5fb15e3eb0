"""turboquant-space (imports as `turboquant`, C++): `TurboQuantSpace(dim, bits_per_coord, rot_seed,
qjl_seed)`.

b counts     the sketch bit (b-1 scalar + 1 sketch), as here. 2..9, though "4/8-bit" is what its
             title says and what it packs.
rotates      the package: one randomized Hadamard round, float32, zero-padded to the next power of
             two; all padded coordinates are stored. Python cannot reach it, nor the table.
normalises   the package, and keeps a float32 norm.
decode       there is none: inner products with the unit vectors, the sketch included. The package
             gives squared distances, no less than 0, which give inner products by
             4 <q, x> = |q + x|^2 - |q - x|^2.
sketch       orthogonal: another randomized Hadamard round, padded, on the rotated residual, whose
             norm is kept relative to the vector's.
table        Lloyd-Max of N(0, 1), computed, times the root mean square of the rotated vector.
seed         both are taken; the sketch's is one more than the rotation's here. No global generator.
stored       one array of bytes: four bits a coordinate up to b = 4, eight above, and three float32:
             norm, residual norm and root mean square.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = NDArray[np.uint8]  # (N, bytes)


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        from turboquant import TurboQuantSpace

        self._space: Any = TurboQuantSpace(dim, bits, seed, seed + 1)

    def encode(self, x: FloatArray) -> Code:
        return np.asarray(self._space.encode_batch(np.ascontiguousarray(x, dtype=np.float32)))

    def decode(self, code: Code) -> FloatArray:
        return self.inner_products(np.eye(self._space.dim(), dtype=np.float32), code).T

    def nbytes(self, code: Code) -> int:
        return code.nbytes

    def inner_products(self, q: FloatArray, code: Code) -> FloatArray:
        q = np.ascontiguousarray(q, dtype=np.float32)
        distances = self._space.distance_m_to_n
        return np.asarray((distances(-q, code) - distances(q, code)) / 4)


class Backend:
    name = "turboquant-space"
    capabilities = Capabilities(
        offers=(Offer("turboquant-prod", sketches=("orthogonal",), bits=tuple(range(2, 9))),)
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
