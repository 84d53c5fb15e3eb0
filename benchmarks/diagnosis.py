"""How often the diagnosis names the right family: of every known fault, and of some that are not.

    python benchmarks/diagnosis.py --workers 2

Each fault runs in cells around its own, with seeds that have nothing to do with those of the
signatures. Then the same with faults as other people would have made them: another constant,
another place (VARIANTS), which must be named all the same; with the faults of a shared part in
the codec with a sketch and in the one without; and with faults that are nobody's entry (INVENTED),
which must stay unknown. Prints a line for each whose family is not named first, and Wilson
intervals at 95 %. A codec that shares no code with the reference is in `second_codec.py`.
"""

import argparse
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import binomtest

from kvassay.conformance import Settings, check
from kvassay.conformance.faults import BY_ID
from kvassay.conformance.faults.diagnosis import diagnose
from kvassay.conformance.faults.families import family_of
from kvassay.conformance.faults.fault import FAULTS, MSE, PROD, SPECTRAL, Fault
from kvassay.conformance.run.execution import process_pool
from kvassay.reference import packing
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, TurboQuantProd

VARIANTS: dict[str, list[type]] = {}
INVENTED: list[type] = []


def variant(id):
    """Another form of the fault `id`."""

    def register(codec_class):
        VARIANTS.setdefault(id, []).append(codec_class)
        return codec_class

    return register


def invented(codec_class):
    """A fault that has no entry."""
    INVENTED.append(codec_class)
    return codec_class


class _Levels(Scalar):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        levels = self.change(self.book.levels)
        middle = (levels[1:] + levels[:-1]) / 2
        self.book = replace(self.book, levels=levels, thresholds=middle)


@variant("C02")
class NarrowBy30(_Levels):
    def change(self, levels):
        return 0.7 * levels


@variant("C-other-dim")
class TableOf256(_Levels):
    def change(self, levels):
        return levels * np.sqrt(self.dim / 256)


@variant("D02")
class ShrinksBy5(Scalar):
    def decode(self, code):
        return 0.95 * super().decode(code)

    inner_products = property()


@variant("C10")
class SmallerOffset(Scalar):
    def decode(self, code):
        return super().decode(code) - 0.03 * code.norms[:, None]

    inner_products = property()


@variant("A01")
class NoCorrection(TurboQuantProd):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.sketch.scale = 0.0


@variant("A08")
class OtherConstant(TurboQuantProd):
    def encode(self, x):
        code = super().encode(x)
        return replace(code, residual_norms=np.full(len(code), 1 / 20))


@variant("E05")
class TilesOf16(Scalar):
    def _levels(self, code):
        levels = super()._levels(code)
        whole = self.dim // 32 * 32
        tiles = levels[:, :whole].reshape(len(code), -1, 2, 16)[:, :, ::-1]
        return np.concatenate([tiles.reshape(len(code), whole), levels[:, whole:]], axis=1)


@variant("F01")
class DropsAQuarter(Scalar):
    def _levels(self, code):
        levels = super()._levels(code)
        levels[:, -self.dim // 4 :] = 0
        return levels


@variant("D-coarse")
class CoarserNorm(Scalar):
    def encode(self, x):
        code = super().encode(x)
        mantissa, exponent = np.frexp(code.norms)
        return replace(code, norms=np.ldexp(np.round(mantissa * 12) / 12, exponent))


@variant("H13")
class OtherRace(Scalar):
    def decode(self, code):
        decoded = super().decode(code)
        stale = np.random.random(len(decoded)) < 0.3  # noqa: NPY002
        return np.where(stale[:, None], np.roll(decoded, 2, axis=0), decoded)


@variant("K03")
class KeepsFloat32(TurboQuantMSE):
    def encode(self, x):
        code = super().encode(x)
        return code, np.asarray(super().decode(code), dtype=np.float32)

    def decode(self, code):
        return super().decode(code[0])

    def nbytes(self, code):
        return code[0].nbytes

    inner_products = property()


@invented
class LevelsDoubled(_Levels):
    """Every second level is stored twice."""

    def change(self, levels):
        return np.sort(np.concatenate([levels[::2], levels[::2] + 1e-9]))


@invented
class CubedCoordinates(TurboQuantMSE):
    """The reconstruction goes through a cubic curve."""

    def decode(self, code):
        decoded = super().decode(code)
        return decoded + 0.5 * decoded**3 / np.maximum(code.norms[:, None] ** 2, 1e-9) * self.dim

    inner_products = property()


@invented
class OneLoudCoordinate(TurboQuantMSE):
    """One coordinate of each vector is read as its negative."""

    def _levels(self, code):
        levels = super()._levels(code)
        levels[:, 5] *= -1
        return levels


@invented
class NormOfNeighbour(Scalar):
    """A vector gets the mean of its own norm and of the one before it."""

    def encode(self, x) -> Code:
        code = super().encode(x)
        return replace(code, norms=(code.norms + np.roll(code.norms, 1)) / 2)


@invented
class SignsOfEvenRows(TurboQuantProd):
    """The signs of every second sketch row are lost and read as +1."""

    def encode(self, x):
        code = super().encode(x)
        if code.signs is None:
            return code
        signs = packing.unpack(code.signs, self.sketch.rows, 1)
        signs[:, ::2] = 1
        return replace(code, signs=packing.pack(signs, 1))


def named_first(fault: Fault, shared: bool, effort: str) -> tuple[str, str]:
    """The family that comes first ("" for none, "-" if nothing violates), and what was said."""
    dims = tuple(sorted({fault.dim, 64}))
    bits = tuple(sorted({fault.bits, 2}))
    settings = Settings(kinds=(fault.kind,), dims=dims, bits=bits, effort=effort, seed=77)
    report = check(replace(fault, shared=shared), settings)
    if not report.counts["violates"]:
        return "-", "violates nothing"
    for each in diagnose(report.entries):
        said = ", ".join(f"{match.fault} {match.fit:.3f}" for match in each.matches[:3])
        if not said:
            nearest = each.nearest
            said = f"unknown (nearest {nearest.fault} {nearest.fit:.3f})" if nearest else "unknown"
        return each.matches[0].family if each.matches else "", said
    return "", "unknown"


def shared_with_a_sketch(faults: list[Fault]) -> list[Fault]:
    """Those that a codec with a sketch and the one without can share, in the former."""
    both = [fault for fault in faults if {MSE, PROD} <= set(fault.kinds)]
    return [fault.put_into(PROD, "gaussian") for fault in both]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fault", action="append")
    arguments = parser.parse_args()
    known = [each for each in FAULTS if not each.proof and each.kind != SPECTRAL]
    variants = [
        replace(BY_ID[id], codec_class=made) for id, several in VARIANTS.items() for made in several
    ]
    with process_pool(arguments.workers) as executor:
        for title, faults, shared in (
            ("known faults", known, False),
            ("known faults in both kinds", shared_with_a_sketch(known), True),
            ("variants", variants, False),
            ("variants in both kinds", shared_with_a_sketch(variants), True),
        ):
            chosen = [each for each in faults if each.id in (arguments.fault or BY_ID)]
            ask = partial(named_first, shared=shared, effort=arguments.effort)
            right = judged = 0
            for fault, (first, said) in zip(chosen, executor.map(ask, chosen), strict=True):
                judged += first != "-"
                right += first == family_of(fault.id).id
                if first != family_of(fault.id).id:
                    print(f"  {fault.id} ({fault.codec_class.__name__}): {said}", flush=True)
            if judged:
                ends = binomtest(right, judged).proportion_ci(method="wilson")
                print(
                    f"{title}: the right family first for {right} of {judged} that violate, "
                    f"{right / judged:.0%} [{ends.low:.0%}, {ends.high:.0%}]",
                    flush=True,
                )
        invented = []
        for made in INVENTED if not arguments.fault else []:
            kind = PROD if issubclass(made, TurboQuantProd) else MSE
            sketch = "gaussian" if kind == PROD else ""
            invented.append(Fault("invented", made.__doc__, "", kind, sketch, 128, 3, made))
        ask = partial(named_first, shared=False, effort=arguments.effort)
        unknown = 0
        for fault, (first, said) in zip(invented, executor.map(ask, invented), strict=True):
            unknown += first == ""
            print(f"  {fault.codec_class.__name__}: {said}", flush=True)
        print(f"invented faults: {unknown} of {len(invented)} unknown")


if __name__ == "__main__":
    main()
