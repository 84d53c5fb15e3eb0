"""A second implementation of the codecs, with faults of its own, and whether each is recognised.

    python benchmarks/second_codec.py --workers 2

It shares no code with `reference/`: another Hadamard transform, the Gaussian table by Lloyd's
iteration, another sketch, another packing, float32 throughout. Each switch in FAULTS puts one
fault into it and names the family that the diagnosis should say. A fault in a part that both
kinds share (the table, the rotation, the packing, the norm) stands in both.

Runs `check` with its diagnosis on each, and prints those whose family is not named first, then
the share that is, of those that violate anything, with its Wilson interval at 95 %, and what the
runs cost. A family is named if it explains enough; the nearest is said in any case.
"""

import argparse
from dataclasses import dataclass
from math import erf, exp, pi, sqrt
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from scipy.stats import binomtest

from kvassay.conformance import Capabilities, Settings, check
from kvassay.conformance.faults import families
from kvassay.conformance.run.execution import process_pool

MSE, PROD = "turboquant-mse", "turboquant-prod"
SHARED = "shared"  # in a part of both kinds; looked for in the one without a sketch


@dataclass(frozen=True)
class Switch:
    """A fault: the family that should be named, where it stands and with which sketch."""

    family: str
    where: str = SHARED
    sketch: str = "gaussian"


FAULTS = {
    "levels for unit variance": Switch("table"),
    "levels 0.75 times too narrow": Switch("table"),
    "levels 1.3 times too wide": Switch("table"),
    "uniform levels over three deviations": Switch("table"),
    "Lloyd stopped after two rounds": Switch("table"),
    "levels of d = 1024 at every d": Switch("table"),
    "level below": Switch("thresholds"),
    "thresholds near the upper level": Switch("thresholds"),
    "index bits read backwards": Switch("index-order"),
    "nibbles exchanged": Switch("index-order"),
    "even coordinates read first": Switch("index-order"),
    "read two coordinates late": Switch("index-order"),
    "index masked to one bit less": Switch("index-order"),
    "last 16 coordinates zero": Switch("indices-lost"),
    "every fourth coordinate zero": Switch("indices-lost"),
    "no rotation": Switch("weak-rotation"),
    "signs after the transform": Switch("weak-rotation"),
    "blocks of 32": Switch("weak-rotation"),
    "first half alone rotated": Switch("weak-rotation"),
    "permutation alone": Switch("weak-rotation"),
    "inverse without signs": Switch("wrong-inverse"),
    "forward for inverse": Switch("wrong-inverse"),
    "inverse of another seed": Switch("wrong-inverse"),
    "no inverse": Switch("wrong-inverse"),
    "no normaliser": Switch("not-orthogonal"),
    "normalised by d": Switch("not-orthogonal"),
    "seed ignored": Switch("seed-ignored"),
    "no norm": Switch("no-norm"),
    "norm not divided out but multiplied": Switch("no-norm"),
    "decoded 3 % short": Switch("output-scale"),
    "decoded sqrt(2) long": Switch("output-scale"),
    "stretched to the norm": Switch("renormalised"),
    "squared norm": Switch("stored-norm"),
    "norm to a power of sqrt(2)": Switch("stored-norm"),
    "largest coordinate for norm": Switch("stored-norm"),
    "norm saturates at 255": Switch("stored-norm"),
    "largest norm of the batch": Switch("batch-scale"),
    "divided by the mean norm of the batch": Switch("batch-scale"),
    "smallest coordinate divides": Switch("not-finite"),
    "rows reversed": Switch("rows-mixed"),
    "row before": Switch("rows-mixed"),
    "one token is not rotated": Switch("one-token-path"),
    "one token loses half": Switch("one-token-path"),
    "dither from a global generator": Switch("not-deterministic"),
    "one buffer for all codes": Switch("not-deterministic"),
    "one bit more": Switch("more-bits"),
    "eight bits at 64": Switch("more-bits"),
    "one bit less": Switch("fewer-bits"),
    "a byte an index": Switch("unpacked"),
    "norms not counted": Switch("undeclared"),
    "a float16 copy kept": Switch("undeclared"),
    "half a step added": Switch("offset"),
    "a fiftieth added": Switch("offset"),
    "gaussian with the orthogonal scale": Switch("correction-size", PROD),
    "orthogonal with the gaussian scale": Switch("correction-size", PROD, "orthogonal"),
    "correction left out": Switch("correction-size", PROD),
    "correction times 2/pi": Switch("correction-size", PROD),
    "correction subtracted": Switch("correction-size", PROD),
    "residual norm 1": Switch("residual-norm", PROD),
    "residual norm 0.1": Switch("residual-norm", PROD),
    "mean residual norm of the batch, twice": Switch("residual-norm", PROD),
    "signs without S^T": Switch("correction-direction", PROD),
    "signs of the vector": Switch("correction-direction", PROD),
    "sign bits read backwards": Switch("correction-direction", PROD),
    "another sketch in decode": Switch("correction-direction", PROD),
    "sketch is the rotation": Switch("dependent-sketch", PROD, "orthogonal"),
    "half the rows": Switch("sketch-rows", PROD),
    "query reduced to signs": Switch("score-formula", PROD),
    "norms left out of scores": Switch("score-formula", PROD),
    "correction left out of scores": Switch("score-formula", PROD),
    "a constant in scores": Switch("score-formula", PROD),
}


def gaussian_levels(bits: int, rounds: int = 3000) -> np.ndarray:
    """Lloyd-Max levels of N(0, 1), by Lloyd's iteration from a uniform grid."""
    levels = np.linspace(-2.5, 2.5, 2**bits) if bits > 1 else np.array([-0.7, 0.7])
    for _ in range(rounds):
        edges = [-30.0, *(levels[1:] + levels[:-1]) / 2, 30.0]
        mass = np.diff([0.5 * (1 + erf(edge / sqrt(2))) for edge in edges])
        density = np.array([exp(-edge * edge / 2) / sqrt(2 * pi) for edge in edges])
        moved = (density[:-1] - density[1:]) / mass
        if np.max(np.abs(moved - levels)) < 1e-9:
            break
        levels = moved
    return levels


TABLES: dict[Any, np.ndarray] = {}


def table(bits: int, rounds: int = 3000) -> np.ndarray:
    if (bits, rounds) not in TABLES:
        TABLES[bits, rounds] = gaussian_levels(bits, rounds)
    return TABLES[bits, rounds]


def walsh_hadamard(x: np.ndarray) -> np.ndarray:
    """The transform of each row, not normalised; the width is a power of two."""
    width = x.shape[1]
    step = 1
    while step < width:
        x = x.reshape(len(x), -1, 2, step)
        x = np.stack([x[:, :, 0] + x[:, :, 1], x[:, :, 0] - x[:, :, 1]], axis=2)
        step *= 2
        x = x.reshape(len(x), width)
    return x


def orthogonal(generator: np.random.RandomState, dim: int) -> np.ndarray:
    q, r = np.linalg.qr(generator.randn(dim, dim))
    return q * np.sign(np.diag(r))


class SecondCodec:
    """One codec of either kind; `fault` is the name of a switch or ""."""

    def __init__(self, dim: int, bits: int, seed: int, sketch: str, fault: str) -> None:
        self.dim, self.fault, self.sketch = dim, fault, sketch
        generator = np.random.RandomState(1 if self.has("seed ignored") else seed)
        self.signs = np.where(generator.rand(dim) < 0.5, -1, 1).astype(np.float32)
        self.order = generator.permutation(dim)
        self.width = bits - bool(sketch)
        if self.has("one bit more") and self.width:
            self.width = min(self.width + 1, 8)
        if self.has("eight bits at 64") and dim == 64 and self.width:
            self.width = 8
        if self.has("one bit less"):
            self.width = max(self.width - 1, 1) if self.width else 0
        self.levels = self._table().astype(np.float32)
        self.buffer = np.zeros((0, 0), dtype=np.uint8)
        if sketch:
            self.rows = dim // 2 if self.has("half the rows") else dim
            self.matrix = self._sketch(generator)
            self.other = generator.randn(*self.matrix.shape).astype(np.float32)
            self.scale = self._scale()

    def has(self, fault: str) -> bool:
        assert fault in FAULTS
        return self.fault == fault

    # The table

    def _table(self) -> np.ndarray:
        if not self.width:
            return np.zeros(1)
        levels = table(self.width, 2 if self.has("Lloyd stopped after two rounds") else 3000)
        if self.has("uniform levels over three deviations"):
            levels = np.linspace(-3, 3, 2**self.width)
        if self.has("levels 0.75 times too narrow"):
            levels = levels * 0.75
        if self.has("levels 1.3 times too wide"):
            levels = levels * 1.3
        if self.has("levels for unit variance"):
            return levels
        return levels / sqrt(1024 if self.has("levels of d = 1024 at every d") else self.dim)

    def codebook(self) -> np.ndarray:
        return self.levels

    def _indices(self, y: np.ndarray) -> np.ndarray:
        share = 0.9 if self.has("thresholds near the upper level") else 0.5
        thresholds = self.levels[:-1] + share * np.diff(self.levels)
        if self.has("level below"):
            thresholds = self.levels[1:]
        if self.has("dither from a global generator"):
            y = y + (np.random.rand(*y.shape) - 0.5) * 0.5 / sqrt(self.dim)  # noqa: NPY002
        return np.searchsorted(thresholds, y).astype(np.uint8)

    # The rotation

    def rotate(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, dtype=np.float32)
        if self.has("no rotation") or (self.has("one token is not rotated") and len(x) == 1):
            return x
        if self.has("permutation alone"):
            return (x * self.signs)[:, self.order]
        if self.has("signs after the transform"):
            return self._transform(x) * self.signs
        if self.has("first half alone rotated"):
            half = self.dim // 2
            mixed = walsh_hadamard((x * self.signs)[:, :half]) / np.float32(sqrt(half))
            return np.concatenate([mixed, x[:, half:]], axis=1)
        return self._transform(x * self.signs) * self._gain()

    def unrotate(self, y: np.ndarray) -> np.ndarray:
        y = np.asarray(y, dtype=np.float32)
        bare = self.has("no rotation") or self.has("no inverse")
        if bare or (self.has("one token is not rotated") and len(y) == 1):
            return y
        if self.has("permutation alone"):
            back = np.empty_like(y)
            back[:, self.order] = y
            return back * self.signs
        if self.has("signs after the transform"):
            return self._transform(y * self.signs)
        if self.has("first half alone rotated"):
            half = self.dim // 2
            mixed = walsh_hadamard(y[:, :half]) / np.float32(sqrt(half)) * self.signs[:half]
            return np.concatenate([mixed, y[:, half:]], axis=1)
        if self.has("forward for inverse"):
            return self._transform(y * self.signs)
        if self.has("inverse without signs"):
            return self._transform(y)
        signs = np.roll(self.signs, 3) if self.has("inverse of another seed") else self.signs
        return self._transform(y) * signs / self._gain()

    def _gain(self) -> np.float32:
        gain = {"no normaliser": sqrt(self.dim), "normalised by d": 1 / sqrt(self.dim)}
        return np.float32(gain.get(self.fault, 1.0))

    def _transform(self, x: np.ndarray) -> np.ndarray:
        size = 32 if self.has("blocks of 32") else self.dim
        mixed = walsh_hadamard(x.reshape(-1, size)) / np.float32(sqrt(size))
        return mixed.reshape(len(x), self.dim)

    # The sketch

    def _sketch(self, generator: np.random.RandomState) -> np.ndarray:
        if self.has("sketch is the rotation"):
            return np.eye(self.dim, dtype=np.float32)  # of the rotated residual
        if self.sketch == "orthogonal":
            return orthogonal(generator, self.dim).astype(np.float32)
        return generator.randn(self.rows, self.dim).astype(np.float32)

    def _scale(self) -> float:
        gaussian, of_orthogonal = sqrt(pi / 2) / self.rows, sqrt(pi / 2) / sqrt(self.dim)
        if self.has("gaussian with the orthogonal scale"):
            return of_orthogonal
        if self.has("orthogonal with the gaussian scale"):
            return gaussian
        scale = of_orthogonal if self.sketch == "orthogonal" else gaussian
        factors = {
            "correction left out": 0.0,
            "correction times 2/pi": 2 / pi,
            "correction subtracted": -1.0,
        }
        return scale * factors.get(self.fault, 1.0)

    def _residual_norms(self, residual: np.ndarray) -> np.ndarray:
        norms = np.sqrt(np.sum(residual**2, axis=1))
        if self.has("residual norm 1"):
            return np.ones_like(norms)
        if self.has("residual norm 0.1"):
            return np.full_like(norms, 0.1)
        if self.has("mean residual norm of the batch, twice"):
            return np.full_like(norms, 2 * norms.mean()) if len(norms) else norms
        return norms

    # Packing: a stream of bits, the highest of each index first

    def _pack(self, indices: np.ndarray) -> np.ndarray:
        if self.has("a byte an index") or not self.width:
            return indices if self.width else indices[:, :0]
        places = np.arange(self.width - 1, -1, -1, dtype=np.uint8)
        bits = indices[:, :, None] >> places & np.uint8(1)
        packed = np.packbits(bits.reshape(len(indices), -1), axis=1)
        if self.has("one buffer for all codes"):
            if self.buffer.shape[1] != packed.shape[1] or len(self.buffer) < len(packed):
                self.buffer = np.zeros((max(len(packed), 512), packed.shape[1]), dtype=np.uint8)
            self.buffer[: len(packed)] = packed
            return self.buffer[: len(packed)]
        return packed

    def _unpack(self, packed: np.ndarray) -> np.ndarray:
        if not self.width:
            return np.zeros((len(packed), self.dim), dtype=np.uint8)
        if self.has("a byte an index"):
            return packed
        if self.has("nibbles exchanged"):
            packed = packed << np.uint8(4) | packed >> np.uint8(4)
        bits = np.unpackbits(packed, axis=1, count=self.dim * self.width)
        bits = bits.reshape(len(packed), self.dim, self.width)
        if self.has("index bits read backwards"):
            bits = bits[:, :, ::-1]
        weights = 1 << np.arange(self.width - 1, -1, -1)
        indices = (bits * weights).sum(axis=2)
        if self.has("even coordinates read first"):
            indices = np.concatenate([indices[:, ::2], indices[:, 1::2]], axis=1)
        if self.has("read two coordinates late"):
            indices = np.roll(indices, 2, axis=1)
        if self.has("index masked to one bit less") and self.width > 1:
            indices = indices & (2 ** (self.width - 1) - 1)
        return indices

    # Encoding and decoding

    def encode(self, x: np.ndarray) -> dict[str, np.ndarray]:
        x = np.asarray(x, dtype=np.float32)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must have shape (N, {self.dim}), got {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError("x must be finite")
        exact = np.sqrt(np.sum(x.astype(np.float64) ** 2, axis=1))
        divisor = exact
        if self.has("divided by the mean norm of the batch") and len(x):
            divisor = np.full_like(exact, exact.mean())
        if self.has("no norm") or self.has("norm not divided out but multiplied"):
            divisor = np.ones_like(exact)
        unit = (x / np.where(divisor > 0, divisor, 1)[:, None]).astype(np.float32)
        y = self.rotate(unit)
        indices = self._indices(y) if self.width else np.zeros(y.shape, dtype=np.uint8)
        code = {"indices": self._pack(indices), "norms": self._norms(x, exact, divisor)}
        if self.sketch:
            residual = y - self.levels[indices]
            seen = y if self.has("signs of the vector") else residual
            code["signs"] = np.packbits(seen @ self.matrix.T > 0, axis=1)
            code["residual_norms"] = self._residual_norms(residual)
        if self.has("a float16 copy kept"):
            code["copy"] = x.astype(np.float16)
        return code

    def _norms(self, x: np.ndarray, exact: np.ndarray, divisor: np.ndarray) -> np.ndarray:
        norms = exact
        if self.has("no norm") or self.has("divided by the mean norm of the batch"):
            norms = divisor
        elif self.has("squared norm"):
            norms = exact**2
        elif self.has("norm to a power of sqrt(2)"):
            norms = np.where(
                exact > 0, 2 ** (np.round(2 * np.log2(np.maximum(exact, 1e-30))) / 2), 0
            )
        elif self.has("largest coordinate for norm"):
            norms = np.max(np.abs(x), axis=1, initial=0)
        elif self.has("norm saturates at 255"):
            norms = np.minimum(exact, 255)
        elif self.has("largest norm of the batch"):
            norms = np.full_like(exact, exact.max(initial=0))
        elif self.has("smallest coordinate divides"):
            with np.errstate(all="ignore"):
                least = np.min(np.abs(x), axis=1, initial=np.inf)
                norms = np.where(exact > 0, exact * least / least, 0)
        return norms.astype(np.float32)

    def _approximate(self, code: dict[str, np.ndarray]) -> np.ndarray:
        """The rotated coordinates of the unit vector, without the sketch."""
        values = self.levels[self._unpack(code["indices"])]
        if self.has("last 16 coordinates zero"):
            values[:, -16:] = 0
        if self.has("every fourth coordinate zero"):
            values[:, 3::4] = 0
        if self.has("half a step added"):
            values = values + np.float32(0.5 * np.mean(np.diff(self.levels)))
        return values

    def _correction(self, code: dict[str, np.ndarray]) -> np.ndarray:
        bits = np.unpackbits(code["signs"], axis=1)
        if self.has("sign bits read backwards"):
            bits = np.unpackbits(code["signs"], axis=1, bitorder="little")
        signs = bits[:, : self.rows].astype(np.float32) * 2 - 1
        length = (self.scale * code["residual_norms"])[:, None]
        if self.has("signs without S^T"):
            return signs * length
        back = self.other if self.has("another sketch in decode") else self.matrix
        return signs @ back * length

    def decode(self, code: dict[str, np.ndarray]) -> np.ndarray:
        y = self._approximate(code)
        if self.sketch:
            y = y + self._correction(code)
        x = self.unrotate(y)
        if self.has("one token loses half") and len(x) == 1:
            x = x * (np.arange(self.dim) % 2 == 0)
        if self.has("decoded 3 % short"):
            x = x * 0.97
        if self.has("decoded sqrt(2) long"):
            x = x * sqrt(2)
        if self.has("a fiftieth added"):
            x = x + 0.02
        if self.has("stretched to the norm"):
            lengths = np.sqrt(np.sum(x**2, axis=1, keepdims=True))
            x = x / np.where(lengths > 0, lengths, 1)
        x = x * code["norms"][:, None]
        if self.has("rows reversed"):
            x = x[::-1]
        if self.has("row before"):
            x = np.roll(x, 1, axis=0)
        return x

    def inner_products(self, q: np.ndarray, code: dict[str, np.ndarray]) -> np.ndarray:
        """From decoded vectors, but where a fault of the score stands."""
        q = np.asarray(q, dtype=np.float32)
        if not self.fault or FAULTS[self.fault].family != "score-formula" or not self.sketch:
            return q @ self.decode(code).T
        rotated = self.rotate(q)
        plain = rotated @ self._approximate(code).T
        corrected = rotated @ self._correction(code).T
        if self.has("query reduced to signs"):
            seen = np.where(rotated @ self.matrix.T > 0, 1, -1).astype(np.float32)
            lengths = np.sqrt(np.mean((rotated @ self.matrix.T) ** 2, axis=1, keepdims=True))
            signs = np.unpackbits(code["signs"], axis=1)[:, : self.rows].astype(np.float32) * 2 - 1
            corrected = lengths * seen @ signs.T * self.scale * code["residual_norms"]
        if self.has("correction left out of scores"):
            corrected = 0 * corrected
        if self.has("norms left out of scores"):
            return plain + corrected
        constant = 0.02 if self.has("a constant in scores") else 0.0
        return (plain + corrected + constant) * code["norms"]

    def nbytes(self, code: dict[str, np.ndarray]) -> int:
        left_out = {"norms not counted": "norms", "a float16 copy kept": "copy"}.get(self.fault)
        return sum(part.nbytes for name, part in code.items() if name != left_out)


CAPABILITIES = Capabilities((MSE, PROD), ("gaussian", "orthogonal"))


@dataclass(frozen=True)
class SecondBackend:
    """Both kinds of the second codec, with one of the FAULTS or none."""

    fault: str = ""
    name: str = "second-codec"
    version: str = "1"
    capabilities: Capabilities = CAPABILITIES

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> SecondCodec:
        where = FAULTS[self.fault].where if self.fault else ""
        fault = self.fault if where in (SHARED, kind) else ""
        return SecondCodec(dim, bits, seed, options.get("sketch", ""), fault)


GRID = {"dims": (64, 128), "bits": (2, 4), "seed": 5}


@dataclass(frozen=True)
class Said:
    """Of one diagnosis: the family named first, or "", and the fault that comes nearest."""

    first: str
    nearest: str
    fit: float


def said(fault: str, effort: str) -> tuple[dict[tuple[str, bool], Said], float]:
    """What is said of a fault, or of none, by kind and whether it is about sizes, and the
    seconds of processor time that check and diagnosis took."""
    sketch = FAULTS[fault].sketch if fault else "gaussian"
    settings = Settings(kinds=(MSE, PROD), sketches=(sketch,), effort=effort, **GRID)  # type: ignore[arg-type]
    began = process_time()
    report = check(SecondBackend(fault), settings, diagnose=True)
    took = process_time() - began
    found = {}
    for each in report.diagnoses:
        first = families.family_of(each.matches[0].fault).id if each.matches else ""
        near = each.nearest
        found[each.kind, each.sizes] = Said(
            first, near.fault if near else "", near.fit if near else 0
        )
    return found, took


def share(right: int, judged: int) -> str:
    interval = binomtest(right, judged).proportion_ci(method="wilson")
    return f"{right} of {judged}: {right / judged:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fault", action="append")
    arguments = parser.parse_args()
    chosen = arguments.fault or list(FAULTS)
    asked = list(chosen)
    for place in range(0, len(asked) + len(asked) // 8 + 1, 9):
        asked.insert(place, "")  # the correct codec in between, to compare times with
    with process_pool(arguments.workers) as executor:
        answers = executor.map(said, asked, [arguments.effort] * len(asked))
        ran = list(zip(asked, answers, strict=True))
    own, beside, near, slow = [], [], [], []
    for name, (found, took) in ran:
        if not name:
            if found:
                print(f"  without a fault it looks like {found}")
            continue
        family, where = FAULTS[name].family, FAULTS[name].where
        if not found:
            print(f"  {name}: violates nothing")
            continue
        slow.append(took)
        for (about, size), what in found.items():
            if size != (family in ("unpacked", "undeclared")):
                continue
            right = what.first == family
            if about == (MSE if where == SHARED else where):
                own.append(right)
                near.append(families.family_of(what.nearest).id == family)
            else:
                beside.append(right)
            if not right:
                instead = what.first or f"unknown, nearest {families.family_of(what.nearest).id}"
                print(
                    f"  {name} ({about}): {instead} ({what.nearest} {what.fit:.3f}), not {family}"
                )
    print(f"the right family first, at {arguments.effort}: {share(sum(own), len(own))}")
    print(f"the right family nearest, named or not: {share(sum(near), len(near))}")
    if beside:
        print(f"named first in the kind with a sketch beside it: {share(sum(beside), len(beside))}")
    conforming = median(took for name, (_, took) in ran if not name)
    ratios = [took / conforming for took in slow]
    print(
        f"processor time of a run that violates, over that of one that conforms "
        f"({conforming:.1f} s): median {median(ratios):.2f}, longest {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
