"""Records: begun by a run or gone on from, line by line.

What is known is written at once, so that a run that was stopped, even killed, has it. A run
that goes on from its record ends in the same bytes as one that was never stopped.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from kvassay import reference
from kvassay.conformance import discovery
from kvassay.conformance.evidence.lines import (
    Malformed,
    RecordError,
    encoded,
    meant,
    meant_line,
    parsed,
)
from kvassay.conformance.evidence.schema import (
    SCHEMA,
    BackendFacts,
    CheckAsked,
    Footer,
    Header,
    Line,
    PapersAsked,
)
from kvassay.conformance.protocol import Backend

T = TypeVar("T")

MEASURING = ("claims", "measure", "run", "statistics")  # rooms whose sources decide the evidence


def header(spec: str | Backend, backend: Backend, run: CheckAsked | PapersAsked) -> Header:
    """The header of a run of `backend`, found as `spec`. It does not say when it started: a run
    that is resumed ends in the same bytes as one that was not."""
    offered = backend.capabilities
    device = getattr(backend, "device", None) or {}
    return Header(
        **suite(),
        backend=BackendFacts(
            discovery.arguments_for(spec),
            backend.name,
            backend.version,
            tuple(offered.kinds),
            tuple(offered.sketches),
            offered.decode_includes_sketch,
        ),
        run=run,
        measured_by=sources_hash(),
        device={str(name): str(value) for name, value in device.items()},
    )


def suite() -> dict[str, Any]:
    """What measures, and on what machine: in the header of every record."""
    return {
        "schema": SCHEMA,
        "suite": metadata.version("kvassay"),
        "machine": {
            "python": platform.python_version(),
            "numpy": metadata.version("numpy"),
            "scipy": metadata.version("scipy"),
            "system": platform.platform(),
            "processor": platform.machine(),
        },
    }


@cache
def sources_hash() -> str:
    """SHA-256 over the sources that decide what is measured and what is made of it: a run that
    other sources began cannot go on from its record."""
    digest = hashlib.sha256()
    rooms = [Path(__file__).parents[1] / name for name in MEASURING]
    for room in (*rooms, *map(Path, reference.__path__)):
        for path in sorted(room.glob("*.py")):
            digest.update(f"{room.name}/{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class Record:
    """The record of a run at `path`, or none. A file that is there must be the record of the
    same run, which then goes on: first `resume`, then `write` and `finish`.

    RecordError, in one sentence, for a file that is anything else; it is left as it is.
    """

    def __init__(self, path: Path | None, first: Header) -> None:
        self.complete = False
        self.made: tuple[Line, ...] = ()  # of a complete record, what follows its evidence
        self._path, self._end = path, 0
        self._file: BinaryIO | None = None
        if path is None:
            return
        there = path.exists()
        self._file = path.open("r+b" if there else "w+b")
        try:
            self._begin(first)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Record":
        return self

    def __exit__(self, *problem: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: Line) -> None:
        """Appends a line, at once, so that a killed run keeps it."""
        if self._file is not None:
            self._file.write(encoded(line))
            self._file.flush()

    def finish(self, made: Iterable[Line], counts: dict[str, int]) -> None:
        """Appends what was made of the evidence, and the footer: the run is complete."""
        if self.complete:
            return
        for line in made:
            self.write(line)
        self.write(Footer(counts))

    def resume(
        self,
        tasks: Sequence[T],
        length: Callable[[T], int],
        take: Callable[[T, Sequence[Line]], None],
    ) -> int:
        """How many of the tasks the record holds. `take` is given the lines of each of them,
        of which a task has `length`, and raises ValueError for those that are not its own. What
        follows is dropped, and the next line written goes there."""
        if self._file is None:
            return 0
        done, lines = 0, self._lines()
        for task in tasks:
            own = list(islice(lines, length(task)))
            if len(own) < length(task):
                break
            try:
                take(task, [line for line, _ in own])
            except ValueError:
                raise self._other_lines() from None
            self._end = own[-1][1]
            done += 1
        else:
            made = [line for line, _ in lines]
            self.complete = bool(made) and isinstance(made[-1], Footer)
            self.made = tuple(made[:-1]) if self.complete else ()
        if not self.complete:
            self._file.seek(self._end)
            self._file.truncate()
        return done

    def _begin(self, first: Header) -> None:
        assert self._file is not None
        raw = self._file.readline()
        if not raw.endswith(b"\n") and encoded(first).startswith(raw):  # new, or killed just then
            self._file.seek(0)
            self._file.truncate()
            self.write(first)
        else:
            self._same_run(raw, first)
        self._end = self._file.tell()

    def _same_run(self, raw: bytes, first: Header) -> None:
        name = repr(str(self._path))
        try:
            whole = parsed(raw)
            if not isinstance(whole, dict) or whole.get("record") != "header":
                raise Malformed
            if whole.get("schema") != SCHEMA:
                raise RecordError(f"{name} is a record of another schema; name a new file")
            there: Header = meant(whole, Header)
        except Malformed:
            raise RecordError(
                f"{name} exists and is not a record of kvassay; name a new file"
            ) from None
        if there != first:
            apart = sorted({name for name, _ in _flat(first).items() ^ _flat(there).items()})
            raise RecordError(
                f"{name} is the record of another run (it differs in {', '.join(apart)}); "
                "name a new file"
            )

    def _lines(self) -> Iterator[tuple[Line, int]]:
        """Each whole line, and where it ends. One that was cut off is the end."""
        assert self._file is not None
        place = self._end
        for raw in self._file:
            if not raw.endswith(b"\n"):
                return
            place += len(raw)
            try:
                line = meant_line(parsed(raw))
            except Malformed:
                raise self._other_lines() from None
            yield line, place

    def _other_lines(self) -> RecordError:
        return RecordError(
            f"{str(self._path)!r} does not hold what this run would have written after "
            f"{self._end} bytes; name a new file"
        )


def _flat(header: Header) -> dict[str, str]:
    """The header's values by name, those of its objects as object.name."""
    flat: dict[str, str] = {}
    for part, value in msgspec.to_builtins(header).items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat |= {f"{part}.{name}".strip("."): json.dumps(each) for name, each in inner}
    return flat
