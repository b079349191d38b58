"""Normalisation of file names, as the real host does it."""

from __future__ import annotations

import re
import unicodedata

from imagehost_client.testing._image_files import EXTENSIONS

FALLBACK = "image"
"""The name of a file whose own name has no visible characters."""

MAX_BYTES = 255
"""The maximum length of a name, in UTF-8 bytes."""

_FORMATS: dict[str, str] = {extension: kind for kind, extension in EXTENSIONS.items()} | {
    "jpeg": "jpeg",
    "avif": "avif",
}


def clean(name: str | None) -> str:
    """Return the last path segment of a name, without control and other invisible characters."""
    last = re.split(r"[/\\]", name or "")[-1]
    visible = "".join(character for character in last if unicodedata.category(character)[0] != "C")
    return visible.encode()[:MAX_BYTES].decode(errors="ignore").strip(". ") or FALLBACK


def with_extension(name: str, kind: str) -> str:
    """Return a name with the extension of the stored format: `cat.jpg` stored as WebP is `cat.webp`."""
    stem, dot, extension = name.rpartition(".")
    named_format = _FORMATS.get(extension.lower()) if dot else None
    if named_format == kind:
        return name
    return f"{stem if named_format else name}.{EXTENSIONS[kind]}"
