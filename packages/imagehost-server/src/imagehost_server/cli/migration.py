"""The command `imagehost migrate`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs
import click

from imagehost_core import (
    HostLocation,
    MigrationProgress,
    MigrationResult,
    MigrationStage,
    migrate,
    parse_host_location,
)
from imagehost_core.settings import redact_password
from imagehost_core.storage.layout import DataLayout
from imagehost_server.cli.archives import DAMAGED_STATUS, NAMED_IMAGES, json_option
from imagehost_server.cli.common import cli_errors, counted, require_owner

INTERRUPTED_STATUS = 130
"""The exit status after Ctrl-C, as shells report it: 128 and the number of SIGINT."""
_FROM, _TO = "--from", "--to"
_LABELS = {MigrationStage.FILES: "Copying files", MigrationStage.RECORDS: "Copying records"}


class _SeveralValues(click.Command):
    """A command whose options `--from` and `--to` take all values up to the next option."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each further value, which is how click takes several."""
        repeated: list[str] = []
        option = None
        for argument in args:
            if argument.startswith("-"):
                option = argument if argument in (_FROM, _TO) else None
            elif option is not None and repeated[-1] != option:
                repeated.append(option)
            repeated.append(argument)
        return super().parse_args(context, repeated)


@click.command("migrate", cls=_SeveralValues)
@click.option(
    _FROM, "sources", multiple=True, required=True, metavar="DIR|URL...", help="Where the host is now."
)
@click.option(
    _TO, "targets", multiple=True, required=True, metavar="DIR|URL...", help="Where it is to be; empty."
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=8, show_default=True, help="Images copied at a time."
)
@json_option
@click.pass_context
def migrate_command(
    context: click.Context, sources: tuple[str, ...], targets: tuple[str, ...], threads: int, as_json: bool
) -> None:
    """Move a host onto other engines, while it serves requests: to PostgreSQL, an object store, or back.

    DIR is a data directory with a database and files. A URL replaces one of the two: postgresql://… has the
    records; s3://…, gs://… or az://… has the files. Without a place for files, they stay where they are.

    The files are copied while the host is used. Writes wait while the records are copied; afterwards the old
    host refuses them, and serves images until it is stopped. Repeat the command after an interruption: what
    is copied is kept. Passwords of databases are best kept in ~/.pgpass, credentials of object stores in the
    variables of their providers.

    \b
    Examples:
      imagehost migrate --from ./data --to postgresql://imagehost@db/imagehost s3://bucket/images
      imagehost migrate --from postgresql://imagehost@db/imagehost s3://bucket/images --to ./data
      imagehost migrate --from ./data --to postgresql://imagehost@db/imagehost

    \b
    The exit status is:
      0    everything is copied
      3    everything is copied, except for files that are missing or damaged
      130  the migration was interrupted; repeat it
    """  # noqa: D301 - the escape sequence is click's
    with cli_errors():
        source, target = _locations(sources, targets)
        _require_owners(source, target)
    try:
        with cli_errors(), _MigrationProgressBar() as bar:
            result = migrate(source, target, progress=bar.report, threads=threads)
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted: repeat the command to continue", err=True)
        context.exit(INTERRUPTED_STATUS)
    if as_json:
        click.echo(json.dumps({"from": str(source), "to": str(target), **attrs.asdict(result)}))
    else:
        _report(target, result)
    if result.damaged or result.incomplete:
        context.exit(DAMAGED_STATUS)


def _locations(sources: Sequence[str], targets: Sequence[str]) -> tuple[HostLocation, HostLocation]:
    source = parse_host_location(sources, _FROM)
    return source, parse_host_location(targets, _TO, source.storage)


def _require_owners(source: HostLocation, target: HostLocation) -> None:
    """Raise ClickException unless this process has the user that owns the data directories."""
    for part in (source.database, source.storage, target.database, target.storage):
        if isinstance(part, Path) and part.is_dir():
            file = DataLayout(part).database
            require_owner(file if file.exists() else part)


def _report(target: HostLocation, result: MigrationResult) -> None:
    """Print the result on standard error, as a backup does."""
    images = counted(result.image_count, "image")
    if not result.row_count:
        click.echo(f"The host was migrated to {target} before: {images}", err=True)
        return
    click.echo(f"Migrated to {target}: {images}, {counted(result.row_count, 'record')}", err=True)
    if result.present:
        click.echo(f"Copied before: the files of {counted(result.present, 'image')}", err=True)
    _report_images("Without files, because the master is missing or damaged", result.damaged)
    _report_images("Without some derivatives; run `imagehost fsck --repair`", result.incomplete)
    click.echo("The old host refuses changes. The new one is started by", err=True)
    click.echo(f"  {_serve_command(target)}", err=True)


def _report_images(text: str, image_ids: Sequence[str]) -> None:
    if image_ids:
        names = " ".join(image_ids[:NAMED_IMAGES])
        more = " …" if len(image_ids) > NAMED_IMAGES else ""
        click.echo(f"{text}: {counted(len(image_ids), 'image')}: {names}{more}", err=True)


def _serve_command(target: HostLocation) -> str:
    """Return the command that starts the new host, without the password of its database."""
    database, storage = target.database, target.storage
    directory = next((str(part) for part in (database, storage) if isinstance(part, Path)), "DIR")
    options = ["--data", directory]
    if isinstance(database, str):
        options += ["--database", redact_password(database)]
    if isinstance(storage, str):
        options += ["--storage", storage]
    return f"imagehost serve {shlex.join(options)}"


class _MigrationProgressBar:
    """A bar for the bytes of the files, with the number of images, and one for the records.

    It is on standard error, and only if that is a terminal.
    """

    def __init__(self) -> None:
        self._is_visible = sys.stderr.isatty()
        self._bars = ExitStack()
        # `click.progressbar` returns a class that click does not export.
        self._bar: Any = None
        self._stage: MigrationStage | None = None
        self._shown = 0

    def report(self, progress: MigrationProgress) -> None:
        """Show the progress."""
        if not self._is_visible:
            return
        is_files = progress.stage is MigrationStage.FILES
        done, total = (
            (progress.bytes_done, progress.bytes_total) if is_files else (progress.done, progress.total)
        )
        # Fewer bytes than before belong to the next pass, over what has changed meanwhile.
        if self._bar is None or progress.stage is not self._stage or done < self._shown:
            self._bars.close()
            bar = click.progressbar(
                length=total, label=_LABELS[progress.stage], file=sys.stderr, item_show_func=str
            )
            self._bar, self._stage, self._shown = self._bars.enter_context(bar), progress.stage, 0
        unit = "images" if is_files else "records"
        self._bar.update(done - self._shown, f"{progress.done}/{progress.total} {unit}")
        self._shown = done

    def __enter__(self) -> _MigrationProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.close()
