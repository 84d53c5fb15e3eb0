"""turboquant-py (imports as `turboquant`): `TurboQuant(dim, bit_width, mode, seed)`.

b counts     the sketch bit in mode `inner_product` (b-1 scalar + 1 sketch), as here.
             mse: b in 1..4; prod: b in 2..4.
rotates      the package: dense, QR with the sign correction (Haar), float64, any d.
normalises   the package, and keeps a float64 norm. The reconstruction is not renormalised.
decode       leaves the sketch out: `dequantize` is the (b-1)-bit part alone.
             `inner_products` includes it; it takes one query a call.
sketch       orthogonal: d orthonormal rows from a QR (its documentation says Gaussian).
table        Lloyd-Max of the finite-d law: shipped for 64, 128, 256, 384, 512, 768, 1024...4096,
             else computed on a grid.
seed         the rotation, and with 1000000 added the sketch. No global generator.
stored       one byte an index and, in prod, one a sign, whatever b is; a float64 norm and, in prod,
             a float64 residual norm. `CompressedVectors.save` packs the indices at b bits (in prod
             too, where they have b-1) and leaves the signs a byte each.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class MseCodec:
    def __init__(self, dim: int, bits: int, seed: int, mode: str) -> None:
        from turboquant import TurboQuant, get_codebook

        self._quantizer: Any = TurboQuant(dim, bits, mode=mode, seed=seed)
        self._levels, _ = get_codebook(dim, bits - 1 if mode == "inner_product" else bits)

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.quantize(x)

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(code))

    def nbytes(self, code: Any) -> int:
        side = sum(array.nbytes for array in code.extra_arrays.values())
        return int(code.indices.nbytes + code.norms.nbytes + side)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer._rotation)  # has no public name

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer._rotation.T)

    def codebook(self) -> FloatArray:
        return np.asarray(self._levels)


class ProdCodec(MseCodec):
    def inner_products(self, q: FloatArray, code: Any) -> FloatArray:
        return np.stack([self._quantizer.inner_product(query, code) for query in q])


class Backend:
    name = "turboquant-py"
    capabilities = Capabilities(
        decode_includes_sketch=False,
        offers=(
            Offer("turboquant-mse", bits=tuple(range(1, 5))),
            Offer("turboquant-prod", sketches=("orthogonal",), bits=tuple(range(2, 5))),
        ),
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> MseCodec:
        if kind == "turboquant-mse":
            return MseCodec(dim, bits, seed, "mse")
        return ProdCodec(dim, bits, seed, "inner_product")


def backend() -> Backend:
    return Backend()
