"""What holds for every single input. Each docstring begins with the fault it exists for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvassay.conformance import inputs
from kvassay.conformance.protocol import Backend
from kvassay.reference import theory

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

    def codec(self, backend: Backend) -> Any:
        options = {"sketch": self.sketch} if self.sketch else {}
        try:
            return backend.codec(self.kind, self.dim, self.bits, self.seed, **options)
        except NotImplementedError:
            assume(False)

    def sample(self, count: int) -> inputs.Vectors:
        """Vectors of every family in turn, so that structure is always among them."""
        rng = np.random.default_rng(self.seed)
        families = [inputs.isotropic, *inputs.STRUCTURED.values()]
        rows = [families[i % len(families)](rng, 1, self.dim) for i in range(count)]
        return np.concatenate([np.zeros((0, self.dim), np.float32), *rows])

    def tolerance(self) -> float:
        """Squared error, relative to |x|^2, that a few coordinates make which lie within
        rounding of a threshold and fall on its other side."""
        return ROUNDING + 0.1 * theory.lloyd_max_distortion(self.dim, self.bits)


@st.composite
def choices(draw: st.DrawFn, variants: tuple[tuple[str, str], ...]) -> Choice:
    kind, sketch = draw(st.sampled_from(variants))
    dim, bits = draw(st.sampled_from(DIMS)), draw(st.integers(1, 8))
    return Choice(kind, sketch, dim, bits, draw(st.integers(0, 2**31 - 1)))


def variants(backend: Backend) -> tuple[tuple[str, str], ...]:
    """All kinds of a backend, with each of its sketches."""
    offered = backend.capabilities
    return tuple(
        (kind, sketch)
        for kind in offered.kinds
        for sketch in (offered.sketches if kind == "turboquant-prod" else ("",))
    )


def for_all(check: Callable[[Choice, st.DataObject], None], backend: Backend) -> None:
    """Runs `check` on codecs of every kind, width and dimension that Hypothesis thinks of."""

    @given(choices(variants(backend)), st.data())
    def search(choice: Choice, data: st.DataObject) -> None:
        check(choice, data)

    search()


def decoded(codec: Any, code: Any) -> Array:
    return np.asarray(codec.decode(code)).astype(np.float64)


def roundtrip(codec: Any, x: Any) -> Array:
    return decoded(codec, codec.encode(np.asarray(x)))


def differ(first: Array, second: Array, x: Any) -> Array:
    """Squared difference of each row relative to the vector's own energy; 0 for a zero one."""
    energy = np.sum(np.asarray(x, dtype=np.float64) ** 2, axis=1)
    squares = np.sum((first - second) ** 2, axis=1)
    return np.asarray(squares / np.where(energy > 0, energy, 1))


def test_shape_and_dtype(backend: Backend) -> None:
    """F01, G14: tails dropped and empty batches mishandled. Any count, 0 and 1 among them,
    gives finite floating-point vectors of the shape that went in."""

    def check(choice: Choice, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, 9))
        codec = choice.codec(backend)
        result = np.asarray(codec.decode(codec.encode(choice.sample(count))))
        assert result.shape == (count, choice.dim)
        assert result.dtype.kind == "f"
        assert np.isfinite(result).all()

    for_all(check, backend)


def test_zero_vectors(backend: Backend) -> None:
    """D09, A20: a zero norm or residual divided by makes NaN. A zero vector decodes to zero,
    and its neighbours do not notice."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(3)
        x[1] = 0
        result = roundtrip(codec, x)
        assert np.max(np.abs(result[1])) <= 1e-6
        assert np.any(result[0] != 0)

    for_all(check, backend)


def test_scale_equivariance(backend: Backend) -> None:
    """D01, D06, C14: a norm that is missing, overflows or is applied on one side only. For
    a power of two, which rounds nothing, encoding a x gives a times the reconstruction."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(4)
        scale = np.float32(2.0 ** data.draw(st.integers(-12, 6)))
        assert np.all(
            differ(roundtrip(codec, x * scale) / float(scale), roundtrip(codec, x), x)
            <= choice.tolerance()
        )

    for_all(check, backend)


def test_batch_is_singles(backend: Backend) -> None:
    """B05, E03, E06, H06: one token takes another path than many."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(data.draw(st.integers(2, 9)))
        singles = np.vstack([roundtrip(codec, x[i : i + 1]) for i in range(len(x))])
        assert np.all(differ(roundtrip(codec, x), singles, x) <= choice.tolerance())

    for_all(check, backend)


def test_order_of_tokens(backend: Backend) -> None:
    """E02, H04: a record that reaches into its neighbour, or a stride that is ignored.
    Permuted vectors give permuted reconstructions."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(8)
        order = np.array(data.draw(st.permutations(range(8))))
        assert np.all(
            differ(roundtrip(codec, x[order]), roundtrip(codec, x)[order], x[order])
            <= choice.tolerance()
        )

    for_all(check, backend)


def test_memory_layout(backend: Backend) -> None:
    """E-class: strides ignored. Views that are reversed, strided or in Fortran order encode
    like a copy of them."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(6)
        views = {
            "reversed": x[::-1],
            "strided": np.repeat(x, 2, axis=0)[::2],
            "columns": np.repeat(x, 2, axis=1)[:, ::2],
            "fortran": np.asfortranarray(x),
            "read-only": np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
        }
        view = views[data.draw(st.sampled_from(sorted(views)))]
        expected = roundtrip(codec, view.copy())
        assert np.all(differ(roundtrip(codec, view), expected, view) <= choice.tolerance())

    for_all(check, backend)


def test_input_is_left_alone(backend: Backend) -> None:
    """In-place normalisation spoils the caller's cache."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(4)
        before = x.copy()
        codec.encode(x)
        np.testing.assert_array_equal(x, before)

    for_all(check, backend)


def test_code_outlives_the_next_encode(backend: Backend) -> None:
    """H01, H13: codes that are views of a workspace, or state kept from the last batch."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        x = choice.sample(6)
        code = codec.encode(x)
        expected = decoded(codec, code)
        codec.encode(-3 * x[::-1])
        np.testing.assert_array_equal(decoded(codec, code), expected)

    for_all(check, backend)


def test_one_seed_one_codec(backend: Backend) -> None:
    """B12, A06: randomness from elsewhere than the seed. A code written by one instance is
    read by another."""

    def check(choice: Choice, data: st.DataObject) -> None:
        writer, reader = choice.codec(backend), choice.codec(backend)
        x = choice.sample(5)
        np.testing.assert_array_equal(
            decoded(reader, writer.encode(x)), decoded(writer, writer.encode(x))
        )

    for_all(check, backend)


def test_estimates_are_linear_in_the_query(backend: Backend) -> None:
    """A18: a constant in the estimate, so that scaling the query changes the ranking."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        assume(hasattr(codec, "inner_products"))
        x = choice.sample(6)
        factor = 2.0 ** data.draw(st.integers(-6, 6))
        rng = np.random.default_rng(choice.seed)
        first, second = rng.standard_normal((2, 1, choice.dim)).astype(np.float32)
        code = codec.encode(x)

        def estimate(q: Any) -> Array:
            return np.asarray(codec.inner_products(q.astype(np.float32), code), dtype=np.float64)

        norms = np.linalg.norm(x, axis=1) * np.sqrt(choice.dim) * (factor + 1)
        combined = estimate(factor * first + second)
        parts = factor * estimate(first) + estimate(second)
        assert np.all(np.abs(combined - parts) <= ROUNDING * norms)

    for_all(check, backend)


def test_wrong_width_is_refused(backend: Backend) -> None:
    """F08: vectors of another width are padded, cropped or read past their end. They must
    raise; what they raise is up to the implementation."""

    def check(choice: Choice, data: st.DataObject) -> None:
        codec = choice.codec(backend)
        wrong = choice.dim + data.draw(st.sampled_from((-1, 1, choice.dim)))
        with pytest.raises(Exception):  # noqa: B017, PT011
            codec.encode(np.ones((2, wrong), dtype=np.float32))

    for_all(check, backend)
