"""What the commands do: each asks the client, and shows what came of it."""

from __future__ import annotations

import getpass
import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TypeVar

from imagehost_client import _config, _wire
from imagehost_client._calls import UNSET, Unset
from imagehost_client._cli.output import Console, ProgressBar
from imagehost_client._many import UploadOptions, UploadResult
from imagehost_client.client import Client
from imagehost_client.errors import ImageHostError
from imagehost_client.files import Source
from imagehost_client.models import Album, ApiKey, Image, Membership, PublicImage, Webhook, WebhookDelivery

T = TypeVar("T")


class CommandError(Exception):
    """A part of a command failed; what failed has been said already."""


LINKS: dict[str | None, Callable[[Image], str]] = {
    None: lambda image: image.url,
    "json": lambda image: json.dumps(_wire.encode(image)),
    "markdown": lambda image: image.links.markdown,
    "html": lambda image: image.links.html,
    "bbcode": lambda image: image.links.bbcode,
}
"""What `upload` prints for an image, by its flag."""


def upload(client: Client, args: Namespace, out: Console) -> None:
    """Upload files, and print a line for each in the order of the arguments."""
    piped = (args.name or "stdin", sys.stdin.buffer)
    sources: list[Source] = [piped if file == "-" else file for file in args.files]
    if args.name and args.files != ["-"]:
        if len(args.files) > 1:
            raise ValueError("expected one file beside --name but received several")
        sources = [(args.name, args.files[0])]
    options: UploadOptions = {
        "album_id": args.album,
        "description": args.description,
        "quality": args.quality,
        "format": args.format,
        "remove_exif": args.remove_exif or None,
        "convert_to_webp": False if args.keep_format else None,
        "auto_rename": args.auto_rename or None,
        "is_public": False if args.private else None,
        "checksum": args.checksum,
    }
    with ProgressBar(out, shown=not args.quiet) as bar:
        results = client.upload_many(
            sources,
            parallel=args.parallel,
            journal=args.journal,
            on_result=bar.result,
            progress=bar.progress,
            **options,
        )
    failed = [result for result in results if result.error is not None]
    for result in results:
        if result.image is not None:
            out.print(LINKS[args.show](result.image))
    for result in failed:
        out.notify(f"{_named(result)}: {result.error}")
    if failed or not results:
        out.notify(f"{len(failed)} of {len(results)} files failed" if results else "no images found")
        raise CommandError


def list_images(client: Client, args: Namespace, out: Console) -> None:
    """List images."""
    _table(out, args, client.images.list(album_id=args.album, per_page=_size(args)), _image_row)


def show_images(client: Client, args: Namespace, out: Console) -> None:
    """Print images' records."""
    for image in args.images:
        _record(out, client.images.get(image))


def update_image(client: Client, args: Namespace, out: Console) -> None:
    """Change an image's record, and print it."""
    album = None if args.no_album else _changed(args.album)
    changed = client.images.update(
        args.id,
        album_id=album,
        description=_changed(args.description),
        is_public=_changed(args.is_public),
        filename=_changed(args.name),
    )
    _record(out, changed)


def list_gallery(client: Client, args: Namespace, out: Console) -> None:
    """List everybody's public images."""
    _table(out, args, client.gallery(per_page=_size(args)), _public_row)


def render_image(client: Client, args: Namespace, out: Console) -> None:
    """Fetch a picture, and write its bytes."""
    rendered = client.images.render(args.image, **_measures(args), **_style(args))
    if args.output:
        Path(args.output).write_bytes(rendered.data)
        out.notify(f"{args.output}: {len(rendered.data)} bytes of {rendered.media_type}")
    elif out.results.isatty():
        raise ValueError("expected --output FILE, or a pipe, for a picture but received a terminal")
    else:
        sys.stdout.buffer.write(rendered.data)


def delete_images(client: Client, args: Namespace, out: Console) -> None:
    """Delete images; one that fails does not stop the others."""
    out.confirm(f"Delete {len(args.images)} image(s) for good?", args.yes)
    failed = False
    for image in args.images:
        try:
            out.print(client.images.delete(image).id)
        except ImageHostError as error:
            out.notify(f"{image}: {error}")
            failed = True
    if failed:
        raise CommandError


def image_url(client: Client, args: Namespace, out: Console) -> None:
    """Print an address, a srcset or a picture element."""
    size, look = _measures(args), _style(args)
    if args.signed:
        out.print(client.images.signed_url(args.image, expires_in=args.signed, **size, **look).url)
    elif args.srcset:
        out.print(client.srcset(client.images.get(args.image), args.srcset, **look))
    elif args.picture:
        image = client.images.get(args.image)
        out.print(client.picture_html(image, args.picture, q=args.quality, fit=args.fit))
    else:
        out.print(client.image_url(args.image, **size, **look))


def list_albums(client: Client, args: Namespace, out: Console) -> None:
    """List albums."""
    _table(out, args, client.albums.list(per_page=_size(args)), _album_row)


def create_album(client: Client, args: Namespace, out: Console) -> None:
    """Make an album, and print its id."""
    public = False if args.private else None
    out.print(str(client.albums.create(args.name, description=args.description, is_public=public).id))


def show_album(client: Client, args: Namespace, out: Console) -> None:
    """Print an album's record."""
    _record(out, client.albums.get(args.id))


def update_album(client: Client, args: Namespace, out: Console) -> None:
    """Change an album's record, and print it."""
    name, description, public = map(_changed, (args.name, args.description, args.is_public))
    _record(out, client.albums.update(args.id, name=name, description=description, is_public=public))


def delete_album(client: Client, args: Namespace, out: Console) -> None:
    """Delete an album."""
    with_images = " and all its images for good" if args.delete_images else ""
    out.confirm(f"Delete album {args.id}{with_images}?", args.yes)
    out.print(str(client.albums.delete(args.id, delete_images=args.delete_images).id))


def add_images(client: Client, args: Namespace, out: Console) -> None:
    """Put images into an album."""
    _members(out, client.albums.add_images(args.id, args.images))


def remove_images(client: Client, args: Namespace, out: Console) -> None:
    """Take images out of an album."""
    _members(out, client.albums.remove_images(args.id, args.images))


def list_keys(client: Client, args: Namespace, out: Console) -> None:
    """List keys."""
    _table(out, args, client.keys.list(per_page=_size(args)), _key_row)


def create_key(client: Client, args: Namespace, out: Console) -> None:
    """Make a key, and print its token alone."""
    out.print(client.keys.create(args.name, scopes=args.scope, expires_at=args.expires).token)
    out.notify("keep this token: the host never shows it again")


def show_key(client: Client, args: Namespace, out: Console) -> None:
    """Print a key's record."""
    _record(out, client.keys.get(args.id))


def update_key(client: Client, args: Namespace, out: Console) -> None:
    """Change a key's record, and print it."""
    name, scopes, ends = map(_changed, (args.name, args.scope, args.expires))
    _record(out, client.keys.update(args.id, name=name, scopes=scopes, expires_at=ends))


def delete_key(client: Client, args: Namespace, out: Console) -> None:
    """Revoke a key."""
    out.confirm(f"Revoke key {args.id}?", args.yes)
    out.print(client.keys.delete(args.id).id)


def list_webhooks(client: Client, args: Namespace, out: Console) -> None:
    """List destinations."""
    _table(out, args, client.webhooks.list(per_page=_size(args)), _webhook_row)


def create_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Add a destination, and print its id and secret."""
    webhook = client.webhooks.create(args.url, events=args.event, description=args.description)
    out.print(f"{webhook.id}\t{webhook.secret}")
    out.notify("keep this secret: the host never shows it again")


def show_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Print a destination's record."""
    _record(out, client.webhooks.get(args.id))


def update_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Change a destination, and print it."""
    url, events, text, active = map(_changed, (args.url, args.event, args.description, args.is_active))
    changed = client.webhooks.update(args.id, url=url, events=events, description=text, is_active=active)
    _record(out, changed)


def delete_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Remove a destination."""
    out.confirm(f"Remove webhook {args.id}?", args.yes)
    out.print(client.webhooks.delete(args.id).id)


def test_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Send a test event."""
    _record(out, client.webhooks.test(args.id))


def rotate_webhook(client: Client, args: Namespace, out: Console) -> None:
    """Make a new secret, and print it alone."""
    out.print(client.webhooks.rotate_secret(args.id).secret)


def list_deliveries(client: Client, args: Namespace, out: Console) -> None:
    """List the deliveries to a destination."""
    _table(out, args, client.webhooks.deliveries(args.id, per_page=_size(args)), _delivery_row)


def retry_delivery(client: Client, args: Namespace, out: Console) -> None:
    """Send a delivery again."""
    _record(out, client.webhooks.retry(args.id, args.delivery))


def account(client: Client, _: Namespace, out: Console) -> None:
    """Print the account's usage, quota and limits."""
    _record(out, client.account())


def login(client: Client, args: Namespace, out: Console) -> None:
    """Sign in, and print the session's token alone."""
    out.print(client.sessions.create(args.username, _password()).token)


def register(client: Client, args: Namespace, out: Console) -> None:
    """Make an account, and print its name."""
    out.print(client.accounts.create(args.username, _password()).name)


def logout(client: Client, _: Namespace, out: Console) -> None:
    """End the session."""
    client.sessions.delete()
    out.notify("signed out")


def config(args: Namespace, out: Console) -> None:
    """Print the settings and where each comes from; the token is hinted at only."""
    resolved = _config.resolve(args.base_url, None, allow_http=args.allow_http)
    origin = "--base-url" if args.base_url else _config.BASE_URL
    cdn = _config.CDN_URL if os.environ.get(_config.CDN_URL) else "the base address"
    hint = resolved.token.hint() if resolved.token else "none"
    out.print(f"base_url\t{resolved.base_url}\t{origin}")
    out.print(f"cdn_url\t{resolved.cdn_url}\t{cdn}")
    out.print(f"token\t{hint}\t{_config.TOKEN}")


def _password() -> str:
    """Return a password: asked for on a terminal, else the first line of standard input."""
    return getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _changed(value: T | None) -> T | Unset:
    """Return what a flag says, or that it was left out."""
    return UNSET if value is None else value


def _measures(args: Namespace) -> dict[str, int | None]:
    return {"w": args.width, "h": args.height}


def _style(args: Namespace) -> dict[str, int | str | None]:
    return {"q": args.quality, "fit": args.fit, "fm": args.format}


def _table(out: Console, args: Namespace, records: Iterable[T], row: Callable[[T], Iterable[object]]) -> None:
    for record in islice(records, args.limit):
        out.print(json.dumps(_wire.encode(record)) if args.json else "\t".join(map(str, row(record))))


def _record(out: Console, record: object) -> None:
    out.print(json.dumps(_wire.encode(record), indent=2, ensure_ascii=False))


def _members(out: Console, changed: Membership) -> None:
    for member in changed.results:
        out.print(f"{member.image_id}\t{member.status}")
    if any(member.status == "not_found" for member in changed.results):
        raise CommandError


def _size(args: Namespace) -> int:
    """Return how many records are asked for at once: no more than are shown."""
    return min(args.limit or 100, 100)


def _named(result: UploadResult) -> str:
    source = result.source[0] if isinstance(result.source, tuple) else result.source
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else "file"


def _image_row(image: Image) -> tuple[object, ...]:
    size = f"{image.width}x{image.height}"
    return image.id, size, image.format, image.size, _wire.rfc3339(image.created_at), image.filename


def _public_row(image: PublicImage) -> tuple[object, ...]:
    size = f"{image.width}x{image.height}"
    return image.id, size, image.url, _wire.rfc3339(image.created_at), image.description


def _album_row(album: Album) -> tuple[object, ...]:
    return album.id, album.image_count, "public" if album.is_public else "private", album.name


def _key_row(key: ApiKey) -> tuple[object, ...]:
    return key.id, key.prefix, key.name, ",".join(key.scopes)


def _webhook_row(webhook: Webhook) -> tuple[object, ...]:
    state = "active" if webhook.is_active else webhook.disabled_reason or "inactive"
    return webhook.id, state, webhook.url, ",".join(map(str, webhook.events)) or "all"


def _delivery_row(delivery: WebhookDelivery) -> tuple[object, ...]:
    return delivery.id, delivery.event, delivery.status, delivery.attempts
