"""B. The rotation."""

from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import fault, signs_of
from kvassay.reference import hadamard
from kvassay.reference.codecs import TurboQuantMSE
from kvassay.reference.sphere import Array


@fault("B01", "Pushkinist/rMLX#453", caught_by=("rotation-spreads", "heavy-tail-protection"))
class NoRotation(TurboQuantMSE):
    """The codec carries the rotated name but applies no transform: invisible on isotropic
    vectors, ruinous on an outlier channel."""

    def _to_coordinates(self, x: Array) -> Array:
        return x

    def _from_coordinates(self, y: Array) -> Array:
        return y


@fault("B02", "Scottcjn/rustchain-bounties#71", caught_by=("rotation-isometry", "rotation-spreads"))
class SignsAfterHadamard(TurboQuantMSE):
    """Random signs come after the transform, where they do nothing, or not at all: a constant
    offset becomes one loud coordinate."""

    def _to_coordinates(self, x: Array) -> Array:
        return hadamard.transform(x) * signs_of(self)

    def _from_coordinates(self, y: Array) -> Array:
        return hadamard.transform(y * signs_of(self))


@fault("B04", "TheTom/llama-cpp-turboquant#43", caught_by=("distortion", "rotation-isometry"))
class TwoBackends(TurboQuantMSE):
    """Written with one rotation, read with another."""

    def _from_coordinates(self, y: Array) -> Array:
        other = hadamard.rotation("haar", self.dim, np.random.default_rng(0))
        return other.inverse(y)


@fault("B05", "Blaizzy/mlx-vlm#973", caught_by=("batch-invariance",))
class PathDependentRotation(TurboQuantMSE):
    """One token takes another rotation than many: a cache written by prefill and continued
    by decoding mixes both."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._dense().forward(x) if len(x) == 1 else super()._to_coordinates(x)

    def _from_coordinates(self, y: Array) -> Array:
        return self._dense().inverse(y) if len(y) == 1 else super()._from_coordinates(y)

    def _dense(self) -> hadamard.Rotation:
        return hadamard.rotation("haar", self.dim, np.random.default_rng(0))


class _Padded(TurboQuantMSE):
    """A Hadamard transform of the next power of two, cropped."""

    def _to_coordinates(self, x: Array) -> Array:
        padded = np.zeros((len(x), self._width()))
        padded[:, : self.dim] = x * signs_of(self)
        return hadamard.transform(padded)[:, : self.dim] * self._gain()

    def _from_coordinates(self, y: Array) -> Array:
        padded = np.zeros((len(y), self._width()))
        padded[:, : self.dim] = y
        return hadamard.transform(padded)[:, : self.dim] * signs_of(self) * self._gain()

    def _width(self) -> int:
        return int(2 ** np.ceil(np.log2(self.dim)))

    def _gain(self) -> float:
        return 1.0


@fault(
    "B07",
    "vllm-project/vllm#41413",
    dim=80,
    caught_by=("distortion", "rotation-isometry", "rank-kept"),
)
class WrongNormaliser(_Padded):
    """At d = 80 a matrix of 128 is built and divided by sqrt(80): not orthogonal."""

    def _gain(self) -> float:
        return float(np.sqrt(self._width() / self.dim))


@fault("B07-no-normaliser", "kvassay", caught_by=("coordinate-law", "rotation-isometry"))
class NoNormaliser(TurboQuantMSE):
    """The transform lacks its 1/sqrt(d): rotated coordinates are far outside the table."""

    def _to_coordinates(self, x: Array) -> Array:
        return np.asarray(super()._to_coordinates(x) * np.sqrt(self.dim))

    def _from_coordinates(self, y: Array) -> Array:
        return np.asarray(super()._from_coordinates(y) / np.sqrt(self.dim))


@fault(
    "B20",
    "workglow-dev/libs#762",
    dim=80,
    caught_by=("distortion", "rotation-isometry", "rank-kept"),
)
class CroppedPadding(_Padded):
    """The padded transform is cropped back to d: what was cropped is lost."""


@fault("B09", "tetherto/qvac-fabric-llm.cpp#115", dim=128, bits=4, caught_by=("rotation-spreads",))
class BlockRotation(TurboQuantMSE):
    """The rotation works in blocks of 64, smaller than the head: a loud block stays loud."""

    def _to_coordinates(self, x: Array) -> Array:
        return self._blocks(x * signs_of(self))

    def _from_coordinates(self, y: Array) -> Array:
        return self._blocks(y) * signs_of(self)

    def _blocks(self, x: Array) -> Array:
        size = int(np.gcd(self.dim, 64))
        return hadamard.transform(x.reshape(-1, size)).reshape(len(x), self.dim)


@fault("B12", "RyanCodrai/turbovec#206", caught_by=("determinism",))
class UnstableRotation(TurboQuantMSE):
    """The rotation differs from one instance to the next by rounding: codes written by one
    are read a little wrong by another."""

    def _from_coordinates(self, y: Array) -> Array:
        if not hasattr(self, "_drift"):
            self._drift = 1 + 1e-6 * np.random.random()  # noqa: NPY002
        return super()._from_coordinates(y) * self._drift


@fault(
    "B18",
    "TheTom/turboquant_plus pre-rotate-queries-investigation.md",
    dim=80,
    caught_by=("distortion", "rotation-isometry"),
)
class ForwardForInverse(TurboQuantMSE):
    """The rotation is applied where its inverse was meant. H alone is symmetric and hides
    it; with signs it is not."""

    def _from_coordinates(self, y: Array) -> Array:
        return self.rotation.forward(y)


@fault("B21", "weaviate/weaviate#9652", caught_by=("distortion", "rotation-isometry"))
class NotRotatedBack(TurboQuantMSE):
    """Decoding undoes the code but not the rotation."""

    def _from_coordinates(self, y: Array) -> Array:
        return y


@fault("B-seed", "kvassay", caught_by=("rotation-isometry",))
class SeedIgnored(TurboQuantMSE):
    """Every seed gives the same rotation: nothing that averages over rotations holds."""

    def __init__(self, dim: int, bits: int, seed: int, **options: Any) -> None:
        super().__init__(dim, bits, 7, **options)


@fault("B-signs-twice", "turboquantcpu 0.1.0", caught_by=("distortion", "rotation-isometry"))
class SignsTwice(TurboQuantMSE):
    """The inverse applies the signs before the transform as well as after it."""

    def _from_coordinates(self, y: Array) -> Array:
        return super()._from_coordinates(y * signs_of(self))


@fault("B-permutation", "kvassay", caught_by=("rotation-spreads",))
class PermutationOnly(TurboQuantMSE):
    """The rotation permutes coordinates and flips their signs but mixes nothing."""

    def _to_coordinates(self, x: Array) -> Array:
        return np.asarray((x * signs_of(self))[:, self._order()])

    def _from_coordinates(self, y: Array) -> Array:
        return np.asarray(y[:, np.argsort(self._order())] * signs_of(self))

    def _order(self) -> Any:
        return np.random.default_rng(3).permutation(self.dim)


@fault("B-short-signs", "kvassay", caught_by=("rotation-spreads",))
class ShortSigns(TurboQuantMSE):
    """Random signs repeat after eight coordinates: a constant offset meets eight loud
    coordinates."""

    def _to_coordinates(self, x: Array) -> Array:
        return hadamard.transform(x * np.resize(signs_of(self)[:8], self.dim))

    def _from_coordinates(self, y: Array) -> Array:
        return hadamard.transform(y) * np.resize(signs_of(self)[:8], self.dim)
