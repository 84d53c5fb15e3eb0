"""What properties are made of: the codecs that Hypothesis chooses, and how results are compared."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from numpy.typing import NDArray

from kvassay.conformance.isolation.child import Gone
from kvassay.conformance.measure import inputs
from kvassay.conformance.measure.cell import BackendHung
from kvassay.conformance.protocol import SEEDS, Backend
from kvassay.reference import theory
from kvassay.reference.kinds import KINDS

Array = NDArray[np.float64]
DIMS = (16, 64, 80, 128)
ROUNDING = 1e-4  # relative; float32 arithmetic over 128 coordinates stays below 1e-5


@dataclass(frozen=True)
class Choice:
    """What Hypothesis chose: which codec, and the seed of the sample."""

    kind: str
    sketch: str
    dim: int
    bits: int
    seed: int

    @property
    def has_seed(self) -> bool:
        """Whether a codec of this kind has anything random: a rotation or a sketch."""
        return KINDS[self.kind].rotated or bool(self.sketch)

    def codec(self, backend: Backend, more_bits: int = 0, other_seed: int = 0) -> Any:
        options = {"sketch": self.sketch} if self.sketch else {}
        bits, seed = self.bits + more_bits, self.seed + other_seed
        try:
            return backend.codec(self.kind, self.dim, bits, seed, **options)
        except NotImplementedError:
            assume(False)

    def sample(self, count: int) -> inputs.Vectors:
        """Vectors of every family in turn, so that structure is always among them."""
        rng = np.random.default_rng([self.seed, 2])  # not a stream that a codec may use
        families = [inputs.isotropic, *inputs.STRUCTURED.values()]
        rows = [families[i % len(families)](rng, 1, self.dim) for i in range(count)]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *rows])

    def isotropic(self, count: int) -> inputs.Vectors:
        """Vectors without structure, on which no coordinate lies on a threshold."""
        return inputs.isotropic(np.random.default_rng([self.seed, 3]), count, self.dim)

    def tolerance(self) -> float:
        """Squared error, relative to |x|^2, that a few coordinates make which lie within
        rounding of a threshold and fall on its other side."""
        return ROUNDING + 0.1 * theory.lloyd_max_distortion(self.dim, self.bits)


@st.composite
def choices(draw: st.DrawFn, cells: tuple[tuple[str, str, int, int], ...]) -> Choice:
    return Choice(*draw(st.sampled_from(cells)), draw(st.integers(0, SEEDS - 2)))


def cells(backend: Backend) -> tuple[tuple[str, str, int, int], ...]:
    """Kind, sketch, dimension and width of all codecs that the backend offers at DIMS."""
    offered = backend.capabilities
    return tuple(
        (kind, sketch, dim, bits)
        for kind in offered.kinds
        if KINDS[kind].judged
        for sketch in KINDS[kind].sketches
        for dim in DIMS
        for bits in range(1, 9)
        if offered.has(kind, sketch, dim, bits)
    )


class _Hung(BaseException):
    """A child process hangs. It ends the search: each further example would take as long."""


def for_all(check: Callable[[Choice, st.DataObject], None], backend: Backend) -> None:
    """Runs `check` on codecs of every kind, width and dimension that Hypothesis thinks of."""

    offered = cells(backend)
    if not offered:
        pytest.skip("not applicable: the backend offers no codec at these dimensions")

    @settings(suppress_health_check=list(HealthCheck))  # a backend may refuse most of it
    @given(choices(offered), st.data())
    def search(choice: Choice, data: st.DataObject) -> None:
        try:
            check(choice, data)
        except NotImplementedError:
            assume(False)
        except BackendHung as problem:
            raise _Hung(f"{problem}, with {choice}") from problem

    try:
        search()
    except _Hung as hung:
        pytest.fail(str(hung), pytrace=False)
    except Unsatisfiable:
        pytest.skip("not applicable: the backend offers no codec that this says anything about")


def catches(*faults: str) -> Callable[[Any], Any]:
    """Names the faults of kvassay.conformance.faults that the property must fail on."""

    def mark(test: Any) -> Any:
        test.catches = faults
        return test

    return mark


def has_levels(backend: Backend, choice: Choice) -> bool:
    """Whether decode gives anything: not if it leaves out a sketch that is all there is."""
    alone = KINDS[choice.kind].scalar_bits(choice.bits) == 0
    return backend.capabilities.decode_includes_sketch or not alone


def decoded(codec: Any, code: Any) -> Array:
    return np.asarray(codec.decode(code)).astype(np.float64)


def roundtrip(codec: Any, x: Any) -> Array:
    return decoded(codec, codec.encode(np.asarray(x)))


@contextmanager
def refusal_allowed() -> Iterator[None]:
    """An exception of the codec ends the block and is no failure: what cannot be represented
    must be refused. A child process that crashes or hangs has refused nothing."""
    try:
        yield
    except (Gone, BackendHung):
        raise
    except Exception:
        return


def refuses(action: Callable[[], Any]) -> bool:
    """Whether the codec raises, whatever it raises."""
    with refusal_allowed():
        action()
        return False
    return True


def roundtrip_unless_refused(codec: Any, x: Any) -> Array:
    """The reconstruction of something that a codec may refuse; that example is then dropped."""
    with refusal_allowed():
        return roundtrip(codec, x)
    assume(False)
    raise AssertionError  # not reached


def differ(first: Array, second: Array, x: Any) -> Array:
    """Squared difference of each row relative to the vector's own energy; 0 for a zero one."""
    energy = np.sum(np.asarray(x, dtype=np.float64) ** 2, axis=1)
    squares = np.sum((first - second) ** 2, axis=1)
    return np.asarray(squares / np.where(energy > 0, energy, 1))


def fill_memory(filling: int) -> None:
    """Leaves freed blocks of all the sizes that a small batch may ask for."""
    sizes = [count * width for count in range(1, 9) for width in range(2, 1100, 2)]
    blocks = [np.full(size, filling, dtype=np.uint8) for size in sizes]
    del blocks


def cut(code: Any) -> Any:
    """`code` with half of each vector's bytes; None if it is not made of arrays or bytes."""
    if isinstance(code, bytes):
        return code[: len(code) // 2]
    if isinstance(code, np.ndarray):
        half = code.shape[1] // 2 if code.ndim == 2 else 0
        return np.ascontiguousarray(code[:, :half]) if half else None
    if isinstance(code, dict):
        pairs: Any = list(code.items())
        return _cut_one(pairs, dict)
    if isinstance(code, (tuple, list)) and not hasattr(code, "_fields"):
        return _cut_one(list(enumerate(code)), lambda parts: type(code)(v for _, v in parts))
    if is_dataclass(code) and not isinstance(code, type):
        pairs = [(each.name, getattr(code, each.name)) for each in fields(code) if each.init]
        return _cut_one(pairs, lambda parts: replace(code, **dict(parts)))
    return None


def _cut_one(pairs: list[tuple[Any, Any]], join: Callable[[Any], Any]) -> Any:
    """The same with the first part cut that can be."""
    for place, (name, part) in enumerate(pairs):
        if (short := cut(part)) is not None:
            return join([*pairs[:place], (name, short), *pairs[place + 1 :]])
    return None


def property_name(function: str) -> str:
    """What a property is called in a file of deviations: "zero-vectors"."""
    return function.removeprefix("test_").replace("_", "-")
