"""The commands `imagehost fsck` and `imagehost gc`."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import attrs
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
    """Check the data directory, beside running servers.

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
    """  # noqa: D301 - the escape sequence is click's
    report: CheckReport = (JsonReport if as_json else TextReport)(data, repair=repair, quick=quick)
    context.exit(_run(report, data, repair=repair, quick=quick))


@click.command()
@data_option
@click.option("--dry-run", is_flag=True, help="Remove nothing, and print what would be removed.")
@click.option(
    "--allow-many",
    is_flag=True,
    help="Remove files without a record even of more than 100 images and 2 % of all.",
)
@click.option(
    "--allow-newer",
    is_flag=True,
    help="Remove those too that are newer than the backup of `restore --records-only`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def gc(data: Path, dry_run: bool, allow_many: bool, allow_newer: bool, as_json: bool) -> None:
    """Remove what nothing refers to and what has expired, beside running servers.

    That is: files of crashed uploads and unfinished deletions, staging directories of processes that have
    exited, variants above the cache's limit, and expired sessions, idempotency keys and webhook events.

    \b
    Examples:
      imagehost gc --data /srv/imagehost --dry-run
      imagehost gc --data /srv/imagehost --json
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data, recover=False) as host:
        report = host.maintenance.collect_garbage(
            dry_run=dry_run, allow_many=allow_many, allow_newer=allow_newer
        )
    values = attrs.asdict(report)
    if as_json:
        click.echo(json.dumps({**values, "data": str(data), "dry_run": dry_run}))
        return
    lines = [
        f"  {name}={value}" for name, value in (values | {"orphans": len(report.orphans)}).items() if value
    ]
    click.echo(("Would remove:" if dry_run else "Removed:") if lines else "Nothing to remove")
    for line in lines:
        click.echo(line)


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
