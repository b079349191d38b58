"""The commands `imagehost fsck`, `gc`, `adopt` and `upgrade`, and how they show what they do."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection
from enum import IntEnum
from pathlib import Path

import attrs
import click

from imagehost_core.maintenance.check.findings import CheckProgress, Finding, FindingKind
from imagehost_core.maintenance.installation import adopt
from imagehost_core.storage.layout import DataLayout
from imagehost_server.cli.archives import json_option
from imagehost_server.cli.common import (
    cli_errors,
    counted,
    data_option,
    load_settings,
    one_line,
    open_host,
    progress_bar,
    require_owner,
    show_status,
)


class ExitStatus(IntEnum):
    """Exit statuses, which add up, as those of e2fsck(8)."""

    CLEAN = 0
    REPAIRED = 1
    LEFT = 4
    FAILED = 8
    INTERRUPTED = 32


NEEDS_BACKUP = frozenset(
    {FindingKind.DATABASE_CORRUPT, FindingKind.MASTER_MISSING, FindingKind.MASTER_CORRUPT}
)
"""The kinds of findings whose data can only come back from a backup."""


class CheckReport:
    """What a check has found: a line for each finding and a summary, or one JSON object.

    Args:
        data: The data directory.
        repair: Whether the check repairs.
        quick: Whether it reads no file.
        as_json: Whether to print JSON, with each finding on a line.

    Attributes:
        images: The number of images that were checked.
    """

    def __init__(self, data: Path, *, repair: bool, quick: bool, as_json: bool) -> None:
        self.images = 0
        self._data, self._repair, self._quick, self._as_json = data, repair, quick, as_json
        self._found: Counter[FindingKind] = Counter()
        self._repaired: Counter[FindingKind] = Counter()

    def add(self, finding: Finding) -> None:
        """Count and print a finding."""
        kind, is_first = finding.kind.value, not self._found
        # Before it is printed: an interruption from then on reports it.
        self._found[finding.kind] += 1
        self._repaired[finding.kind] += finding.is_repaired
        show_status()
        if self._as_json:
            value = {
                "kind": kind,
                "id": finding.id,
                "details": finding.details,
                "repair": finding.repair or None,
            }
            click.echo(('{"findings": [\n' if is_first else ",\n") + json.dumps(value), nl=False)
        else:
            repaired = f" [repaired: {finding.repair}]" if finding.is_repaired else ""
            click.echo(one_line(f"{kind}: {finding.id}: {finding.details}{repaired}"))

    def finish(self, status: ExitStatus, error: str) -> int:
        """Print the end of the report, and return the exit status.

        Args:
            status: The status of the check itself.
            error: Why it ended early; "" if it did not.
        """
        show_status()
        left = [kind for kind in self._found if self._found[kind] > self._repaired[kind]]
        total = int(status)
        if self._repaired.total():
            total += ExitStatus.REPAIRED
        if left:
            total += ExitStatus.LEFT
        if self._as_json:
            self._print_json(total, error)
        else:
            self._print_summary(left, error)
        return total

    def _print_summary(self, left: Collection[FindingKind], error: str) -> None:
        if error:
            click.echo(f"Error: {error}", err=True)
        checked = f"Checked {counted(self.images, 'image')} in {self._data}"
        if not self._found:
            click.echo(f"{checked}: nothing is wrong" if not error else checked)
            return
        click.echo(f"{checked}: {counted(self._found.total(), 'finding')}, {self._repaired.total()} repaired")
        if NEEDS_BACKUP.intersection(left):
            click.echo("Missing and corrupt masters and tables can only come back from a backup.")
        if left and not self._repair:
            click.echo("`imagehost fsck --repair` repairs what can be repaired.")

    def _print_json(self, status: int, error: str) -> None:
        click.echo('{"findings": [' if not self._found else "\n", nl=False)
        counts = {
            kind.value: {"found": self._found[kind], "repaired": self._repaired[kind]} for kind in FindingKind
        }
        end = {
            "counts": counts,
            "data": str(self._data),
            "repair": self._repair,
            "quick": self._quick,
            "images": self.images,
            "found": self._found.total(),
            "repaired": self._repaired.total(),
            "left": self._found.total() - self._repaired.total(),
            "error": error or None,
            "status": status,
        }
        click.echo("], " + json.dumps(end)[1:])


@click.command("adopt")
@data_option
@click.option("--force", is_flag=True, help="Adopt a database and an image store without a common image.")
@json_option
def adopt_command(data: Path, force: bool, as_json: bool) -> None:
    """Make DIR, its database and its image store one installation, whatever they were before.

    Use it if the host says that they have no record, or belong to different installations, and you know that
    they belong together; or to take back a move. Other hosts that use one of them collect nothing from then
    on, and must be restarted. If database and image store agree already, only the directory joins them.

    \b
    Examples:
      imagehost adopt --data /srv/imagehost
      imagehost adopt --data /srv/imagehost --force --json
    """  # noqa: D301 - the escape sequence is click's
    settings = load_settings(data)
    database = DataLayout(data).database
    require_owner(database if database.exists() else data)
    with cli_errors():
        adoption = adopt(data, settings=settings, force=force)
    if as_json:
        values = {
            "images": adoption.image_count,
            "missing": adoption.missing,
            "unrecorded": adoption.unrecorded,
        }
        record = adoption.record
        click.echo(json.dumps({"installation": record.id, "incarnation": record.incarnation, **values}))
        return
    click.echo(
        f"Adopted {data} as installation {adoption.record.id}: {counted(adoption.image_count, 'image')}"
    )
    if adoption.missing:
        click.echo(f"Without files: {counted(adoption.missing, 'image')}; `imagehost fsck` names them")
    if adoption.unrecorded:
        click.echo(
            f"Without a record: {counted(adoption.unrecorded, 'image')}; `imagehost gc --dry-run` names them"
        )


@click.command()
@data_option
def upgrade(data: Path) -> None:
    """Migrate the database to this version, as its owner; the server does so itself if its role may.

    For a PostgreSQL role of the server that may not create tables: run it before the new version serves.

    \b
    Example:
      IMAGEHOST_DATABASE=postgresql://owner@db/imagehost imagehost upgrade --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    # To open a host is to migrate it.
    with open_host(data, recover=False):
        click.echo("The database is up to date")


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
    report = CheckReport(data, repair=repair, quick=quick, as_json=as_json)
    try:
        with cli_errors():
            status = _run(report, data, repair=repair, quick=quick)
    except click.ClickException as failure:
        # The report cannot be written: the status of such an error is that of a repair here.
        failure.show()
        status = int(ExitStatus.FAILED)
    context.exit(status)


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
        with open_host(data, recover=False) as host, progress_bar("checking images") as show:

            def show_progress(progress: CheckProgress) -> None:
                if progress.total is None:
                    show_status(f"checking {progress.check.value}")
                else:
                    report.images = progress.done
                    show(progress.done, progress.total)

            for finding in host.check(repair=repair, quick=quick, progress=show_progress):
                report.add(finding)
    except click.ClickException as failure:
        error, status = failure.format_message(), ExitStatus.FAILED
    except (KeyboardInterrupt, click.Abort):
        error, status = "interrupted", ExitStatus.INTERRUPTED
    except Exception as failure:
        log.exception("check failed")
        error, status = f"{type(failure).__name__}: {failure}", ExitStatus.FAILED
    return report.finish(status, error)
