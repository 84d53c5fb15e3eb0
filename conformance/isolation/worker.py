"""The child's side of isolation, for backends in Python.

    OTHER/bin/python conformance/isolation/worker.py ROOT SPEC

Serves the backend SPEC over stdin and stdout as docs/protocol.md says. ROOT is the folder in
which kvassay lies, so that the other environment needs NumPy and the backend alone.
"""

import sys

if __name__ == "__main__" and __file__.startswith(sys.path[0]):
    del sys.path[0]  # this folder, whose names are those of other modules too

import ctypes
import json
import os
import signal
import types
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from typing import Any, BinaryIO

import numpy as np

PROTOCOL = 1
METHODS = ("inner_products", "rotate", "unrotate", "codebook")


class _Server:
    """Codecs and codes by the numbers that the other side gave them."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._backend: Any = None
        self._codecs: dict[int, Any] = {}
        self._codes: dict[int, Any] = {}

    def answer(self, message: dict[str, Any], arrays: list[Any]) -> tuple[Any, Any]:
        """The result and, where the answer is an array, that."""
        match message["request"]:
            case "start":
                return self._start(), None
            case "codec":
                return self._make(message), None
            case "encode":
                code = self._codecs[message["codec"]].encode(*arrays)
                self._codes[message["code"]] = code
                return {}, None
            case "nbytes":
                return self._size(message), None
            case "decode" as name:
                return {}, self._array(name, message, self._codes[message["code"]])
            case "inner_products" as name:
                return {}, self._array(name, message, *arrays, self._codes[message["code"]])
            case "rotate" | "unrotate" | "codebook" as name:
                return {}, self._array(name, message, *arrays)
            case "forget":
                for number in message["codes"]:
                    self._codes.pop(number, None)
                for number in message["codecs"]:
                    self._codecs.pop(number, None)
                return {}, None
            case other:
                raise ValueError(f"request must be one of protocol {PROTOCOL}, got {other!r}")

    def _start(self) -> dict[str, Any]:
        from kvassay.conformance import discovery

        self._backend = discovery.load(self._spec)
        capabilities = self._backend.capabilities
        return {
            "protocol": PROTOCOL,
            "name": self._backend.name,
            "version": self._backend.version,
            "kinds": capabilities.kinds,
            "sketches": capabilities.sketches,
            "decode_includes_sketch": capabilities.decode_includes_sketch,
            "offers": [asdict(offer) for offer in capabilities.offers],
        }

    def _make(self, message: dict[str, Any]) -> dict[str, Any]:
        options = {"sketch": message["sketch"]} if "sketch" in message else {}
        codec = self._backend.codec(
            message["kind"], message["dim"], message["bits"], message["seed"], **options
        )
        offered = ("encode", "decode", "nbytes", *METHODS)
        self._codecs[message["codec"]] = codec
        return {"methods": [name for name in offered if callable(getattr(codec, name, None))]}

    def _size(self, message: dict[str, Any]) -> dict[str, Any]:
        from kvassay.conformance.measure.memory import held_bytes

        code = self._codes[message["code"]]
        declared = self._codecs[message["codec"]].nbytes(code)
        if isinstance(declared, np.integer):
            declared = int(declared)
        return {"declared": declared, "held": held_bytes(code)}

    def _array(self, name: str, message: dict[str, Any], *arguments: Any) -> Any:
        answer = getattr(self._codecs[message["codec"]], name)(*arguments)
        if answer is None:
            raise TypeError(f"{name} returned None, should be an array")
        array = np.asarray(answer)
        if array.dtype == np.longdouble:
            array = array.astype(np.float64)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name} returned dtype {array.dtype}, should be floating point")
        return array


def main() -> None:
    """Serves until the end of the input."""
    root, spec = sys.argv[1:]
    die_with_parent()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the backend prints, from C too, is no reply
    package = types.ModuleType("kvassay")
    package.__path__ = [root]
    sys.modules["kvassay"] = package
    from kvassay.conformance import discovery

    server = _Server(spec)
    with np.errstate(all="ignore"):  # what is not finite is judged, not printed
        while line := requests.readline():
            message = json.loads(line)
            arrays = [_receive(requests, about) for about in message.get("arrays", ())]
            try:
                result, array = server.answer(message, arrays)
                _reply(replies, {"result": result}, array)
            except NotImplementedError as problem:
                _reply(replies, {"skipped": str(problem) or "not offered"})
            except discovery.BackendError as problem:
                _reply(replies, {"error": str(problem)})
            except (Exception, SystemExit) as problem:
                _reply(replies, {"error": discovery.described(problem)})


def _receive(requests: BinaryIO, about: dict[str, Any]) -> Any:
    dtype, shape = about["dtype"], tuple(about["shape"])
    return unpacked(requests.read(prod(shape) * np.dtype(dtype).itemsize), dtype, shape)


def _reply(replies: BinaryIO, message: dict[str, Any], array: Any = None) -> None:
    replies.write(packed(message, [] if array is None else [array]))
    replies.flush()


def packed(message: dict[str, Any], arrays: Sequence[Any]) -> bytes:
    """The bytes of a message and its arrays, for either side."""
    if arrays:
        about = [{"dtype": array.dtype.name, "shape": array.shape} for array in arrays]
        message = {**message, "arrays": about}
    blobs = [array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays]
    return json.dumps(message).encode() + b"\n" + b"".join(blobs)


def unpacked(raw: bytes | bytearray, dtype: str, shape: tuple[int, ...]) -> Any:
    """The array that an announcement and its bytes make, for either side; a copy."""
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)


def die_with_parent() -> None:
    """On Linux: this process, even one that hangs, does not outlive the one that began it."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    main()
