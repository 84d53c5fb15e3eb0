"""tqdb (Rust): `tqdb.Database.open(path, dimension, bits, seed, metric, fast_mode,
quantizer_type)`, one database in a temporary folder for each codec.

b counts     the sketch bit where fast_mode is off (b-1 scalar + 1 sketch), as here; with fast_mode
             there is no sketch. From 2.
rotates      the package, float32: dense, Gram-Schmidt (Haar), or, with quantizer_type "srht" and by
             default from d = 1024, one randomized Hadamard round, zero-padded to the next power of
             two with all padded coordinates stored. Python cannot reach it, nor the table.
normalises   the package, and keeps a float32 norm.
decode       there is none: `query` with the unit vectors gives inner products, the sketch included.
sketch       gaussian with the dense rotation, orthogonal (a Hadamard round, padded) with "srht".
table        Lloyd-Max of the finite-d law on a grid, computed, stopped when it still moves.
seed         all; generators of its own. A database that is opened anew has its dense rotation
             rounded to bfloat16; here none is.
stored       packed indices and signs and 9 bytes a vector, in `live_codes.bin`; their number is
             what `stats` says. What the database needs besides (ids, metadata, log) is not counted.
"""

from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.protocol import Capabilities, Offer

FloatArray = NDArray[np.floating[Any]]
Code = tuple[Any, int, list[str]]  # the database, the number of the batch in it, its vectors' ids
QUANTIZERS = {"gaussian": "dense", "orthogonal": "srht"}


class Codec:
    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        import tqdb

        self._dim, self._batches = dim, 0
        self._folder = TemporaryDirectory()
        self._database: Any = tqdb.Database.open(
            self._folder.name, dim, bits=bits, seed=seed, metric="ip", **options
        )

    def encode(self, x: FloatArray) -> Code:
        batch, self._batches = self._batches, self._batches + 1
        ids = [f"{batch}/{row}" for row in range(len(x))]
        self._database.insert_batch(ids, x, metadatas=[{"batch": batch}] * len(x))
        return self._database, batch, ids

    def decode(self, code: Code) -> FloatArray:
        return self.inner_products(np.eye(self._dim, dtype=np.float32), code).T

    def nbytes(self, code: Code) -> int:
        stats = code[0].stats()
        return int(stats["live_codes_bytes"] // stats["live_slot_count"] * len(code[2]))

    def inner_products(self, q: FloatArray, code: Code) -> FloatArray:
        database, batch, ids = code
        found = database.query(
            q, n_results=max(len(ids), 1), where_filter={"batch": batch}, include=["id", "score"]
        )
        rows = [{result["id"]: result["score"] for result in results} for results in found]
        return np.array([[row[name] for name in ids] for row in rows]).reshape(len(q), len(ids))


class Backend:
    name = "tqdb"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse", bits=tuple(range(2, 9))),
            Offer("turboquant-prod", tuple(QUANTIZERS), bits=tuple(range(2, 9))),
        )
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        if kind == "turboquant-mse":
            return Codec(dim, bits, seed, fast_mode=True)
        return Codec(dim, bits, seed, fast_mode=False, quantizer_type=QUANTIZERS[options["sketch"]])


def backend() -> Backend:
    return Backend()
