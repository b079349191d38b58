"""The names of files: made safe for records, headers and disks of others."""

from __future__ import annotations

import re
import unicodedata

from imagehost_core.formats import BY_EXTENSION, TRAITS, Format

MAX_LENGTH = 255
"""Characters of a name that are kept; what common file systems hold."""

FALLBACK = "image"
"""The stem of a name of which nothing was left."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories that cannot be seen, or that reorder what can (`Cf` has the bidi overrides)."""


def clean_filename(name: str | None) -> str:
    """Return a name freed of paths and of characters that cannot be seen.

    Contract 4: *`original_filename` is always kept, freed of paths and control characters*.

    Args:
        name: As it was received, or `None`.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name or ""))[-1]
    visible = "".join(char for char in last if unicodedata.category(char) not in _HIDDEN)
    trimmed = visible.strip().strip(".").strip()
    stem, dot, extension = trimmed.rpartition(".")
    if dot and len(extension) < MAX_LENGTH // 2:
        return stem[: MAX_LENGTH - len(extension) - 1] + dot + extension
    return trimmed[:MAX_LENGTH] or FALLBACK


def with_extension(name: str, stored: Format) -> str:
    """Return a name whose extension tells the stored format: `cat.jpg` stored as WebP is `cat.webp`.

    An extension that already means the format is left as it is; one that means no image is a part
    of the name.
    """
    stem, dot, extension = name.rpartition(".")
    known = BY_EXTENSION.get(extension.lower()) if dot else None
    if known is stored:
        return name
    base = stem if known is not None and stem else name
    suffix = TRAITS[stored].extensions[0]
    return f"{base[: MAX_LENGTH - len(suffix) - 1]}.{suffix}"
