"""optimum-quanto (imports as `optimum.quanto`): `MaxOptimizer` and `quantize_weight`.

Quantizes the weights of a model and, in transformers, its KV cache; offered as kind `scalar`, with
the design that it has: a uniform grid for each vector.

b counts     the bits of the integers, 2 or 4 (8 bits are another, symmetric quantizer); the package
             has no sketch.
rotates      nobody.
normalises   nobody: each vector (here axis=0, group_size=None) has its own affine grid of 2^b
             levels, from its minimum to its maximum.
decode       is the whole reconstruction; there are no scores.
sketch       none.
table        none.
seed         none: nothing is random.
stored       packed integers, the first half (quarter) of all vectors with the second, and a float32
             scale and shift a vector. This adapter hands out the parts of the package's tensor,
             whose own `nbytes` is that of the vectors as floats.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer
from kvassay.reference.designs import Design

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, ...]  # tensors: packed integers (rows, d), scale (N, 1), shift (N, 1)


class Codec:
    def __init__(self, dim: int, bits: int) -> None:
        import torch
        from optimum import quanto

        self._from_numpy: Any = torch.from_numpy
        self._package: Any = quanto
        self._type: Any = {2: quanto.qint2, 4: quanto.qint4}[bits]
        self._dim = dim

    def encode(self, x: FloatArray) -> Code:
        tensor = self._from_numpy(np.ascontiguousarray(x))
        scale, shift = self._package.MaxOptimizer()(tensor, qtype=self._type, axis=0)
        quantized = self._package.quantize_weight(tensor, self._type, 0, scale, shift)
        return quantized._data._data, quantized._scale, quantized._shift

    def decode(self, code: Code) -> FloatArray:
        packed, scale, shift = code
        form = (len(scale), self._dim), (self._dim, 1)  # size, stride
        integers = self._package.tensor.packed.PackedTensor(packed, self._type.bits, *form)
        quantized = self._package.WeightQBitsTensor(
            self._type, 0, None, *form, integers, scale, shift
        )
        return np.asarray(quantized.dequantize())

    def nbytes(self, code: Code) -> int:
        return sum(part.nbytes for part in code)


class Backend:
    name = "optimum-quanto"
    capabilities = Capabilities(
        offers=(Offer("scalar", bits=(2, 4), design=Design(grid="uniform")),)
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits)


def backend() -> Backend:
    return Backend()
