"""The command `imagehost users export`: everything that the host has of one account."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from imagehost_core import ImageHost
from imagehost_core.errors import ConflictError
from imagehost_core.maintenance.importers.sources import ALBUMS, IMAGES
from imagehost_core.models import Account, Album, AlbumShare, Image, Page
from imagehost_core.resources import AlbumRecord, ImageRecord
from imagehost_server.cli.common import counted, data_option, open_host, progress_bar
from imagehost_server.http.json_values import to_jsonable

ACCOUNT, FILES = "account.json", "images"
"""The file with the account, and the directory of the stored images."""

T = TypeVar("T")


@click.command("export")
@data_option
@click.argument("name")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export_user(data: Path, name: str, folder: Path) -> None:
    """Write everything that the host has of an account to FOLDER: images as stored, and records as JSON.

    Run it again after an interruption, or later: files that are there are kept, and those of deleted images
    removed. `imagehost import --from account` takes the images and albums back.

    \b
    Example:
      imagehost users export anna ./anna --data /srv/imagehost
    """  # noqa: D301 - the escape sequence is click's
    with open_host(data) as host, progress_bar("Images") as show:
        images, written = export_account(host, host.accounts.get(name), folder, show)
    click.echo(
        f"Exported {name} to {folder}: {counted(images, 'image')}, of which {written} were not there before"
    )


def export_account(
    host: ImageHost, account: Account, folder: Path, progress: Callable[[int, int], None]
) -> tuple[int, int]:
    """Write an account to a directory, and return the number of its images and of the files that were new.

    Raises:
        ConflictError: The directory has other files, or those of another account.
    """
    _require_export(folder, account)
    files = folder / FILES
    for directory in (folder, files):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
    _write(folder / ACCOUNT, _account(host, account))
    _write(folder / ALBUMS, [_album(host, account, album) for album in _all(host.albums.list, account)])
    total, count, written = host.accounts.usage(account).images, 0, 0
    names = set()
    part = _new_part(folder / IMAGES)
    with part.open("w", encoding="utf-8") as records:
        for image in host.images.iter(owner=account):
            name = f"{image.id}.{image.format}"
            names.add(name)
            if not _is_whole(files / name, image):
                host.images.save(image, files / name, owner=account)
                written += 1
            (files / name).chmod(0o600)
            record = to_jsonable(ImageRecord.of(image))
            assert isinstance(record, dict)
            records.write(json.dumps({**record, "file": f"{FILES}/{name}"}) + "\n")
            count += 1
            progress(count, max(count, total))
    part.replace(folder / IMAGES)
    for file in files.iterdir():
        if file.name not in names:
            file.unlink()
    return count, written


def _require_export(folder: Path, account: Account) -> None:
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        found = json.loads((folder / ACCOUNT).read_bytes())["account"]["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConflictError(f"expected a new or empty directory but {folder} has other files") from error
    if found != account.name:
        raise ConflictError(f"expected an export of {account.name} but {folder} has that of {found}")


def _is_whole(file: Path, image: Image) -> bool:
    # It has its name when it is complete, and stored bytes do not change.
    return file.is_file() and file.stat().st_size == image.size


def _account(host: ImageHost, account: Account) -> dict[str, Any]:
    return {
        "account": attrs.asdict(account, recurse=False) | {"limits": attrs.asdict(account.limits)},
        "usage": host.accounts.usage(account),
        "exported_at": host.now(),
        "sessions": list(_all(host.sessions.list, account)),
        "keys": list(_all(host.keys.list, account)),
        "webhooks": list(_all(host.webhooks.list, account)),
    }


def _album(host: ImageHost, account: Account, album: Album) -> dict[str, Any]:
    shares = _all(lambda **page: host.albums.list_shares(album, **page), account)
    record = attrs.asdict(AlbumRecord.of(album), recurse=False)
    return {**record, "shares": [_share(share) for share in shares]}


def _share(share: AlbumShare) -> dict[str, Any]:
    # Neither the secret of the link, of which there is a hash only, nor the hash of its password.
    return {
        "id": share.id,
        "created_at": share.created_at,
        "expires_at": share.expires_at,
        "has_password": share.password_hash is not None,
    }


def _all(read: Callable[..., Page[T]], account: Account) -> Iterator[T]:
    cursor: str | None = None
    while True:
        page = read(owner=account, cursor=cursor)
        yield from page
        cursor = page.next_cursor
        if cursor is None:
            return


def _new_part(path: Path) -> Path:
    """Return a new file, for its owner only, that is to replace another when it is complete."""
    part = path.with_name(f".{path.name}.part")
    # One that an interruption has left keeps its mode.
    part.unlink(missing_ok=True)
    part.touch(mode=0o600)
    return part


def _write(path: Path, value: dict[str, Any] | Iterable[Any]) -> None:
    part = _new_part(path)
    part.write_text(json.dumps(to_jsonable(value), indent=2, default=_plain) + "\n", encoding="utf-8")
    part.replace(path)


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, frozenset | set) else str(value)
