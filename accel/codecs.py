"""The codecs on an OpenCL device, and attention on what they store.

The numbers (signs, sketch, table) are those of kvassay.reference, made on the host and passed
in: the same seed gives the same codes, but where a rotated coordinate lies within rounding of
a threshold. Norms are float32 here.

Everything takes NumPy arrays, which are streamed through the device piece by piece, or
pyopencl arrays, which stay there; results lie where the input did.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from numpy.typing import NDArray

from kvassay.accel.devices import LARGEST_DIM, Runtime, constant
from kvassay.reference import codecs as reference
from kvassay.reference import hadamard, packing, qjl
from kvassay.reference.codecs import Code

Rows = Any  # (N, d): a NumPy array or a pyopencl.array.Array
WIDE_FROM = 5  # bits of a table from which float32 would move more than 1e-6 of the indices
TILE = 64  # keys, as in attention.cl


class Scalar:
    """As reference.codecs.Scalar, on the device of `runtime`. `codec` makes it."""

    def __init__(self, runtime: Runtime, numbers: reference.Codec) -> None:
        if numbers.dim > LARGEST_DIM:
            raise NotImplementedError(f"accel has d up to {LARGEST_DIM}, got {numbers.dim}.")
        self.runtime = runtime
        self.dim = numbers.dim
        self.bits = numbers.bits
        self._numbers = numbers
        self._operands = _Operands(runtime, numbers)

    def codebook(self) -> NDArray[np.float64]:
        """Levels for the coordinates of a unit vector, increasing."""
        return self._numbers.codebook()

    def nbytes(self, code: Code) -> int:
        """Bytes that `code` holds, side information included."""
        return code.nbytes

    def encode(self, x: Rows) -> Code:
        """Code of the rows of `x`, (N, d) of any floating dtype, a memory map too. ValueError
        where a row is not finite or its norm exceeds float32."""
        x = self._checked("x", x)
        if isinstance(x, cl_array.Array):
            return self._encode(x, x, 0)
        whole: dict[str, NDArray[Any]] = {}
        for start, piece in self._pieces(x):
            code = self._encode(self._to_device(piece), piece, start)
            for name, part in code.parts().items():
                if start == 0:
                    whole[name] = np.empty((len(x), *part.shape[1:]), part.dtype)
                self._fetch(part, whole[name][start : start + len(piece)])
        return _code(**whole)

    def decode(self, code: Code) -> Rows:
        """Reconstruction, (N, d) float32."""
        code = self._stored(code)
        if isinstance(code.norms, cl_array.Array):
            return self._decode(code)
        out = np.empty((len(code), self.dim), np.float32)
        for start, piece in self._pieces(code):
            self._fetch(self._decode(self._on_device(piece)), out[start : start + len(piece)])
        return out

    def inner_products(self, q: Rows, code: Code) -> Rows:
        """Estimates of <q_i, x_j>, (M, N) float32, from the packed codes: the queries are
        rotated once, and no decoded x goes to memory."""
        code = self._stored(code)
        queries = self._queries(q)
        if isinstance(code.norms, cl_array.Array):
            return self._scores(queries, code)
        out = np.empty((len(queries[0]), len(code)), np.float32)
        for start, piece in self._pieces(code, row_bytes=4 * (self.dim + len(out))):
            scores = self._scores(queries, self._on_device(piece))
            out[:, start : start + len(piece)] = scores.get()
        return out

    def _encode(self, x: cl_array.Array, rows: Rows, start: int) -> Code:
        """The code of `x`, which are `rows` of an input from `start`."""
        own, count = self._operands, len(x)
        real = "f8" if own.wide else "f4"
        packed = self._array((count, packing.row_bytes(self.dim, own.bits)), np.uint8)
        norms = self._array((count,), np.float32)
        block = self.runtime.block(count)
        given = own("rotation", real), own("thresholds", real)
        if own.sketch is None:
            code = _code(indices=packed, norms=norms)
            operation = "encode"
            arguments: tuple[Any, ...] = (x, *given, packed, norms)
        else:
            signs = self._array((count, packing.row_bytes(self.dim, 1)), np.uint8)
            sizes = self._array((count,), np.float32)
            code = _code(indices=packed, norms=norms, signs=signs, residual_norms=sizes)
            operation = "sketch"
            sketch = own("levels", real), own("sketch", real), own("kept", "i4")
            arguments = (x, *given, *sketch, packed, norms, signs, sizes)
        kernel = self.runtime.kernel(operation, "encode", **own.macros(own.wide, many=True))
        self._run(kernel, -(-count // block), *arguments, count, block)
        finite = np.isfinite(norms.get()) if count else np.ones(0, bool)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            values = rows[row].get() if isinstance(rows, cl_array.Array) else rows[row]
            what = "a norm beyond float32" if np.isfinite(values).all() else "NaN or infinity"
            raise ValueError(f"x must be finite in float32, got {what} in row {start + row}")
        return code

    def _decode(self, code: Code) -> cl_array.Array:
        own, count = self._operands, len(code)
        out = self._array((count, self.dim), np.float32)
        block = self.runtime.block(count)
        kernel = self.runtime.kernel("decode", "decode", **own.macros(many=True))
        self._run(
            kernel, -(-count // block), code.indices, code.norms, code.signs, code.residual_norms,
            own("rotation"), own("levels"), own("sketch transposed"), own("kept", "i4"), own.scale,
            out, count, block,
        )  # fmt: skip
        return out

    def _scores(self, queries: "Queries", code: Code) -> cl_array.Array:
        own, count, query_count = self._operands, len(code), len(queries[0])
        out = self._array((query_count, count), np.float32)
        together = _together(query_count, 4096 // self.dim)  # 16 KiB: half of the nearest cache
        block = self.runtime.block(count) if self.runtime.variant == "item" else own.lanes
        kernel = self.runtime.kernel("scores", "scores", **own.macros(), QUERIES=together)
        self._run(
            kernel, (-(-count // block), -(-query_count // together)), *queries, own("levels"),
            code.indices, code.norms, code.signs, code.residual_norms, own.scale, out,
            query_count, count, block,
        )  # fmt: skip
        return out

    def _queries(self, q: Rows) -> "Queries":
        """`q` in rotated coordinates, and the sketch of that if there is one."""
        own = self._operands
        rotated = self._to_device(self._checked("q", q))
        if own.rotated:
            rotated = self._mapped("rotate_forward", rotated, own("rotation"))
        if own.sketch is None:
            return rotated, None
        sketch = own("rotation"), own("sketch"), own("kept", "i4")
        return rotated, self._mapped("project", rotated, *sketch)

    def _mapped(self, name: str, x: cl_array.Array, *arguments: Any) -> cl_array.Array:
        """What the kernel `name` of rotate.cl makes of the rows of `x`."""
        out = self._array((len(x), self.dim), np.float32)
        block = self.runtime.block(len(x))
        kernel = self.runtime.kernel("rotate", name, **self._operands.macros())
        self._run(kernel, -(-len(x) // block), x, *arguments, out, len(x), block)
        return out

    def _run(self, kernel: Any, groups: int | tuple[int, int], *arguments: Any) -> None:
        """Starts `groups` work-groups, unless there is nothing to do."""
        shape = groups if isinstance(groups, tuple) else (groups, 1)
        if 0 in shape:
            return
        lanes = self._operands.lanes
        kernel(
            self.runtime.queue, (shape[0] * lanes, shape[1]), (lanes, 1),
            *(self._argument(value) for value in arguments),
        )  # fmt: skip

    def _argument(self, value: Any) -> Any:
        if isinstance(value, int):
            return np.int32(value)
        if isinstance(value, float):
            return np.float32(value)
        if value is None or value.size == 0:
            return self.runtime.nothing
        return value.data if value.offset == 0 else value.copy().data

    def _array(self, shape: tuple[int, ...], dtype: Any) -> cl_array.Array:
        return cl_array.empty(self.runtime.queue, shape, dtype, allocator=self.runtime.memory)

    def _to_device(self, x: Rows) -> cl_array.Array:
        if isinstance(x, cl_array.Array):
            return x
        with np.errstate(over="ignore"):  # what exceeds float32 is refused with its row
            rows = np.ascontiguousarray(x, dtype=np.float32)
        return cl_array.to_device(self.runtime.queue, rows, allocator=self.runtime.memory)

    def _on_device(self, code: Code) -> Code:
        """A code in NumPy arrays, on the device."""
        queue, memory = self.runtime.queue, self.runtime.memory
        return _code(**{
            name: cl_array.to_device(queue, np.ascontiguousarray(part), allocator=memory)
            for name, part in code.parts().items()
        })  # fmt: skip

    def _fetch(self, array: Any, out: NDArray[Any]) -> None:
        if array.size:
            cl.enqueue_copy(self.runtime.queue, out, array.base_data)

    def _pieces(self, whole: Any, row_bytes: int = 0) -> Iterator[tuple[int, Any]]:
        """Slices of `whole`, rows or a code, that fit the device, and where each starts; one if
        it is empty."""
        step = max(1, self.runtime.chunk_bytes // (row_bytes or 4 * self.dim))
        for start in range(0, len(whole) or 1, step):
            yield start, whole[start : start + step]

    def _checked(self, name: str, x: Any) -> Rows:
        """`x` if it is (N, dim) and floating point, or ValueError."""
        array = x if isinstance(x, cl_array.Array) else np.asarray(x)
        if array.dtype.kind != "f":
            raise ValueError(f"{name} must be floating point, got dtype {array.dtype}")
        if len(array.shape) != 2 or array.shape[1] != self.dim:
            raise ValueError(f"{name} must have shape (N, {self.dim}), got {array.shape}")
        if isinstance(array, cl_array.Array) and (
            array.dtype != np.float32 or not array.flags.c_contiguous
        ):
            raise ValueError(f"{name} on a device must be float32 in C order, got {array.dtype}")
        return array

    def _stored(self, code: Code) -> Code:
        """`code` with float32 norms, or ValueError where it is not of this codec."""
        count = len(code.norms)
        widths = {"indices": self._operands.bits, "signs": int(self._operands.sketch is not None)}
        parts = code.parts()
        expected = {"indices", "norms"} | (
            {"signs", "residual_norms"} if self._operands.sketch else set()
        )
        if set(parts) != expected:
            raise ValueError(f"code must hold {', '.join(sorted(expected))}, got {sorted(parts)}")
        for name, part in parts.items():
            shape: tuple[int, ...] = (count,)
            if name in widths:
                shape += (packing.row_bytes(self.dim, widths[name]),)
            if part.shape != shape or part.dtype.kind != ("u" if name in widths else "f"):
                raise ValueError(
                    f"{name} of a code must have shape {shape}, got {part.shape} of {part.dtype}"
                )
            if isinstance(part, np.ndarray):
                if name not in widths:
                    parts[name] = part.astype(np.float32, copy=False)
            elif not part.flags.c_contiguous or part.dtype not in (np.uint8, np.float32):
                raise ValueError(
                    f"{name} on a device must be in C order, and float32 where it is floating "
                    f"point, got {part.dtype}"
                )
        return _code(**parts)


class Rotated(Scalar):
    """As reference.codecs.TurboQuantMSE and TurboQuantProd, on the device of `runtime`."""

    def rotate(self, x: Rows) -> Rows:
        """Rows of `x` (N, d) in the rotated coordinates, float32."""
        return self._both_ways("rotate_forward", x)

    def unrotate(self, y: Rows) -> Rows:
        """The inverse of `rotate`."""
        return self._both_ways("rotate_inverse", y)

    def _both_ways(self, name: str, x: Rows) -> Rows:
        x = self._checked("x", x)
        rotation = self._operands("rotation")
        if isinstance(x, cl_array.Array):
            return self._mapped(name, x, rotation)
        out = np.empty(x.shape, np.float32)
        for start, piece in self._pieces(x):
            turned = self._mapped(name, self._to_device(piece), rotation)
            self._fetch(turned, out[start : start + len(piece)])
        return out


Queries = tuple[cl_array.Array, cl_array.Array | None]


class _Operands:
    """The numbers of a codec as arrays on the device, in the layouts of the kernels."""

    def __init__(self, runtime: Runtime, numbers: reference.Codec) -> None:
        self._runtime = runtime
        self.dim = numbers.dim
        self.sketch: qjl.Sketch | None = getattr(numbers, "sketch", None)
        self.scale = 0.0 if self.sketch is None else self.sketch.scale
        self.bits = numbers.bits - (self.sketch is not None)  # of the table
        self.lanes = runtime.lanes(self.dim)
        # A sketch's signs hang on small differences, and on every index.
        self.wide = runtime.device.wide and (self.sketch is not None or self.bits >= WIDE_FROM)
        rotation = getattr(numbers, "rotation", None)
        self.rotated = isinstance(rotation, hadamard.RandomizedHadamard)
        signs = getattr(rotation, "signs", np.ones(self.dim))
        power = self.dim & -self.dim
        hartley = hadamard.transform(np.eye(self.dim // power))
        self._host = {
            "rotation": np.concatenate([signs, hartley.ravel()]),
            "thresholds": numbers.book.thresholds,
            "levels": np.concatenate([numbers.codebook(), [-1.0, 1.0]]),  # and those of a sign
        }
        self._family, kept = 0, np.arange(self.dim)
        if isinstance(self.sketch, qjl.GaussianSketch):
            self._family = 1
            self._host["sketch"] = _in_eights(self.sketch.matrix)
            self._host["sketch transposed"] = _in_eights(self.sketch.matrix.T)
        elif isinstance(self.sketch, qjl.OrthogonalSketch):
            self._family = 2
            ((rounds, kept),) = self.sketch.blocks
            turns = [turn.signs for turn in rounds if isinstance(turn, hadamard.RandomizedHadamard)]
            self._host["sketch"] = self._host["sketch transposed"] = np.concatenate(turns)
        self._host["kept"] = kept
        self._device: dict[tuple[str, str], cl_array.Array] = {}
        self._macros = {
            "DIM": self.dim,
            "BITS": self.bits,
            "ROTATED": int(self.rotated),
            "SKETCH": self._family,
            "LANES": self.lanes,
        }

    def __call__(self, name: str, dtype: str = "f4") -> cl_array.Array | None:
        """The array called `name`, or None where the codec has no use for it."""
        if name not in self._host:
            return None
        if (name, dtype) not in self._device:
            array = np.ascontiguousarray(self._host[name], dtype)
            self._device[name, dtype] = cl_array.to_device(self._runtime.queue, array)
        return self._device[name, dtype]

    def macros(self, wide: bool = False, many: bool = False) -> dict[str, object]:
        """What the kernels are compiled with; those for `many` vectors share a dense sketch."""
        root = (self.dim & -self.dim) ** 0.5
        share = many and self._family == 1 and self.lanes == 1
        return self._macros | {
            "VECTORS": 4 if share else 1,
            "WIDE": int(wide),
            "SHRINK": constant(1 / root, wide),
            "GROW": constant(root, wide),
        }


def codec(
    runtime: Runtime,
    kind: str,
    dim: int,
    bits: int,
    seed: int,
    *,
    rotation: str = "hadamard",
    sketch: str = "gaussian",
    generator: str = "PCG64",
) -> Scalar:
    """The codec of these arguments, those of reference.codecs.codec, on the device of `runtime`.

    `rotation` is "hadamard" or "none", `sketch` "gaussian" or "orthogonal", d at most 1024.
    NotImplementedError for what only the reference offers, ValueError for what nobody does.
    """
    if rotation == "haar" or sketch == "haar":
        raise NotImplementedError("accel has no dense random rotations.")
    numbers = reference.codec(
        kind, dim, bits, seed, rotation=rotation, sketch=sketch, generator=generator
    )
    turns = kind != "scalar" and rotation == "hadamard"
    return (Rotated if turns else Scalar)(runtime, numbers)


def attention(
    q: Rows,
    key_codec: Scalar,
    keys: Code,
    value_codec: Scalar,
    values: Code,
    *,
    scale: float | None = None,
    causal: bool = False,
) -> Rows:
    """softmax(scale q K^T) V on the compressed cache: (M, d) queries to (M, d) float32.

    `keys` and `values` are the codes of N tokens. `scale` is 1/sqrt(d) by default. If
    `causal`, the queries stand at the last M positions. K is never decoded; V is summed in
    its rotated coordinates and rotated back once for each query. ValueError where the codecs
    or the codes do not fit together.
    """
    runtime, dim = key_codec.runtime, key_codec.dim
    if value_codec.runtime is not runtime or value_codec.dim != dim:
        raise ValueError("key_codec and value_codec must have one dimension and one runtime")
    keys, values = key_codec._stored(keys), value_codec._stored(values)
    count = len(keys.norms)
    if len(values.norms) != count or count == 0:
        raise ValueError(f"K and V must hold as many tokens, got {count} and {len(values.norms)}")
    queries = key_codec._queries(q)
    query_count = len(queries[0])
    if causal and query_count > count:
        raise ValueError(f"q must have at most {count} rows where causal, got {query_count}")
    own, others = key_codec._operands, value_codec._operands
    on_device = isinstance(keys.norms, cl_array.Array)
    step = count if on_device else max(1, runtime.chunk_bytes // (8 * dim)) // TILE * TILE + TILE
    together = _together(query_count, min(16, 2048 // dim))
    chunk = runtime.keys_together(min(step, count), -(-query_count // together), TILE)
    pieces = [(start, min(step, count - start)) for start in range(0, count, step)]
    parts = sum(-(-size // chunk) for _, size in pieces)
    largest, total = (key_codec._array((query_count, parts), np.float32) for _ in range(2))
    sums = key_codec._array((query_count, parts, dim), np.float32)
    sketch_sums = key_codec._array(sums.shape, np.float32) if others.sketch else None
    attend = runtime.kernel(
        "attention", "attend", **own.macros(), QUERIES=together,
        VALUE_BITS=others.bits, VALUE_SKETCH=int(others.sketch is not None),
    )  # fmt: skip
    before = 0
    for start, size in pieces:
        k, v = keys, values
        if not on_device:
            k = key_codec._on_device(keys[start : start + size])
            v = value_codec._on_device(values[start : start + size])
        groups = -(-size // chunk)
        key_codec._run(
            attend, (groups, -(-query_count // together)), *queries,
            own("levels"), k.indices, k.norms, k.signs, k.residual_norms, own.scale,
            others("levels"), v.indices, v.norms, v.signs, v.residual_norms, others.scale,
            largest, total, sums, sketch_sums,
            float(dim**-0.5 if scale is None else scale), int(causal),
            query_count, size, chunk, start, count, before, parts,
        )  # fmt: skip
        before += groups
    out = key_codec._array((query_count, dim), np.float32)
    merge = runtime.kernel("merge", "merge", **others.macros())
    value_codec._run(
        merge, query_count, largest, total, sums, sketch_sums,
        others("rotation"), others("sketch transposed"), others("kept", "i4"), out, parts,
    )  # fmt: skip
    return out if on_device else out.get()


def _in_eights(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A square matrix as the kernels multiply by it: (rows / 8, columns, 8 rows)."""
    dim = len(matrix)
    padded = np.pad(matrix, [(0, -dim % 8), (0, 0)])
    return padded.reshape(-1, 8, dim).transpose(0, 2, 1)


def _code(**parts: Any) -> Code:
    """A code of arrays that lie in either place."""
    return Code(**parts)


def _together(query_count: int, most: int) -> int:
    """Queries that one pass over the codes serves: a power of two up to `most`."""
    together = 1
    while together < min(query_count, most):
        together *= 2
    return together
