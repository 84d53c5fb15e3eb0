"""Finding backends: by the name of a package or of an entry point, or as module:factory."""

import importlib
import sys
import traceback
from functools import cache
from importlib import metadata
from pathlib import Path

from kvassay.conformance.packages import packages
from kvassay.conformance.protocol import Backend, Capabilities

GROUP = "kvassay.backends"


class BackendError(ValueError):
    """A backend that cannot be found, imported or used. The message is for the user."""


def names() -> list[str]:
    """The names of the published packages and of all backends that installed distributions
    announce."""
    announced = {point.name for point in _entry_points()}
    return sorted(announced | {package.name for package in packages()})


def load(spec: str) -> Backend:
    """The backend called `spec`: a package's or an entry point's name, or "module:factory".

    The factory is called without arguments; a module may lie in the current directory.
    BackendError, with what to do, if there is no such backend or it lacks what the protocol
    asks for.
    """
    backend = _made(spec)
    missing = [
        name for name in ("name", "version", "capabilities", "codec") if not hasattr(backend, name)
    ]
    if missing:
        raise BackendError(
            f"backend {spec} (got a {type(backend).__name__}) lacks {', '.join(missing)}; "
            "kvassay.conformance.protocol says what a backend is"
        )
    for what in ("name", "version"):
        if not isinstance(getattr(backend, what), str):
            raise BackendError(
                f"backend {spec}: {what} must be a string, got {getattr(backend, what)!r}"
            )
    if not isinstance(backend.capabilities, Capabilities):
        raise BackendError(
            f"backend {spec}: capabilities must be a kvassay.conformance.Capabilities, "
            f"got {type(backend.capabilities).__name__}"
        )
    return backend


def target(spec: str) -> str:
    """The "module:factory" that `spec` stands for. BackendError if no backend is called so, or
    more than one: a verdict must not depend on which was found first."""
    if ":" in spec:
        return spec
    found = {point.value for point in _entry_points() if point.name == spec}
    found |= {package.target for package in packages() if package.name == spec}
    if not found:
        raise BackendError(
            f"no backend is called {spec!r}; known are {', '.join(names())}, and module:factory "
            "names one of yours"
        )
    if len(found) > 1:
        raise BackendError(
            f"{len(found)} backends are called {spec!r}: name the one that you mean, "
            f"{' or '.join(sorted(found))}"
        )
    return found.pop()


@cache  # a scan of all installed distributions, asked for by every task
def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=GROUP))


def arguments_for(spec: str | Backend) -> str:
    """How the command line names a backend: what it was found by, or what it says itself."""
    return str(getattr(spec, "arguments", spec if isinstance(spec, str) else spec.name))


def _made(spec: str) -> Backend:
    if ":" in spec and (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    module, _, factory = target(spec).partition(":")
    if not module or not factory or module.endswith(".py") or "/" in module:
        raise BackendError(
            f"backend {spec!r} must be written module:factory, like mine:Backend for the file "
            "mine.py in this folder"
        )
    try:
        made = importlib.import_module(module)
        for part in factory.split("."):
            made = getattr(made, part)
        backend: Backend = made() if callable(made) else made
    except ModuleNotFoundError as problem:
        raise BackendError(
            f"backend {spec} needs {problem.name}, which is neither installed nor in this folder"
        ) from problem
    except (ImportError, ValueError) as problem:  # it says itself what it lacks
        raise BackendError(f"backend {spec} cannot be made: {problem}") from problem
    except (Exception, SystemExit) as problem:
        raise BackendError(
            f"backend {spec} cannot be made: {type(problem).__name__}: {problem}"
        ) from problem
    return backend


def described(problem: BaseException) -> str:
    """The exception and where it was raised."""
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(problem).__name__}: {problem} ({place})"
