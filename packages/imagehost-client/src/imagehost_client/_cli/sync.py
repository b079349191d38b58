"""The command `sync`: uploads what is new in a folder, and keeps a manifest of its images."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

import click
from attrs import asdict, define, evolve, field, frozen

from imagehost_client._calls.call import chunks
from imagehost_client._cli.albums import find_album
from imagehost_client._cli.connection import CommandContext, pass_context
from imagehost_client._cli.errors import Batch, exit_status
from imagehost_client._cli.options import Command, flag, switch_options
from imagehost_client._cli.progress import ProgressBar
from imagehost_client._cli.uploads import REPEATED_ERRORS, describe_failure
from imagehost_client._types import BatchOptions
from imagehost_client.client import Client
from imagehost_client.errors import ConfigurationError
from imagehost_client.files import images_in
from imagehost_client.models import Album, Image

VERSION = 1
"""The version of the manifest's format."""


@frozen(kw_only=True)
class Entry:
    """A file of the folder, and its image.

    Attributes:
        file_sha256: The SHA-256 of the file.
        is_made: Whether this command has stored the image; only then it deletes it.
    """

    id: str
    url: str
    width: int
    height: int
    placeholder: str
    file_sha256: str
    is_made: bool


@define
class Manifest:
    """A JSON file of images, by the paths of their files in the folder.

    Attributes:
        base_url: The base URL of the API.
        options: The options of all uploads.
        gone: The ids of images that this command has stored and no file has any more.
    """

    path: Path
    base_url: str
    options: Mapping[str, object]
    images: dict[str, Entry] = field(factory=dict)
    gone: set[str] = field(factory=set)
    _unsaved: int = 0

    def read(self) -> bool:
        """Read the file, if there is one, and return whether its uploads had the same options.

        Raises:
            ConfigurationError: It is no manifest of this version and host.
        """
        if not self.path.exists():
            return True
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            found = (document["version"], document["base_url"])
            self.images = {name: Entry(**entry) for name, entry in document["images"].items()}
            self.gone = set(document["gone"])
            is_same = bool(document["options"] == self.options)
        except (ValueError, TypeError, KeyError, AttributeError):
            found, is_same = (None, None), False
        if found != (VERSION, self.base_url):
            raise ConfigurationError(
                f"expected a manifest of version {VERSION} and {self.base_url} for --manifest but received "
                f"version {found[0]} and {found[1]} in {self.path}: use another file"
            )
        return is_same

    def replace(self, name: str, entry: Entry | None) -> None:
        """Replace the image of a file, or remove it; save the file from time to time."""
        former = self.images.pop(name, None)
        if former is not None and former.is_made:
            self.gone.add(former.id)
        if entry is not None:
            self.images[name] = entry
        self._unsaved += 1
        if self._unsaved * 100 >= len(self.images):
            self.save()

    def save(self) -> None:
        """Replace the file as a whole; an image of which another file has the same bytes is not gone."""
        for name, entry in self.images.items():
            if entry.id in self.gone:
                self.images[name] = evolve(entry, is_made=True)
        self.gone -= {entry.id for entry in self.images.values()}
        document = {
            "version": VERSION,
            "base_url": self.base_url,
            "options": self.options,
            "images": {name: asdict(self.images[name]) for name in sorted(self.images)},
            "gone": sorted(self.gone),
        }
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        new.replace(self.path)
        self._unsaved = 0


@click.command("sync", cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--album", metavar="ALBUM", required=True, help="Its id, URL or name. Made if missing.")
@click.option(
    "--manifest",
    "path",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The JSON file of the images, by the paths of their files.",
)
@click.option("--delete", is_flag=True, help="Delete the images of files that have gone or were changed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@switch_options(
    "is_public",
    ("--public", "In the public gallery.  [default: unless the album is private]"),
    ("--private", "Only in your lists."),
)
@flag("--keep-format", "convert_to_webp", False, "Do not convert to WebP.")
@flag("--remove-exif", "remove_exif", True, "Remove the metadata, such as the place.")
@pass_context
def sync(
    context: CommandContext,
    *,
    folder: Path,
    album: str,
    path: Path,
    delete: bool,
    as_json: bool,
    **options: Unpack[BatchOptions],
) -> None:
    """Upload what is new in a folder, and write a manifest of its images.

    Prints path, id, URL, pixels and ThumbHash of each file. Repeat it before each build: what is there is not
    uploaded again. --delete deletes only images that this command has stored.

    \b
    Example:
      imagehost-client sync content/images --album Blog --manifest images.json
    """  # noqa: D301 - the escape sequence is click's
    client = context.connect()
    found = find_album(client, album, create=True)
    album_id = found.id if isinstance(found, Album) else int(found)
    uploads: BatchOptions = {**options, "album_id": album_id, "reuse": True}
    given = {name: value for name, value in uploads.items() if value is not None}
    manifest = Manifest(path, client.config.base_url, given)
    is_same = manifest.read()
    files = {file.relative_to(folder).as_posix(): file for file in images_in(folder)}
    there = {image.id for image in client.images.list(album_id=album_id, per_page=100)}
    digests = {name: _sha256(file) for name, file in files.items()}
    new = [
        name
        for name, digest in digests.items()
        if (entry := manifest.images.get(name)) is None
        or not (is_same and entry.id in there and entry.file_sha256 == digest)
    ]
    batch = Batch(context.console, succeeded=len(files) - len(new))
    uploads["journal"] = journal = Path(f"{path}.journal")
    is_finished = True
    with ProgressBar(context.console, [files[name] for name in new]) as bar:
        client.environment.on_wait = bar.wait
        uploads["progress"] = bar.progress
        names = {files[name]: name for name in new}
        results = client.upload_iter(list(names), **uploads)
        try:
            for result in results:
                bar.result(result)
                assert isinstance(result.source, Path)
                name = names[result.source]
                if result.image is not None:
                    manifest.replace(name, _entry(result.image, digests[name]))
                    batch.succeeded += 1
                else:
                    assert result.error is not None
                    context.console.error(describe_failure(result))
                    batch.failures.append(exit_status(result.error))
                    is_finished = is_finished and not isinstance(result.error, REPEATED_ERRORS)
        except KeyboardInterrupt:
            results.close()
            raise results.interrupted() from None
        finally:
            manifest.save()
    for name in manifest.images.keys() - files.keys():
        manifest.replace(name, None)
    manifest.save()
    if delete and manifest.gone:
        _delete(client, manifest, batch)
    if is_finished:
        journal.unlink(missing_ok=True)
    for name in sorted(manifest.images):
        entry = manifest.images[name]
        values = {"path": name, **asdict(entry)}
        pixels = f"{entry.width}x{entry.height}"
        line = "\t".join((name, entry.id, entry.url, pixels, entry.placeholder))
        context.console.print(json.dumps(values) if as_json else line)
    batch.finish()


def _delete(client: Client, manifest: Manifest, batch: Batch) -> None:
    """Delete the images that are gone; one that is not there any more counts as deleted."""
    for chunk in chunks(sorted(manifest.gone)):
        for result in client.images.delete_many(chunk):
            if result.error is None or result.error.code == "NOT_FOUND":
                manifest.gone.discard(result.id)
            else:
                batch.fail_by_code(result.id, result.error.code, result.error.details)
        manifest.save()


def _entry(image: Image, digest: str) -> Entry:
    return Entry(
        id=image.id,
        url=image.url,
        width=image.width,
        height=image.height,
        placeholder=image.placeholder,
        file_sha256=digest,
        is_made=image.is_reused is False,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
