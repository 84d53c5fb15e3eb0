"""How codecs on a device are held against the reference."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyopencl.array as cl_array

from kvassay import accel
from kvassay.reference import codecs as reference
from kvassay.reference import packing
from kvassay.reference.attention import attend

ULPS = 4  # of a threshold, within which a coordinate may fall on its other side
MISMATCHES = 1e-6  # of the coordinates that may


@dataclass(frozen=True)
class Case:
    """The arguments of a codec."""

    kind: str
    dim: int
    bits: int
    sketch: str = ""
    rotation: str = ""
    seed: int = 3

    def __str__(self):
        words = self.kind, self.sketch, self.rotation and "unrotated"
        return "-".join([*filter(None, words), str(self.dim), f"b{self.bits}"])

    @property
    def options(self):
        named = {"sketch": self.sketch, "rotation": self.rotation}
        return {name: value for name, value in named.items() if value}

    @property
    def table_bits(self):
        return self.bits - bool(self.sketch)


@cache
def on_device(runtime, case):
    return accel.codec(runtime, case.kind, case.dim, case.bits, case.seed, **case.options)


@cache
def in_reference(case):
    return reference.codec(case.kind, case.dim, case.bits, case.seed, **case.options)


@dataclass
class Tally:
    """Coordinates compared (indices and signs of sketches), and those that differ."""

    coordinates: int = 0
    mismatches: int = 0

    def add(self, other):
        self.coordinates += other.coordinates
        self.mismatches += other.mismatches

    def __str__(self):
        return (
            f"{self.mismatches} of {self.coordinates:,} coordinates of codes differ "
            "from the reference's, all within rounding of a threshold"
        )


def few(runtime, count):
    """`count` rows, or as many as a simulator gets through."""
    return min(count, 6) if runtime.device.platform == "Oclgrind" else count


def normal(count, dim, seed=0):
    """Normal vectors of norms that spread over several octaves, in float32."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, dim)) * np.exp(rng.standard_normal((count, 1)))
    return x.astype(np.float32)


def norms(x):
    return np.linalg.norm(np.asarray(x, np.float64), axis=1)


def to_device(runtime, code):
    """The same code in device arrays."""
    return _mapped(code, lambda name, part: cl_array.to_device(runtime.queue, part))


def from_device(code):
    """The same code in NumPy arrays."""
    return _mapped(code, lambda name, part: part.get())


def in_float32(code):
    """A code of the reference as a device keeps it."""
    return _mapped(
        code, lambda name, part: np.array(part, "f4" if "norms" in name else "u1", order="C")
    )


def _mapped(code, function):
    return reference.Code(**{name: function(name, part) for name, part in code.parts().items()})


def same_bytes(one, other):
    """Whether two codes store the same, bit for bit."""
    return vars(one).keys() == vars(other).keys() and one.tobytes() == other.tobytes()


def assert_codes_agree(case, x, code, tally=None):
    """`code` of `x` is the reference's but for coordinates within rounding of a threshold, and
    signs of the sketch of the residual that it leaves are right but for those near zero.

    If `tally` is None, `x` was made to have such coordinates, and they may be many.
    """
    own = in_reference(case)
    expected = own.encode(x)
    np.testing.assert_allclose(code.norms, expected.norms, rtol=1e-6, atol=0)
    sizes = np.where(expected.norms > 0, expected.norms, 1)[:, None]
    rotated = own.rotate(x) if hasattr(own, "rotate") else np.asarray(x, np.float64)
    residual = rotated / sizes
    if case.table_bits:
        got, wanted = (
            packing.unpack(one.indices, case.dim, case.table_bits) for one in (code, expected)
        )
        wrong = got != wanted
        _count(wrong, tally)
        thresholds = own.book.thresholds[np.minimum(got, wanted)[wrong]]
        assert (abs(got[wrong].astype(int) - wanted[wrong]) == 1).all()
        rms = case.dim**-0.5
        room = ULPS * np.spacing(np.maximum(abs(thresholds), rms).astype(np.float32))
        assert (abs(residual[wrong] - thresholds) <= room).all()
        residual = residual - own.codebook()[got]
    else:
        assert code.indices.shape == (len(x), 0)
    if case.sketch:
        lengths = norms(residual)
        np.testing.assert_allclose(code.residual_norms, lengths, rtol=1e-5, atol=1e-7)
        direction = residual / np.where(lengths > 0, lengths, 1)[:, None]
        projected = own.sketch.project(np.ascontiguousarray(direction))
        wrong = (projected >= 0) != packing.unpack(code.signs, case.dim, 1)
        rms = 1 if case.sketch == "gaussian" else case.dim**-0.5
        assert (abs(projected[wrong]) <= ULPS * np.spacing(np.float32(rms))).all()
        _count(wrong, tally)


def _count(wrong, tally):
    if tally is not None:
        share = f"{wrong.sum()} of {wrong.size} coordinates differ"
        assert wrong.sum() <= np.ceil(MISMATCHES * wrong.size), share
        tally.add(Tally(wrong.size, int(wrong.sum())))


def attention_of(q, key_case, keys, value_case, values, scale=None, causal=False):
    """softmax(scale q K^T) V of what the reference decodes, in float64."""
    k, v = in_reference(key_case).decode(keys), in_reference(value_case).decode(values)
    factor = 1 if scale is None else scale * q.shape[1] ** 0.5  # of what the reference has
    positions = np.arange(len(k) - len(q), len(k)) if causal else None
    return attend(np.asarray(q, np.float64) * factor, k, v, positions)
