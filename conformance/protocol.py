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

from kvassay.reference.designs import AS_IN_THE_PAPERS, Design
from kvassay.reference.kinds import KINDS, SKETCHES

SEEDS = 2**31  # the suite asks for seeds below this one, so that each fits a signed 32-bit number


@dataclass(frozen=True)
class Offer:
    """One kind of codec that a backend has, and the sizes at which it has it.

    `kind` is one of KINDS in kvassay.reference.kinds; `sketches` are among "gaussian" and
    "orthogonal", at least one for a kind with a sketch and none for another. Empty `bits` mean
    1 to 8. Empty `dims` mean every dimension that is a multiple of `multiple_of` and, if
    `power_of_two`, a power of two. `design` is how the codec works where that is not as in the
    papers: the codec is held to it. ValueError for what cannot be meant.
    """

    kind: str
    sketches: tuple[str, ...] = ()
    bits: tuple[int, ...] = ()
    dims: tuple[int, ...] = ()
    multiple_of: int = 1
    power_of_two: bool = False
    design: Design = AS_IN_THE_PAPERS

    def __post_init__(self) -> None:
        _require_known("kinds", (self.kind,), tuple(KINDS))
        _require_known("sketches", self.sketches, SKETCHES)
        if KINDS[self.kind].sketched != bool(self.sketches):
            raise ValueError(
                f"sketches must name a sketch exactly when the kind has one, got kind "
                f"{self.kind} and sketches {self.sketches}"
            )
        if wrong := [bits for bits in self.bits if not 1 <= bits <= 8]:
            raise ValueError(f"bits must be in 1..8, got {wrong[0]}")
        if wrong := [dim for dim in (*self.dims, self.multiple_of) if dim < 1]:
            raise ValueError(f"dims and multiple_of must be at least 1, got {wrong[0]}")
        KINDS[self.kind].designed(self.design)  # refuses one that the kind cannot have

    def covers(self, sketch: str, dim: int, bits: int) -> bool:
        """Whether a codec with this sketch ("" for none) and of these sizes is on offer."""
        return (
            (sketch in self.sketches or not (sketch or self.sketches))
            and (not self.bits or bits in self.bits)
            and (not self.dims or dim in self.dims)
            and dim % self.multiple_of == 0
            and dim % (self.design.group or 1) == dim % (self.design.block or 1) == 0
            and not (self.power_of_two and dim & (dim - 1))
        )


@dataclass(frozen=True)
class Capabilities:
    """What a backend says it can do: a set of `offers`, or in short `kinds` and `sketches`, which
    stand for all kinds with all sketches at all sizes.

    Exactly what is offered is planned; a cell that is not offered is never asked for. `design` is
    that of all kinds, where it is not as in the papers; an offer has one of its own, and all offers
    of a kind the same. If
    `decode_includes_sketch` is False, decode gives the scalar part alone and `inner_products`
    carries the sketch. ValueError for a kind or sketch that nobody knows.

    >>> Capabilities(kinds=("scalar",)).has("scalar", "", 64, 8)
    True
    >>> Capabilities(offers=(Offer("scalar", bits=(2, 4)),)).has("scalar", "", 64, 8)
    False
    """

    kinds: tuple[str, ...] = ()
    sketches: tuple[str, ...] = ()
    decode_includes_sketch: bool = True
    offers: tuple[Offer, ...] = ()
    design: Design = AS_IN_THE_PAPERS

    def __post_init__(self) -> None:
        if self.offers:
            if self.design != AS_IN_THE_PAPERS:
                raise ValueError("design must be left out where offers are given: each has its own")
            designs: dict[str, Design] = {}
            for offer in self.offers:
                if designs.setdefault(offer.kind, offer.design) != offer.design:
                    raise ValueError(f"all offers of {offer.kind} must have one design, got two")
            kinds = tuple(dict.fromkeys(offer.kind for offer in self.offers))
            sketches = tuple(
                name for name in SKETCHES if any(name in offer.sketches for offer in self.offers)
            )
            if (self.kinds or kinds, self.sketches or sketches) != (kinds, sketches):
                raise ValueError("kinds and sketches must be left out where offers are given")
            object.__setattr__(self, "kinds", kinds)
            object.__setattr__(self, "sketches", sketches)
            return
        _require_known("kinds", self.kinds, tuple(KINDS))
        _require_known("sketches", self.sketches, SKETCHES)
        if not self.kinds:
            raise ValueError("kinds must name at least one kind, got none")
        if any(KINDS[kind].sketched for kind in self.kinds) != bool(self.sketches):
            raise ValueError(
                "sketches must name a sketch exactly when a kind has one, as turboquant-prod does; "
                f"got kinds {self.kinds} and sketches {self.sketches}"
            )
        offers = (
            Offer(kind, self.sketches if KINDS[kind].sketched else (), design=self.design)
            for kind in self.kinds
        )
        object.__setattr__(self, "offers", tuple(offers))

    def has(self, kind: str, sketch: str, dim: int, bits: int) -> bool:
        """Whether a codec of this kind, sketch ("" for none) and size is on offer."""
        return any(offer.kind == kind and offer.covers(sketch, dim, bits) for offer in self.offers)

    def design_of(self, kind: str) -> Design:
        """The design of that kind; as in the papers where the kind is not on offer."""
        return next((o.design for o in self.offers if o.kind == kind), AS_IN_THE_PAPERS)


def _require_known(name: str, values: tuple[str, ...], known: tuple[str, ...]) -> None:
    if unknown := [value for value in values if value not in known]:
        raise ValueError(f"{name} must be among {', '.join(known)}, got {unknown[0]!r}")


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
        Only what `capabilities` offers is asked for. If a combination still cannot be made,
        NotImplementedError with the reason makes its claims "not applicable".
        """
