"""Whether the built documentation stands on its own: a page that is read offline asks no other host.

Usage: python check_site.py FOLDER
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOADS = {
    ".html": re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\s\"'>]+"
    ),
    ".css": re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s\"')]+"),
}
"""What makes a browser load something from another host, by the kind of file."""


def foreign(folder: Path) -> list[str]:
    """Return what the files of a site load from elsewhere, with the file that does."""
    return [
        f"{path.relative_to(folder)}: {found}"
        for path in sorted(folder.rglob("*"))
        if path.suffix in LOADS
        for found in LOADS[path.suffix].findall(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    loads = foreign(Path(sys.argv[1]))
    print("\n".join(loads) or "the site loads nothing from elsewhere")
    sys.exit(bool(loads))
