"""ginkgoq-turboquant (imports as `turboquant`): `turboquant.core.TorbuquantMSE`, `TorbuquantProd`.

b counts     the sketch bit in `TorbuquantProd` (b-1 scalar + 1 sketch), as here.
             mse: b in 1..8; prod: b in 2..9, of which kvassay asks for 2..8.
rotates      the package, with the rotation that the caller chooses. Here `RotationMode.QR`: dense,
             QR with the sign correction, one column turned where it is a reflection (Haar on
             SO(d)), float32, any d. Its RHT is one Hadamard round, for powers of two only.
normalises   the package, and keeps a float16 norm. The reconstruction is not renormalised
             (`norm_correction`, off by default, would; the package's key cache turns it on).
decode       includes the sketch. `inner_products` is `attention_score` with include_qjl=True; by
             default the package leaves the sketch out of scores.
sketch       gaussian: d rows of N(0, 1), scale sqrt(pi/2)/d, on the residual of what was decoded.
table        Lloyd-Max of the finite-d law by quadrature, at most 300 iterations, stored as JSON
             inside the installed package.
seed         the rotation; the sketch has its own, which this adapter sets to seed + 1. torch
             generators, no global one.
stored       packed indices and a float16 norm; in prod also packed signs and a float32 residual
             norm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class MseCodec:
    def __init__(self, dim: int, bits: int, seed: int, has_sketch: bool = False) -> None:
        import torch
        from turboquant import core

        cpu = torch.device("cpu")
        self._core: Any = core
        self._from_numpy: Any = torch.from_numpy
        self._rotation: Any = core.build_rotation(dim, core.RotationMode.QR, cpu, seed=seed)
        self._quantizer: Any = (
            core.TorbuquantProd(dim, bits, self._rotation, cpu, qjl_seed=seed + 1)
            if has_sketch
            else core.TorbuquantMSE(dim, bits, self._rotation, cpu)
        )
        self._levels: Any = (self._quantizer.mse if has_sketch else self._quantizer).centroids

    def _tensor(self, x: FloatArray) -> Any:
        return self._from_numpy(np.ascontiguousarray(x, dtype=np.float32))

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.quantize(self._tensor(x)[None])  # one head

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(code)[0])

    def nbytes(self, code: Any) -> int:
        return sum(part.nbytes for part in code if not isinstance(part, int))

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._core.rotate_forward(self._tensor(x), self._rotation))

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._core.rotate_backward(self._tensor(y), self._rotation))

    def codebook(self) -> FloatArray:
        return np.asarray(self._levels)


class ProdCodec(MseCodec):
    def inner_products(self, q: FloatArray, code: Any) -> FloatArray:
        code = code._replace(qjl_signs=code.qjl_signs.expand(len(q), -1, -1))  # a query is a head
        scores = self._quantizer.attention_score(self._tensor(q), code, include_qjl=True)
        return np.asarray(scores)


class Backend:
    name = "ginkgoq-turboquant"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse"),
            Offer("turboquant-prod", sketches=("gaussian",), bits=tuple(range(2, 9))),
        )
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> MseCodec:
        if kind == "turboquant-mse":
            return MseCodec(dim, bits, seed)
        return ProdCodec(dim, bits, seed, has_sketch=True)


def backend() -> Backend:
    return Backend()
