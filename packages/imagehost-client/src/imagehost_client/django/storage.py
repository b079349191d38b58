"""The storage of images in a host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from tempfile import SpooledTemporaryFile
from time import time
from typing import TYPE_CHECKING, Any, Self, cast

from attrs import frozen
from django import conf
from django.core.exceptions import ImproperlyConfigured, SuspiciousFileOperation
from django.core.files.base import File
from django.core.files.images import ImageFile
from django.core.files.storage import Storage
from django.utils.deconstruct import deconstructible

from imagehost_client._doubles import active_double
from imagehost_client.client import Client
from imagehost_client.errors import NotFoundError
from imagehost_client.models import Image
from imagehost_client.urls import image_url, sign

if TYPE_CHECKING:
    from imagehost_client._types import TransformParams

SETTING = "IMAGEHOST"
"""The name of the setting; options of a storage in `STORAGES` take precedence over its members."""
DEFAULTS: dict[str, Any] = {
    "base_url": None,
    "token": None,
    "cdn_url": None,
    "client": {},
    "upload": {},
    "private": False,
    "expires_in": 3600,
    "signing_key": None,
}
"""The members of the setting, and their defaults.

- `base_url`, `token`, `cdn_url`, and in `client` the others: the arguments of `Client`
- `upload`: options of `Client.upload`, such as `{"album_id": 3, "remove_exif": True}`
- `private`: whether images are stored as private ones; their URLs are signed
- `expires_in`: the lifetime of signed URLs, in seconds
- `signing_key`: the key with which URLs are signed here; by default the host signs them, by a request
"""

LONGEST_NAME = 80
"""The `max_length` that the names of images need."""
MEMORY_BYTES = 1_000_000
"""The size up to which a file that is opened is kept in memory."""

_NAME = re.compile(
    r"(?P<id>[0-9A-Za-z]{16})(?:_(?P<width>\d+)x(?P<height>\d+)(?:_(?P<hash>[\w-]*))?)?\.(?P<extension>\w+)",
    re.ASCII,
)


@frozen(kw_only=True)
class StoredName:
    """The name of a stored image: what a page needs of its record, which never changes.

    Names without a size, `<id>.<extension>`, are those of images that were stored otherwise.

    Attributes:
        id: The image's id.
        extension: The extension of its URL.
        width: Pixels; 0 if unknown.
        height: Pixels; 0 if unknown.
        placeholder: The ThumbHash in base64.
    """

    id: str
    extension: str
    width: int = 0
    height: int = 0
    placeholder: str = ""

    @classmethod
    def of(cls, image: Image) -> Self:
        """Return the name of an image."""
        return cls(
            id=image.id,
            extension=image.url.rpartition(".")[2],
            width=image.width,
            height=image.height,
            placeholder=image.placeholder,
        )

    @classmethod
    def parse(cls, name: str | None) -> Self | None:
        """Return what a name says, or `None` if it is not that of an image of a host."""
        match = _NAME.fullmatch(name or "")
        if match is None:
            return None
        coded = (match["hash"] or "").replace("-", "+").replace("_", "/")
        return cls(
            id=match["id"],
            extension=match["extension"],
            width=int(match["width"] or 0),
            height=int(match["height"] or 0),
            placeholder=coded + "=" * (-len(coded) % 4),
        )

    def __str__(self) -> str:
        coded = self.placeholder.rstrip("=").replace("+", "-").replace("/", "_")
        return f"{self.id}_{self.width}x{self.height}_{coded}.{self.extension}"


@frozen(kw_only=True)
class StoredImage:
    """What a `<picture>` element needs of a stored image."""

    url: str
    width: int
    height: int
    placeholder: str
    description: None = None


@deconstructible(path="imagehost_client.django.ImageHostStorage")
class ImageHostStorage(Storage):
    """A storage of images in an image host, for `STORAGES` or the argument `storage` of an `ImageField`.

    A file's name begins with the image's id, and has its size and its ThumbHash: URLs, widths, heights and
    `<picture>` elements need no requests. Directories of `upload_to` are ignored.

    Args:
        **options: Members of the setting `IMAGEHOST`, which they replace.

    Raises:
        ImproperlyConfigured: An option is unknown.
    """

    def __init__(self, **options: object) -> None:
        self._options = options
        self._client: tuple[Mapping[str, Any], Client] | None = None
        _known(options)

    @property
    def options(self) -> Mapping[str, Any]:
        """The members of the setting `IMAGEHOST`, with the options of this storage."""
        return {**DEFAULTS, **_known(getattr(conf.settings, SETTING, {})), **self._options}

    @property
    def client(self) -> Client:
        """The client of the host; while a `FakeImageHost` replaces hosts, a new client of that one."""
        options = self.options
        if active_double() is not None:
            return _new_client(options)
        if self._client is None or self._client[0] != options:
            self._client = options, _new_client(options)
        return self._client[1]

    def record(self, name: str) -> Image:
        """Return the record of an image.

        Raises:
            FileNotFoundError: There is no such image.
        """
        try:
            return self.client.images.get(_require(name).id)
        except NotFoundError as error:
            raise FileNotFoundError(f"no image {name!r}") from error

    def displayed(self, name: str) -> StoredImage:
        """Return what pages need of an image, without a request unless its name has no size."""
        stored = _require(name)
        if not stored.width:
            stored = StoredName.of(self.record(name))
        return StoredImage(
            url=self._unsigned_url(stored),
            width=stored.width,
            height=stored.height,
            placeholder=stored.placeholder,
        )

    def url(self, name: str | None) -> str:
        """Return the URL of an image, signed if images of this storage are private."""
        return self.variant_urls(name or "", [{}])[0]

    def variant_urls(self, name: str, variants: Sequence[TransformParams]) -> list[str]:
        """Return URLs of an image, for each set of transform parameters."""
        stored, options = _require(name), self.options
        if not options["private"]:
            return [image_url({"url": self._unsigned_url(stored)}, **variant) for variant in variants]
        if options["signing_key"] is not None:
            expires = int(time()) + options["expires_in"]
            image = {"url": self._unsigned_url(stored)}
            return [sign(image, key=options["signing_key"], expires_at=expires, **each) for each in variants]
        items = [(stored.id, variant) for variant in variants]
        return [one.url for one in self.client.images.signed_urls(items, expires_in=options["expires_in"])]

    def _unsigned_url(self, stored: StoredName) -> str:
        return f"{self.client.config.cdn_url}/{stored.id}.{stored.extension}"

    def _save(self, name: str, content: File[Any]) -> str:
        content.seek(0)
        options = {"is_public": not self.options["private"], **self.options["upload"]}
        image = self.client.upload((PurePosixPath(name).name, cast("Any", content)), **options)
        return str(StoredName.of(image))

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        if mode != "rb":
            raise ValueError(f"expected the mode rb, as images are not changed, but received {mode!r}")
        stored = _require(name)
        file = SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - closed with what is returned
        try:
            self.client.images.download(stored.id, cast("Any", file))
        except BaseException as error:
            file.close()
            if isinstance(error, NotFoundError):
                raise FileNotFoundError(f"no image {name!r}") from error
            raise
        file.seek(0)
        return ImageFile(file, name)

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        """Return the name that was given: the host makes another one.

        Raises:
            SuspiciousFileOperation: The field cannot hold the names of images.
        """
        if max_length is not None and max_length < LONGEST_NAME:
            raise SuspiciousFileOperation(
                f"expected at least {LONGEST_NAME} for max_length of an ImageField but received {max_length}"
            )
        return name

    def delete(self, name: str) -> None:
        """Delete an image from the host; one that does not exist is ignored."""
        stored = StoredName.parse(name)
        if stored is not None:
            try:
                self.client.images.delete(stored.id)
            except NotFoundError:
                return

    def exists(self, name: str) -> bool:
        """Return whether a name is that of an image in the host."""
        if StoredName.parse(name) is None:
            return False
        try:
            self.record(name)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int:
        """Return the size of the stored file, in bytes."""
        return self.record(name).size

    def get_created_time(self, name: str) -> datetime:
        """Return when an image was uploaded."""
        return self.record(name).created_at

    def get_modified_time(self, name: str) -> datetime:
        """Return when an image was uploaded: its file does not change."""
        return self.record(name).created_at


def _new_client(options: Mapping[str, Any]) -> Client:
    arguments = {name: options[name] for name in ("base_url", "token", "cdn_url")}
    return Client(**arguments, **options["client"])


def _require(name: str) -> StoredName:
    stored = StoredName.parse(name)
    if stored is None:
        raise FileNotFoundError(f"no image {name!r}")
    return stored


def _known(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options; raise ImproperlyConfigured for one that does not exist."""
    unknown = sorted(set(options) - set(DEFAULTS))
    if unknown:
        raise ImproperlyConfigured(
            f"expected {', '.join(DEFAULTS)} for {SETTING} but received {unknown[0]!r}"
        )
    return options
