"""turbo-quant-lite: `turbo_quant_lite.TurboQuant(dim, bits, seed)` with its `pack` and `unpack`.

b counts     scalar bits, 1..4; the package has no sketch.
rotates      the package: dense, QR with the sign correction (Haar), float64, any d.
normalises   the package; `pack` keeps the norm as float32. The reconstruction is not renormalised.
decode       is the whole reconstruction. `inner_products` is the package's `similarity_batch`,
             which takes one query a call.
sketch       none.
table        hard-coded to four digits: Lloyd-Max for d=512, whatever the dimension is.
seed         the rotation, modulo 2**32 (RandomState). No global generator.
stored       what `pack` returns, a float32 norm and the packed indices; at 3 bits it spends a byte
             an index, although `compressed_size_bytes` claims 3 bits.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = list[bytes]  # one a vector


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        import turbo_quant_lite

        self._package: Any = turbo_quant_lite
        self._quantizer: Any = turbo_quant_lite.TurboQuant(dim, bits, seed % 2**32)

    def encode(self, x: FloatArray) -> Code:
        bits, pack = self._quantizer.bits, self._package.pack
        indices, norms = self._quantizer.encode_batch(x)
        return [pack(row, norm, bits) for row, norm in zip(indices, norms, strict=True)]

    def _unpack(self, code: Code) -> tuple[NDArray[np.uint8], FloatArray]:
        dim, bits, unpack = self._quantizer.dim, self._quantizer.bits, self._package.unpack
        rows = [unpack(data, dim, bits) for data in code]
        indices = np.array([row for row, _ in rows], dtype=np.uint8)
        return indices.reshape(-1, dim), np.array([norm for _, norm in rows], dtype=np.float64)

    def decode(self, code: Code) -> FloatArray:
        return np.asarray(self._quantizer.decode_batch(*self._unpack(code)))

    def nbytes(self, code: Code) -> int:
        return sum(map(len, code))

    def inner_products(self, q: FloatArray, code: Code) -> FloatArray:
        indices, norms = self._unpack(code)
        return np.stack([self._quantizer.similarity_batch(query, indices, norms) for query in q])

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.rotation.T)

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer.rotation)

    def codebook(self) -> FloatArray:
        return np.asarray(self._quantizer.centroids)


class Backend:
    name = "turbo-quant-lite"
    capabilities = Capabilities(offers=(Offer("turboquant-mse", bits=tuple(range(1, 5))),))

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
