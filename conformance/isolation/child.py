"""A child process that speaks docs/protocol.md."""

import json
import os
import selectors
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance.isolation import worker
from kvassay.conformance.measure.cell import BackendFault, BackendGone, BackendHung

LONGEST_LINE = 2**20  # bytes of a reply before its arrays
LARGEST_ARRAY = 2**28  # bytes; the largest that the suite ever asks for is a hundredth
LAST_WORDS = 2000  # bytes of stderr that are kept
MOST_AXES = 8
DTYPES = {"float16", "float32", "float64", "bool"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


Array = NDArray[Any]


class Gone(BackendGone):
    """The child ended, or said something that is no reply and was ended."""


class Child:
    """One child process that speaks the protocol. Not for use by several threads."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as problem:
            raise Gone(f"{command[0]} cannot be run: {problem.strerror}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._received = bytearray()
        self._words = bytearray()
        self._listener = threading.Thread(
            target=_listen, args=(self._process.stderr, self._words), daemon=True
        )
        self._listener.start()
        self._numbers = count(1)
        self._forgotten: dict[str, list[int]] = {"codes": [], "codecs": []}
        self.close = weakref.finalize(self, _end, self._process)

    @property
    def alive(self) -> bool:
        return self.close.alive

    def number(self) -> int:
        """A number that no codec or code of this child has yet."""
        return next(self._numbers)

    def forget(self, what: str, number: int) -> None:
        """The codec or code is not needed any more; said along with a later request."""
        self._forgotten[what].append(number)

    def request(
        self, name: str, limit: float, arrays: Sequence[Array] = (), **fields: Any
    ) -> tuple[dict[str, Any], list[Array]]:
        """The result and the arrays of the reply. NotImplementedError if it is "skipped",
        BackendFault if it is "error", does not come in time, or is no reply."""
        if not self.alive:
            raise Gone(f"{name}: the backend's process is gone")
        if any(self._forgotten.values()) and name != "forget":
            said, self._forgotten = self._forgotten, {"codes": [], "codecs": []}
            self.request("forget", limit, codes=said["codes"], codecs=said["codecs"])
        deadline = time.monotonic() + limit
        try:
            self._send({"request": name, **fields}, arrays, deadline)
            reply = self._line(deadline)
            answers = [self._array(about, deadline) for about in reply.get("arrays", ())]
            if name == "forget":
                return {}, []
        except TooLate:
            raise BackendHung(
                self._ended(f"{name}: the backend did not answer within {limit:g} s")
            ) from None
        except NoReply as problem:
            raise Gone(self._ended(f"{name}: {problem}")) from None
        if "skipped" in reply:
            raise NotImplementedError(str(reply["skipped"]))
        if "error" in reply:
            raise BackendFault(str(reply["error"]))
        return reply["result"], answers

    def _ended(self, what: str) -> str:
        """Ends the child; what happened, with its last words."""
        self.close()
        self._listener.join(timeout=1)
        lines = self._words.decode(errors="replace").split("\n")
        last = [line.strip()[:200] for line in lines if line.strip()][-3:]
        return what + (f"; its last words: {' | '.join(last)}" if last else "")

    def _send(self, message: dict[str, Any], arrays: Sequence[Array], deadline: float) -> None:
        if self._ready(self._out, selectors.EVENT_READ, 0):
            self._read(deadline)
        if self._received:
            raise NoReply(f"the backend wrote what nobody asked for: {_shown(self._received)}")
        rest = memoryview(worker.packed(message, arrays))
        while rest:
            if not self._ready(self._in, selectors.EVENT_WRITE, deadline - time.monotonic()):
                raise TooLate
            try:
                rest = rest[os.write(self._in, rest) :]
            except BrokenPipeError:
                raise NoReply(self._how_it_ended()) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise NoReply(f"the backend wrote no reply but {_shown(self._received)}")
            self._read(deadline)
        line, _, self._received = self._received.partition(b"\n")
        if len(line) > LONGEST_LINE:
            raise NoReply(f"the backend wrote no reply but {_shown(line)}")
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or not {"result", "skipped", "error"} & set(reply):
            raise NoReply(f"the backend wrote no reply but {_shown(line)}")
        arrays = reply.get("arrays", [])
        if not isinstance(arrays, list) or len(arrays) > 1:
            raise NoReply(f"the backend's reply must have a list of one array: {_shown(line)}")
        return reply

    def _array(self, about: Any, deadline: float) -> Array:
        try:
            dtype, shape = about["dtype"], tuple(about["shape"])
        except (TypeError, KeyError):
            raise NoReply(f"an array must have dtype and shape, got {about!r:.80}") from None
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise NoReply(f"dtype must be a NumPy name like float32, got {dtype!r:.80}")
        sound = all(isinstance(side, int) and 0 <= side <= LARGEST_ARRAY for side in shape)
        if not sound or len(shape) > MOST_AXES:
            raise NoReply(f"shape must hold a few whole numbers, got {shape!r:.80}")
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > LARGEST_ARRAY:
            raise NoReply(f"the backend announced an array of {size} bytes")
        while len(self._received) < size:
            self._read(deadline)
        raw = self._received[:size]
        del self._received[:size]
        return np.asarray(worker.unpacked(raw, dtype, shape))

    def _read(self, deadline: float) -> None:
        if not self._ready(self._out, selectors.EVENT_READ, deadline - time.monotonic()):
            raise TooLate
        more = os.read(self._out, 2**20)
        if not more:
            raise NoReply(self._how_it_ended())
        self._received += more

    @staticmethod
    def _ready(descriptor: int, event: int, wait: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, event)
            return bool(selector.select(max(wait, 0)))

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return "the backend closed its output"
        if code < 0:
            return f"the backend's process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"the backend's process ended with exit code {code}"


class TooLate(Exception):
    """The deadline passed."""


class NoReply(Exception):
    """The child ended, or what it said is no reply."""


def _shown(said: bytes | bytearray) -> str:
    text = bytes(said[:80]).decode(errors="replace")
    return repr(text) + (f" and {len(said) - 80} bytes more" if len(said) > 80 else "")


def _listen(stream: IO[bytes], words: bytearray) -> None:
    """Keeps the last of what the child writes to stderr, so that it never waits for us."""
    with stream:
        while more := os.read(stream.fileno(), 2**16):
            words += more
            del words[:-LAST_WORDS]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Lets the child end by itself, which the end of its input asks for, but not for long."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.2)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # those that it started, too
    process.wait()
    process.stdout.close()
