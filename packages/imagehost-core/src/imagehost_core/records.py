"""The base class of records, and the records of image files, which need no host."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from attrs import field, fields, frozen, has

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.formats import FORMATS, Format, FormatName


class Record:
    """The base class of records, which can be shown as JSON."""

    __slots__ = ()
    _INTERNAL: ClassVar = frozenset({"account_id"})
    """Members that the HTTP interface does not have."""

    def to_dict(self) -> dict[str, object]:
        """Return the record as the JSON object of the HTTP interface.

        Times are in RFC 3339, bytes in base64. Tokens and secrets are included.
        """
        return {name: _to_json(getattr(self, name)) for name in _json_members(type(self))}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the record as the text of a JSON object, as `to_dict` does.

        Args:
            indent: The number of spaces of each level; `None` for one line.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)


def _json_members(kind: type[Record]) -> list[str]:
    """Return the names of the fields and properties of a record that the HTTP interface has."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for base in kind.__mro__:
        names += (name for name, value in vars(base).items() if isinstance(value, property))
    return [name for name in names if name not in kind._INTERNAL]  # noqa: SLF001


def _to_json(value: object) -> object:
    if isinstance(value, Record):
        return value.to_dict()
    kind = type(value)
    if has(kind):
        return {each.name: _to_json(getattr(value, each.name)) for each in fields(kind)}
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, datetime):
        return to_rfc3339(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, StrEnum) else value


@frozen(kw_only=True)
class ImageInfo(Record):
    """The properties of an image file, from its headers.

    Attributes:
        format: The format of the content.
        width: Pixels of one frame, upright.
        height: Pixels of one frame, upright.
        size: Bytes of the file.
        frames: The number of frames.
        has_alpha: Whether pixels can be transparent.
        has_metadata: Whether there is EXIF, XMP or IPTC.
    """

    format: FormatName = field(converter=Format)
    width: int
    height: int
    size: int
    frames: int
    has_alpha: bool
    has_metadata: bool

    @property
    def media_type(self) -> str:
        """The media type, such as `image/jpeg`."""
        return FORMATS[Format(self.format)].media_type

    @property
    def is_animated(self) -> bool:
        """Whether there is more than one frame."""
        return self.frames > 1


@frozen(kw_only=True)
class Rendered(Record):
    """A rendered image.

    Attributes:
        data: The encoded bytes.
        media_type: The media type, such as `image/webp`.
        width: Pixels.
        height: Pixels.
        etag: A strong entity tag, quoted (RFC 9110, section 8.8.3).
        not_modified: Whether the image has the entity tag of `if_none_match`. Then `data` and `media_type`
            are empty, and `width` and `height` are 0.
    """

    data: bytes = field(repr=lambda data: f"<{len(data)} bytes>")
    media_type: str
    width: int = 0
    height: int = 0
    etag: str
    not_modified: bool = False
