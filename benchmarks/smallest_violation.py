"""The smallest violation of each claim that is really found, against the one designed for.

    python benchmarks/smallest_violation.py --effort standard --runs 10 --workers 2

For each claim a codec that violates it by an amount one can set: a scale, noise of a stated
energy, bytes. *Designed* is what the planned number of seeds calls a violation with probability
0.99 (`Claim.smallest_violation`); *found* is the smallest amount, by bisection to 5 %, at which
each of the runs, every one with its own seed, says "violates". Looks beyond the planned number
of seeds make the second smaller than the first. Where chance has no part both are the band.
"""

import argparse
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from kvassay.conformance.claims.codec import BY_ID, CLAIMS
from kvassay.conformance.measure.cell import Cell
from kvassay.conformance.protocol import Capabilities
from kvassay.conformance.run.check import check
from kvassay.conformance.run.execution import process_pool
from kvassay.conformance.run.plan import ALPHA, SPLIT, Settings
from kvassay.reference import sphere, theory
from kvassay.reference.codecs import codec

MSE = Cell("turboquant-mse", "", 128, 4)
PROD = Cell("turboquant-prod", "gaussian", 128, 3)


class Off:
    """The reference, with one claim violated by `amount` in the cell."""

    name, version = "off", "1"

    def __init__(self, claim: str, amount: float) -> None:
        self.claim, self.amount = claim, amount
        cell = CELLS[claim]
        kinds = ("turboquant-mse",) if not cell.sketch else ("turboquant-prod", "turboquant-mse")
        self.capabilities = Capabilities(kinds, (cell.sketch,) if cell.sketch else ())

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> Any:
        made = codec(kind, dim, bits, seed, **options)
        if kind == CELLS[self.claim].kind:
            KNOBS[self.claim](made, self.amount, np.random.default_rng(seed))
        return made


def _scaled(name: str, factor: Callable[[float], float]) -> Callable[..., None]:
    """A method whose answer is multiplied."""

    def turn(made: Any, amount: float, rng: np.random.Generator) -> None:
        answer = getattr(made, name)
        setattr(made, name, lambda *arguments: answer(*arguments) * factor(amount))

    return turn


def _noise(made: Any, amount: float, rng: np.random.Generator, loud_only: bool = False) -> None:
    """Noise in the reconstruction: `amount` times the energy of the error."""
    decode = made.decode
    energy = amount * theory.lloyd_max_distortion(made.dim, made.bits)

    def noisy(code: Any) -> Any:
        x = decode(code)
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        loud = np.max(np.abs(x), axis=1, keepdims=True) > 0.7 * norms
        noise = rng.standard_normal(x.shape) * np.sqrt(energy / made.dim) * norms
        return x + np.where(loud | (not loud_only), noise, 0.0)

    made.decode = noisy
    made.inner_products = lambda q, code: made.__class__.inner_products(made, q, code)


def _noisy_estimates(made: Any, amount: float, rng: np.random.Generator) -> None:
    """Noise in the estimates: `amount` times their variance."""
    estimates = made.inner_products
    variance = theory.product_variance(made.dim, made.bits, "gaussian")

    def noisy(q: Any, code: Any) -> Any:
        exact = estimates(q, code)
        return exact + rng.standard_normal(exact.shape) * code.norms * np.sqrt(
            amount * variance / made.dim
        )

    made.inner_products = noisy


def _more_bytes(made: Any, amount: float, rng: np.random.Generator) -> None:
    nbytes = made.nbytes
    free = 18 - 8  # the reference needs one norm of the side information allowed
    made.nbytes = lambda code: nbytes(code) + round((free + amount - 18) * len(code))


def _other_alone(made: Any, amount: float, rng: np.random.Generator) -> None:
    """A single vector's reconstruction is off by `amount` times the energy of the error."""
    decode = made.decode
    share = np.sqrt(amount * theory.lloyd_max_distortion(made.dim, made.bits))

    def other(code: Any) -> Any:
        x = decode(code)
        if len(x) != 1:
            return x
        across = rng.standard_normal(x.shape)
        return x + across / np.linalg.norm(across) * share * code.norms[:, None]

    made.decode = other


def _unlike(made: Any, amount: float, rng: np.random.Generator) -> None:
    """A share of `amount` of the vectors comes out different each time, in the last digits."""
    decode, fresh = made.decode, np.random.default_rng()
    made.decode = lambda code: (
        decode(code) * (1 + 1e-9 * (fresh.random((len(code), 1)) < amount) * fresh.random())
    )


def _law(gain: float) -> float:
    """Sup distance of the coordinate law from itself stretched by 1 + gain."""
    t = np.linspace(-0.5, 0.5, 2001)
    return float(np.max(np.abs(sphere.cdf(t / (1 + gain), 128) - sphere.cdf(t, 128))))


@cache
def _stretch(amount: float) -> float:
    return 1 + _solve(_law, amount)


def _solve(size: Callable[[float], float], amount: float) -> float:
    """The gain at which `size` is `amount`."""
    low, high = 0.0, 100.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if size(middle) < amount else (low, middle)
    return high


def _table(size: Callable[[Any, int, int], float], made: Any, amount: float, rng: Any) -> None:
    """A table stretched until what the claim measures is `amount`."""
    levels = made.codebook()
    gain = _solve(lambda g: size(levels * (1 + g), made.dim, made.bits), amount)
    made.codebook = lambda: levels * (1 + gain)


def _excess(levels: Any, dim: int, bits: int) -> float:
    return theory.table_distortion(levels, dim) / theory.lloyd_max_distortion(dim, bits) - 1


def _gap(levels: Any, dim: int, bits: int) -> float:
    return theory.table_gap(levels, dim, bits) - theory.gaussian_table_gap(dim, bits)


KNOBS: dict[str, Callable[..., None]] = {
    "coordinate-law": _scaled("rotate", _stretch),
    "gaussian-limit": partial(_table, _gap),
    "codebook-optimal": partial(_table, _excess),
    "distortion": _noise,
    "rotation-isometry": _scaled("rotate", lambda amount: float(np.sqrt(1 + amount))),
    "rotation-spreads": partial(_noise, loud_only=True),
    "rank-kept": _scaled("rotate", lambda amount: 1 + amount),
    "qjl-unbiased": _scaled("inner_products", lambda amount: 1 - amount),
    "qjl-variance": _noisy_estimates,
    "pi-over-2": _noisy_estimates,
    "two-pi": _noisy_estimates,
    "size-accounting": _more_bytes,
    "batch-invariance": _other_alone,
    "determinism": _unlike,
}
CELLS = {
    claim.id: MSE if "turboquant-mse" in claim.kinds and claim.id != "qjl-unbiased" else PROD
    for claim in CLAIMS
}


def found_every_time(claim: str, amount: float, effort: Any, runs: int, executor: Any) -> bool:
    """Whether each of the runs says that the claim is violated."""
    cell = CELLS[claim]
    pending = []
    for seed in range(runs):
        settings = Settings(
            (cell.kind,),
            (cell.sketch,) if cell.sketch else (),
            (cell.dim,),
            (cell.bits,),
            (claim,),
            effort,
            seed,
        )
        pending.append(executor.submit(check, Off(claim, amount), settings))
    return all(each.result().counts["violates"] for each in pending)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--claim", action="append")
    arguments = parser.parse_args()
    table = Table("claim", "in", "band", "designed", "found", "found / designed")
    with process_pool(arguments.workers) as executor:
        for claim in arguments.claim or BY_ID:
            record, cell = BY_ID[claim], CELLS[claim]
            part = record.parts_for(cell)[0].name if claim != "rotation-spreads" else "one-hot"
            alpha = ALPHA / SPLIT
            count = record.needed(cell, part, arguments.effort, alpha)
            designed = record.smallest_violation(count, cell, part, arguments.effort, alpha)
            band = record.delta(cell, part, arguments.effort)
            everywhere = partial(
                found_every_time,
                claim,
                effort=arguments.effort,
                runs=arguments.runs,
                executor=executor,
            )
            low, high = 0.0, designed if designed else 1.0
            while not everywhere(high) and high < 8 * designed:
                low, high = high, 2 * high
            seen = everywhere(high)
            while seen and high - low > 0.05 * high:
                middle = (low + high) / 2
                low, high = (low, middle) if everywhere(middle) else (middle, high)
            ratio = f"{high / designed:.2f}" if designed and seen else "-"
            row = (
                str(cell),
                f"{band:.4g}",
                f"{designed:.4g}",
                f"{high:.4g}" if seen else f"not up to {high:.4g}",
                ratio,
            )
            table.add_row(claim, *row)
            print(claim, *row, flush=True)
    Console().print(table)
    print(f"{arguments.effort} effort, {arguments.runs} runs each, seeds 0...{arguments.runs - 1}")


if __name__ == "__main__":
    main()
