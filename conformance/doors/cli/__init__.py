"""The command line. Imports what is heavy only where it is needed."""

import click

from kvassay.conformance.doors.cli.badge import badge
from kvassay.conformance.doors.cli.check import check
from kvassay.conformance.doors.cli.diff import diff
from kvassay.conformance.doors.cli.faults import faults
from kvassay.conformance.doors.cli.lists import backends, claims, devices, explain
from kvassay.conformance.doors.cli.report import report
from kvassay.conformance.doors.cli.reproduce import reproduce
from kvassay.conformance.doors.cli.vectors import vectors


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96})
@click.version_option(package_name="kvassay")
def main() -> None:
    """Holds KV-cache quantizers against the claims of the papers.

    kvassay check BACKEND is the main job: a verdict with an interval for each claim.
    """


for command in (
    check,
    reproduce,
    report,
    badge,
    diff,
    vectors,
    backends,
    devices,
    claims,
    explain,
    faults,
):
    main.add_command(command)
