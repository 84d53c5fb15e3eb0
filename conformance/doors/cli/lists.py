"""`kvassay backends`, `devices`, `claims` and `explain`."""

import click

from kvassay.conformance.doors.cli.options import AS_JSON, Refusal


@click.command()
def backends() -> None:
    """List the backends that installed distributions announce."""
    from kvassay.conformance.doors.terminal.lists import show_backends

    show_backends()


@click.command()
@AS_JSON
def devices(as_json: bool) -> None:
    """List the OpenCL devices that the backend opencl can use."""
    import json

    from kvassay.conformance.doors.terminal.lists import show_devices

    try:
        from kvassay.accel import devices as opencl
    except ImportError as problem:
        raise Refusal(str(problem)) from None
    there = opencl.found()
    chosen, why_none = None, ""
    if there:
        try:
            chosen = there.index(opencl.choose(devices=there))
        except ValueError as problem:  # a list is what helps then
            why_none = str(problem)
    facts = [device.facts() for device in there]
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        show_devices(facts, chosen, why_none)


@click.command()
def claims() -> None:
    """List the claims."""
    from kvassay.conformance.doors.terminal.lists import show_claims

    show_claims()


@click.command()
@click.argument("claim")
def explain(claim: str) -> None:
    """Explain CLAIM: what it says, where from, how it is judged, what a violation means."""
    from kvassay.conformance.claims import catalogue, codec
    from kvassay.conformance.doors.terminal.lists import show_claim
    from kvassay.conformance.doors.terminal.papers import show_paper_claim

    if claim in codec.BY_ID:
        show_claim(codec.BY_ID[claim])
    elif claim in catalogue.PAPERS_BY_ID:
        show_paper_claim(catalogue.PAPERS_BY_ID[claim])
    else:
        raise Refusal(f"no claim is called {claim!r}; `kvassay claims` lists them")
