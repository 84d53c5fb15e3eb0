"""Encode, decode, scores and attention of the OpenCL codecs, against copying the same bytes,
FAISS, the NumPy reference, and "decode, then BLAS". One driver, one run.

    pip install -e '.[pocl]' faiss-cpu==1.15.1
    python benchmarks/opencl.py                     # about five minutes
    python benchmarks/opencl.py --dim 128 --bits 4 --rounds 15

Arrays lie on the device; a call is timed until the queue is empty. What is timed is checked
first, against the reference. Rounds are interleaved, so that a noisy machine slows all alike, and
a ratio is the median of the ratios of the rounds.

bytes     what the operation must move for each vector: its input and its output
copy      the time that copying as many bytes takes, as a fraction of the operation's, by the
          faster of clEnqueueCopyBuffer and a kernel
faiss     HadamardRotation and QT_{b}bit_tqmse of FAISS, which needs normalised vectors (given),
          takes / ours; both use all cores
numpy     the reference takes / ours (on 4096 vectors, for it is slow)
blas      M queries: decode on the device, then NumPy's matrix product (and softmax), takes / ours
"""

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kvassay.accel import Runtime, attention, choose, codec
from kvassay.reference import packing
from kvassay.reference.codecs import codec as reference_codec

SMALL = 4096
QUERIES = (1, 8, 64)
COPY = """
__kernel void copy(__global const float4 *a, __global float4 *b, int count, int block) {
    int first = get_global_id(0) * block, end = min(count, first + block);
    for (int i = first; i < end; i++)
        b[i] = a[i];
}
"""


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


class Bench:
    """What is measured at one dimension and width: names to functions without arguments."""

    def __init__(self, runtime: Runtime, dim: int, bits: int, megabytes: int) -> None:
        self.runtime, self.dim, self.bits = runtime, dim, bits
        self.count = (megabytes << 20) // (4 * dim)
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((self.count, dim), dtype=np.float32)
        self.q = rng.standard_normal((max(QUERIES), dim), dtype=np.float32)
        self.ours = codec(runtime, "turboquant-mse", dim, bits, 0)
        self.reference = reference_codec("turboquant-mse", dim, bits, 0)
        queue = runtime.queue
        self.on_device = cl_array.to_device(queue, self.x)
        self.copied = cl_array.empty_like(self.on_device)
        self.code = self.ours.encode(self.on_device)
        self.queries = {m: cl_array.to_device(queue, self.q[:m]) for m in QUERIES}
        self.copy_kernel = cl.Program(runtime.context, COPY).build().copy
        self.check()

    def check(self) -> None:
        """Right before fast."""
        rows = slice(0, SMALL)
        codes = self.code.indices.get()[rows]
        wanted = self.reference.encode(self.x[rows])
        differing = int(
            np.sum(
                packing.unpack(codes, self.dim, self.bits)
                != packing.unpack(wanted.indices, self.dim, self.bits)
            )
        )
        assert differing <= 2 + 1e-6 * codes.size, f"{differing} indices differ"
        decoded = self.ours.decode(self.code).get()
        own = type(wanted)(codes, self.code.norms.get()[rows].astype(np.float64))
        assert np.abs(decoded[rows] - self.reference.decode(own)).max() < 1e-6 * self.dim**0.5
        scores = self.q @ decoded.T
        for m, queries in self.queries.items():
            got = self.ours.inner_products(queries, self.code).get()
            assert np.abs(got - scores[:m]).max() < 1e-5 * self.dim, m
            output = attention(queries, self.ours, self.code, self.ours, self.code).get()
            right = softmax(scores[:m] / np.float32(self.dim**0.5)) @ decoded
            assert np.abs(output - right).max() < 1e-5, m

    def timed(self) -> dict[str, Callable[[], object]]:
        queue, count = self.runtime.queue, self.count
        quarter = self.on_device.size // 4
        rows = self.x[:SMALL]
        small = self.reference.encode(rows)
        decoded = self.ours.decode(self.code).get()
        functions: dict[str, Callable[[], object]] = {
            "copy buffer": lambda: cl.enqueue_copy(
                queue, self.copied.data, self.on_device.data, byte_count=self.on_device.nbytes
            ),
            "copy kernel": lambda: self.copy_kernel(
                queue, (1024,), None, self.on_device.data, self.copied.data,
                np.int32(quarter), np.int32(-(-quarter // 1024)),
            ),
            "encode": lambda: self.ours.encode(self.on_device),
            "decode": lambda: self.ours.decode(self.code),
            "encode numpy": lambda: self.reference.encode(rows),
            "decode numpy": lambda: self.reference.decode(small),
        }  # fmt: skip
        for m, queries in self.queries.items():
            q = self.q[:m]
            functions |= {
                f"scores {m}": lambda queries=queries: self.ours.inner_products(queries, self.code),
                f"attention {m}": lambda queries=queries: attention(
                    queries, self.ours, self.code, self.ours, self.code
                ),
                f"scores {m} blas": lambda q=q: q @ decoded.T,
                f"attention {m} blas": lambda q=q: softmax(q @ decoded.T) @ decoded,
            }
        try:
            import faiss
        except ImportError:
            return functions
        faiss.omp_set_num_threads(os.cpu_count() or 1)
        rotation = faiss.HadamardRotation(self.dim)
        rotation.init(0)
        kind = getattr(faiss.ScalarQuantizer, f"QT_{self.bits}bit_tqmse")
        index = faiss.IndexScalarQuantizer(self.dim, kind, faiss.METRIC_INNER_PRODUCT)
        index.train(np.zeros((1, self.dim), np.float32))
        part = self.x[: count // 8] / np.linalg.norm(self.x[: count // 8], axis=1, keepdims=True)
        codes = index.sa_encode(rotation.apply(part))
        functions["encode faiss"] = lambda: index.sa_encode(rotation.apply(part))
        functions["decode faiss"] = lambda: rotation.reverse_transform(index.sa_decode(codes))
        return functions

    def shares(self) -> dict[str, float]:
        """The part of the vectors that a function works on, where it is not all."""
        return {"numpy": SMALL / self.count, "faiss": (self.count // 8) / self.count}


def measure(bench: Bench, rounds: int) -> dict[str, list[float]]:
    """Seconds that each function takes for all vectors, round by round."""
    functions, shares = bench.timed(), bench.shares()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            bench.runtime.queue.finish()
            if number:  # the first round warms up
                spent = time.perf_counter() - started
                seconds[name].append(spent / shares.get(name.split()[-1], 1))
    return seconds


def ratio(one: list[float], other: list[float]) -> float:
    return median(a / b for a, b in zip(one, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, action="append")
    parser.add_argument("--bits", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=256, help="of vectors, at least 64")
    arguments = parser.parse_args()
    runtime = Runtime(choose())
    facts = runtime.device.facts()
    print(f"{runtime.device}, driver {facts['driver']}, variant {runtime.variant}")
    print(f"{os.cpu_count()} cores, {arguments.megabytes} MiB of vectors, "
          f"median of {arguments.rounds} rounds")  # fmt: skip
    print("  d b                  Mvec/s  bytes   copy  faiss  numpy   blas")
    for dim in arguments.dim or (64, 128, 256):
        for bits in arguments.bits or (2, 3, 4):
            bench = Bench(runtime, dim, bits, arguments.megabytes)
            seconds = measure(bench, arguments.rounds)
            copies = min(seconds["copy buffer"], seconds["copy kernel"], key=median)
            row_bytes = packing.row_bytes(dim, bits) + 4
            needed = {"encode": 4 * dim + row_bytes, "decode": 4 * dim + row_bytes}
            for m in QUERIES:
                needed |= {f"scores {m}": row_bytes + 4 * m, f"attention {m}": 2 * row_bytes}
            for name, moved in needed.items():
                own = seconds[name]
                cells = [f"{median(bench.count / s / 1e6 for s in own):8.2f} {moved:6d}"]
                cells.append(f"{ratio(copies, own) * moved / (8 * dim):6.2f}")
                for peer in ("faiss", "numpy"):
                    times = seconds.get(f"{name} {peer}")
                    cells.append(f"{ratio(times, own):6.1f}" if times else "     -")
                if name in ("encode", "decode"):
                    cells.append("     -")
                else:
                    decodes = (1 if name.startswith("scores") else 2) * np.array(seconds["decode"])
                    both = [a + b for a, b in zip(decodes, seconds[f"{name} blas"], strict=True)]
                    cells.append(f"{ratio(both, own):6.1f}")
                print(f"{dim:3d} {bits} {name:16} {' '.join(cells)}")
            speed = 2 * bench.on_device.nbytes / median(copies) / 1e9
            print(f"{dim:3d} {bits} copies at {speed:.1f} GB/s")


if __name__ == "__main__":
    main()
