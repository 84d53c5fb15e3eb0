"""fastvq (imports as `turboquant`): `TurboQuant(TurboQuantConfig(bit_width, block_size, use_qjl,
rotation_seed))`, which its documentation calls the full TurboQuant algorithm.

b counts     bits of an angle, one angle for two coordinates; with use_qjl one less, and a sign bit
             a coordinate. 2..4. The two coordinates' radius is kept besides, and not counted.
rotates      the package: dense, QR without the sign correction, float32; d = 32, 64 or 128.
normalises   the package, and keeps a float32 norm. The reconstruction is renormalised to it.
decode       includes the sketch; there are no scores but QJL's own, for a residual.
sketch       gaussian, d rows of N(0, 1/d), in mode use_qjl. The residual's norm is not kept.
table        none for coordinates: angles in 2^b equal parts, read back as the lower end of each.
seed         the rotation, and with 1001 added the sketch, through NumPy's global generator, which
             it seeds.
stored       four bytes an angle and four a radius (so 4 d), one a sign, a float32 norm, and both
             matrices once. `compress` packs and leaves the radii out; `decompress` then fails.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
ARRAYS = ("norms", "polar_indices", "polar_radii", "qjl_signs")  # what grows with the vectors


class Codec:
    def __init__(self, dim: int, bits: int, seed: int, use_qjl: bool) -> None:
        from turboquant import TurboQuant, TurboQuantConfig

        self._quantizer: Any = TurboQuant(
            TurboQuantConfig(
                bit_width=bits, block_size=dim, use_qjl=use_qjl, rotation_seed=seed % 2**31
            )
        )

    def encode(self, x: FloatArray) -> Any:
        return self._quantizer.quantize(x)

    def decode(self, code: Any) -> FloatArray:
        return np.asarray(self._quantizer.dequantize(code))

    def nbytes(self, code: Any) -> int:
        return sum(code[name].nbytes for name in ARRAYS if name in code)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._quantizer.polar.rotation_matrix.T)

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._quantizer.polar.rotation_matrix)


class Backend:
    name = "fastvq"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse", bits=(2, 3, 4), dims=(32, 64, 128)),
            Offer(
                "turboquant-prod",
                sketches=("gaussian",),
                bits=tuple(range(2, 5)),
                dims=(32, 64, 128),
            ),
        )
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed, kind == "turboquant-prod")


def backend() -> Backend:
    return Backend()
