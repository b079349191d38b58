"""Fail if a page of the built documentation loads a resource from another host.

Usage: python check_site.py DIRECTORY
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

EXTERNAL_RESOURCES = {
    ".html": re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\s\"'>]+"
    ),
    ".css": re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^\s\"')]+"),
}
"""Markup that makes a browser load a resource from another host, by file extension."""


def external_resources(directory: Path) -> list[str]:
    """Return the external resources of a site, each with the file that loads it."""
    return [
        f"{path.relative_to(directory)}: {match}"
        for path in sorted(directory.rglob("*"))
        if path.suffix in EXTERNAL_RESOURCES
        for match in EXTERNAL_RESOURCES[path.suffix].findall(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    resources = external_resources(Path(sys.argv[1]))
    print("\n".join(resources) or "no page loads a resource from another host")
    sys.exit(bool(resources))
