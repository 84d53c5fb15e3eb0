"""A backend in a process of its own: what it does there, a crash or a hang, stays there.

`isolated("mine:Backend", python="venv/bin/python")` is a backend like any other, whose
codecs ask a child over docs/protocol.md. Each process that uses it has one child, started
anew after it died. Whatever goes wrong is a `BackendFault` with the child's last words.
"""

import shlex
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kvassay.conformance import discovery
from kvassay.conformance.isolation import worker
from kvassay.conformance.isolation.child import Array, Child, Gone
from kvassay.conformance.measure.cell import BackendFault
from kvassay.conformance.measure.memory import Held
from kvassay.conformance.protocol import Capabilities, Offer
from kvassay.reference.designs import Design

STARTUP_LIMIT = 120.0  # seconds; a first import of a large library takes tens
REQUEST_LIMIT = 30.0
LONGEST_LIMIT = 86_400.0
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
        if x.dtype != np.float32:
            raise BackendFault(f"encode: the protocol sends float32 alone, got {x.dtype}")
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
        if q.dtype != np.float32:
            raise BackendFault(f"inner_products: the protocol sends float32 alone, got {q.dtype}")
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
    ValueError for limits that are not positive.
    """
    script = Path(worker.__file__)
    target = discovery.target(spec)
    how = ["--isolate"] if python == sys.executable else ["--python", python]
    return served(
        (python, str(script), str(script.parents[2]), target),
        [spec, *how],
        startup_limit,
        request_limit,
    )


def apart(
    spec: str | None,
    python: str | None = None,
    command: str | None = None,
    **limits: float,
) -> IsolatedBackend:
    """What the doors' options ask for: the backend `spec` run by the interpreter `python`, this
    one by default, or else the one that the command line `command` serves. `limits` are those
    of `isolated`. ValueError, a sentence, if it cannot be had.
    """
    if command is None:
        return isolated(spec or "", sys.executable if python is None else python, **limits)
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise ValueError(f"the command {command!r} cannot be read: {problem}") from None
    if not words:
        raise ValueError("the command that serves a backend is empty")
    return served(words, ["--exec", command], **limits)


def _capabilities(told: dict[str, Any], complete: bool) -> Capabilities:
    """What the child said that it offers. ValueError or TypeError if that makes no sense."""
    if "offers" not in told:
        return Capabilities(tuple(told["kinds"]), tuple(told["sketches"]), complete)
    offers = []
    for offer in told["offers"]:
        lists = {name: tuple(offer.get(name, ())) for name in ("sketches", "bits", "dims")}
        multiple, power = offer.get("multiple_of", 1), offer.get("power_of_two", False)
        numbers = (*lists["bits"], *lists["dims"], multiple)
        if not all(type(number) is int for number in numbers) or not isinstance(power, bool):
            raise ValueError(
                f"an offer must hold whole numbers and true or false, got {offer!r:.80}"
            )
        design = Design(**offer.get("design", {}))
        offers.append(
            Offer(
                offer["kind"],
                **lists,
                multiple_of=multiple,
                power_of_two=power,
                design=design,
            )
        )
    return Capabilities(decode_includes_sketch=complete, offers=tuple(offers))


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
        capabilities = _capabilities(told, complete)
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
