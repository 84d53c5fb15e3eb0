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

from kvassay.reference.kinds import KINDS, SKETCHES


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
            ("kinds", self.kinds, tuple(KINDS)),
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

    Optional methods, each of which opens further claims:
    `inner_products(q, code)`  (M, d) queries to (M, N) estimates of <q_i, x_j>;
                               where it is missing, q @ decode(code).T is judged
    `rotate(x)`, `unrotate(y)` rows in the rotated coordinates, and back: the transforms
                               that encode and decode themselves use
    `codebook()`               increasing levels for the coordinates of a unit vector
    """

    def encode(self, x: NDArray[np.float32], /) -> Any:
        """The code of the rows of `x`, float32 of shape (N, d)."""

    def decode(self, code: Any, /) -> Any:
        """The reconstruction, an array of shape (N, d)."""

    def nbytes(self, code: Any, /) -> int:
        """Bytes the code takes for its N vectors, side information included."""


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

        `options` is sketch="gaussian" or "orthogonal" for "turboquant-prod" and "scalar-prod";
        for "spectral" it is calibration=x, tokens (N, d) to calibrate on,
        allocation="uniform" or "water-filling", sketch="" or a sketch on the semantic part,
        and effective_dim=None or the number of semantic directions; such a codec's
        `semantic_dim` is that number. Else it is empty.
        A combination that the implementation does not offer raises NotImplementedError with
        the reason, and its claims become "not applicable".
        """
