"""Ten million vectors through the OpenCL encoder: the memory it takes beside its input and output.

    pip install -e '.[pocl]'
    python benchmarks/opencl_stream.py              # needs 5 GB of disk for temporaries

The vectors (d = 128) lie in a file, as a memory map; the codes (b = 4) take 68 bytes each in
memory. What the process holds beyond them is sampled while it runs: it must not grow with the
number of vectors. The last codes are compared with those of the same vectors encoded alone.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from kvassay.accel import Runtime, choose, codec

DIM, BITS, BLOCK = 128, 4, 100_000


def private_megabytes() -> float:
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no RssAnon")


def peak_of(work) -> tuple[object, float, float]:
    """What `work` returns, the seconds it took, and the largest memory seen meanwhile."""
    samples, done = [private_megabytes()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            samples.append(private_megabytes())

    thread = threading.Thread(target=watch)
    thread.start()
    started = time.perf_counter()
    result = work()
    spent = time.perf_counter() - started
    done.set()
    thread.join()
    return result, spent, max(samples)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--millions", type=int, action="append")
    arguments = parser.parse_args()
    encoder = codec(Runtime(choose()), "turboquant-mse", DIM, BITS, 0)
    print(encoder.runtime.device)
    encoder.encode(np.ones((BLOCK, DIM), np.float32))  # compiles
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for millions in arguments.millions or (1, 10):
            count = millions * 1_000_000
            shape = (count, DIM)
            x = np.memmap(Path(folder) / "x", dtype=np.float32, mode="w+", shape=shape)
            for start in range(0, count, BLOCK):
                x[start : start + BLOCK] = rng.standard_normal((BLOCK, DIM), dtype=np.float32)
            x.flush()
            before = private_megabytes()
            code, spent, peak = peak_of(lambda x=x: encoder.encode(x))
            alone = encoder.encode(np.array(x[-1000:]))
            assert code[count - 1000 :].tobytes() == alone.tobytes()
            codes = code.nbytes / 2**20
            print(
                f"{millions:3d} million: {x.nbytes / 2**20:6.0f} MiB of vectors, "
                f"{codes:5.0f} MiB of codes, beyond them {peak - before - codes:4.0f} MiB; "
                f"{count / spent / 1e6:.1f} Mvec/s"
            )
            del x, code


if __name__ == "__main__":
    main()
