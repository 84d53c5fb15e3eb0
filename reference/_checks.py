"""Checks where data enters. Each message names the argument, the value and the rule."""

import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray


def require_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """`value` as an int in low..high, or ValueError."""
    rule = f"in {low}..{high}" if high is not None else f"at least {low}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{name} must be an integer {rule}, got {value!r}") from None
    if number < low or (high is not None and number > high):
        raise ValueError(f"{name} must be {rule}, got {number}")
    return number


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value` if it is one of `choices`, or ValueError."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def require_vectors(name: str, value: ArrayLike, dim: int) -> NDArray[np.float64]:
    """`value` as a finite, C-ordered float64 array of shape (N, dim), or ValueError."""
    array = np.asarray(value)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be floating point, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != dim:
        raise ValueError(f"{name} must have shape (N, {dim}), got {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"{name} must be finite, got NaN or infinity in row {row}")
    return np.ascontiguousarray(array, dtype=np.float64)
