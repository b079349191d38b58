"""The commands for images: list, show, update, delete and get them, and print their URLs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TypedDict, Unpack, cast, get_args

import click

from imagehost_client._calls.call import chunks
from imagehost_client._cli.albums import find_album, note_made_private
from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import Batch
from imagehost_client._cli.options import (
    POSITIVE,
    Command,
    choices,
    confirm_option,
    keeps_public,
    lists,
    or_unset,
    parse_time,
    parse_widths,
    prints_record,
    transform_options,
    visibility_options,
)
from imagehost_client._cli.output import Column, counted, format_size, time_column
from imagehost_client._cli.progress import DownloadBar
from imagehost_client._types import (
    BY_EXTENSION,
    DELIVERABLE,
    STORED_FORMATS,
    AlbumRef,
    ImageSort,
    OutputFormat,
    PictureParams,
    StoredFormat,
    TransformParams,
    Unset,
)
from imagehost_client.client import Client
from imagehost_client.errors import ImageHostError
from imagehost_client.models import Image, PublicImage
from imagehost_client.pages import Pager

COLUMNS: tuple[Column[Image], ...] = (
    Column("id", lambda image: image.id),
    Column("pixels", lambda image: f"{image.width}x{image.height}"),
    Column("format", lambda image: image.format),
    Column("size", lambda image: image.size, lambda image: format_size(image.size)),
    time_column("created", lambda image: image.created_at),
    Column("filename", lambda image: image.filename, is_flexible=True),
)
"""The columns of `ls`."""

PUBLIC_COLUMNS: tuple[Column[PublicImage], ...] = (
    Column("id", lambda image: image.id),
    Column("pixels", lambda image: f"{image.width}x{image.height}"),
    Column("url", lambda image: image.url, is_in_table=False),
    time_column("created", lambda image: image.created_at),
    Column("description", lambda image: image.description, is_flexible=True),
)
"""The columns of `gallery`."""


class _Changes(TypedDict):
    album_id: AlbumRef | Unset | None
    description: str | Unset
    is_public: bool | Unset
    filename: str | Unset
    images_public: bool


@click.command("ls", cls=Command)
@click.option("--album", metavar="ALBUM", help="Only the images of this album: its id, URL or name.")
@click.option("--q", metavar="WORDS", help="Words in the file name or the description.")
@visibility_options
@click.option("--format", "stored_format", type=choices(STORED_FORMATS), help="Stored format.")
@click.option(
    "--after", type=parse_time, metavar="WHEN", help="Only later images: 7d, 12h, or an ISO 8601 time."
)
@click.option("--before", type=parse_time, metavar="WHEN", help="Only earlier images.")
@click.option("--sha256", metavar="HEX", help="The SHA-256 of the uploaded file.")
@click.option("--sort", type=click.Choice(get_args(ImageSort)), help="--sort=-size is the largest first.")
@lists(COLUMNS)
def list_images(
    client: Client,
    *,
    per_page: int,
    album: str | None,
    q: str | None,
    is_public: bool | None,
    stored_format: StoredFormat | None,
    after: datetime | None,
    before: datetime | None,
    sha256: str | None,
    sort: ImageSort | None,
) -> Pager[Image]:
    """List your images, newest first."""
    return client.images.list(
        album_id=None if album is None else find_album(client, album),
        per_page=per_page,
        q=q,
        is_public=is_public,
        format=stored_format,
        created_after=after,
        created_before=before,
        sha256=sha256,
        sort=sort,
    )


@click.command("show", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@prints_record
@pass_context
def show_images(context: CommandContext, *, images: tuple[str, ...]) -> None:
    """Print images as JSON.

    IMAGE is an id or any URL of an image.
    """
    client = context.connect()
    batch = Batch(context.console)
    if len(images) == 1:
        context.console.print_record(client.images.get(images[0]))
        return
    for image in images:
        try:
            context.console.print_record(client.images.get(image))
        except ImageHostError as error:
            batch.fail(image, error)
        else:
            batch.succeeded += 1
    batch.finish()


@click.command("update", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@click.option("--album", metavar="ALBUM", help="Move them to this album: its id, URL or name.")
@click.option("--no-album", is_flag=True, help="Remove them from their album.")
@click.option("--name", metavar="NAME", help="File name.")
@click.option("--description", metavar="TEXT")
@visibility_options
@keeps_public
@prints_record
@pass_context
def update_images(
    context: CommandContext,
    *,
    images: tuple[str, ...],
    album: str | None,
    no_album: bool,
    name: str | None,
    description: str | None,
    is_public: bool | None,
    images_public: bool,
) -> None:
    """Change images in the same way.

    IMAGE is an id or any URL of an image. Prints the record of a single image, and a line for each of
    several.
    """
    if album is not None and no_album:
        raise click.UsageError("expected one of --album and --no-album but received both")
    client = context.connect()
    batch = Batch(context.console)
    found = None if album is None else find_album(client, album)
    changes: _Changes = {
        "album_id": None if no_album else or_unset(found),
        "description": or_unset(description),
        "is_public": or_unset(is_public),
        "filename": or_unset(name),
        "images_public": images_public,
    }
    if len(images) == 1:
        context.console.print_record(client.images.update(images[0], **changes))
        return
    made_private = 0
    for chunk in chunks(images):
        for result in client.images.update_many(chunk, **changes):
            context.console.print(f"{result.id}\t{result.status}")
            made_private += result.made_private
            if result.error is None:
                batch.succeeded += 1
            else:
                batch.fail_by_code(result.id, result.error.code, result.error.details)
    note_made_private(context, made_private)
    batch.finish()


@click.command("rm", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@confirm_option
@pass_context
def delete_images(context: CommandContext, *, images: tuple[str, ...], yes: bool) -> None:
    """Delete images permanently.

    IMAGE is an id or any URL of an image. A missing image does not stop the others.

    \b
    Example:
      imagehost-client rm $(imagehost-client upload x.jpg)
    """  # noqa: D301 - the escape sequence is click's
    context.console.confirm(f"Permanently delete {counted(len(images), 'image')}?", is_confirmed=yes)
    client = context.connect()
    batch = Batch(context.console)
    for chunk in chunks(images):
        for result in client.images.delete_many(chunk):
            if result.error is None:
                context.console.print(result.id)
                batch.succeeded += 1
            else:
                batch.fail_by_code(result.id, result.error.code, result.error.details)
    batch.finish()


@click.command("gallery", cls=Command)
@click.option("--album", metavar="ALBUM", help="Only the images of this public album: its id, URL or name.")
@click.option("--q", metavar="WORDS", help="Words in the file name or the description.")
@lists(PUBLIC_COLUMNS)
def list_gallery(client: Client, *, per_page: int, album: str | None, q: str | None) -> Pager[PublicImage]:
    """List the public images of all accounts."""
    found = None if album is None else find_album(client, album)
    return client.gallery(album_id=found, q=q, per_page=per_page)


@click.command("url", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@transform_options
@click.option(
    "--signed", type=POSITIVE, metavar="SECONDS", help="Print signed URLs that expire after SECONDS."
)
@click.option("--srcset", type=parse_widths, metavar="WIDTHS", help="Print a srcset, such as 320,640,1280.")
@click.option("--picture", type=parse_widths, metavar="WIDTHS", help="Print a <picture> element.")
@pass_context
def image_urls(
    context: CommandContext,
    *,
    images: tuple[str, ...],
    signed: int | None,
    srcset: Sequence[int] | None,
    picture: Sequence[int] | None,
    **transform: Unpack[TransformParams],
) -> None:
    """Print the URLs of images.

    IMAGE is an id or any URL of an image.
    """
    if sum(option is not None for option in (signed, srcset, picture)) > 1:
        raise click.UsageError("expected one of --signed, --srcset and --picture but received several")
    client, console = context.connect(), context.console
    shape: PictureParams = {"h": transform.get("h"), "q": transform.get("q"), "fit": transform.get("fit")}
    if signed is not None:
        for url in client.images.signed_urls(images, expires_in=signed, **transform):
            console.print(url.url)
        return
    for image in images:
        if srcset is not None:
            console.print(client.srcset(client.images.get(image), srcset, fm=transform.get("fm"), **shape))
        elif picture is not None:
            console.print(client.picture(client.images.get(image), picture, **shape))
        else:
            console.print(client.image_url(image, **transform))


@click.command("get", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@transform_options
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="File, directory, or - for standard output; the format follows from the file's extension.",
)
@pass_context
def get_images(
    context: CommandContext,
    *,
    images: tuple[str, ...],
    output: Path | None,
    **transform: Unpack[TransformParams],
) -> None:
    """Get the bytes of images, resized or as stored.

    IMAGE is an id or any URL of an image. With one image, --output is a file, whose extension determines the
    format, unless --format is given. Several images require a directory, in which they are named by their
    ids.

    \b
    Examples:
      imagehost-client get 0aZ… -W 300 -o small.avif
      imagehost-client get 0aZ… 1bY… -o originals/
    """  # noqa: D301 - the escape sequence is click's
    to_stdout = output is None or str(output) == "-"
    in_directory = output is not None and not to_stdout and (output.is_dir() or str(output).endswith(os.sep))
    if len(images) > 1 and not in_directory:
        raise click.UsageError("expected an existing directory with --output for several images")
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("expected --output FILE or a pipe for an image but received a terminal")
    if not transform.get("fm") and output is not None and not in_directory:
        kind = BY_EXTENSION.get(output.suffix.lower().removeprefix("."))
        transform["fm"] = cast("OutputFormat", kind) if kind in DELIVERABLE else None
    client = context.connect()
    batch = Batch(context.console)
    target = sys.stdout.buffer if output is None or to_stdout else output
    with DownloadBar(context.console, len(images)) as bar:
        for image in images:
            try:
                result = client.images.download(image, target, progress=bar.progress, **transform)
            except ImageHostError as error:
                if len(images) == 1:
                    raise
                batch.fail(image, error)
                continue
            if result.path is not None:
                size = format_size(result.size)
                context.console.note(f"{result.path}: {size} of {result.media_type}")
            bar.finish()
            batch.succeeded += 1
    batch.finish()
