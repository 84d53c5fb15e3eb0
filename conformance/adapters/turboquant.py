"""turboquant: `turboquant.TurboQuantMSE` and `TurboQuantIP(dim, bits, device, seed)`.

b counts     the sketch bit in `TurboQuantIP` (b-1 scalar + 1 sketch), as here; but at b=1 it takes
             one scalar bit and one sketch bit all the same. b in 1..4.
rotates      the package: dense, QR with the sign correction (Haar), float32, any d.
normalises   the package, and keeps a float32 norm. The reconstruction is not renormalised.
decode       includes the sketch, and is the only way to an inner product.
sketch       gaussian: d rows of N(0, 1/d), and the scale for N(0, 1).
table        the means of 2^b cells of equal probability, not Lloyd-Max; +-sqrt(2/(pi d)) at 1 bit.
             Above 1 bit it is made with `np.trapz`, which NumPy 2.4 no longer has.
seed         the rotation, and plus 1 the sketch (torch.Generator). No global generator.
stored       one byte an index and, in `TurboQuantIP`, one a sign, whatever b is; a float32 norm
             and, in `TurboQuantIP`, a float32 residual norm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, ...]  # tensors


class Codec:
    def __init__(self, quantizer: Any) -> None:
        import torch

        self._tensor: Any = torch.from_numpy
        self._quantizer = quantizer

    def encode(self, x: FloatArray) -> Code:
        return tuple(self._quantizer.quantize(self._tensor(np.ascontiguousarray(x))))

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(*code))

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.rotation_t.numpy())

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer.rotation.numpy())

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer.codebook)


class Backend:
    name = "turboquant"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse", bits=tuple(range(1, 5))),
            Offer("turboquant-prod", sketches=("gaussian",), bits=tuple(range(1, 5))),
        )
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        import turboquant

        with_sketch = kind == "turboquant-prod"
        quantizer_class = turboquant.TurboQuantIP if with_sketch else turboquant.TurboQuantMSE
        return Codec(quantizer_class(dim, bits, device="cpu", seed=seed))


def backend() -> Backend:
    return Backend()
