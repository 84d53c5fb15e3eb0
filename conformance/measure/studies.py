"""All studies by name."""

from functools import partial

from kvassay.conformance.measure.attention import softmax
from kvassay.conformance.measure.eden import eden
from kvassay.conformance.measure.populations import (
    DIRECTION_DIMS,
    direction,
    direction_populations,
    pathology,
)
from kvassay.conformance.measure.schemes import generators, population, values
from kvassay.conformance.measure.spectral import (
    calibration,
    context,
    heavy_tails,
    spurious,
    water_filling,
)
from kvassay.conformance.measure.study import Study
from kvassay.reference import regimes

STUDIES: dict[str, Study] = {
    study.id: study
    for study in (
        Study("softmax", softmax),
        *(
            Study(f"population/{name}", partial(population, regime=regime))
            for name, regime in regimes.REGIMES.items()
        ),
        Study("population/tensors", partial(population, regime=None)),
        *(
            Study(
                f"direction/d={dim}",
                partial(direction, dim=dim, populations=direction_populations(dim)),
            )
            for dim in DIRECTION_DIMS
        ),
        Study("pathology", pathology),
        Study("calibration", calibration, repeats=4),
        Study("heavy-tails", heavy_tails),
        Study("water-filling", water_filling),
        Study("spurious", spurious),
        Study("context", context),
        Study("values", values),
        Study("generators", generators, repeats=32),
        Study("eden", eden),
    )
}
