"""The command `imagehost import`."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol, TextIO

import click

from imagehost_core import ImageHost, UploadOptions
from imagehost_core.errors import ImageHostError, InsufficientStorageError
from imagehost_core.maintenance.importers.service import (
    ImportOptions,
    ImportResult,
    ImportSource,
    ImportStatus,
)
from imagehost_core.maintenance.importers.sources import IMAGES, SourceItem
from imagehost_server.cli.common import cli_errors, counted, data_option, one_line, open_host, show_status

NOT_TAKEN = (ImportStatus.OMITTED, ImportStatus.FAILED)
"""The outcomes that the report lists."""
EXIT_INCOMPLETE = 1
"""The exit status if an image could not be stored."""


class _CsvWriter(Protocol):
    def writerow(self, row: Iterable[object], /) -> object: ...


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@data_option
@click.option("--user", default="admin", show_default=True, help="Account that gets the images.")
@click.option(
    "--from",
    "source",
    type=click.Choice([source.value for source in ImportSource]),
    default=ImportSource.FOLDER.value,
    show_default=True,
    help="Kind of PATH: files and directories, another host's database or export, or an export of "
    "`imagehost users export`.",
)
@click.option(
    "--files",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the other host's image files.",
)
@click.option("--by-user", is_flag=True, help="Use accounts named like the other host's users; create them.")
@click.option("--albums/--no-albums", default=True, show_default=True, help="Create albums.")
@click.option(
    "--public/--private",
    "is_public",
    default=None,
    help="Visibility of all images.  [default: as the other host has it; private from directories]",
)
@click.option(
    "--convert/--no-convert",
    default=None,
    help="Store WebP where smaller.  [default: yes, but not from an export of an account]",
)
@click.option("--remove-exif", is_flag=True, default=None, help="Remove EXIF, XMP and IPTC metadata.")
@click.option(
    "--mapping",
    type=click.File("w", encoding="utf-8", errors="surrogateescape", lazy=False),
    metavar="FILE",
    help="Write a CSV file of sources, ids and URLs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per file, then the counts.")
@click.pass_context
def import_images(
    context: click.Context,
    /,
    paths: tuple[Path, ...],
    data: Path,
    user: str,
    source: str,
    files: Path | None,
    convert: bool | None,
    remove_exif: bool | None,
    mapping: TextIO | None,
    as_json: bool,
    **options: bool | None,
) -> None:
    """Import images from directories, or from Lsky Pro, Chevereto or Zipline.

    Each directory with images becomes an album. Run the same command again to continue after an
    interruption: files that were imported already are recognised. What is not taken is printed with the
    reason.

    \b
    Examples:
      imagehost import ~/Pictures --data /srv/imagehost --private
      imagehost import database.sqlite --from lsky --files storage/app/uploads --data /srv/imagehost
      imagehost import tables/ --from chevereto --files images --by-user --mapping urls.csv --data ...
      imagehost import export.json --from zipline --files uploads --data /srv/imagehost
      imagehost import anna/ --from account --user anna --data /srv/imagehost

    \b
    The exit status is:
      0  every image of the source is stored
      1  an image could not be stored, or the import failed
    """  # noqa: D301 - the escape sequence is click's
    kind = ImportSource(source)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise click.UsageError(f"expected files or directories but there is no {', '.join(missing)}")
    if kind is ImportSource.FOLDER and any((path / IMAGES).is_file() for path in paths):
        raise click.UsageError("expected --from account, as PATH is an export of an account with its records")
    if (files is None) != kind.is_directory:
        needed = "only beside" if files is not None else "beside"
        raise click.UsageError(f"expected --files {needed} --from lsky, chevereto or zipline")
    chosen = ImportOptions(
        by_user=bool(options["by_user"]),
        with_albums=bool(options["albums"]),
        is_public=options["is_public"],
        upload=UploadOptions(
            convert_to_webp=kind is not ImportSource.ACCOUNT if convert is None else convert,
            remove_exif=remove_exif,
        ),
    )
    with open_host(data) as host:
        report = _Report(host, mapping, as_json=as_json)
        with cli_errors():
            items = (item for path in paths for item in host.imports.read(kind, path, files))
            try:
                for result in host.imports.run(report.counted(items), owner=user, options=chosen):
                    report.add(result)
            except (ImageHostError, OSError, KeyboardInterrupt) as error:
                report.finish()
                if isinstance(error, InsufficientStorageError):
                    raise click.ClickException(f"{error}; run the command again to continue") from error
                raise
        report.finish()
        context.exit(EXIT_INCOMPLETE if report.counts[ImportStatus.FAILED] else 0)


class _Report:
    """The output of an import: what was not taken, the counts, and a progress line on a terminal."""

    def __init__(self, host: ImageHost, mapping: TextIO | None, *, as_json: bool) -> None:
        self.counts: Counter[ImportStatus] = Counter()
        self._host = host
        self._as_json = as_json
        self._found = 0
        self._mapping: _CsvWriter | None = None
        if mapping is not None:
            self._mapping = csv.writer(mapping)
            self._mapping.writerow(("source", "image_id", "url"))

    def counted(self, items: Iterable[SourceItem]) -> Iterator[SourceItem]:
        """Yield items, and count them."""
        for item in items:
            self._found += 1
            yield item

    def add(self, result: ImportResult) -> None:
        """Print a result."""
        self.counts[result.status] += 1
        if self._mapping is not None and result.image_id is not None:
            url = f"{self._host.urls.cdn_url}/{result.image_id}"
            self._mapping.writerow((result.source_id, result.image_id, url))
        if self._as_json:
            entry = {"source": result.source_id, "status": result.status.value}
            entry |= {"image_id": result.image_id} if result.image_id else {}
            entry |= {"reason": result.reason} if result.reason else {}
            click.echo(json.dumps(entry))
        elif result.status in NOT_TAKEN:
            show_status()
            click.echo(one_line(f"{result.status}: {result.source_id}: {result.reason}"))
        show_status(f"{self.counts.total()} of {counted(self._found, 'file')} found so far")

    def finish(self) -> None:
        """Print the counts."""
        show_status()
        counts = {status.value: self.counts[status] for status in ImportStatus}
        if self._as_json:
            click.echo(json.dumps({"counts": counts}))
        else:
            click.echo(", ".join(f"{count} {status}" for status, count in counts.items()))
