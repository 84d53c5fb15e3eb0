"""The codecs of kvassay.reference in OpenCL: `codecs`, `devices`, and the kernels beside them.

>>> from kvassay.accel import Runtime, choose, codec  # doctest: +SKIP
>>> keys = codec(Runtime(choose()), "turboquant-mse", 128, 4, seed=0)  # doctest: +SKIP
>>> keys.decode(keys.encode(x))  # doctest: +SKIP
"""

from kvassay.accel.codecs import attention, codec
from kvassay.accel.devices import DeviceError, Runtime, choose, found

__all__ = ["DeviceError", "Runtime", "attention", "choose", "codec", "found"]
