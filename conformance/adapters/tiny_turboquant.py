"""tiny-turboquant: `quantizer.TinyQuantizer` and `TinyQuantizerIP(dim, bits, device, seed)`.

b counts     the sketch bit in `TinyQuantizerIP` (b-1 scalar + 1 sketch), as here; but at b=1 it
             takes one scalar bit and one sketch bit all the same. b in 1..8.
rotates      the package: dense, QR with the sign correction (Haar), float32, any d.
normalises   the package, and keeps a float32 norm. The reconstruction is not renormalised.
decode       includes the sketch, and is the only way to an inner product.
sketch       gaussian: d rows of N(0, 1/d), and the scale for N(0, 1). The class is deprecated.
table        the means of 2^b cells of equal probability, not Lloyd-Max; +-sqrt(2/(pi d)) at 1 bit.
seed         the rotation, and plus 1 the sketch (torch.Generator). No global generator.
stored       one byte an index and, in `TinyQuantizerIP`, one a sign, whatever b is; a float32 norm
             and, in `TinyQuantizerIP`, a float32 residual norm.

Its KV cache uses another scheme, `affine.AffineBlockQuantizer`: a grid between the least and the
largest value of a block, without rotation or table. That is none of our kinds, and not here.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, ...]  # tensors


class Codec:
    def __init__(self, kind: str, dim: int, bits: int, seed: int) -> None:
        import torch
        from tiny_turboquant import quantizer

        with_sketch = kind == "turboquant-prod"
        quantizer_class = quantizer.TinyQuantizerIP if with_sketch else quantizer.TinyQuantizer
        self._tensor: Any = torch.from_numpy
        self._quantizer: Any = quantizer_class(dim, bits, device="cpu", seed=seed)

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
    name = "tiny-turboquant"
    capabilities = Capabilities(kinds=("turboquant-mse", "turboquant-prod"), sketches=("gaussian",))

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        if kind not in self.capabilities.kinds:
            raise NotImplementedError(f"tiny-turboquant has no kind {kind}.")
        if not 1 <= bits <= 8:
            raise NotImplementedError(f"tiny-turboquant has no {kind} at {bits} bits.")
        if options.get("sketch", "gaussian") != "gaussian":
            raise NotImplementedError(f"tiny-turboquant's sketch is not {options['sketch']}.")
        return Codec(kind, dim, bits, seed)


def backend() -> Backend:
    return Backend()
