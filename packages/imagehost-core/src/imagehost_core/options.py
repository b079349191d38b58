"""What an upload asks for beside its bytes; both upload forms take the same options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import frozen

from imagehost_core.errors import Fault, ValidationError, quoted
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


@frozen(kw_only=True)
class UploadOptions:
    """What an upload asks for; it cannot be built wrong.

    Attributes:
        album_id: The album to put the image into, or `None`.
        description: Up to 2,000 characters.
        quality: 1–100, or `None`: no re-encode is asked for on its account.
        format: The format to store, or `None`: `auto`.
        remove_exif: Whether EXIF, XMP and IPTC go. ICC always stays.
        convert_to_webp: `None` stands for the default, true.
        auto_rename: Whether the image gets a random file name.
        is_public: Whether it is shown in the gallery.

    Raises:
        ValidationError: A value is not allowed. Names every fault.
    """

    album_id: AlbumId | None = None
    description: str = ""
    quality: int | None = None
    format: Format | None = None
    remove_exif: bool = False
    convert_to_webp: bool | None = None
    auto_rename: bool = False
    is_public: bool = True

    def __attrs_post_init__(self) -> None:
        faults = list(_faults(self))
        if faults:
            raise ValidationError(faults=faults)


def _faults(options: UploadOptions) -> Iterable[Fault]:
    quality = options.quality
    if quality is not None and not (type(quality) is int and 1 <= quality <= 100):
        yield _quality_fault(quality)
    yield from description_faults(options.description)
    if options.format not in STORED_FORMATS.values():
        yield Fault("format", f"one of {', '.join(STORED_FORMATS)}", quoted(str(options.format)))
    # Contract 4: *`format` set together with an explicit, contradicting `convertToWebP=true` → 422*.
    elif options.convert_to_webp and options.format not in (None, Format.WEBP):
        yield Fault("convertToWebP", f"false beside format={options.format}", "true")


def description_faults(text: str) -> Iterable[Fault]:
    """Yield what is wrong with an image's or album's description."""
    if len(text) > MAX_DESCRIPTION:
        yield Fault("description", f"at most {MAX_DESCRIPTION:,} characters", f"{len(text):,}")
    if "\0" in text:
        yield Fault("description", "text without NUL characters", "one with them")


def parse_upload_options(fields: Iterable[tuple[str, str]]) -> UploadOptions:
    """Return the options that the text fields of an upload form give.

    Unknown names are ignored.

    Args:
        fields: Names and values, in any order.

    Raises:
        ValidationError: A value is not allowed, or a name repeated. Names every fault.
    """
    faults: list[Fault] = []
    values: dict[str, str] = {}
    for name, value in fields:
        if name in values:
            faults.append(Fault(name, "one value", "several"))
        elif name in _NAMES:
            values[name] = value
    description = values.get("description", "")
    parsed = {
        "album_id": _album(values, faults),
        "quality": _quality(values, faults),
        "format": _choice(values, "format", STORED_FORMATS, faults),
        "remove_exif": _choice(values, "remove_exif", BOOLEANS, faults) or False,
        "convert_to_webp": _choice(values, "convertToWebP", BOOLEANS, faults),
        "auto_rename": _choice(values, "auto_rename", BOOLEANS, faults) or False,
        "is_public": _choice(values, "is_public", BOOLEANS, faults) is not False,
    }
    try:
        options = UploadOptions(description=description, **parsed)  # type: ignore[arg-type]
    except ValidationError as error:
        faults.extend(error.faults)
    if faults:
        raise ValidationError(faults=faults)
    return options


T = TypeVar("T")
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


def _quality_fault(value: object) -> Fault:
    return Fault("quality", "an integer from 1 to 100", quoted(value))


def _album(values: dict[str, str], faults: list[Fault]) -> AlbumId | None:
    if "album_id" not in values:
        return None
    try:
        return parse_album_id(values["album_id"])
    except ValidationError as error:
        faults.extend(error.faults)
        return None


def _quality(values: dict[str, str], faults: list[Fault]) -> int | None:
    text = values.get("quality")
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= 100:
        return int(text)
    faults.append(_quality_fault(text))
    return None


def _choice(values: dict[str, str], name: str, table: dict[str, T], faults: list[Fault]) -> T | None:
    text = values.get(name)
    if text is None:
        return None
    if text.lower() in table:
        return table[text.lower()]
    faults.append(Fault(name, f"one of {', '.join(table)}", quoted(text)))
    return None
