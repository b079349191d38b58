"""The names of files, as the double keeps them (contract 4)."""

from __future__ import annotations

import re
import unicodedata

from imagehost_client.testing._pictures import EXTENSIONS

FALLBACK = "image"
"""The name of a file of whose own nothing was left."""

MAX_BYTES = 255
"""Bytes of a name that are kept, in UTF-8."""

_KNOWN: dict[str, str] = {extension: kind for kind, extension in EXTENSIONS.items()} | {
    "jpeg": "jpeg",
    "avif": "avif",
}


def clean(name: str | None) -> str:
    """Return a name freed of paths and of characters that cannot be seen."""
    last = re.split(r"[/\\]", name or "")[-1]
    seen = "".join(character for character in last if unicodedata.category(character)[0] != "C")
    return seen.encode()[:MAX_BYTES].decode(errors="ignore").strip(". ") or FALLBACK


def with_extension(name: str, kind: str) -> str:
    """Return a name whose extension tells the stored format: `cat.jpg` stored as WebP is `cat.webp`."""
    stem, dot, extension = name.rpartition(".")
    known = _KNOWN.get(extension.lower()) if dot else None
    if known == kind:
        return name
    return f"{stem if known else name}.{EXTENSIONS[kind]}"
