"""Indices and signs of the OpenCL codecs that are not the reference's, and how near they were.

    pip install -e '.[pocl]'
    python benchmarks/opencl_agreement.py

An index may differ where the rotated coordinate lies within rounding of a threshold; the distance
is given in ulp: units of the last place of a float32 of the size of the threshold, or of 1/sqrt(d)
where the threshold is smaller. A sign may differ where the projection of the residual, relative to
its norm, is within rounding of 0, given in ulp of 1.
"""

import argparse

import numpy as np

from kvassay.accel import Runtime, choose, codec
from kvassay.reference import packing
from kvassay.reference.codecs import codec as reference_codec
from kvassay.reference.codecs import normalize

CASES = [(kind, {}) for kind in ("scalar", "turboquant-mse")] + [
    ("turboquant-prod", {"sketch": sketch}) for sketch in ("gaussian", "orthogonal")
]


def compare(runtime: Runtime, kind: str, dim: int, bits: int, count: int, options: dict) -> str:
    """One line of the table."""
    table_bits = bits - (kind == "turboquant-prod")
    total = differing = flipped = 0
    farthest = farthest_sign = 0.0
    for seed in range(count // 10_000):
        x = np.random.default_rng(seed).standard_normal((10_000, dim)).astype(np.float32)
        reference = reference_codec(kind, dim, bits, seed, **options)
        ours, theirs = (
            codec(runtime, kind, dim, bits, seed, **options).encode(x),
            reference.encode(x),
        )
        total += x.size
        coordinates = normalize(x.astype(np.float64))[0]
        if kind != "scalar":
            coordinates = reference.rotate(coordinates)
        agree = np.ones(len(x), bool)
        if table_bits:
            a = packing.unpack(ours.indices, dim, table_bits).astype(int)
            b = packing.unpack(theirs.indices, dim, table_bits).astype(int)
            rows, columns = np.nonzero(a != b)
            agree[rows] = False
            differing += len(rows)
            assert (abs(a - b) <= 1).all()
            crossed = reference.book.thresholds[np.minimum(a, b)[rows, columns]]
            size = np.maximum(abs(crossed), dim**-0.5).astype(np.float32)
            distance = abs(coordinates[rows, columns] - crossed) / np.spacing(size)
            farthest = max(farthest, distance.max(initial=0))
        if theirs.signs is not None:
            a, b = (packing.unpack(code.signs[agree], dim, 1) for code in (ours, theirs))
            rows, columns = np.nonzero(a != b)
            flipped += len(rows)
            if len(rows):
                residual = coordinates[agree]
                if table_bits:
                    levels = reference.book.levels
                    residual = (
                        residual - levels[packing.unpack(theirs.indices, dim, table_bits)[agree]]
                    )
                projected = reference.sketch.project(normalize(residual)[0])[rows, columns]
                farthest_sign = max(farthest_sign, float(abs(projected).max() / 2.0**-23))
    name = f"{kind} {options.get('sketch', '')}"
    return (
        f"{dim:4d} {bits} {name:28} {total:10d} {differing:5d} {differing / total:8.1e} "
        f"{farthest:5.2f} {flipped:6d} {farthest_sign:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, action="append")
    parser.add_argument("--bits", type=int, action="append")
    parser.add_argument("--count", type=int, default=100_000)
    arguments = parser.parse_args()
    runtime = Runtime(choose())
    print(f"{runtime.device}, variant {runtime.variant}")
    print("   d b kind                         coordinates   off     rate   ulp  signs    ulp")
    for kind, options in CASES:
        for dim in arguments.dim or (64, 80, 128):
            for bits in arguments.bits or range(1, 9):
                few = arguments.count // (10 if kind == "turboquant-prod" else 1)
                print(compare(runtime, kind, dim, bits, max(few, 10_000), options), flush=True)


if __name__ == "__main__":
    main()
