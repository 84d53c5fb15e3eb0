"""What properties are made of: the codecs that Hypothesis chooses, and how results are compared."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from numpy.typing import NDArray

from kvassay.conformance.measure import inputs
from kvassay.conformance.measure.cell import BackendHung, Cell
from kvassay.conformance.measure.edges import BY_NAME, Subject
from kvassay.conformance.measure.edges import differ as differ
from kvassay.conformance.measure.edges import refuses as refuses
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

    def subject(self, backend: Backend) -> Subject:
        """The codec that was chosen, as the edges take it."""
        complete = not self.sketch or backend.capabilities.decode_includes_sketch
        cell = Cell(self.kind, self.sketch, self.dim, self.bits, complete)
        return Subject(backend, cell, self.seed)

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


def holds_at_the_edge(name: str, backend: Backend) -> None:
    """Runs the edge `name` on codecs and with variants that Hypothesis chooses."""
    edge = BY_NAME[name]

    def check(choice: Choice, data: st.DataObject) -> None:
        variant = data.draw(st.sampled_from(edge.variants))
        subject = choice.subject(backend)
        _ = subject.codec  # that it cannot be made is no refusal of an input
        deviation, limit = edge.measure(subject, variant), edge.limit(subject.cell)
        assert deviation <= limit, f"deviation {deviation:g}, should be at most {limit:g}"

    for_all(check, backend)


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


def property_name(function: str) -> str:
    """What a property is called in a file of deviations: "zero-vectors"."""
    return function.removeprefix("test_").replace("_", "-")
