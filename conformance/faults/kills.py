"""The kill table: which claims and properties catch which fault."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np

from kvassay.conformance.claims.catalogue import PAPERS
from kvassay.conformance.claims.codec import CLAIMS
from kvassay.conformance.evidence.schema import Kill, as_it_must
from kvassay.conformance.faults.fault import SPECTRAL, Fault, Property, Throughout
from kvassay.conformance.measure import Effort
from kvassay.conformance.run.check import check
from kvassay.conformance.run.plan import Settings
from kvassay.conformance.run.reproduce import violates


def kill_table(
    faults: Sequence[Fault],
    effort: Effort = "standard",
    executor: Executor | None = None,
    properties: Mapping[str, Property] | None = None,
) -> Iterator[Kill]:
    """Runs every claim on every fault, in its cell, at seed 0, and on it the `properties`
    whose attribute `catches` names it (all of them on an equivalent change)."""
    chosen = properties or {}
    if executor is None:
        yield from (kill(each, effort, chosen) for each in faults)
        return
    for future in [executor.submit(kill, each, effort, chosen) for each in faults]:
        yield future.result()


def kill(fault: Fault, effort: Effort, properties: Mapping[str, Property]) -> Kill:
    """What every claim about a codec, and the studied claims and properties that name it, make
    of one fault."""
    caught = []
    if fault.kind != SPECTRAL:
        settings = Settings(
            kinds=(fault.kind,), dims=(fault.dim,), bits=(fault.bits,), effort=effort
        )
        entries = check(fault, settings).entries
        violated = {entry.id for entry in entries if entry.verdict == "violates"}
        caught = [claim.id for claim in CLAIMS if claim.id in violated]
    expected = list(fault.caught_by)
    for claim in PAPERS:
        if claim.id in expected and violates(Throughout(fault), claim):
            caught.append(claim.id)
    for name, holds in properties.items():
        names_it = fault.id in getattr(holds, "catches", ())
        if names_it:
            expected.append(name)
        if (names_it or fault.proof) and _fails(holds, fault):
            caught.append(name)
    missed = [name for name in expected if name not in caught]
    if not expected and not fault.proof:
        missed = ["any that names it"]
    return Kill(
        fault.id,
        fault.text,
        fault.source,
        fault.proof,
        tuple(caught),
        tuple(missed),
        as_it_must(fault.proof, caught, missed),
    )


def _fails(holds: Property, fault: Fault) -> bool:
    import pytest
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "kvassay-faults",
        max_examples=40,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("kvassay-faults")
    try:
        with np.errstate(all="ignore"):  # what is not finite is the fault's own doing
            holds(fault)
    except pytest.skip.Exception:
        return False
    except (Exception, pytest.fail.Exception):
        return True
    finally:
        settings.load_profile("default")
    return False
