"""turboquantdc: `PolarQuant(d, bits, seed)` and `TurboQuantEstimator(d, bits, seed)`.

b counts     the sketch bit in `TurboQuantEstimator` (b-1 scalar + 1 sketch), as here; but at b=1 it
             takes one scalar bit and one sketch bit all the same. b in 1..8.
rotates      the package: dense, QR with the sign correction (Haar), float32, any d.
normalises   mse: the caller, so this adapter does, and keeps a float32 norm a vector.
             prod: the package, which keeps a float32 norm. Neither renormalises.
decode       leaves the sketch out: `dequantize_mse` is the (b-1)-bit part alone.
             `inner_products`, the package's `inner_product`, includes it.
sketch       gaussian, d rows.
table        Lloyd-Max of N(0, 1/d), iterated at construction, at most 200 times (too few from 5
             bits on). It takes seconds a codec, so this adapter keeps it.
seed         the rotation, and plus 1 the sketch (torch.Generator). No global generator.
stored       eight bytes an index (int64) and, in prod, four a sign (float32), whatever b is; a
             float32 norm, which is ours in mse, and in prod a float32 residual norm.
"""

from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = dict[str, Any]  # tensors


class MseCodec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        import torch
        import turboquantdc

        tables: Any = turboquantdc.codebook
        if not hasattr(tables.solve_lloyd_max, "cache_info"):  # takes seconds, depends on no seed
            tables.solve_lloyd_max = cache(tables.solve_lloyd_max)
        self._torch: Any = torch
        self._package: Any = turboquantdc
        self._make(dim, bits, seed)

    def _make(self, dim: int, bits: int, seed: int) -> None:
        self._polar: Any = self._package.PolarQuant(dim, bits, seed=seed)

    def _tensor(self, x: FloatArray) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))

    def encode(self, x: FloatArray) -> Code:
        norms = np.linalg.norm(x.astype(np.float64), axis=1)
        unit = x / np.where(norms > 0, norms, 1)[:, None]
        return {"indices": self._polar.quantize(self._tensor(unit)), "norms": self._tensor(norms)}

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._polar.dequantize(code["indices"]) * code["norms"][:, None])

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code.values())

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._polar.rotate(self._tensor(x)))

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(self._polar.unrotate(self._tensor(y)))

    def codebook(self) -> FloatArray:
        return np.asarray(self._polar.centroids)


class ProdCodec(MseCodec):
    def _make(self, dim: int, bits: int, seed: int) -> None:
        self._estimator: Any = self._package.TurboQuantEstimator(dim, bits, seed=seed)
        self._polar = self._estimator.polar

    def encode(self, x: FloatArray) -> Code:
        code: Code = self._estimator.quantize(self._tensor(x))
        return code

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._estimator.dequantize_mse(code))

    def inner_products(self, q: FloatArray, code: Code) -> FloatArray:
        scores = self._estimator.inner_product(self._tensor(q), code)
        return np.asarray(scores).reshape(len(q), -1)  # a single query loses its axis


class Backend:
    name = "turboquantdc"
    capabilities = Capabilities(
        decode_includes_sketch=False,
        offers=(
            Offer("turboquant-mse"),
            Offer("turboquant-prod", sketches=("gaussian",)),
        ),
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> MseCodec:
        return (MseCodec if kind == "turboquant-mse" else ProdCodec)(dim, bits, seed)


def backend() -> Backend:
    return Backend()
