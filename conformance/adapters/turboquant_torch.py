"""turboquant-torch (imports as `turboquant`): `TurboQuantMSE` and `TurboQuant(dim, bits, seed)`.

b counts     the sketch bit in `TurboQuant` (b-1 scalar + 1 sketch), as here.
             mse: b in 1..4, as documented; prod: b in 2..5.
rotates      the package: one round of random signs and Hadamard, padded with zeros to the next
             power of two; all the padded coordinates are kept, the inverse crops.
normalises   the package, and keeps a float32 norm. The reconstruction is not renormalised.
decode       includes the sketch. `inner_products` is the package's `compute_inner_product`.
sketch       gaussian, d rows in the unpadded coordinates, of the whole residual.
table        for the padded dimension d': Lloyd-Max of Beta(d'/2, d'/2), which is the coordinate law
             of d'+1, below 256; of N(0, 1) over sqrt(d') from there on.
seed         the signs, and plus 1 the sketch (torch.Generator). No global generator.
stored       eight bytes an index (int64) of every padded coordinate and, in prod, one a sign,
             whatever b is; a float32 norm and, in prod, a float32 residual norm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class MseCodec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        import torch
        import turboquant

        self._package: Any = turboquant
        self._torch: Any = torch
        self._make(dim, bits, seed)

    def _make(self, dim: int, bits: int, seed: int) -> None:
        self._quantizer: Any = self._package.TurboQuantMSE(dim, bits, seed=seed)
        self._scalar: Any = self._quantizer

    def _tensor(self, x: FloatArray) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(x))

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.quantize(self._tensor(x))

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(code))

    def nbytes(self, code: Any) -> int:
        return int(code.codes.nbytes + code.norms.nbytes)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._scalar.rht.forward(self._tensor(x)))

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._scalar.rht.inverse(self._tensor(y)))

    def codebook(self) -> FloatArray:
        return np.asarray(self._scalar.codebook.centroids)


class ProdCodec(MseCodec):
    def _make(self, dim: int, bits: int, seed: int) -> None:
        self._quantizer = self._package.TurboQuant(dim, bits, unbiased=True, seed=seed)
        self._scalar = self._quantizer.mse

    def nbytes(self, code: Any) -> int:
        parts = (code.mse_codes, code.mse_norms, *code.qjl_output)
        return sum(part.nbytes for part in parts)

    def inner_products(self, q: FloatArray, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.compute_inner_product(self._tensor(q), code))


class Backend:
    name = "turboquant-torch"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse", bits=tuple(range(1, 5))),
            Offer("turboquant-prod", sketches=("gaussian",), bits=tuple(range(2, 6))),
        )
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> MseCodec:
        return (MseCodec if kind == "turboquant-mse" else ProdCodec)(dim, bits, seed)


def backend() -> Backend:
    return Backend()
