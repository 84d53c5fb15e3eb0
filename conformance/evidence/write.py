"""The record of a run: JSON lines, a header, one entry a decided part of a claim, a footer.

A record without a footer is not a valid report: the run was stopped. Schema 1:

header  {"record": "header", "schema": 1, "suite", "backend": {...}, "run": {...}, "machine"}, and
        "device": {...} where the backend names one
entry   {"record": "entry", ...the fields of `Entry`}
diagnosis {"record": "diagnosis", "kind", "sketch", "sizes", "cells": [...], "matches": [{"fault",
         "fit"}, ...], "nearest": {...} or null}, one for each kind that violates something
footer  {"record": "footer", "planned", "conforms", "violates", "inconclusive",
         "not_applicable", "error"}

The record of `kvassay reproduce` has entries, then

study   {"record": "study", "study", "figures": [names]}, before the first trial of a study
trial   {"record": "trial", "study", "trial", "values": [numbers]} or "error" for the values
finding {"record": "finding", ...the fields of `reproduce.Finding`}
outcome {"record": "outcome", ...the fields of `reproduce.Outcome`}
footer  {"record": "footer", "claims", "outcomes": {outcome: number}}

Entries are the same bytes for the same seed, whatever ran them; only the header names the
machine and the time.
"""

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from kvassay.conformance.evidence.schema import SCHEMA, Diagnosis, Entry
from kvassay.conformance.protocol import Backend


def header(spec: str, backend: Backend, run: dict[str, Any]) -> dict[str, Any]:
    """The header of a run of `backend`, found as `spec`, that starts now."""
    device = getattr(backend, "device", None)
    return {
        "record": "header",
        **suite(),
        "backend": {
            "spec": spec,
            "name": backend.name,
            "version": backend.version,
            "kinds": backend.capabilities.kinds,
            "sketches": backend.capabilities.sketches,
            "decode_includes_sketch": backend.capabilities.decode_includes_sketch,
        },
        **({} if device is None else {"device": {str(k): str(v) for k, v in device.items()}}),
        "run": run,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


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


class RecordWriter:
    """Appends to a new file, each line as soon as it is known, so that a stopped run keeps
    what it had. FileExistsError if the file is there already."""

    def __init__(self, path: Path, first: dict[str, Any]) -> None:
        self._file: TextIO = path.open("x", encoding="utf-8")
        self._write(first)

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()

    def add(self, entry: Entry) -> None:
        """Appends one entry."""
        self._write({"record": "entry", **asdict(entry)})

    def add_diagnosis(self, diagnosis: "Diagnosis") -> None:
        """Appends what the violations of one kind look like."""
        self._write({"record": "diagnosis", **asdict(diagnosis)})

    def finish(self, counts: dict[str, int]) -> None:
        """Appends the footer: the run is complete."""
        self._write({"record": "footer", **counts})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
