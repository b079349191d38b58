"""Upload options and file names: rejected by the documented error, or stable when written and read again.

An input is lines of a field's name, `=` and its value; all of it is a file name, too.
"""

from __future__ import annotations

import unicodedata

from imagehost_core.errors import ValidationError
from imagehost_core.formats import BY_EXTENSION, Format
from imagehost_core.uploads import (
    FORM_FIELDS,
    MAX_DESCRIPTION,
    MAX_FILENAME_BYTES,
    UploadOptions,
    clean_filename,
    parse_upload_options,
    with_extension,
)

DICTIONARY = (
    *(f"\n{name}=".encode() for name in FORM_FIELDS),
    *(b"true", b"FALSE", b"1", b"0", b"100", b"101", b"auto", b"JPEG", b"webp", b"9223372036854775807"),
    *(b"/", b"\\", b"..", b".jpg", b".tar.gz", b"\0", b"\r\n", b"\xe2\x80\xae", b"\xe2\x80\x8d", b"\xcc\x81"),
    *(
        b"\xed\xa0\x80",
        b"\xef\xbf\xbf",
        b"\xf3\xa0\x80\x81",
        "ﬁ".encode(),
        "\u0344".encode(),
        b"\xc2\xa0",
        b"%2F",
    ),
)
FINDINGS = (b"a" * 240 + b" ." + b"b" * 40, b"a" * 251 + b". ." + b"b" * 300)
"""Suffixes that are short enough for an extension only after the name is cut."""


def seeds() -> list[bytes]:
    return [
        b"quality=75\nformat=webp\nis_public=false",
        b"album_id=7\ndescription=a cat\nremove_exif=TRUE\nauto_rename=1",
        b"convertToWebP=0\nunknown=x",
        b"../photos/cat.JPG",
        "\u202ecat\u0301.jpeg".encode(),
        b"C:\\a\\b.tar.gz",
        b"a" * 300 + b".png",
    ]


def check(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace") if _is_text(data) else ""
    check_filename(text)
    fields = [(name, value) for name, _, value in (line.partition("=") for line in text.split("\n"))]
    try:
        options = parse_upload_options(fields)
    except ValidationError:
        return
    check_options(options)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def check_options(options: UploadOptions) -> None:
    """Assert that options are in their ranges, and the same after they are written as a form."""
    assert options.quality is None or 1 <= options.quality <= 100
    assert options.album_id is None or 1 <= options.album_id < 2**63
    assert len(options.description) <= MAX_DESCRIPTION
    options.description.encode()
    assert "\0" not in options.description
    values = [(name, getattr(options, attribute)) for name, attribute in FORM_FIELDS.items()]
    written = [(name, str(getattr(value, "value", value))) for name, value in values if value is not None]
    assert parse_upload_options(written) == options


def check_filename(text: str) -> None:
    """Assert that a cleaned name is safe in headers and file systems, and clean."""
    name = clean_filename(text)
    assert name
    assert len(name.encode()) <= MAX_FILENAME_BYTES
    assert not set(name) & set("/\\\0\r\n")
    assert name not in (".", "..")
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in name)
    assert clean_filename(name) == name, f"{name!r} becomes {clean_filename(name)!r}"
    for fmt in (Format.JPEG, Format.WEBP):
        stored = with_extension(name, fmt)
        assert BY_EXTENSION[stored.rpartition(".")[2].lower()] is fmt
        assert len(stored.encode()) <= MAX_FILENAME_BYTES
        assert with_extension(stored, fmt) == stored
