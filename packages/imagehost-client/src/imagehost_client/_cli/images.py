"""The commands for images: list, show, update and delete them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypedDict, get_args

import click

from imagehost_client import _wire
from imagehost_client._calls.images import MAX_IMAGES
from imagehost_client._cli.albums import find_album
from imagehost_client._cli.batches import Batch
from imagehost_client._cli.context import CommandContext, pass_context
from imagehost_client._cli.global_options import Command
from imagehost_client._cli.options import (
    STORED_FORMATS,
    choices,
    confirm_option,
    list_options,
    or_unset,
    page_size,
    parse_time,
    visibility_options,
)
from imagehost_client._cli.output import Column, counted, format_size, format_time
from imagehost_client._types import AlbumRef, ImageSort, StoredFormat, Unset
from imagehost_client.errors import ImageHostError
from imagehost_client.models import Image, PublicImage

COLUMNS: tuple[Column[Image], ...] = (
    Column("id", lambda image: image.id),
    Column("pixels", lambda image: f"{image.width}x{image.height}"),
    Column("format", lambda image: image.format),
    Column("size", lambda image: image.size, lambda image: format_size(image.size)),
    Column(
        "created", lambda image: _wire.rfc3339(image.created_at), lambda image: format_time(image.created_at)
    ),
    Column("filename", lambda image: image.filename, is_flexible=True),
)
"""The columns of `ls`."""

PUBLIC_COLUMNS: tuple[Column[PublicImage], ...] = (
    Column("id", lambda image: image.id),
    Column("pixels", lambda image: f"{image.width}x{image.height}"),
    Column("url", lambda image: image.url, is_in_table=False),
    Column(
        "created", lambda image: _wire.rfc3339(image.created_at), lambda image: format_time(image.created_at)
    ),
    Column("description", lambda image: image.description, is_flexible=True),
)
"""The columns of `gallery`."""


class _Changes(TypedDict):
    album_id: AlbumRef | Unset | None
    description: str | Unset
    is_public: bool | Unset
    filename: str | Unset


@click.command("ls", cls=Command)
@click.option("--album", metavar="ALBUM", help="Only the images of this album: its id, URL or name.")
@click.option("--q", metavar="WORDS", help="Words in the file name or the description.")
@visibility_options
@click.option("--format", "stored_format", type=choices(STORED_FORMATS), help="Stored format.")
@click.option("--after", type=parse_time, metavar="TIME", help="Only later images; ISO 8601.")
@click.option("--before", type=parse_time, metavar="TIME", help="Only earlier images.")
@click.option("--sort", type=click.Choice(get_args(ImageSort)), help="--sort=-size is the largest first.")
@list_options
@pass_context
def list_images(
    context: CommandContext,
    *,
    album: str | None,
    q: str | None,
    is_public: bool | None,
    stored_format: StoredFormat | None,
    after: datetime | None,
    before: datetime | None,
    sort: ImageSort | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List your images, newest first."""
    client = context.connect()
    images = client.images.list(
        album_id=None if album is None else find_album(client, album),
        per_page=page_size(limit),
        q=q,
        is_public=is_public,
        format=stored_format,
        created_after=after,
        created_before=before,
        sort=sort,
    )
    context.console.print_list(images, COLUMNS, limit=limit, as_json=as_json)


@click.command("show", cls=Command)
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@pass_context
def show_images(context: CommandContext, *, images: tuple[str, ...]) -> None:
    """Print images as JSON.

    IMAGE is an id or any URL of an image.
    """
    client, batch = context.connect(), Batch(context.console)
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
) -> None:
    """Change images in the same way.

    IMAGE is an id or any URL of an image. Prints the record of a single image, and a line for each of
    several.
    """
    if album is not None and no_album:
        raise click.UsageError("expected one of --album and --no-album but received both")
    client, batch = context.connect(), Batch(context.console)
    found = None if album is None else find_album(client, album)
    changes: _Changes = {
        "album_id": None if no_album else or_unset(found),
        "description": or_unset(description),
        "is_public": or_unset(is_public),
        "filename": or_unset(name),
    }
    if len(images) == 1:
        context.console.print_record(client.images.update(images[0], **changes))
        return
    for chunk in _chunks(images):
        for result in client.images.update_many(chunk, **changes):
            context.console.print(f"{result.id}\t{result.status}")
            if result.error is None:
                batch.succeeded += 1
            else:
                batch.fail_by_code(result.id, result.error.code, result.error.details)
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
    client, batch = context.connect(), Batch(context.console)
    for chunk in _chunks(images):
        for result in client.images.delete_many(chunk):
            if result.error is None:
                context.console.print(result.id)
                batch.succeeded += 1
            else:
                batch.fail_by_code(result.id, result.error.code, result.error.details)
    batch.finish()


@click.command("gallery", cls=Command)
@click.option("--album", metavar="ALBUM", help="Only the images of this public album: its id, URL or name.")
@list_options
@pass_context
def list_gallery(context: CommandContext, *, album: str | None, limit: int | None, as_json: bool) -> None:
    """List the public images of all accounts."""
    client = context.connect()
    found = None if album is None else find_album(client, album)
    images = client.gallery(album_id=found, per_page=page_size(limit))
    context.console.print_list(images, PUBLIC_COLUMNS, limit=limit, as_json=as_json)


def _chunks(images: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Return the images of each request, so that its results are printed before the next one."""
    for start in range(0, len(images), MAX_IMAGES):
        yield images[start : start + MAX_IMAGES]
