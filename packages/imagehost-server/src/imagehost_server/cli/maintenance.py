"""The commands `imagehost fsck` and `imagehost gc`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from imagehost_server.cli.check_report import CheckReport, ExitStatus, JsonReport, TextReport
from imagehost_server.cli.common import data_option, open_host
from imagehost_server.cli.progress import CheckProgressBar

log = logging.getLogger("imagehost.cli")


@click.command()
@data_option
@click.option(
    "--repair", is_flag=True, help="Repair what can be repaired. No master with a record is deleted."
)
@click.option("--quick", is_flag=True, help="Compare the sizes of files without reading them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def fsck(context: click.Context, data: Path, repair: bool, quick: bool, as_json: bool) -> None:
    r"""Check the data directory, beside running servers.

    Compares records, files by their SHA-256, counters, indexes and references, and prints what is wrong.

    \b
    Examples:
      imagehost fsck --data /srv/imagehost
      imagehost fsck --data /srv/imagehost --repair --json > report.json

    \b
    The exit status is the sum of:
      0   nothing is wrong
      1   something was wrong and is repaired
      4   something is wrong and is not repaired
      8   the check failed
      32  the check was interrupted
    """
    report: CheckReport = (JsonReport if as_json else TextReport)(data, repair=repair, quick=quick)
    context.exit(_run(report, data, repair=repair, quick=quick))


def _run(report: CheckReport, data: Path, *, repair: bool, quick: bool) -> int:
    """Check a data directory, and return the exit status; an error never looks like a repair (status 1)."""
    error, status = "", ExitStatus.CLEAN
    try:
        with open_host(data, recover=False) as host, CheckProgressBar() as bar:
            for finding in host.check(repair=repair, quick=quick, progress=bar.report):
                bar.clear()
                report.add(finding)
            report.images = bar.images
    except click.ClickException as failure:
        error, status = failure.format_message(), ExitStatus.FAILED
    except (KeyboardInterrupt, click.Abort):
        error, status = "interrupted", ExitStatus.INTERRUPTED
    except Exception as failure:
        log.exception("check failed")
        error, status = f"{type(failure).__name__}: {failure}", ExitStatus.FAILED
    return report.finish(status, error)
