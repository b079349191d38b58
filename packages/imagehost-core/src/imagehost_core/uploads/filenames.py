"""The names of files: made safe for records, headers and disks of others."""

from __future__ import annotations

import re
import unicodedata

from imagehost_core.formats import BY_EXTENSION, FORMATS, Format

MAX_LENGTH = 255
"""Bytes of a name, in UTF-8, that are kept: what the common file systems hold, so that whoever
downloads a picture can store it under its name."""

MAX_EXTENSION = 32
"""What follows the last dot is an extension up to that many bytes, and survives where a name is cut."""

FALLBACK = "image"
"""The stem of a name of which nothing was left."""

INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories that cannot be seen, or that reorder what can (`Cf` has the bidi overrides)."""

ZERO_WIDTH_JOINERS = "\u200c\u200d"
"""Of `Cf`, the two that Persian, the scripts of India and composed emoji are written with."""

_SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
STRIPPED_AT_EDGES = "." + _SPACES + ZERO_WIDTH_JOINERS
"""What a name neither begins nor ends with: dots hide it or vanish on some systems, spaces cannot be seen."""


BLANK_GLYPHS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that are drawn as nothing: fillers of Hangul, and Braille without a dot."""


def has_visible_character(text: str) -> bool:
    """Return whether there is anything in a text that leaves a mark of its own.

    Spaces, controls, fillers, and marks that only change what they follow do not.
    """
    return any(
        _is_visible(char)
        and char not in _SPACES + ZERO_WIDTH_JOINERS + BLANK_GLYPHS
        and unicodedata.category(char)[0] != "M"
        for char in text
    )


def clean_filename(name: str | None) -> str:
    """Return a name freed of paths and of characters that cannot be seen.

    Contract 4: *`original_filename` is always kept, freed of paths and control characters*.

    Args:
        name: As it was received, or `None`.
    """
    last = re.split(r"[/\\]", name or "")[-1]
    visible = unicodedata.normalize("NFC", "".join(filter(_is_visible, last)))
    trimmed = visible.strip(STRIPPED_AT_EDGES)
    if not trimmed:
        return FALLBACK
    if "." in visible.partition(trimmed)[0] and trimmed.lower() in BY_EXTENSION:
        return f"{FALLBACK}.{trimmed}"
    stem, dot, extension = trimmed.rpartition(".")
    if dot and len(extension.encode()) <= MAX_EXTENSION:
        return _truncate(stem, dot + extension)
    return _truncate(trimmed)


def with_extension(name: str, stored: Format) -> str:
    """Return a name whose extension tells the stored format: `cat.jpg` stored as WebP is `cat.webp`.

    An extension that already means the format is left as it is; one that means no image is a part
    of the name.

    Args:
        name: As `clean_filename` returns it.
        stored: The format of the bytes.
    """
    stem, dot, extension = name.rpartition(".")
    known = BY_EXTENSION.get(extension.lower()) if dot else None
    if known is stored:
        return name
    return _truncate(stem if known is not None and stem else name, f".{FORMATS[stored].extensions[0]}")


def _is_visible(char: str) -> bool:
    category, point = unicodedata.category(char), ord(char)
    if category == "Cn":
        # Unassigned as far as this Python knows: a newer emoji, unless Unicode will never assign it
        # (noncharacters) or keeps it for what cannot be seen (plane 14).
        return not (0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE or point >= 0xE0000)
    return category not in INVISIBLE_CATEGORIES or char in ZERO_WIDTH_JOINERS


def _truncate(stem: str, extension: str = "") -> str:
    """Return the two together, with as much of the stem as there is room for."""
    room = MAX_LENGTH - len(extension.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(STRIPPED_AT_EDGES) + extension
