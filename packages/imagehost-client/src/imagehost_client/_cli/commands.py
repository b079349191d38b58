"""The commands for images, albums, keys and webhooks: each calls the client and prints the result."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

from imagehost_client import _config, _wire
from imagehost_client._calls import Unset
from imagehost_client._calls.bulk import MAX_IMAGES
from imagehost_client._cli.output import Console, ProgressBar
from imagehost_client._cli.records import CommandError, or_unset, page_size, print_record, print_table
from imagehost_client._many import UploadOptions, UploadResult
from imagehost_client.client import Client
from imagehost_client.files import Source
from imagehost_client.models import Album, ApiKey, Image, Membership, PublicImage, Webhook, WebhookDelivery

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
    images = client.images.list(
        album_id=args.album,
        per_page=page_size(args),
        q=args.q,
        is_public=args.is_public,
        format=args.format,
        created_after=args.after,
        created_before=args.before,
        sort=args.sort,
    )
    print_table(console, args, images, _image_row)


def show_images(client: Client, args: Namespace, console: Console) -> None:
    """Print images as JSON."""
    for image in args.images:
        print_record(console, client.images.get(image))


def update_images(client: Client, args: Namespace, console: Console) -> None:
    """Change images in the same way; print a single one, and a line for each of several."""
    changes: _ImageChanges = {
        "album_id": None if args.no_album else or_unset(args.album),
        "description": or_unset(args.description),
        "is_public": or_unset(args.is_public),
        "filename": or_unset(args.name),
    }
    if len(args.images) == 1:
        print_record(console, client.images.update(args.images[0], **changes))
        return
    is_complete = True
    for chunk in _chunks(args.images):
        for result in client.images.update_many(chunk, **changes):
            console.print(f"{result.id}\t{result.status}")
            is_complete = is_complete and result.error is None
    if not is_complete:
        raise CommandError


def list_gallery(client: Client, args: Namespace, console: Console) -> None:
    """List the public images of all accounts."""
    images = client.gallery(album_id=args.album, per_page=page_size(args))
    print_table(console, args, images, _public_row)


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
    """Delete images; a missing one does not stop the others."""
    console.confirm(f"Permanently delete {len(args.images)} image(s)?", args.yes)
    is_complete = True
    for chunk in _chunks(args.images):
        for result in client.images.delete_many(chunk):
            if result.error is None:
                console.print(result.id)
            else:
                console.notify(f"{result.id}: {result.error.message}: {result.error.details}")
                is_complete = False
    if not is_complete:
        raise CommandError


def image_urls(client: Client, args: Namespace, console: Console) -> None:
    """Print URLs, srcsets or `<picture>` elements, one for each image."""
    size, style = _size(args), _style(args)
    if args.signed:
        for signed in client.images.signed_urls(args.images, expires_in=args.signed, **size, **style):
            console.print(signed.url)
        return
    for image in args.images:
        if args.srcset:
            console.print(client.srcset(client.images.get(image), args.srcset, **style))
        elif args.picture:
            record = client.images.get(image)
            console.print(client.picture_html(record, args.picture, q=args.quality, fit=args.fit))
        else:
            console.print(client.image_url(image, **size, **style))


def list_albums(client: Client, args: Namespace, console: Console) -> None:
    """List albums."""
    print_table(console, args, client.albums.list(per_page=page_size(args)), _album_row)


def create_album(client: Client, args: Namespace, console: Console) -> None:
    """Create an album, and print its id."""
    is_public = False if args.private else None
    album = client.albums.create(args.name, description=args.description, is_public=is_public)
    console.print(str(album.id))


def show_album(client: Client, args: Namespace, console: Console) -> None:
    """Print an album as JSON."""
    print_record(console, client.albums.get(args.id))


def update_album(client: Client, args: Namespace, console: Console) -> None:
    """Change an album, and print it."""
    name, description, public = map(or_unset, (args.name, args.description, args.is_public))
    print_record(console, client.albums.update(args.id, name=name, description=description, is_public=public))


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
    print_table(console, args, client.keys.list(per_page=page_size(args)), _key_row)


def create_key(client: Client, args: Namespace, console: Console) -> None:
    """Create an API key, and print its token."""
    console.print(client.keys.create(args.name, scopes=args.scope, expires_at=args.expires).token)
    console.notify("keep this token: the host never shows it again")


def show_key(client: Client, args: Namespace, console: Console) -> None:
    """Print an API key as JSON."""
    print_record(console, client.keys.get(args.id))


def update_key(client: Client, args: Namespace, console: Console) -> None:
    """Change an API key, and print it."""
    name, scopes, expires_at = map(or_unset, (args.name, args.scope, args.expires))
    print_record(console, client.keys.update(args.id, name=name, scopes=scopes, expires_at=expires_at))


def delete_key(client: Client, args: Namespace, console: Console) -> None:
    """Revoke an API key."""
    console.confirm(f"Revoke key {args.id}?", args.yes)
    console.print(client.keys.delete(args.id).id)


def list_webhooks(client: Client, args: Namespace, console: Console) -> None:
    """List webhooks."""
    print_table(console, args, client.webhooks.list(per_page=page_size(args)), _webhook_row)


def create_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Create a webhook, and print its id and secret."""
    webhook = client.webhooks.create(args.url, events=args.event, description=args.description)
    console.print(f"{webhook.id}\t{webhook.secret}")
    console.notify("keep this secret: the host never shows it again")


def show_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Print a webhook as JSON."""
    print_record(console, client.webhooks.get(args.id))


def update_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Change a webhook, and print it."""
    url, events, text, active = map(or_unset, (args.url, args.event, args.description, args.is_active))
    webhook = client.webhooks.update(args.id, url=url, events=events, description=text, is_active=active)
    print_record(console, webhook)


def delete_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Delete a webhook."""
    console.confirm(f"Delete webhook {args.id}?", args.yes)
    console.print(client.webhooks.delete(args.id).id)


def test_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Send a test event."""
    print_record(console, client.webhooks.test(args.id))


def rotate_webhook(client: Client, args: Namespace, console: Console) -> None:
    """Replace a webhook's signing secret, and print the new one."""
    console.print(client.webhooks.rotate_secret(args.id).secret)


def list_deliveries(client: Client, args: Namespace, console: Console) -> None:
    """List a webhook's deliveries."""
    print_table(console, args, client.webhooks.deliveries(args.id, per_page=page_size(args)), _delivery_row)


def retry_delivery(client: Client, args: Namespace, console: Console) -> None:
    """Send a delivery again."""
    print_record(console, client.webhooks.retry(args.id, args.delivery))


def config(args: Namespace, console: Console) -> None:
    """Print the effective settings and their sources; of the token only the first characters."""
    resolved = _config.resolve(args.base_url, None, allow_http=args.allow_http)
    base_url_source = "--base-url" if args.base_url else _config.BASE_URL_VARIABLE
    cdn_url_source = _config.CDN_URL_VARIABLE if os.environ.get(_config.CDN_URL_VARIABLE) else "base_url"
    hint = resolved.token.hint() if resolved.token else "none"
    console.print(f"base_url\t{resolved.base_url}\t{base_url_source}")
    console.print(f"cdn_url\t{resolved.cdn_url}\t{cdn_url_source}")
    console.print(f"token\t{hint}\t{_config.TOKEN_VARIABLE}")


class _ImageChanges(TypedDict):
    """The changes of `update`."""

    album_id: str | Unset | None
    description: str | Unset
    is_public: bool | Unset
    filename: str | Unset


def _chunks(images: list[str]) -> Iterator[list[str]]:
    """Return the images of each request, so that its results are printed before the next one."""
    for start in range(0, len(images), MAX_IMAGES):
        yield images[start : start + MAX_IMAGES]


def _size(args: Namespace) -> dict[str, int | None]:
    return {"w": args.width, "h": args.height}


def _style(args: Namespace) -> dict[str, int | str | None]:
    return {"q": args.quality, "fit": args.fit, "fm": args.format}


def _members(console: Console, membership: Membership) -> None:
    for member in membership.results:
        console.print(f"{member.image_id}\t{member.status}")
    if any(member.status == "not_found" for member in membership.results):
        raise CommandError


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
