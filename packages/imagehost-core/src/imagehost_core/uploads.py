"""Upload options and file names: parsing and validation.

```python
>>> from imagehost_core.uploads import clean_filename, parse_upload_options
>>> options = parse_upload_options([("quality", "75"), ("format", "webp")])
>>> options.quality, options.format.value
(75, 'webp')
>>> clean_filename("../photos/cat.jpg")
'cat.jpg'

```
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypedDict, cast

import attrs
from attrs import field, frozen

from imagehost_core._util.fields import (
    choice_error,
    is_within,
    parse_choice,
    parse_int_field,
    range_error,
)
from imagehost_core.errors import FieldError, ValidationError, misspelled_names, quote_value
from imagehost_core.formats import BY_EXTENSION, FORMATS, MAX_QUALITY, Format
from imagehost_core.ids import AlbumId, parse_album_id
from imagehost_core.models import Album

MAX_FILENAME_BYTES = 255
"""The longest file name, in bytes of UTF-8: the limit of the common file systems."""

MAX_EXTENSION_BYTES = 32
"""The longest suffix that counts as an extension, in bytes; an extension is kept when a name is truncated."""

FALLBACK = "image"
"""The stem of a name without any visible character."""

INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories of invisible characters and of bidirectional overrides (in `Cf`)."""

ZERO_WIDTH_JOINERS = "\u200c\u200d"
"""The two characters of `Cf` that Persian, Indic scripts and composed emoji need."""

_SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
STRIPPED_AT_EDGES = "." + _SPACES + ZERO_WIDTH_JOINERS
"""Characters removed from both ends of a name: dots hide files or are dropped by some systems, spaces are
invisible."""

BLANK_GLYPHS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols with a blank glyph: the Hangul fillers and the empty Braille pattern."""


def has_visible_character(text: str) -> bool:
    """Return whether a text has a visible character.

    Spaces, control characters, fillers and combining marks do not count.
    """
    return any(
        _is_visible(char)
        and char not in _SPACES + ZERO_WIDTH_JOINERS + BLANK_GLYPHS
        and unicodedata.category(char)[0] != "M"
        for char in text
    )


def clean_filename(name: str | None) -> str:
    """Return a file name without path and invisible characters.

    Args:
        name: The received name, or `None`.

    Raises:
        ValidationError: It is not text.
    """
    if not isinstance(name, str | None):
        raise ValidationError(errors=[FieldError("filename", "a name", quote_value(name))])
    last = re.split(r"[/\\]", name or "")[-1]
    visible = unicodedata.normalize("NFC", "".join(filter(_is_visible, last)))
    trimmed = visible.strip(STRIPPED_AT_EDGES)
    if not trimmed:
        return FALLBACK
    if "." in visible.partition(trimmed)[0] and trimmed.lower() in BY_EXTENSION:
        return f"{FALLBACK}.{trimmed}"
    if _split_extension(trimmed) is None:
        # A suffix that was too long can be an extension now.
        trimmed = _truncate(trimmed)
    parts = _split_extension(trimmed)
    return trimmed if parts is None else _truncate(*parts)


def with_extension(name: str, stored: Format) -> str:
    """Return a file name with the extension of the stored format: `cat.jpg` stored as WebP is `cat.webp`.

    An extension of that format is kept; a suffix that is not an image extension is part of the stem.

    Args:
        name: A name that `clean_filename` returned.
        stored: The stored format.
    """
    stem, dot, extension = name.rpartition(".")
    current = BY_EXTENSION.get(extension.lower()) if dot else None
    if current is stored:
        return name
    return _truncate(stem if current is not None and stem else name, f".{FORMATS[stored].extensions[0]}")


def with_suffix(name: str, suffix: str) -> str:
    """Return a file name with a text at the end of its stem, which is truncated to fit.

    Args:
        name: The name.
        suffix: The text, shorter than the longest name.
    """
    stem, extension = _split_extension(name) or (name, "")
    return _truncate(stem, suffix + extension)


def _is_visible(char: str) -> bool:
    category = unicodedata.category(char)
    point = ord(char)
    if category == "Cn":
        # Unassigned in this Python's Unicode version: possibly a newer emoji, unless it is a noncharacter
        # or in plane 14, which is reserved for invisible characters.
        return not (0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE or point >= 0xE0000)
    return category not in INVISIBLE_CATEGORIES or char in ZERO_WIDTH_JOINERS


def _split_extension(name: str) -> tuple[str, str] | None:
    """Return the stem and the extension with its dot, or `None` for a name without an extension."""
    stem, dot, extension = name.rpartition(".")
    return (stem, dot + extension) if dot and len(extension.encode()) <= MAX_EXTENSION_BYTES else None


def _truncate(stem: str, extension: str = "") -> str:
    """Return stem and extension, the stem truncated to fit."""
    available = MAX_FILENAME_BYTES - len(extension.encode())
    return stem.encode()[:available].decode(errors="ignore").rstrip(STRIPPED_AT_EDGES) + extension


# Options of an upload, the same for forms with one file and with several.
#
# The attributes of `UploadOptions` are the one definition of the options: form fields and keywords follow
# them.

MAX_DESCRIPTION = 2_000
"""The longest description of an image, an album or a webhook, in characters."""

STORED_FORMATS: dict[str, Format | None] = {
    "auto": None,
    **{fmt.value: fmt for fmt, info in FORMATS.items() if info.is_upload_option},
    "jpg": Format.JPEG,
}
"""The values of `format`."""

BOOLEANS: dict[str, bool] = {"true": True, "1": True, "false": False, "0": False}
"""The values of boolean form fields and query parameters, in lower case."""


UploadFormat = Literal["auto", "jpeg", "jpg", "png", "webp", Format.JPEG, Format.PNG, Format.WEBP]
"""The format that an upload is stored in; `jpg` and `jpeg` are the same."""


class UploadKeywords(TypedDict, total=False):
    """The options of an upload as keyword arguments: the attributes of `UploadOptions`."""

    album_id: Album | int | str | None
    description: str
    quality: int | None
    format: UploadFormat | None
    remove_exif: bool | None
    convert_to_webp: bool
    auto_rename: bool
    is_public: bool | None
    reuse: bool


def _convert_album_id(value: Album | int | str | None) -> AlbumId | None:
    """Return an album id; an invalid value is returned unchanged, for `_validate` to report."""
    if isinstance(value, Album):
        return value.id
    try:
        return None if value is None else parse_album_id(value)
    except ValidationError:
        return cast("AlbumId", value)


def _convert_format(value: Format | str | None) -> Format | None:
    """Return a named format; an unknown name is returned unchanged, for `_validate` to report."""
    name = value.lower() if isinstance(value, str) else value
    return None if name is None else STORED_FORMATS.get(name, cast("Format", value))


@frozen(kw_only=True)
class UploadOptions:
    """Validated options of an upload.

    Attributes:
        album_id: The album of the new image, given as itself or as its id, or `None`.
        description: Up to 2,000 characters.
        quality: 1–100 to re-encode the image, or `None`.
        format: The format to store, or its name in `STORED_FORMATS` in any case; `None` is `auto`.
        remove_exif: Whether to remove EXIF, XMP and IPTC metadata; the ICC profile is always kept. `None` is
            the host's default.
        convert_to_webp: Whether to store a WebP where that is smaller; has no effect if `format` is set.
        auto_rename: Whether to replace the file name with a random one.
        is_public: Whether the image is in the gallery and delivered without a token. `None` is true, or false
            in a private album.
        reuse: Whether to return the account's newest image of the same bytes and the same other options, if
            there is one, in place of storing another.

    Raises:
        ValidationError: Values are not allowed; every one is listed in `errors`.
    """

    album_id: AlbumId | None = field(default=None, converter=_convert_album_id)
    description: str = ""
    quality: int | None = None
    format: Format | None = field(default=None, converter=_convert_format)
    remove_exif: bool | None = None
    convert_to_webp: bool = True
    auto_rename: bool = False
    is_public: bool | None = None
    reuse: bool = False

    def __attrs_post_init__(self) -> None:
        errors = list(_validate(self))
        if errors:
            raise ValidationError(errors=errors)


_FORM_NAMES = {"convert_to_webp": "convertToWebP"}
"""The form fields that are not named like the attribute."""
FORM_FIELDS: dict[str, str] = {
    _FORM_NAMES.get(attribute.name, attribute.name): attribute.name
    for attribute in attrs.fields(UploadOptions)
}
"""The form fields of an upload, with the attributes of `UploadOptions` that they set."""
_FLAGS = ("remove_exif", "convert_to_webp", "auto_rename", "is_public", "reuse")
"""The boolean attributes."""
_OPTIONAL_FLAGS = ("remove_exif", "is_public")
"""Those whose default depends on the host or on the album."""


def _validate(options: UploadOptions) -> Iterator[FieldError]:
    yield from _album_errors(options.album_id)
    if options.quality is not None and not is_within(options.quality, MAX_QUALITY):
        yield range_error("quality", MAX_QUALITY, options.quality)
    yield from description_errors(options.description)
    for attribute in _FLAGS:
        value = getattr(options, attribute)
        if not isinstance(value, bool) and not (value is None and attribute in _OPTIONAL_FLAGS):
            yield FieldError(_FORM_NAMES.get(attribute, attribute), "true or false", quote_value(value))
    if options.format not in STORED_FORMATS.values():
        yield choice_error("format", STORED_FORMATS, options.format)


def _album_errors(value: int | str | None) -> tuple[FieldError, ...]:
    if value is None:
        return ()
    try:
        parse_album_id(value)
    except ValidationError as error:
        return error.errors
    return ()


def description_errors(text: object) -> Iterable[FieldError]:
    """Yield the errors of a description of an image, an album or a webhook."""
    if not isinstance(text, str):
        yield FieldError("description", "text", quote_value(text))
        return
    if len(text) > MAX_DESCRIPTION:
        yield FieldError("description", f"at most {MAX_DESCRIPTION:,} characters", f"{len(text):,}")
    if not is_valid_text(text):
        yield FieldError("description", *INVALID_TEXT)


INVALID_TEXT = ("text without NUL and lone surrogates", "one with them")
"""The expected and received parts of the error for text that is not `is_valid_text`."""

_INVALID_CHARACTERS = re.compile("[\0\ud800-\udfff]")


def is_valid_text(text: str) -> bool:
    """Return whether a database can store a text: PostgreSQL stores no NUL, UTF-8 has no lone surrogates."""
    return _INVALID_CHARACTERS.search(text) is None


def parse_upload_options(
    fields: Iterable[tuple[str, str]], aliases: Mapping[str, str] | None = None
) -> UploadOptions:
    """Return the options in the text fields of an upload form. Unknown and empty fields are ignored.

    Args:
        fields: Names and values of the fields, in any order.
        aliases: Other names of fields, with those of `FORM_FIELDS`.

    Raises:
        ValidationError: Values are not allowed or repeated, or an unknown name differs from a known one only
            by case, `_` or `-`; every error is listed in `errors`.
    """
    names = FORM_FIELDS | {alias: FORM_FIELDS[name] for alias, name in (aliases or {}).items()}
    received = [(name, text) for name, text in fields if text]
    errors = misspelled_names((name for name, _ in received), names)
    by_attribute: dict[str, list[tuple[str, str]]] = {attribute: [] for attribute in FORM_FIELDS.values()}
    for name, text in received:
        if name in names:
            by_attribute[names[name]].append((name, text))
    values: dict[str, object] = {}
    for field_name, attribute in FORM_FIELDS.items():
        given = by_attribute[attribute]
        if len(given) > 1:
            both = " and ".join(sorted({name for name, _ in given}))
            errors.append(FieldError(both, "one value", "several"))
        for name, text in dict.fromkeys(given):
            field_errors: list[FieldError] = []
            shown = name if name == field_name else f"{name} ({field_name})"
            value = _parse_field(shown, attribute, text, field_errors)
            if field_errors:
                errors.extend(field_errors)
            else:
                values[attribute] = value
    try:
        options = UploadOptions(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        errors.extend(error.errors)
    if errors:
        raise ValidationError(errors=dict.fromkeys(errors))
    return options


def _parse_field(name: str, attribute: str, text: str, errors: list[FieldError]) -> object:
    """Return the value of a form field; text that needs no parsing is validated by `UploadOptions`."""
    if attribute in _FLAGS:
        return parse_choice(name, text, BOOLEANS, errors, ignore_case=True)
    if attribute == "format":
        return parse_choice(name, text, STORED_FORMATS, errors, ignore_case=True)
    if attribute == "quality":
        return parse_int_field(name, text, MAX_QUALITY, errors)
    return text
