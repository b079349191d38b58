"""Files that are shipped for other programs, as tests give them to these programs.

A test fills in ports, names and paths of this machine, and changes nothing else: what it proves is then true
of the file that people copy.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTEN = r"listen 127\.0\.0\.1:\d+"
ADDRESS = r"127\.0\.0\.1:\d+"
DIRECTORY = r"/[\w/.-]+/"

SUBSTITUTIONS: Mapping[str, str] = {
    # Ports
    "listen 443": LISTEN,
    "listen 80": LISTEN,
    "listen 127.0.0.1:80": LISTEN,
    "127.0.0.1:8000": ADDRESS,
    '.port = "8000"': r'\.port = "\d+"',
    # Directories of certificates, caches and data
    "/etc/ssl/": DIRECTORY,
    "/var/cache/nginx/": DIRECTORY,
    "/var/lib/imagehost/": DIRECTORY,
}
"""What a test may replace in a shipped file, and the pattern of what it may put there."""


def shipped(path: str, values: Mapping[str, str] | None = None) -> str:
    """Return the text of a shipped file, and print what was filled in.

    Args:
        path: The file, from the root of the repository.
        values: What replaces texts of `SUBSTITUTIONS`; each must be in the file.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    for documented, tested in (values or {}).items():
        assert re.fullmatch(SUBSTITUTIONS[documented], tested), f"expected no {tested!r} for {documented!r}"
        assert documented in text, f"expected {documented!r} in {path}"
        text = text.replace(documented, tested)
        sys.stdout.write(f"{path}: {documented} -> {tested}\n")
    return text
