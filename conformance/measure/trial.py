"""A trial: one seed, with its codecs, made when asked for, and its randomness."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.measure import Effort, inputs, tensors
from kvassay.conformance.measure.cell import BackendFault, Batch, Cell, batch
from kvassay.conformance.protocol import Backend, Codec
from kvassay.reference.kinds import KINDS
from kvassay.reference.regimes import Regime, Sample
from kvassay.reference.schemes import Half

Array = NDArray[np.float64]
Statistics = Mapping[str, Any]


def checked(what: str, answer: Any, shape: tuple[int, ...], finite: bool = True) -> Array:
    """The answer in float64. BackendFault for another shape or dtype and, if `finite`, for NaN
    or infinity."""
    if answer is None:
        raise BackendFault(f"{what} returned None, should be an array of shape {shape}")
    array = np.asarray(answer)
    if array.shape != shape:
        raise BackendFault(f"{what} returned shape {array.shape}, should be {shape}")
    if array.dtype.kind not in "fiu":
        raise BackendFault(f"{what} returned dtype {array.dtype}, should be floating point")
    array = array.astype(np.float64)
    if finite and not np.isfinite(array).all():
        bad = int(np.sum(~np.isfinite(array)))
        raise BackendFault(f"{what} returned NaN or infinity in {bad} of {array.size} values")
    return array


def relative_error(x: inputs.Vectors, decoded: Array) -> Array:
    """|x_hat - x|^2 / |x|^2 of each vector."""
    exact = x.astype(np.float64)
    return np.asarray(np.sum((decoded - exact) ** 2, axis=1) / np.sum(exact**2, axis=1))


@dataclass(frozen=True)
class CheckedCodec:
    """A codec whose answers are checked for shape and finiteness, in float64."""

    codec: Codec
    dim: int
    decode_complete: bool = True

    def encode(self, x: inputs.Vectors) -> Any:
        return self.codec.encode(x.copy())

    def decode(self, code: Any, count: int, finite: bool = True) -> Array:
        return checked("decode", self.codec.decode(code), (count, self.dim), finite)

    def roundtrip(self, x: inputs.Vectors) -> Array:
        return self.decode(self.encode(x), len(x))

    def inner_products(self, q: Array, code: Any, count: int, finite: bool = True) -> Array:
        """The backend's own estimates, or those that its reconstruction gives."""
        own = getattr(self.codec, "inner_products", None)
        try:
            if own is not None:
                answer = own(q.astype(np.float32), code)
                return checked("inner_products", answer, (len(q), count), finite)
        except NotImplementedError:
            if not self.decode_complete:
                raise
        return q @ self.decode(code, count, finite).T

    def rotate(self, x: inputs.Vectors) -> Array:
        rotated = np.asarray(self._method("rotate")(x.copy()))
        if rotated.ndim != 2:
            raise BackendFault(f"rotate returned shape {rotated.shape}, should be (N, d)")
        return checked("rotate", rotated, (len(x), rotated.shape[1]))

    def unrotate(self, y: Array) -> Array:
        return checked("unrotate", self._method("unrotate")(y), (len(y), self.dim))

    def codebook(self) -> Array:
        levels = np.asarray(self._method("codebook")())
        return checked("codebook", np.sort(levels.ravel()), (levels.size,))

    def nbytes(self, code: Any) -> int:
        size = self.codec.nbytes(code)
        if not isinstance(size, (int, np.integer)) or size < 0:
            raise BackendFault(f"nbytes returned {size!r}, should be a whole number of bytes")
        return int(size)

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] | None = getattr(self.codec, name, None)
        if method is None:
            raise NotImplementedError(f"the codec offers no {name}")
        return method


class Trial:
    """One seed of something called `name`: everything random in it follows from (seed, name,
    index) and a purpose, so that nothing depends on what else runs."""

    def __init__(self, backend: Backend, name: str, seed: int, index: int) -> None:
        self.backend = backend
        self.seed = seed
        self.index = index
        self._key = crc32(name.encode())

    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for `purpose`; the same purpose gives the same numbers."""
        return np.random.Generator(np.random.PCG64(self._sequence(purpose)))

    def codec_seed(self, purpose: str, which: int = 0) -> int:
        """A seed for a codec, in 0..2**31 - 1; each `which` has one of its own."""
        return int(self._sequence(purpose).generate_state(which + 1)[which] >> 1)

    def _sequence(self, purpose: str) -> np.random.SeedSequence:
        key = (self._key, self.index, crc32(purpose.encode()))
        return np.random.SeedSequence(self.seed, spawn_key=key)


class CellTrial(Trial):
    """One seed of one cell, with its codecs, made when asked for.

    Of an experiment's statistics only the `wanted` ones need be computed; if none are named,
    all.
    """

    def __init__(self, backend: Backend, cell: Cell, seed: int, index: int, effort: Effort) -> None:
        super().__init__(backend, str(cell), seed, index)
        self.cell = cell
        self.effort = effort
        self.wanted: frozenset[str] = frozenset()
        self._codecs: dict[tuple[str, int, int], CheckedCodec] = {}

    @property
    def batch(self) -> Batch:
        """The sizes of this trial's inputs."""
        return batch(self.cell.dim, self.effort)

    @property
    def codec(self) -> CheckedCodec:
        """The codec under test."""
        return self.other(self.cell.kind, self.cell.bits)

    def other(self, kind: str, bits: int, twin: int = 0) -> CheckedCodec:
        """The same seed's codec of another kind or width; `twin` 1 is a second instance,
        2 or 4 an instance with another seed."""
        key = (kind, bits, twin)
        if key not in self._codecs:
            options = self.cell.beside(kind, bits).codec_options
            seed = self.codec_seed("codec", twin // 2)
            codec = self.backend.codec(kind, self.cell.dim, bits, seed, **options)
            for method in ("encode", "decode", "nbytes"):
                if not callable(getattr(codec, method, None)):
                    raise BackendFault(f"the codec ({type(codec).__name__}) has no {method}")
            complete = self.cell.sketch_decoded or kind != self.cell.kind
            self._codecs[key] = CheckedCodec(codec, self.cell.dim, complete)
        return self._codecs[key]

    def wants(self, *statistics: str) -> bool:
        """Whether any of these statistics is still needed."""
        return not self.wanted or bool(self.wanted & set(statistics))


class StudyTrial(Trial):
    """One trial of a study. `data` holds the real tensors, where a study uses them."""

    def __init__(
        self,
        backend: Backend,
        study: str,
        seed: int,
        index: int,
        data: tensors.Tensors | None = None,
    ) -> None:
        super().__init__(backend, study, seed, index)
        self.data = data

    def draw(self, regime: Regime, purpose: str = "data") -> Sample:
        """A sample of the regime, rounded to the float32 that codecs are given."""
        return rounded(regime.draw(self.rng(purpose)))

    def codec(
        self, half: Half, dim: int, bits: int, tensor: str, **options: Any
    ) -> CheckedCodec | None:
        """The backend's codec for one tensor ("k" or "v"), or None where it offers none."""
        offered = self.backend.capabilities
        sketch = half.sketch if KINDS[half.kind].sketched else ""
        if not offered.has(half.kind, sketch, dim, bits):
            return None
        if half.sketch not in ("", *offered.sketches):  # spectral may have one, too
            return None
        if half.sketch or half.kind == "spectral":
            options["sketch"] = half.sketch
        if half.kind == "spectral":
            options["allocation"] = half.allocation
        try:
            made = self.backend.codec(
                half.kind, dim, bits, self.codec_seed(f"codec {tensor}"), **options
            )
        except NotImplementedError:
            return None
        whole = not half.sketch or offered.decode_includes_sketch
        if tensor.startswith("k") and not whole and not hasattr(made, "inner_products"):
            return None  # the sketch would not count
        return CheckedCodec(made, dim, whole)


def rounded(sample: Sample) -> Sample:
    """The sample with every vector rounded to float32, as float64."""
    names = ("q", "k", "v", "calibration_k", "calibration_v")
    return replace(
        sample,
        **{name: getattr(sample, name).astype(np.float32).astype(np.float64) for name in names},
    )
