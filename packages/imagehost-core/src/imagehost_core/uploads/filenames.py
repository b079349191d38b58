"""Sanitised file names, safe in records, HTTP headers and file systems."""

from __future__ import annotations

import re
import unicodedata

from imagehost_core.formats import BY_EXTENSION, FORMATS, Format

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
    """
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


def _is_visible(char: str) -> bool:
    category, point = unicodedata.category(char), ord(char)
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
