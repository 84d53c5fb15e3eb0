"""Faults that real implementations had, each as a mutation of the reference.

A fault is a codec with one thing wrong, in a few lines: its docstring says what is wrong
and what that costs, the decorator where it was seen, the cell in which it shows and the claims
that must catch it (`caught_by`). Which properties must stands at those (`@catches`); `kvassay
faults` runs both on it. Written on `Scalar`, it can be put into a codec of any kind; on
`TurboQuantMSE`, into both that rotate. Beside the faults stand equivalent changes: codecs that
look otherwise and follow the same law, which nothing may catch.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvassay.conformance.adapters import reference
from kvassay.conformance.claims.catalogue import PAPERS
from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.protocol import Capabilities, Offer
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd
from kvassay.reference.designs import AS_IN_THE_PAPERS, Design
from kvassay.reference.sphere import Array

SCALAR, MSE, PROD, SPECTRAL = "scalar", "turboquant-mse", "turboquant-prod", "spectral"


BASES: dict[str, type] = {SCALAR: Scalar, MSE: TurboQuantMSE, PROD: TurboQuantProd}
KNOWN_CLAIMS = {claim.id for claim in CLAIMS} | {claim.id for claim in PAPERS}


@dataclass(frozen=True)
class Fault:
    """One fault, and a backend that has it. `source` names the tracker it was seen in,
    `caught_by` the claims that must catch it. An equivalent change has a `proof`, which says
    why the codec follows the same law. If `shared`, it stands in a part that the kinds of a
    backend have in common (a table, a rotation, a packing), so that all of them have it; else
    in a codec of its own kind alone."""

    id: str
    text: str
    source: str
    kind: str
    sketch: str
    dim: int
    bits: int
    codec_class: type
    caught_by: tuple[str, ...] = ()
    proof: str = ""
    design: Design = AS_IN_THE_PAPERS
    shared: bool = False

    @property
    def name(self) -> str:
        return f"fault {self.id}"

    @property
    def version(self) -> str:
        return "1"

    @property
    def capabilities(self) -> Capabilities:
        if self.design != AS_IN_THE_PAPERS:
            return Capabilities(offers=(Offer(self.kind, design=self.design),))
        kinds = (self.kind, MSE) if self.kind == PROD else (self.kind,)
        return Capabilities(kinds, (self.sketch,) if self.sketch else ())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of codec that can have it."""
        made_alone = self.kind == SPECTRAL or getattr(self.codec_class, "alone", False)
        if made_alone or self.design != AS_IN_THE_PAPERS:
            return (self.kind,)
        nearest = next(k for k in (PROD, MSE, SCALAR) if issubclass(self.codec_class, BASES[k]))
        return tuple(BASES)[tuple(BASES).index(nearest) :]

    def put_into(self, kind: str, sketch: str, shared: bool = False) -> "Fault":
        """The same fault in a codec of another kind, and in those beside it if `shared`."""
        return replace(self, kind=kind, sketch=sketch, shared=shared)

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        """The faulty codec for its kind, and if `shared` for all that can have it; the correct
        one beside it for the others."""
        faulty = kind == self.kind or (self.shared and kind in self.kinds)
        if not faulty and kind not in BASES:
            return reference.backend().codec(kind, dim, bits, seed, **options)
        if self.design != AS_IN_THE_PAPERS:
            return self.codec_class(dim, bits, seed, self.design)
        if kind == SPECTRAL:
            return self.codec_class(options.pop("calibration"), bits, seed=seed, **options)
        base, made = BASES[kind], self.codec_class
        if not faulty:
            made = base
        elif not issubclass(made, base):
            made = type(made.__name__, (made, base), {})
        return made(dim, bits) if kind == SCALAR else made(dim, bits, seed, **options)


@dataclass(frozen=True)
class Throughout:
    """The reference with a fault in one of its kinds, for claims that need several."""

    fault: Fault
    name: str = "reference with a fault"
    version: str = "1"
    capabilities: Capabilities = reference.Reference.capabilities

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        """The faulty codec for the fault's kind, the reference's for the others."""
        sketch = options.get("sketch", "")
        if kind == PROD and sketch != self.fault.sketch:
            return reference.backend().codec(kind, dim, bits, seed, **options)
        return self.fault.codec(kind, dim, bits, seed, **options)


FAULTS: list[Fault] = []


def fault(
    id: str,
    source: str,
    kind: str = MSE,
    *,
    sketch: str = "",
    dim: int = 128,
    bits: int = 4,
    caught_by: tuple[str, ...] = (),
    proof: str = "",
    design: Design = AS_IN_THE_PAPERS,
) -> Callable[[type], type]:
    """Registers the class below as the fault `id`, to be looked for in one cell; with a `design`,
    one of a backend that declares it. The claims of `caught_by` must catch it there; ValueError if
    there is no such claim."""
    if unknown := set(caught_by) - KNOWN_CLAIMS:
        raise ValueError(
            f"fault {id}: caught_by must hold ids of claims, got {', '.join(sorted(unknown))}"
        )

    def register(codec_class: type) -> type:
        text = " ".join((codec_class.__doc__ or "").split())
        FAULTS.append(
            Fault(id, text, source, kind, sketch, dim, bits, codec_class, caught_by, proof, design)
        )
        return codec_class

    return register


class WithExtra(Scalar):
    """A code that holds something beside what is declared."""

    alone = True

    def extra(self, x: Array, code: Code) -> Any:
        raise NotImplementedError

    def encode(self, x: Array) -> Any:
        code = super().encode(x)
        return code, self.extra(np.asarray(x), code)

    def decode(self, code: Any) -> Array:
        return super().decode(code[0])

    def nbytes(self, code: Any) -> int:
        return int(code[0].nbytes)

    inner_products = property()


def signs_of(codec: TurboQuantMSE) -> Array:
    return np.asarray(codec.rotation.signs)  # type: ignore[union-attr]


def present(part: Any) -> Any:
    if part is None:
        raise ValueError("code must hold a sketch, got one without signs")
    return part


Property = Callable[[Any], None]
