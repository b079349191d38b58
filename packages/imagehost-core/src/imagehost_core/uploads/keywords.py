"""The keywords of the host's methods: what may be given, and with which types."""

from __future__ import annotations

from typing import TypedDict

from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.formats import Format
from imagehost_core.ids import parse_album_id
from imagehost_core.uploads.options import STORED_FORMATS, UploadOptions


class UploadKeywords(TypedDict, total=False):
    """The options of an upload, as keywords: the fields of `UploadOptions`."""

    album_id: int | str | None
    description: str
    quality: int | None
    format: Format | str | None
    remove_exif: bool
    convert_to_webp: bool | None
    auto_rename: bool
    is_public: bool


class ImageChanges(TypedDict, total=False):
    """What may be changed of an image; what is not given stays."""

    album_id: int | str | None
    description: str
    is_public: bool
    filename: str


def upload_options(keywords: UploadKeywords) -> UploadOptions:
    """Return keywords as options.

    Raises:
        ValidationError: A value is not allowed.
    """
    values = dict(keywords)
    album_id, fmt = keywords.get("album_id"), keywords.get("format")
    values["album_id"] = None if album_id is None else parse_album_id(album_id)
    if isinstance(fmt, str) and not isinstance(fmt, Format):
        if fmt not in STORED_FORMATS:
            raise ValidationError(
                errors=[FieldError("format", f"one of {', '.join(STORED_FORMATS)}", quote_value(fmt))]
            )
        values["format"] = STORED_FORMATS[fmt]
    return UploadOptions(**values)  # type: ignore[arg-type]
