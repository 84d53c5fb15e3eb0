"""FAISS (distribution `faiss-cpu`): scalar quantizers `QT_{b}bit_tqmse` and `QT_{b}bit_tq`.

b counts     the sketch bit in `tq` (b-1 scalar + 1 sketch), as here; `tqmse` has no sketch.
             Kind `scalar` is tqmse without a rotation.
rotates      the caller, with FAISS' own transforms: `HadamardRotation` (three rounds) where d is a
             power of two; elsewhere `RandomRotationMatrix` (dense), because the Hadamard one pads
             to the next power of two and then refuses to invert.
normalises   tqmse: the caller, so this adapter does, and keeps a float32 norm a vector.
             tq: the package, which stores a float32 norm and residual norm in each code.
decode       includes the sketch. `inner_products` is FAISS' asymmetric search over the codes.
sketch       orthogonal: one randomized Hadamard round, the first d of its padded outputs.
table        Lloyd-Max of N(0, 1) over sqrt(d), hard-coded, instead of the finite-d law.
seed         the rotation, modulo 2**31. The sketch's seed is always 42: Python cannot set it.
stored       FAISS' packed codes, and for tqmse and scalar our norms.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = tuple[NDArray[np.uint8], FloatArray | None]  # codes (N, bytes), our norms (N,) if any
TQMSE_BITS = (1, 2, 3, 4, 8)


class Codec:
    def __init__(self, dim: int, bits: int, seed: int, has_sketch: bool, rotated: bool) -> None:
        import faiss

        table = getattr(faiss.ScalarQuantizer, f"QT_{bits}bit_{'tq' if has_sketch else 'tqmse'}")
        self._index: Any = faiss.IndexScalarQuantizer(dim, table, faiss.METRIC_INNER_PRODUCT)
        self._index.train(np.zeros((1, dim), dtype=np.float32))  # fills the table, ignores the data
        levels = faiss.vector_to_array(self._index.sq.trained)[: 2 ** (bits - has_sketch)]
        self._levels = levels / dim**0.5 if has_sketch else levels  # tq scales at encode time
        self._caller_normalises = not has_sketch
        self._rotation: Any = None
        if rotated:
            dense = dim & (dim - 1)  # not a power of two
            self._rotation = (
                faiss.RandomRotationMatrix(dim, dim) if dense else faiss.HadamardRotation(dim)
            )
            self._rotation.init(seed % 2**31)

    def rotate(self, x: FloatArray) -> FloatArray:
        x = np.ascontiguousarray(x, dtype=np.float32)
        return np.asarray(self._rotation.apply(x)) if self._rotation else x

    def unrotate(self, y: FloatArray) -> FloatArray:
        y = np.ascontiguousarray(y, dtype=np.float32)
        return np.asarray(self._rotation.reverse_transform(y)) if self._rotation else y

    def encode(self, x: FloatArray) -> Code:
        if not self._caller_normalises:
            return self._index.sa_encode(self.rotate(x)), None
        norms = np.linalg.norm(x.astype(np.float64), axis=1).astype(np.float32)
        return self._index.sa_encode(self.rotate(x / np.where(norms > 0, norms, 1)[:, None])), norms

    def decode(self, code: Code) -> FloatArray:
        y = self.unrotate(self._index.sa_decode(code[0]))
        return y if code[1] is None else y * code[1][:, None]

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code if part is not None)

    def inner_products(self, q: FloatArray, code: Code) -> FloatArray:
        self._index.reset()
        self._index.add_sa_codes(code[0])
        found, order = self._index.search(self.rotate(q), len(code[0]))
        scores: FloatArray = np.empty_like(found)
        np.put_along_axis(scores, order, found, axis=1)
        return scores if code[1] is None else scores * code[1]

    def codebook(self) -> FloatArray:
        return np.asarray(self._levels)


class Backend:
    name = "faiss-cpu"
    capabilities = Capabilities(
        offers=(
            Offer("scalar", bits=TQMSE_BITS),
            Offer("turboquant-mse", bits=TQMSE_BITS),
            Offer("turboquant-prod", sketches=("orthogonal",), bits=(2, 3, 4, 5)),
        )
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed, kind == "turboquant-prod", kind != "scalar")


def backend() -> Backend:
    return Backend()
