"""C. Codebook and grid."""

from dataclasses import replace
from typing import Any

import numpy as np

from kvassay.conformance.faults.fault import fault
from kvassay.reference import packing, sphere
from kvassay.reference.codecs import Code, Scalar, TurboQuantMSE, normalize
from kvassay.reference.lloyd_max import codebook
from kvassay.reference.sphere import Array


class _Table(Scalar):
    """Other levels, with nearest-level assignment."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        levels = self.table(self.book.levels)
        thresholds = (levels[1:] + levels[:-1]) / 2
        self.book = replace(self.book, levels=levels, thresholds=thresholds)

    def table(self, levels: Array) -> Array:
        raise NotImplementedError


@fault(
    "C01",
    "facebookresearch/faiss#5317",
    caught_by=("gaussian-limit", "codebook-optimal", "distortion"),
)
class UnscaledTable(_Table):
    """A table for unit variance meets coordinates of variance 1/d: two of its codes are
    used."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * np.sqrt(self.dim))


@fault(
    "C02",
    "TheTom/llama-cpp-turboquant#197",
    caught_by=("gaussian-limit", "codebook-optimal", "distortion", "jensen"),
)
class NarrowTable(_Table):
    """A table copied 0.6 times too narrow: twice the distortion, though one-hot vectors
    look better than correct."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * 0.6)


@fault(
    "C03",
    "vortex-data/vortex#8076",
    bits=6,
    caught_by=("gaussian-limit", "codebook-optimal", "distortion"),
)
class DeadLevels(_Table):
    """The iteration starts on [-1, 1], where there is no mass, and never moves: the error
    stops falling with the bits."""

    def table(self, levels: Array) -> Array:
        return np.linspace(-1, 1, len(levels))


@fault("C05", "workglow-dev/libs#727", bits=1, caught_by=("codebook-optimal", "distortion"))
class FixedClip(_Table):
    """A uniform grid over three standard deviations whatever the width: at one bit the
    reconstruction is three times too long."""

    def table(self, levels: Array) -> Array:
        return np.asarray(np.linspace(-3, 3, len(levels)) / np.sqrt(self.dim))


@fault(
    "C07", "RyanCodrai/turbovec#454", caught_by=("gaussian-limit", "codebook-optimal", "distortion")
)
class FixedAnchors(_Table):
    """The 5 % and 95 % quantiles are made to hit the outer levels, whatever the width."""

    def table(self, levels: Array) -> Array:
        return np.asarray(levels * (1.645 / np.sqrt(self.dim) / levels[-1]))


@fault(
    "C-other-dim",
    "turbo-quant-lite 0.1.1",
    dim=64,
    caught_by=("gaussian-limit", "codebook-optimal", "distortion", "qjl-unbiased"),
)
class TableOfAnotherDimension(_Table):
    """The table of d = 512 is used at every dimension."""

    def table(self, levels: Array) -> Array:
        return codebook(512, self.book.bits).levels


@fault(
    "C-equal-cells",
    "turboquant 0.2.0",
    caught_by=("gaussian-limit", "codebook-optimal", "distortion", "qjl-unbiased"),
)
class EqualCells(_Table):
    """Levels are the means of cells of equal probability, where those of least error were
    meant."""

    def table(self, levels: Array) -> Array:
        edges = sphere.ppf(np.linspace(0, 1, len(levels) + 1), self.dim)
        mass, first = sphere.partial_moments(edges, self.dim)
        return np.asarray(first / mass)


@fault(
    "C-early-stop",
    "ginkgoq-turboquant 0.1.0.post1",
    bits=6,
    caught_by=("gaussian-limit", "codebook-optimal", "distortion"),
)
class StoppedEarly(_Table):
    """Lloyd's iteration stops long before it converges: at six bits the outer levels have
    not moved far from where they began."""

    rounds = 300

    def table(self, levels: Array) -> Array:
        middles = (np.arange(len(levels)) + 0.5) / len(levels)
        moved = sphere.ppf(middles, self.dim)
        for _ in range(self.rounds):
            edges = np.concatenate([[-1.0], (moved[1:] + moved[:-1]) / 2, [1.0]])
            mass, first = sphere.partial_moments(edges, self.dim)
            moved = first / mass
        return np.asarray(moved)


@fault("C-uniform", "kvassay", bits=4, caught_by=("codebook-optimal", "distortion"))
class UniformGrid(_Table):
    """A uniform grid, at the step that is best for it, stands for the optimal one."""

    def table(self, levels: Array) -> Array:
        steps = {1: 1.596, 2: 0.9957, 3: 0.586, 4: 0.3352, 5: 0.1881, 6: 0.1041}  # Max 1960
        half = len(levels) / 2
        step = steps.get(self.book.bits, 7 / len(levels)) / np.sqrt(self.dim)
        return np.asarray((np.arange(len(levels)) - half + 0.5) * step)


@fault(
    "C-floor",
    "kvassay",
    bits=4,
    caught_by=(
        "distortion",
        "any-scale",
        "kv-asymmetry",
    ),
)
class RoundedDown(Scalar):
    """The index is that of the level below, not the nearest."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.book = replace(self.book, thresholds=self.book.levels[1:])


@fault("C-even-thresholds", "kvassay", bits=4, caught_by=("distortion",))
class EvenThresholds(Scalar):
    """Levels are those of Lloyd-Max, but thresholds are spaced evenly between the outermost."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self.book.thresholds
        even = np.linspace(right[0], right[-1], len(right))
        self.book = replace(self.book, thresholds=even)


@fault("C09", "vllm-project/vllm#38479", bits=3, caught_by=("distortion", "qjl-unbiased"))
class FourCentroids(Scalar):
    """The kernel knows four centroids though eight are configured."""

    def _levels(self, code: Code) -> Array:
        indices = packing.unpack(code.indices, self.dim, self.book.bits) & np.uint8(3)
        return np.asarray(self.book.levels[indices])


@fault("C10", "workglow-dev/libs#713", caught_by=("distortion",))
class OffsetKept(Scalar):
    """An unsigned mapping leaves its offset in the decoded vector: unrelated vectors look
    alike."""

    def decode(self, code: Code) -> Array:
        return super().decode(code) + 0.05 * code.norms[:, None]

    inner_products = property()


@fault("C14", "apache/lucene#12780", caught_by=("distortion", "qjl-unbiased"))
class NormalisedOnOneSide(TurboQuantMSE):
    """Vectors are normalised when read but not when written."""

    alone = True

    def _encode(self, x: Array) -> Code:
        indices = self.book.quantize(self._to_coordinates(x))
        return Code(packing.pack(indices, self.bits), normalize(x)[1])
