"""The commands `imagehost backup` and `imagehost restore`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import click

from imagehost_core import restore, to_rfc3339
from imagehost_core._util.durable import OPEN_FILES_STAY, sync_directory, sync_file
from imagehost_core.coordination.locks import lock_file, unlock_file
from imagehost_core.errors import ValidationError
from imagehost_core.maintenance.backup import BackupInfo, BackupResult
from imagehost_core.maintenance.restore import RestoreResult
from imagehost_server.cli.common import (
    cli_errors,
    counted,
    data_option,
    load_settings,
    new_data_option,
    open_host,
    progress_bar,
)
from imagehost_server.http.body import parse_timestamp

STANDARD = "-"
"""The name of a file that stands for standard output or standard input."""
NAMED_IMAGES = 10
"""Images that are listed by their ids, of those that were deleted during a backup."""
DAMAGED_STATUS = 3
"""The exit status of a backup of a host with damaged images; 1 and 2 mean that there is no backup."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command()
@data_option
@click.argument("file", metavar="FILE|-")
@click.option(
    "--since",
    metavar="T",
    help="Only the images since the previous backup: its file, or the time that it printed (RFC 3339).",
)
@click.option("--records-only", is_flag=True, help="Leave out the images, which stay where they are.")
@click.option("--move", is_flag=True, help="Refuse changes from now on; `imagehost adopt` takes that back.")
@json_option
def backup(data: Path, file: str, since: str | None, records_only: bool, move: bool, as_json: bool) -> None:
    """Back up the host to FILE, or to standard output with `-`, while it serves requests.

    The backup is a tar file, compressed with Zstandard, with the database, the images, the key of signed
    URLs and imagehost.toml. Keep it as safe as the data directory: it contains password hashes, webhook
    secrets and private images. Exit status 3: complete, but for images that are damaged on this host.

    \b
    Examples:
      imagehost backup monday.tar.zst
      imagehost backup tuesday.tar.zst --since monday.tar.zst
      imagehost backup last.tar.zst --since tuesday.tar.zst --move
      ssh host imagehost backup - --data /var/lib/imagehost > monday.tar.zst
    """  # noqa: D301 - click's mark of lines that are not wrapped
    if as_json and file == STANDARD:
        raise click.ClickException("expected a file with --json: standard output is the backup")
    with cli_errors():
        first = _parse_since(since)
    with open_host(data) as host, _open_target(file) as stream, progress_bar("Backing up images") as progress:
        result = host.backups.write(
            stream, since=first, records_only=records_only, move=move, progress=progress
        )
    if as_json:
        _print_json(result.info, bytes=result.bytes, deleted=result.deleted, damaged=result.damaged)
    else:
        _report(result)
    if move:
        click.echo("This host refuses changes now. To use it again: imagehost adopt", err=True)
    if result.damaged:
        raise SystemExit(DAMAGED_STATUS)


@click.command("restore")
@new_data_option
@click.argument("files", metavar="FILE...|-", nargs=-1, required=True)
@click.option(
    "--records-only", is_flag=True, help="Leave the images where they are, in the store of the backup."
)
@json_option
def restore_command(data: Path, files: tuple[str, ...], records_only: bool, as_json: bool) -> None:
    """Restore a host from FILE, or from standard input with `-`, into a new or empty data directory.

    Records and images go to the database and the store that are configured, which must be empty: this is also
    how a host moves between engines. After a full backup, name the increments that follow it in their order.
    All sessions end; API keys and passwords are those of the last backup. Nothing is left behind if a backup
    is damaged or missing.

    \b
    Examples:
      imagehost restore monday.tar.zst --data ./data
      imagehost restore monday.tar.zst tuesday.tar.zst --data ./data
      IMAGEHOST_DATABASE=postgresql://imagehost@db/imagehost imagehost restore monday.tar.zst --data ./data
      cat monday.tar.zst tuesday.tar.zst | ssh host imagehost restore - --data /var/lib/imagehost
    """  # noqa: D301 - click's mark of lines that are not wrapped
    settings = load_settings(data)
    with cli_errors(), progress_bar("Restoring images") as progress:
        result = restore(
            _open_sources(files), data, settings=settings, records_only=records_only, progress=progress
        )
    if as_json:
        _print_json(result.info, images=result.image_count, removed=result.removed)
    else:
        _report_restore(data, result)


def _parse_since(text: str | None) -> datetime | BackupInfo | None:
    """Return a previous backup, from its file, or its time from a timestamp."""
    if text is not None and Path(text).is_file():
        with Path(text).open("rb") as file:
            return BackupInfo.read(file)
    try:
        return parse_timestamp("since", text)
    except ValidationError:
        expected = "the file of the previous backup or a timestamp like 2026-01-31T03:00:00Z"
        raise ValidationError(f"expected {expected} for --since but received {text!r}") from None


@contextmanager
def _open_target(name: str) -> Iterator[BinaryIO]:
    """Open the file of a backup, or standard output.

    Raises:
        click.ClickException: Standard output is a terminal, or the file is none that can be replaced.
    """
    if name != STANDARD:
        with _replace_file(Path(name)) as file:
            yield file
        return
    if sys.stdout.isatty():
        raise click.ClickException("expected a file or a pipe as standard output but it is a terminal")
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def _replace_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that replaces another when the block ends, durably, and is deleted if the block raises.

    It is named `FILE.part` meanwhile, and locked. One that a killed process left is overwritten.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise click.ClickException(f"expected a regular file or - but {path} is none")
    part = path.with_name(f"{path.name}.part")
    lock = lock_file(part, wait=False)
    if lock is None:
        raise click.ClickException(f"expected one backup to {path} at a time but another is running")
    with ExitStack() as locked:
        locked.callback(unlock_file, lock)
        # The process that held the lock until now may have renamed the file.
        if not _is_open_as(lock, part):
            raise click.ClickException(f"expected one backup to {path} at a time but another has just ended")
        try:
            os.ftruncate(lock, 0)
            with os.fdopen(lock, "wb", closefd=False) as file:
                yield file
            sync_file(part)
        except BaseException:
            part.unlink()
            raise
        if OPEN_FILES_STAY:
            locked.close()
        part.replace(path)
    sync_directory(path.parent)


def _is_open_as(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _open_sources(names: tuple[str, ...]) -> Iterator[BinaryIO]:
    """Open the files of backups one after the other, or standard input."""
    if names == (STANDARD,):
        if sys.stdin.isatty():
            raise click.ClickException("expected a file or a pipe as standard input but it is a terminal")
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        # Each is opened before the first is restored: a wrong name is an error at once.
        yield from [stack.enter_context(Path(name).open("rb")) for name in names]


def _report(result: BackupResult) -> None:
    """Print what was backed up on standard error, because standard output may be the backup."""
    time = to_rfc3339(result.info.created_at)
    images = counted(result.info.image_count, "image")
    size = f"{counted(result.bytes, 'byte')} before compression"
    click.echo(f"Backed up as of {time}: {images}, {size}", err=True)
    click.echo(f"Next increment: --since {time}", err=True)
    if result.deleted:
        click.echo(f"Deleted during the backup: {counted(len(result.deleted), 'image')}", err=True)
    if result.damaged:
        names = " ".join(result.damaged)
        images = counted(len(result.damaged), "image")
        click.echo(f"Damaged on this host: {images}: {names}", err=True)


def _report_restore(data: Path, result: RestoreResult) -> None:
    """Print what was restored on standard error, as `backup` does."""
    if result.removed:
        names = " ".join(result.removed[:NAMED_IMAGES])
        more = " …" if len(result.removed) > NAMED_IMAGES else ""
        images = counted(len(result.removed), "image")
        click.echo(f"Removed, without files in the backup: {images}: {names}{more}", err=True)
    time = to_rfc3339(result.info.created_at)
    click.echo(f"Restored {data} as of {time}: {counted(result.image_count, 'image')}", err=True)


def _print_json(info: BackupInfo, **values: object) -> None:
    """Print one JSON object on standard output."""
    since = None if info.since is None else to_rfc3339(info.since)
    times = {"created_at": to_rfc3339(info.created_at), "since": since, "images": info.image_count}
    click.echo(json.dumps({**times, **values}))
