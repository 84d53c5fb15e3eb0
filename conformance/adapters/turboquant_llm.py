"""turboquant-llm: `turboquant_llm.TurboQuantCompressor(dim, TurboQuantConfig(bits_main,
qjl_projection_dim, seed))`, without its sketch.

b counts     scalar bits, any number from 1.
rotates      the package: dense, QR whose columns get the signs that make its own diagonal positive
             (Haar would take those of R's), float64, any d.
normalises   nobody: no norm is kept. One minimum and maximum of all rotated coordinates of the
             batch make the grid for all its vectors.
decode       is the whole reconstruction, `reconstruct_first_stage`.
sketch       of d rows of N(0, 1/d), or how many one likes; but nothing in the package reads its
             signs, and the residual's norm is not kept. So no kind with a sketch is offered here.
table        2^b equidistant levels from the minimum to the maximum of the batch.
seed         the rotation, PCG64 (default_rng). No global generator.
stored       eight bytes an index, whatever b is, and three floats a batch; the matrix once.
"""

from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        from turboquant_llm import TurboQuantCompressor, TurboQuantConfig

        self._quantizer: Any = TurboQuantCompressor(
            dim, TurboQuantConfig(bits_main=bits, qjl_projection_dim=0, seed=seed)
        )

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.compress(x)

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.reconstruct_first_stage(code))

    def nbytes(self, code: Any) -> int:
        return int(code.codes_main.nbytes) + 3 * 8  # scale, minimum and maximum

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.rotation)

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer.rotation.T)


class Backend:
    name = "turboquant-llm"
    capabilities = Capabilities(offers=(Offer("turboquant-mse"),))

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
