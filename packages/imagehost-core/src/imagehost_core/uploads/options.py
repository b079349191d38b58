"""What an upload asks for beside its bytes; both upload forms take the same options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from attrs import field, frozen

from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.formats import Format
from imagehost_core.ids import AlbumId, parse_album_id

MAX_DESCRIPTION = 2_000
"""Characters; the length that contract 6 gives albums, taken for images as well."""

STORED_FORMATS: dict[str, Format | None] = {
    "auto": None,
    "jpeg": Format.JPEG,
    "png": Format.PNG,
    "webp": Format.WEBP,
}
"""The values of `format` (SPEC 4.1)."""

BOOLEANS: dict[str, bool] = {"true": True, "1": True, "false": False, "0": False}
"""Contract 4: *`true|false|0|1` (any case)*."""


def _convert_album_id(value: int | str | None) -> AlbumId | None:
    """Return what a value means; `_faults` names the one that means nothing."""
    try:
        return None if value is None else parse_album_id(value)
    except ValidationError:
        return cast("AlbumId", value)


def _convert_format(value: Format | str | None) -> Format | None:
    """Return what a name means; `_faults` names the one that means nothing."""
    return None if value is None else STORED_FORMATS.get(value, cast("Format", value))


@frozen(kw_only=True)
class UploadOptions:
    """What an upload asks for; it cannot be built wrong.

    Attributes:
        album_id: The album to put the image into, as an integer or its decimal text, or `None`.
        description: Up to 2,000 characters.
        quality: 1–100, or `None`: no re-encode is asked for on its account.
        format: The format to store, or its name in `STORED_FORMATS`; `None` is `auto`.
        remove_exif: Whether EXIF, XMP and IPTC go. ICC always stays.
        convert_to_webp: `None` stands for the default, true.
        auto_rename: Whether the image gets a random file name.
        is_public: Whether it is shown in the gallery.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
    """

    album_id: AlbumId | None = field(default=None, converter=_convert_album_id)
    description: str = ""
    quality: int | None = None
    format: Format | None = field(default=None, converter=_convert_format)
    remove_exif: bool = False
    convert_to_webp: bool | None = None
    auto_rename: bool = False
    is_public: bool = True

    def __attrs_post_init__(self) -> None:
        faults = list(_errors(self))
        if faults:
            raise ValidationError(errors=faults)


_FLAGS = (
    ("remove_exif", "remove_exif"),
    ("convert_to_webp", "convertToWebP"),
    ("auto_rename", "auto_rename"),
    ("is_public", "is_public"),
)
"""The attributes that are true or false, and their names in a form."""


def _errors(options: UploadOptions) -> Iterator[FieldError]:
    yield from _album_errors(options.album_id)
    quality = options.quality
    if quality is not None and not (type(quality) is int and 1 <= quality <= 100):
        yield _quality_error(quality)
    yield from description_errors(options.description)
    for attribute, name in _FLAGS:
        value = getattr(options, attribute)
        if not (isinstance(value, bool) or (attribute == "convert_to_webp" and value is None)):
            yield FieldError(name, "true or false", quote_value(value))
    if options.format not in STORED_FORMATS.values():
        yield FieldError("format", f"one of {', '.join(STORED_FORMATS)}", quote_value(options.format))
    # Contract 4: *`format` set together with an explicit, contradicting `convertToWebP=true` → 422*.
    elif options.convert_to_webp and options.format not in (None, Format.WEBP):
        yield FieldError("convertToWebP", f"false beside format={options.format}", "true")


def _album_errors(value: int | str | None) -> tuple[FieldError, ...]:
    if value is None:
        return ()
    try:
        parse_album_id(value)
    except ValidationError as error:
        return error.errors
    return ()


def description_errors(text: object) -> Iterable[FieldError]:
    """Yield what is wrong with an image's or album's description."""
    if not isinstance(text, str):
        yield FieldError("description", "text", quote_value(text))
        return
    if len(text) > MAX_DESCRIPTION:
        yield FieldError("description", f"at most {MAX_DESCRIPTION:,} characters", f"{len(text):,}")
    if not is_valid_text(text):
        yield FieldError("description", *INVALID_TEXT)


INVALID_TEXT = ("text without NUL and lone surrogates", "one with them")
"""What is expected, and was received, where text is not `is_storable`."""


def is_valid_text(text: str) -> bool:
    """Whether text can be kept: PostgreSQL stores no NUL, and UTF-8 holds no half of a surrogate pair."""
    return _INVALID_CHARACTERS.search(text) is None


def parse_upload_options(fields: Iterable[tuple[str, str]]) -> UploadOptions:
    """Return the options that the text fields of an upload form give.

    Unknown names are ignored.

    Args:
        fields: Names and values, in any order.

    Raises:
        ValidationError: A value is not allowed, or a name repeated. Names every fault.
    """
    faults: list[FieldError] = []
    values: dict[str, str] = {}
    for name, value in fields:
        if name in values:
            faults.append(FieldError(name, "one value", "several"))
        elif name in _NAMES:
            values[name] = value
    parsed = {
        "album_id": values.get("album_id"),
        "description": values.get("description", ""),
        "quality": _quality(values, faults),
        "format": _choice(values, "format", STORED_FORMATS, faults),
        "remove_exif": _choice(values, "remove_exif", BOOLEANS, faults) or False,
        "convert_to_webp": _choice(values, "convertToWebP", BOOLEANS, faults),
        "auto_rename": _choice(values, "auto_rename", BOOLEANS, faults) or False,
        "is_public": _choice(values, "is_public", BOOLEANS, faults) is not False,
    }
    try:
        options = UploadOptions(**parsed)  # type: ignore[arg-type]
    except ValidationError as error:
        faults.extend(error.errors)
    if faults:
        raise ValidationError(errors=dict.fromkeys(faults))
    return options


T = TypeVar("T")
_CANONICAL = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_INVALID_CHARACTERS = re.compile("[\0\ud800-\udfff]")
_NAMES = {
    "album_id",
    "description",
    "quality",
    "format",
    "remove_exif",
    "convertToWebP",
    "auto_rename",
    "is_public",
}


def _quality_error(value: object) -> FieldError:
    return FieldError("quality", "an integer from 1 to 100", quote_value(value))


def _quality(values: dict[str, str], faults: list[FieldError]) -> int | None:
    text = values.get("quality")
    if text is None:
        return None
    if _CANONICAL.fullmatch(text) is not None and int(text) <= 100:
        return int(text)
    faults.append(_quality_error(text))
    return None


def _choice(values: dict[str, str], name: str, table: dict[str, T], faults: list[FieldError]) -> T | None:
    text = values.get(name)
    if text is None:
        return None
    if text.lower() in table:
        return table[text.lower()]
    faults.append(FieldError(name, f"one of {', '.join(table)}", quote_value(text)))
    return None
