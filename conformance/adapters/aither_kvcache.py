"""aither-kvcache (imports as `turboquant`): `quantizer.TurboQuant(head_dim, bits, seed, ...)`.

b counts     scalar bits, 2..4; the package has no sketch.
rotates      the package: dense, QR with the sign correction (Haar), float32; d a power of two only.
             `use_hadamard=True`, three rounds, is not its default and not used here.
normalises   the package, and keeps a float32 norm. The reconstruction is not renormalised.
decode       is the whole reconstruction; `dtype` (default float16) is set to float32 here.
sketch       none.
table        Lloyd-Max of N(0, 1) over sqrt(d), hard-coded to six digits.
seed         the rotation (torch.Generator). No global generator.
stored       the packed indices and a float32 norm.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, Any]  # tensors: packed indices, norms


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        import torch
        from turboquant.quantizer import TurboQuant

        self._tensor: Any = torch.from_numpy
        self._quantizer: Any = TurboQuant(
            head_dim=dim, bits=bits, seed=seed, device="cpu", dtype=torch.float32
        )

    def encode(self, x: FloatArray) -> Code:
        packed, norms = self._quantizer.encode(self._tensor(np.ascontiguousarray(x)))
        return packed, norms

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._quantizer.decode(*code))

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.rotation.numpy().T)

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer.rotation.numpy())

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer.centroids)


class Backend:
    name = "aither-kvcache"
    capabilities = Capabilities(
        offers=(Offer("turboquant-mse", bits=tuple(range(2, 5)), power_of_two=True),)
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
