"""A backend in a process of its own: what it does there, a crash or a hang, stays there.

`isolated("mine:Backend", python="venv/bin/python")` is a backend like any other, whose
codecs ask a child over docs/protocol.md. Each process that uses it has one child, started
anew after it died. Whatever goes wrong is a `BackendFault` with the child's last words.
"""

import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kvassay.conformance import discovery, worker
from kvassay.conformance.experiments import BackendFault, BackendHung
from kvassay.conformance.memory import Held
from kvassay.conformance.protocol import Capabilities

STARTUP_LIMIT = 120.0  # seconds; a first import of a large library takes tens
REQUEST_LIMIT = 30.0
LONGEST_LIMIT = 86_400.0
LONGEST_LINE = 2**20  # bytes of a reply before its arrays
LARGEST_ARRAY = 2**28  # bytes; the largest that the suite ever asks for is a hundredth
LAST_WORDS = 2000  # bytes of stderr that are kept
MOST_AXES = 8
DTYPES = {"float16", "float32", "float64", "bool"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}

Array = NDArray[Any]


class Gone(BackendFault):
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
        except _TooLate:
            raise BackendHung(
                self._ended(f"{name}: the backend did not answer within {limit:g} s")
            ) from None
        except _NoReply as problem:
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
            raise _NoReply(f"the backend wrote what nobody asked for: {_shown(self._received)}")
        rest = memoryview(worker.packed(message, arrays))
        while rest:
            if not self._ready(self._in, selectors.EVENT_WRITE, deadline - time.monotonic()):
                raise _TooLate
            try:
                rest = rest[os.write(self._in, rest) :]
            except BrokenPipeError:
                raise _NoReply(self._how_it_ended()) from None

    def _line(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise _NoReply(f"the backend wrote no reply but {_shown(self._received)}")
            self._read(deadline)
        line, _, self._received = self._received.partition(b"\n")
        if len(line) > LONGEST_LINE:
            raise _NoReply(f"the backend wrote no reply but {_shown(line)}")
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or not {"result", "skipped", "error"} & set(reply):
            raise _NoReply(f"the backend wrote no reply but {_shown(line)}")
        arrays = reply.get("arrays", [])
        if not isinstance(arrays, list) or len(arrays) > 1:
            raise _NoReply(f"the backend's reply must have a list of one array: {_shown(line)}")
        return reply

    def _array(self, about: Any, deadline: float) -> Array:
        try:
            dtype, shape = about["dtype"], tuple(about["shape"])
        except (TypeError, KeyError):
            raise _NoReply(f"an array must have dtype and shape, got {about!r:.80}") from None
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise _NoReply(f"dtype must be a NumPy name like float32, got {dtype!r:.80}")
        sound = all(isinstance(side, int) and 0 <= side <= LARGEST_ARRAY for side in shape)
        if not sound or len(shape) > MOST_AXES:
            raise _NoReply(f"shape must hold a few whole numbers, got {shape!r:.80}")
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > LARGEST_ARRAY:
            raise _NoReply(f"the backend announced an array of {size} bytes")
        while len(self._received) < size:
            self._read(deadline)
        raw = self._received[:size]
        del self._received[:size]
        return np.asarray(worker.unpacked(raw, dtype, shape))

    def _read(self, deadline: float) -> None:
        if not self._ready(self._out, selectors.EVENT_READ, deadline - time.monotonic()):
            raise _TooLate
        more = os.read(self._out, 2**20)
        if not more:
            raise _NoReply(self._how_it_ended())
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


class _TooLate(Exception):
    """The deadline passed."""


class _NoReply(Exception):
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


_NOT_TOLD = Capabilities(kinds=("scalar",))


@dataclass(frozen=True)
class IsolatedBackend:
    """A backend that lives in a child process. Made by `isolated`; may be sent to others."""

    command: tuple[str, ...]
    arguments: str  # of `kvassay check`
    startup_limit: float
    request_limit: float
    name: str = ""
    version: str = ""
    capabilities: Capabilities = _NOT_TOLD

    def codec(self, kind: str, dim: int, bits: int, seed: int, **options: Any) -> "RemoteCodec":
        return RemoteCodec(self, {"kind": kind, "dim": dim, "bits": bits, "seed": seed, **options})

    def child(self) -> Child:
        """This thread's child, started if there is none."""
        known, key = _children(), (self, threading.get_ident())
        if key not in known or not known[key].alive:
            known[key] = self._start()[0]
        return known[key]

    def _start(self) -> tuple[Child, dict[str, Any]]:
        child = Child(self.command)
        result, _ = child.request("start", self.startup_limit, protocol=worker.PROTOCOL)
        return child, result


@cache
def _children() -> dict[tuple[IsolatedBackend, int], Child]:
    return {}


class RemoteCode(Held):
    """A code that lies in the child."""

    def __init__(self, codec: "RemoteCodec", number: int) -> None:
        self.number = number
        self.child = codec.child
        self._codec = codec
        self._sizes: dict[str, Any] = {}
        weakref.finalize(self, codec.child.forget, "codes", number).atexit = False

    def sizes(self) -> dict[str, Any]:
        """Bytes declared and, where the child knows, held; asked for once."""
        self._sizes = self._sizes or self._codec.sizes(self)
        return self._sizes

    def held_bytes(self) -> int:
        held = self.sizes()["held"]
        return held if isinstance(held, int) else 0


class RemoteCodec:
    """A codec of the child, made again where the child had to be started again."""

    def __init__(self, backend: IsolatedBackend, wanted: dict[str, Any]) -> None:
        self._backend = backend
        self._wanted = wanted
        self._make()

    def encode(self, x: Array) -> RemoteCode:
        if not self.child.alive:
            self._make()
        number = self.child.number()
        self._ask("encode", [x], code=number)
        return RemoteCode(self, number)

    def decode(self, code: RemoteCode) -> Array:
        return self._array("decode", code=self._here(code))

    def nbytes(self, code: RemoteCode) -> Any:
        return code.sizes()["declared"]

    def sizes(self, code: RemoteCode) -> dict[str, Any]:
        """What `nbytes` answers: bytes declared, and bytes held or None."""
        sizes: dict[str, Any] = {"held": None, **self._ask("nbytes", code=self._here(code))[0]}
        if "declared" not in sizes:
            raise BackendFault("nbytes returned no number of bytes")
        return sizes

    def _make(self) -> None:
        self.child = self._backend.child()
        self._number = self.child.number()
        result, _ = self._ask("codec", **self._wanted)
        weakref.finalize(self, self.child.forget, "codecs", self._number).atexit = False
        methods = result.get("methods", [])
        if missing := [name for name in ("encode", "decode", "nbytes") if name not in methods]:
            raise BackendFault(f"the codec has no {missing[0]}")
        self._offered = [name for name in worker.METHODS if name in methods]

    def __getattr__(self, name: str) -> Any:  # bound only when asked for: no cycle, no leak
        if name in self.__dict__.get("_offered", ()):
            return getattr(self, f"_{name}")
        raise AttributeError(name)

    def _here(self, code: RemoteCode) -> int:
        """The code's number, if it lies in the child that this codec lives in."""
        if code.child is not self.child:
            raise Gone("the code went with the process that held it")
        return code.number

    def _inner_products(self, q: Array, code: RemoteCode) -> Array:
        return self._array("inner_products", [q], code=self._here(code))

    def _rotate(self, x: Array) -> Array:
        return self._array("rotate", [x])

    def _unrotate(self, y: Array) -> Array:
        return self._array("unrotate", [y])

    def _codebook(self) -> Array:
        return self._array("codebook")

    def _array(self, name: str, arrays: Sequence[Array] = (), **fields: Any) -> Array:
        if not self.child.alive and "code" not in fields:
            self._make()
        _, answers = self._ask(name, arrays, **fields)
        if len(answers) != 1:
            raise BackendFault(f"{name} returned {len(answers)} arrays, should be one")
        return answers[0]

    def _ask(
        self, name: str, arrays: Sequence[Array] = (), **fields: Any
    ) -> tuple[dict[str, Any], list[Array]]:
        limit = self._backend.request_limit
        result, answers = self.child.request(name, limit, arrays, codec=self._number, **fields)
        if not isinstance(result, dict):
            raise BackendFault(f"{name} returned {result!r:.80}, should be an object")
        return result, answers


def isolated(
    spec: str,
    python: str = sys.executable,
    startup_limit: float = STARTUP_LIMIT,
    request_limit: float = REQUEST_LIMIT,
) -> IsolatedBackend:
    """The backend `spec`, a name or "module:factory", run by the interpreter `python`.

    Its environment needs NumPy and the backend; kvassay itself is lent to it. The limits
    are in seconds, for the start and for each answer. BackendError if it does not start,
    ValueError for limits that are none.
    """
    script = Path(worker.__file__)
    target = discovery.target(spec)
    how = ["--isolate"] if python == sys.executable else ["--python", python]
    return served(
        (python, str(script), str(script.parents[1]), target),
        [spec, *how],
        startup_limit,
        request_limit,
    )


def served(
    command: Sequence[str],
    options: Sequence[str],
    startup_limit: float = STARTUP_LIMIT,
    request_limit: float = REQUEST_LIMIT,
) -> IsolatedBackend:
    """The backend that `command` serves, in any language; `options` of `kvassay check` name
    it. BackendError if it does not start or says no capabilities that make sense."""
    options = list(options)
    for name, limit, usual in (
        ("--startup-limit", startup_limit, STARTUP_LIMIT),
        ("--request-limit", request_limit, REQUEST_LIMIT),
    ):
        if not 0 < limit <= LONGEST_LIMIT:
            raise ValueError(f"{name} must be above 0 and at most {LONGEST_LIMIT:g}, got {limit:g}")
        if limit != usual:
            options += [name, f"{limit:g}"]
    arguments = shlex.join(options)
    unnamed = IsolatedBackend(tuple(command), arguments, startup_limit, request_limit)
    try:
        child, told = unnamed._start()
    except (BackendFault, NotImplementedError) as problem:
        raise discovery.BackendError(f"backend {arguments} does not start: {problem}") from None
    try:
        if told["protocol"] != worker.PROTOCOL:
            raise ValueError(f"protocol must be {worker.PROTOCOL}, got {told['protocol']!r:.80}")
        if not isinstance(told["name"], str) or not isinstance(told["version"], str):
            raise ValueError("name and version must be strings")
        complete = told.get("decode_includes_sketch", True)
        if not isinstance(complete, bool):
            raise ValueError(f"decode_includes_sketch must be true or false, got {complete!r:.80}")
        capabilities = Capabilities(tuple(told["kinds"]), tuple(told["sketches"]), complete)
    except KeyError as missing:
        raise discovery.BackendError(
            f"backend {arguments} does not start: its reply lacks {missing}"
        ) from None
    except (ValueError, TypeError) as problem:
        raise discovery.BackendError(f"backend {arguments} does not start: {problem}") from None
    finally:
        child.close()
    return IsolatedBackend(
        tuple(command),
        arguments,
        startup_limit,
        request_limit,
        told["name"],
        told["version"],
        capabilities,
    )
