"""turboquant-pytorch (imports as `turboquant`): `TurboQuantEngine(d, b, cache, cache_dir)`.

b counts     the scalar bits alone; the engine always adds a sketch bit, so its b is b-1 here.
             Its b is 1, 2, 4 or 8, as its documentation lists them.
rotates      the package: dense, QR without the sign correction, float32, any d.
normalises   nobody: the documentation does not ask for it and no norm is kept.
decode       includes the sketch, and is the only way to an inner product. One vector a call.
sketch       orthogonal: d orthonormal rows from a QR, on the residual in the rotated coordinates;
             scale sqrt(pi/2)/d times |residual|/sqrt(d).
table        k-means on 100000 samples of N(0, 1), for coordinates as they come, not over sqrt(d).
seed         none: matrices are drawn from torch's global generator, the table from NumPy's, so this
             adapter seeds both. With cache=True, the default, all are kept in a folder for good.
             As the table takes up to minutes, only it is kept here, in a folder of the process.
stored       an int32 an index, a float32 a sign, whatever b is, and a float64 |residual|/sqrt(d).
"""

from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.adapters.package import version_alone
from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = list[tuple[Any, Any, float]]  # one a vector: indices, signs, |residual|/sqrt(d)


@cache
def table_folder(bits: int) -> TemporaryDirectory[str]:
    """A cache folder that holds the table."""
    folder = TemporaryDirectory()
    seeded_engine(2, bits, 0, folder.name)
    return folder


def seeded_engine(dim: int, bits: int, seed: int, folder: str) -> Any:
    """An engine with the table in `folder`, which is made if missing, and its own matrices."""
    import torch
    from turboquant import TurboQuantEngine

    state = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]), redirect_stdout(StringIO()):  # it prints
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        engine = TurboQuantEngine(dim, bits, cache_dir=folder)
    np.random.set_state(state)  # noqa: NPY002
    for name in ("pi", "s"):
        Path(folder, f"{name}_d{dim}.pt").unlink()
    return engine


class Codec:
    def __init__(self, dim: int, bits: int, seed: int) -> None:
        self._engine: Any = seeded_engine(dim, bits - 1, seed, table_folder(bits - 1).name)

    def encode(self, x: FloatArray) -> Code:
        return [self._engine.encode(row) for row in np.ascontiguousarray(x)]

    def decode(self, code: Code) -> FloatArray:
        rows = [np.asarray(self._engine.decode(*parts)) for parts in code]
        return np.reshape(rows, (-1, self._engine.d)).astype(np.float32)

    def nbytes(self, code: Code) -> int:
        return sum(indices.nbytes + signs.nbytes + 8 for indices, signs, _ in code)

    def rotate(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._engine.pi.numpy().T)

    def unrotate(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._engine.pi.numpy())

    def codebook(self) -> FloatArray:
        return np.asarray(self._engine.centroids)


class Backend:
    name = "turboquant-pytorch"
    capabilities = Capabilities(
        offers=(Offer("turboquant-prod", sketches=("orthogonal",), bits=(2, 3, 5)),)
    )

    def __init__(self) -> None:
        self.version = version_alone(self.name, "turboquant")

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        return Codec(dim, bits, seed)


def backend() -> Backend:
    return Backend()
