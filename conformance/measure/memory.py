"""How much memory a code takes, whatever it is made of."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np


class Held:
    """A code that is held elsewhere, where somebody knows what it takes."""

    def held_bytes(self) -> int:
        raise NotImplementedError


def held_bytes(thing: Any) -> int:
    """Bytes of data in an object: arrays, tensors, bytes and floats, however nested. Whole
    numbers are taken for shapes and settings, modules belong to nobody; an opaque object counts as
    0 bytes, so that the size declared for it is judged alone."""
    seen: set[int] = set()

    def walk(part: Any) -> int:
        if part is None or callable(part) or isinstance(part, (int, str, ModuleType)):
            return 0
        if isinstance(part, float):
            return 8
        if isinstance(part, (bytes, bytearray)):
            return len(part)
        if isinstance(part, (np.generic, memoryview)):
            return part.nbytes
        if isinstance(part, Held):
            return part.held_bytes()
        if id(part) in seen:
            return 0
        seen.add(id(part))
        if isinstance(part, np.ndarray) and part.dtype != object:
            return part.nbytes
        if flatten := getattr(part, "__tensor_flatten__", None):  # a tensor made of others
            return sum(walk(getattr(part, name)) for name in flatten()[0])
        if not isinstance(part, np.ndarray) and hasattr(part, "dtype") and hasattr(part, "nbytes"):
            return int(part.nbytes)  # a tensor
        if isinstance(part, Mapping):
            return sum(walk(value) for value in part.values())
        if isinstance(part, (list, tuple, set, frozenset, np.ndarray)):
            return sum(walk(value) for value in part)
        slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
        held = [getattr(part, name) for name in slots if hasattr(part, name)]
        return sum(walk(value) for value in [*getattr(part, "__dict__", {}).values(), *held])

    return walk(thing)
