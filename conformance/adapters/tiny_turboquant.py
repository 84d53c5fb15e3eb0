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

The calls are those of turboquant, whose adapter's codec serves here too. Its KV cache uses another
scheme, `affine.AffineBlockQuantizer`: a grid between the least and the largest value of a block,
without rotation or table. That is none of our kinds, and not here.
"""

from importlib.metadata import version
from typing import Any

from kvassay.conformance.adapters.turboquant import Codec
from kvassay.conformance.protocol import Capabilities, Offer


class Backend:
    name = "tiny-turboquant"
    capabilities = Capabilities(
        offers=(
            Offer("turboquant-mse"),
            Offer("turboquant-prod", sketches=("gaussian",)),
        )
    )

    def __init__(self) -> None:
        self.version = version(self.name)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        from tiny_turboquant import quantizer

        with_sketch = kind == "turboquant-prod"
        quantizer_class = quantizer.TinyQuantizerIP if with_sketch else quantizer.TinyQuantizer
        return Codec(quantizer_class(dim, bits, device="cpu", seed=seed))


def backend() -> Backend:
    return Backend()
