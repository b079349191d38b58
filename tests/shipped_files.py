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
ADDRESS = r"127\.0\.0\.1:\d+"
DIRECTORY = r"/[\w/.-]+/"
FIELD = r"(image|file|files|files\[\])"

SUBSTITUTIONS: Mapping[str, str] = {
    # Ports
    "listen 443": rf"listen {ADDRESS}",
    "listen 80": rf"listen {ADDRESS}",
    "listen 127.0.0.1:80": rf"listen {ADDRESS}",
    "127.0.0.1:8000": ADDRESS,
    '.port = "8000"': r'\.port = "\d+"',
    "imagehost-1:8000": ADDRESS,
    "imagehost-2:8000": ADDRESS,
    "postgres:5432": ADDRESS,
    "seaweedfs:8333": ADDRESS,
    # Names, IP addresses and tokens
    "-ip=seaweedfs": "-ip=127.0.0.1",
    "0.0.0.0": r"127\.0\.0\.1",
    "172.30.81.2": r"127\.0\.0\.1",
    "https://images.example.com/v1": rf"http://{ADDRESS}/v1",
    "ihk_TOKEN": r"ih[ks]_\w+",
    # Directories of certificates, caches, data and programs
    "/etc/ssl/": DIRECTORY,
    "/var/cache/nginx/": DIRECTORY,
    "/var/lib/imagehost/": DIRECTORY,
    "/run/secrets/": DIRECTORY,
    "-dir=/data": rf"-dir={DIRECTORY}data",
    "/opt/imagehost/bin/imagehost ": r"/.+ ",
    # Alternatives that a comment of the file or its page names
    "http://127.0.0.1:8000/": rf"http://{ADDRESS}",
    "handle_path /photos/": "handle /photos/",
    'form.append("image"': rf'form\.append\("{FIELD}"',
    'fieldName: "image"': rf'fieldName: "{FIELD}"',
    'name="image"': rf'name="{FIELD}"',
    "return data;": r"return data\.images\[0\];",
    "data.url": r"data\.images\[0\]\.url",
}
"""What a test may replace in a shipped file, and the pattern of what it may put there."""


def shipped(path: str, values: Mapping[str, str] | None = None) -> str:
    """Return the text of a shipped file with ports, names and paths of this machine.

    Args:
        path: The file, from the root of the repository.
        values: What replaces texts of `SUBSTITUTIONS`; each must be in the file.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    for documented in values or ():
        assert documented in text, f"expected {documented!r} in {path}"
    return fill(path, text, values or {})


def fill(path: str, text: str, values: Mapping[str, str]) -> str:
    """Return a part of a shipped file with ports, names and paths of this machine, and print these.

    Args:
        path: The file, from the root of the repository.
        text: The part.
        values: What replaces texts of `SUBSTITUTIONS`, in the order of their use.
    """
    for documented, tested in values.items():
        assert re.fullmatch(SUBSTITUTIONS[documented], tested), f"expected no {tested!r} for {documented!r}"
        if documented in text:
            text = text.replace(documented, tested)
            sys.stdout.write(f"{path}: {documented} -> {tested}\n")
    return text
