"""Encode and decode throughput of the reference against NumPy packages and FAISS, one run.

    pip install -e . numpy faiss-cpu==1.15.1
    pip install --no-deps --target peers/turboquant-py turboquant-py==0.1.0      # and so on
    python benchmarks/encode_numpy.py --peers peers

Each peer runs in a child process of its own (several install the same module), on the same
vectors, d = 128 and b = 4, after a check that it reconstructs them with the distortion of
four bits. Rounds are interleaved, so that a noisy machine slows all alike; the table shows
the median of the rounds and the ratio to the reference.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

DIM, BITS, COUNT, ROUNDS = 128, 4, 8192, 9
PEERS = ("reference", "turboquant-py", "turbo-quant-lite", "turboquant-pro", "fastvq", "faiss")


def serve(name: str) -> None:
    """A child: makes the codec, says its distortion, then times one round a line."""
    import numpy as np

    encode, decode = make(name)
    x = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
    code = encode(x)
    error = np.asarray(decode(code), dtype=np.float64) - x
    print(json.dumps(float(np.sum(error**2) / np.sum(x.astype(np.float64) ** 2))), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        code = encode(x)
        middle = time.perf_counter()
        decode(code)
        print(json.dumps([middle - started, time.perf_counter() - middle]), flush=True)


def make(name: str):
    """(encode, decode) of one peer, packed where the peer can pack."""
    if name == "turboquant-pro":
        import numpy as np
        from turboquant_pro.core import TurboQuantKV

        codec = TurboQuantKV(head_dim=DIM, n_heads=1, bits=BITS, use_gpu=False, seed=0)
        return (
            lambda x: codec.compress(x[None, None], packed=True),
            lambda code: np.asarray(codec.decompress(code))[0, 0],
        )
    if name == "fastvq":
        from turboquant.turboquant import TurboQuant, TurboQuantConfig

        codec = TurboQuant(
            TurboQuantConfig(bit_width=BITS, block_size=DIM, use_qjl=False, rotation_seed=0)
        )
        return codec.quantize, codec.dequantize
    from kvassay.conformance import discovery

    codec = discovery.load(name).codec("turboquant-mse", DIM, BITS, 0)
    return codec.encode, codec.decode


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", type=Path, help="folder with one folder a peer")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    children = {}
    for name in PEERS:
        environment = dict(os.environ)
        if arguments.peers and (arguments.peers / name).is_dir():
            environment["PYTHONPATH"] = str(arguments.peers / name)
        child = subprocess.Popen(
            [sys.executable, __file__, "--serve", name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment,
        )  # fmt: skip
        first = child.stdout.readline()
        if not first:
            print(f"{name:18} not run: {child.communicate()[1].strip().splitlines()[-1]}")
            continue
        children[name] = (child, float(first), [])
    for _ in range(ROUNDS):
        for child, _, rounds in children.values():
            child.stdin.write("\n")
            child.stdin.flush()
            rounds.append(json.loads(child.stdout.readline()))
    own = [median(column) for column in zip(*children["reference"][2], strict=True)]
    print(f"d={DIM} b={BITS} N={COUNT}, {os.cpu_count()} cores, median of {ROUNDS} rounds")
    print(f"{'':18} distortion  Mvec/s enc     dec  x reference enc    dec")
    for name, (child, distortion, rounds) in children.items():
        encode, decode = (median(column) for column in zip(*rounds, strict=True))
        print(
            f"{name:18} {distortion:10.5f} {COUNT / encode / 1e6:11.3f} {COUNT / decode / 1e6:7.3f}"
            f" {own[0] / encode:16.2f} {own[1] / decode:6.2f}"
        )
        child.stdin.close()


if __name__ == "__main__":
    main()
