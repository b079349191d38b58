"""The commands for albums, and albums named by id, URL or name."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import click

from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import Batch, ExitStatus
from imagehost_client._cli.options import (
    Group,
    confirm_option,
    keeps_public,
    lists,
    or_unset,
    prints_record,
    switch_options,
    visibility_options,
)
from imagehost_client._cli.output import Column, counted
from imagehost_client._types import AlbumRef
from imagehost_client.client import Client
from imagehost_client.errors import NotFoundError
from imagehost_client.models import Album, Membership
from imagehost_client.pages import Pager

COLUMNS: tuple[Column[Album], ...] = (
    Column("id", lambda album: album.id),
    Column("images", lambda album: album.image_count),
    Column("visibility", lambda album: "public" if album.is_public else "private"),
    Column("name", lambda album: album.name, is_flexible=True),
)
"""The columns of `albums ls`."""

_ALBUM_PATH = re.compile(r"/(?:a|albums)/([1-9][0-9]*)/?$")
"""The path of an album's page, or of the album in the API."""


@click.group("albums", cls=Group)
def albums() -> None:
    """Manage albums."""


@albums.command("ls")
@lists(COLUMNS)
def list_albums(client: Client, *, per_page: int) -> Pager[Album]:
    """List your albums."""
    return client.albums.list(per_page=per_page)


@albums.command("create")
@click.argument("name")
@click.option("--description", metavar="TEXT")
@click.option("--private", is_flag=True)
@pass_context
def create_album(context: CommandContext, *, name: str, description: str | None, private: bool) -> None:
    """Create an album, and print its id."""
    is_public = False if private else None
    album = context.connect().albums.create(name, description=description, is_public=is_public)
    context.console.print(str(album.id))


@albums.command("show")
@click.argument("album", metavar="ALBUM")
@prints_record
@pass_context
def show_album(context: CommandContext, *, album: str) -> None:
    """Print an album as JSON."""
    client = context.connect()
    context.console.print_record(client.albums.get(find_album(client, album)))


@albums.command("update")
@click.argument("album", metavar="ALBUM")
@click.option("--name", metavar="NAME")
@click.option("--description", metavar="TEXT")
@visibility_options
@switch_options(
    "images_public",
    ("--images-public", "Make all its images public."),
    ("--images-private", "Make all its images private."),
)
@prints_record
@pass_context
def update_album(
    context: CommandContext,
    *,
    album: str,
    name: str | None,
    description: str | None,
    is_public: bool | None,
    images_public: bool | None,
) -> None:
    """Change an album, and print it."""
    client = context.connect()
    record = client.albums.update(
        find_album(client, album),
        name=or_unset(name),
        description=or_unset(description),
        is_public=or_unset(is_public),
        images_public=or_unset(images_public),
    )
    context.console.print_record(record)


@albums.command("rm")
@click.argument("album", metavar="ALBUM")
@click.option("--delete-images", is_flag=True, help="Delete its images too, permanently.")
@keeps_public
@confirm_option
@pass_context
def delete_album(
    context: CommandContext, *, album: str, delete_images: bool, images_public: bool, yes: bool
) -> None:
    """Delete an album, without its images."""
    client = context.connect()
    with_images = " and permanently all its images" if delete_images else ""
    context.console.confirm(f"Delete album {album}{with_images}?", is_confirmed=yes)
    found = find_album(client, album)
    deleted = client.albums.delete(found, delete_images=delete_images, images_public=images_public)
    note_made_private(context, deleted.made_private_count)
    context.console.print(str(deleted.id))


@albums.command("add")
@click.argument("album", metavar="ALBUM")
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@keeps_public
@pass_context
def add_images(context: CommandContext, *, album: str, images: tuple[str, ...], images_public: bool) -> None:
    """Add images, by id or URL."""
    client = context.connect()
    found = find_album(client, album)
    _print_members(context, client.albums.add_images(found, images, images_public=images_public))


@albums.command("remove")
@click.argument("album", metavar="ALBUM")
@click.argument("images", metavar="IMAGE...", nargs=-1, required=True)
@keeps_public
@pass_context
def remove_images(
    context: CommandContext, *, album: str, images: tuple[str, ...], images_public: bool
) -> None:
    """Remove images, by id or URL."""
    client = context.connect()
    found = find_album(client, album)
    _print_members(context, client.albums.remove_images(found, images, images_public=images_public))


def album_id_in(text: str) -> int | None:
    """Return the id of an album, given in decimal or as a URL of the album, or `None` for other text.

    Raises:
        ValueError: The text is the URL of something else.
    """
    if text.isascii() and text.isdecimal():
        return int(text)
    if not text.lower().startswith(("http://", "https://")):
        return None
    match = _ALBUM_PATH.search(urlsplit(text).path)
    if match is None:
        raise ValueError(f"expected an album's id, name or URL for album but received {text!r}")
    return int(match[1])


def find_album(client: Client, text: str, *, create: bool = False) -> AlbumRef:
    """Return an album, given by its id, its URL or its name; a number is always an id.

    Args:
        client: The client.
        text: What the user wrote.
        create: Whether to create an album of this name if there is none.

    Raises:
        NotFoundError: There is no album of this name.
        ValueError: Several albums have this name, or the URL is not an album's.
    """
    album_id = album_id_in(text)
    if album_id is not None:
        return album_id
    found = [album for album in client.albums.list(per_page=100) if album.name == text]
    if len(found) > 1:
        ids = ", ".join(str(album.id) for album in found)
        raise ValueError(f"expected the id of one of the albums {ids} but received their name {text!r}")
    if found:
        return found[0]
    if not create:
        raise NotFoundError(f"you have no album named {text!r}")
    return client.albums.create(text)


def _print_members(context: CommandContext, membership: Membership) -> None:
    batch = Batch(context.console)
    for member in membership.results:
        context.console.print(f"{member.image_id}\t{member.status}")
        if member.status == "not_found":
            batch.failures.append(ExitStatus.NOT_FOUND)
        else:
            batch.succeeded += 1
    note_made_private(context, membership.made_private_count)
    batch.finish()


def note_made_private(context: CommandContext, count: int) -> None:
    """Say how many images have become private, as they have left a private album."""
    if count:
        context.console.note(
            f"{counted(count, 'image')} became private, as only the privacy of the album kept "
            f"{'it' if count == 1 else 'them'} out of galleries; --images-public keeps images public"
        )
