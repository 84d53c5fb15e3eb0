"""What an implementer offers. Protocols, no base classes: any object of this form will do.

from kvassay.conformance import Capabilities

class MyBackend:
    name, version = "mine", "1.0"
    capabilities = Capabilities(kinds=("turboquant-mse",))

    def codec(self, kind, dim, bits, seed, **options): ...
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

KINDS = ("scalar", "turboquant-mse", "turboquant-prod")
STUDIED = ("scalar-prod", "spectral")  # `reproduce` uses them, `check` has no claims on them
SKETCHES = ("gaussian", "orthogonal")
SEEDS = 2**31  # the suite asks for seeds below this one, so that each fits a signed 32-bit number


@dataclass(frozen=True)
class Capabilities:
    """What a backend says it can do. ValueError for a kind or sketch that nobody knows.

    `kinds` among "scalar", "turboquant-mse", "turboquant-prod", "scalar-prod" (a sketch, but
    no rotation) and "spectral"; `sketches` among "gaussian", "orthogonal", as many as its
    "turboquant-prod" offers. If `decode_includes_sketch` is
    False, decode gives the scalar part alone and `inner_products` carries the sketch.
    """

    kinds: tuple[str, ...]
    sketches: tuple[str, ...] = ()
    decode_includes_sketch: bool = True

    def __post_init__(self) -> None:
        for name, values, known in (
            ("kinds", self.kinds, KINDS + STUDIED),
            ("sketches", self.sketches, SKETCHES),
        ):
            if unknown := [value for value in values if value not in known]:
                raise ValueError(f"{name} must be among {', '.join(known)}, got {unknown[0]!r}")
        if not self.kinds:
            raise ValueError("kinds must name at least one kind, got none")
        if ("turboquant-prod" in self.kinds) != bool(self.sketches):
            raise ValueError(
                "sketches must name a sketch exactly when kinds has turboquant-prod, "
                f"got kinds {self.kinds} and sketches {self.sketches}"
            )


class Codec(Protocol):
    """Maps float vectors (N, d) to a code and back. The code is any object.

    The codec normalises: vectors come in with any norm, and a codec whose table is for unit
    vectors takes the norms out, stores them in the code and puts them back in `decode`.

    Optional methods, each of which opens further claims:
    `inner_products(q, code)`  (M, d) queries to (M, N) estimates of <q_i, x_j>;
                               where it is missing, q @ decode(code).T is judged
    `rotate(x)`, `unrotate(y)` rows in the rotated coordinates, and back: the transforms
                               that encode and decode themselves use
    `codebook()`               increasing levels for the coordinates of a unit vector
    """

    def encode(self, x: NDArray[np.float32], /) -> Any:
        """The code of the rows of `x`, float32 of shape (N, d), of any norms, 0 among them."""

    def decode(self, code: Any, /) -> Any:
        """The reconstruction, an array of shape (N, d), with the norms of what was encoded."""

    def nbytes(self, code: Any, /) -> int:
        """All bytes that decoding the N vectors of `code` needs beside the codec itself.

        They are the packed indices, the norms, and what else the code has for each vector or
        block: scales, zero points, the signs of a sketch, the norms of residuals. What the
        codec makes from its seed and all codes share does not count: the codebook, the
        rotation, the matrix of a sketch.
        """


class Backend(Protocol):
    """A named, versioned maker of codecs.

    One that runs on a device may say which in `device`, a mapping of strings that records keep;
    it then heeds the environment variables KVASSAY_DEVICE and KVASSAY_VARIANT, which
    `--device` and `--variant` set.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Codec:
        """A codec; `bits` counts the payload bits per coordinate, the sketch bit included.

        `seed` is an int with 0 <= seed < 2**31 and fixes all that is random in the codec: the
        same seed gives the same codec, two seeds give two independent rotations.
        `options` is sketch="gaussian" or "orthogonal" for "turboquant-prod" and "scalar-prod";
        for "spectral" it is calibration=x, tokens (N, d) to calibrate on,
        allocation="uniform" or "water-filling", sketch="" or a sketch on the semantic part,
        and effective_dim=None or the number of semantic directions; such a codec's
        `semantic_dim` is that number. Else it is empty.
        A combination that the implementation does not offer raises NotImplementedError with
        the reason, and its claims become "not applicable".
        """
