"""The commands of the command line: each calls the client and prints the result."""

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
    """A part of a command failed, and its error has been printed."""


LINKS: dict[str | None, Callable[[Image], str]] = {
    None: lambda image: image.url,
    "json": lambda image: json.dumps(_wire.encode(image)),
    "markdown": lambda image: image.links.markdown,
    "html": lambda image: image.links.html,
    "bbcode": lambda image: image.links.bbcode,
}
"""The line that `upload` prints for an image, by output flag."""


def upload(client: Client, args: Namespace, console: Console) -> None:
    """Upload files, and print a line for each in the order of the arguments."""
    stdin = (args.name or "stdin", sys.stdin.buffer)
    sources: list[Source] = [stdin if file == "-" else file for file in args.files]
    if args.name and args.files != ["-"]:
        if len(args.files) > 1:
            raise ValueError("expected one file with --name but received several")
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
    with ProgressBar(console, enabled=not args.quiet) as bar:
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
            console.print(LINKS[args.show](result.image))
    for result in failed:
        console.notify(f"{_source_name(result)}: {result.error}")
    if failed or not results:
        console.notify(f"{len(failed)} of {len(results)} files failed" if results else "no images found")
        raise CommandError


def list_images(client: Client, args: Namespace, console: Console) -> None:
    """List images."""
    _table(console, args, client.images.list(album_id=args.album, per_page=_page_size(args)), _image_row)


def show_images(client: Client, args: Namespace, console: Console) -> None:
    """Print images as JSON."""
    for image in args.images:
        _record(console, client.images.get(image))


def update_image(client: Client, args: Namespace, console: Console) -> None:
    """Change an image, and print it."""
    image = client.images.update(
        args.id,
        album_id=None if args.no_album else _or_unset(args.album),
        description=_or_unset(args.description),
        is_public=_or_unset(args.is_public),
        filename=_or_unset(args.name),
    )
    _record(console, image)


def list_gallery(client: Client, args: Namespace, console: Console) -> None:
    """List the public images of all accounts."""
    _table(console, args, client.gallery(per_page=_page_size(args)), _public_row)


def render_image(client: Client, args: Namespace, console: Console) -> None:
    """Fetch an image, and write its bytes."""
    rendered = client.images.render(args.image, **_size(args), **_style(args))
    if args.output:
        Path(args.output).write_bytes(rendered.data)
        console.notify(f"{args.output}: {len(rendered.data)} bytes of {rendered.media_type}")
    elif console.stdout.isatty():
        raise ValueError("expected --output FILE or a pipe for an image but received a terminal")
    else:
        sys.stdout.buffer.write(rendered.data)


def delete_images(client: Client, args: Namespace, console: Console) -> None:
    """Delete images; a failure does not stop the others."""
    console.confirm(f"Permanently delete {len(args.images)} image(s)?", args.yes)
    failed = False
    for image in args.images:
        try:
            console.print(client.images.delete(image).id)
        except ImageHostError as error:
            console.notify(f"{image}: {error}")
            failed = True
    if failed:
        raise CommandError


def image_url(client: Client, args: Namespace, console: Console) -> None:
    """Print a URL, a srcset or a `<picture>` element."""
    size, style = _size(args), _style(args)
    if args.signed:
        console.print(client.images.signed_url(args.image, expires_in=args.signed, **size, **style).url)
    elif args.srcset:
        console.print(client.srcset(client.images.get(args.image), args.srcset, **style))
    elif args.picture:
        image = client.images.get(args.image)
        console.print(client.picture_html(image, args.picture, q=args.quality, fit=args.fit))
    else:
        console.print(client.image_url(args.image, **size, **style))


def list_albums(client: Client, args: Namespace, console: Console) -> None:
    """List albums."""
    _table(console, args, client.albums.list(per_page=_page_size(args)), _album_row)


def create_album(client: Client, args: Namespace, console: Console) -> None:
    """Create an album, and print its id."""
    is_public = False if args.private else None
    album = client.albums.create(args.name, description=args.description, is_public=is_public)
    console.print(str(album.id))


def show_album(client: Client, args: Namespace, console: Console) -> None:
    """Print an album as JSON."""
    _record(console, client.albums.get(args.id))


def update_album(client: Client, args: Namespace, console: Console) -> None:
    """Change an album, and print it."""
    name, description, public = map(_or_unset, (args.name, args.description, args.is_public))
    _record(console, client.albums.update(args.id, name=name, description=description, is_public=public))


def delete_album(client: Client, args: Namespace, console: Console) -> None:
    """Delete an album."""
    with_images = " and permanently all its images" if args.delete_images else ""
    console.confirm(f"Delete album {args.id}{with_images}?", args.yes)
    console.print(str(client.albums.delete(args.id, delete_images=args.delete_images).id))


def add_images(client: Client, args: Namespace, console: Console) -> None:
    """Add images to an album."""
    _members(console, client.albums.add_images(args.id, args.images))


def remove_images(client: Client, args: Namespace, console: Console) -> None:
    """Remove images from an album."""
    _members(console, client.albums.remove_images(args.id, args.images))


def list_keys(client: Client, args: Namespace, console: Console) -> None:
    """List API keys."""
    _table(console, args, client.keys.list(per_page=_page_size(args)), _key_row)


def create_key(client: Client, args: Namespace, console: Console) -> None:
    """Create an API key, and print its token."""
    console.print(client.keys.create(args.name, scopes=args.scope, expires_at=args.expires).token)
    console.notify("keep this token: the host never shows it again")


def show_key(client: Client, args: Namespace, console: Console) -> None:
    """Print an API key as JSON."""
    _record(console, client.keys.get(args.id))


def update_key(client: Client, args: Namespace, console: Console) -> None:
    """Change an API key, and print it."""
    name, scopes, expires_at = map(_or_unset, (args.name, args.scope, args.expires))
    _record(console, client.keys.update(args.id, name=name, scopes=scopes, expires_at=expires_at))


def delete_key(client: Client, args: Namespace, console: Console) -> None:
    """Revoke an API key."""
    console.confirm(f"Revoke key {args.id}?", args.yes)
    console.print(client.keys.delete(args.id).id)


def list_webhooks(client: Client, args: Namespace, console: Console) -> None:
    """List webhooks."""
    _table(console, args, client.webhooks.list(per_page=_page_size(args)), _webhook_row)


def create_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Create a webhook, and print its id and secret."""
    webhook = client.webhooks.create(args.url, events=args.event, description=args.description)
    console.print(f"{webhook.id}\t{webhook.secret}")
    console.notify("keep this secret: the host never shows it again")


def show_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Print a webhook as JSON."""
    _record(console, client.webhooks.get(args.id))


def update_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Change a webhook, and print it."""
    url, events, text, active = map(_or_unset, (args.url, args.event, args.description, args.is_active))
    webhook = client.webhooks.update(args.id, url=url, events=events, description=text, is_active=active)
    _record(console, webhook)


def delete_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Delete a webhook."""
    console.confirm(f"Delete webhook {args.id}?", args.yes)
    console.print(client.webhooks.delete(args.id).id)


def test_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Send a test event."""
    _record(console, client.webhooks.test(args.id))


def rotate_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Replace a webhook's signing secret, and print the new one."""
    console.print(client.webhooks.rotate_secret(args.id).secret)


def list_deliveries(client: Client, args: Namespace, console: Console) -> None:
    """List a webhook's deliveries."""
    _table(console, args, client.webhooks.deliveries(args.id, per_page=_page_size(args)), _delivery_row)


def retry_delivery(client: Client, args: Namespace, console: Console) -> None:
    """Send a delivery again."""
    _record(console, client.webhooks.retry(args.id, args.delivery))


def account(client: Client, _: Namespace, console: Console) -> None:
    """Print the account's usage, quota and rate limits."""
    _record(console, client.account())


def login(client: Client, args: Namespace, console: Console) -> None:
    """Sign in, and print the session token."""
    console.print(client.sessions.create(args.username, _password()).token)


def register(client: Client, args: Namespace, console: Console) -> None:
    """Create an account, and print its name."""
    console.print(client.accounts.create(args.username, _password()).name)


def logout(client: Client, _: Namespace, console: Console) -> None:
    """End the session."""
    client.sessions.delete()
    console.notify("signed out")


def config(args: Namespace, console: Console) -> None:
    """Print the effective settings and their sources; of the token only the first characters."""
    resolved = _config.resolve(args.base_url, None, allow_http=args.allow_http)
    base_url_source = "--base-url" if args.base_url else _config.BASE_URL_VARIABLE
    cdn_url_source = _config.CDN_URL_VARIABLE if os.environ.get(_config.CDN_URL_VARIABLE) else "base_url"
    hint = resolved.token.hint() if resolved.token else "none"
    console.print(f"base_url\t{resolved.base_url}\t{base_url_source}")
    console.print(f"cdn_url\t{resolved.cdn_url}\t{cdn_url_source}")
    console.print(f"token\t{hint}\t{_config.TOKEN_VARIABLE}")


def _password() -> str:
    """Return the password: prompted for on a terminal, else the first line of standard input."""
    return getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")


def _or_unset(value: T | None) -> T | Unset:
    """Return the value of a flag, or `UNSET` where the flag is absent."""
    return UNSET if value is None else value


def _size(args: Namespace) -> dict[str, int | None]:
    return {"w": args.width, "h": args.height}


def _style(args: Namespace) -> dict[str, int | str | None]:
    return {"q": args.quality, "fit": args.fit, "fm": args.format}


def _table(
    console: Console, args: Namespace, records: Iterable[T], row: Callable[[T], Iterable[object]]
) -> None:
    for record in islice(records, args.limit):
        console.print(json.dumps(_wire.encode(record)) if args.json else "\t".join(map(str, row(record))))


def _record(console: Console, record: object) -> None:
    console.print(json.dumps(_wire.encode(record), indent=2, ensure_ascii=False))


def _members(console: Console, membership: Membership) -> None:
    for member in membership.results:
        console.print(f"{member.image_id}\t{member.status}")
    if any(member.status == "not_found" for member in membership.results):
        raise CommandError


def _page_size(args: Namespace) -> int:
    """Return the page size for a list: no more than `--limit` shows."""
    return min(args.limit or 100, 100)


def _source_name(result: UploadResult) -> str:
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
