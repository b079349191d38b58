"""Write a page of the licences of what is installed with the server and the client with all their extras.

Usage: python licences.py PAGE, with the Python of the environment
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

OWN = {"imagehost-core", "imagehost-server", "imagehost-client"}
TOOLS = {"pip", "setuptools", "wheel"}
"""What an environment has without being required."""
DECLARED_BY_TEXT = {"pillow-avif-plugin": "MIT-CMU", "rich-click": "MIT"}
"""The licences of packages whose metadata has a text in place of an identifier."""
BUNDLED = {
    "pillow-avif-plugin": {
        "libavif": "BSD-2-Clause",
        "libaom": "BSD-2-Clause",
        "dav1d": "BSD-2-Clause",
        "SVT-AV1": "BSD-3-Clause-Clear",
        "rav1e": "BSD-2-Clause",
        "libgav1": "Apache-2.0",
        "libyuv": "BSD-3-Clause",
    },
    "psycopg-binary": {
        "libpq": "PostgreSQL",
        "OpenSSL": "Apache-2.0",
        "MIT Kerberos": "MIT",
        "OpenLDAP": "OLDAP-2.8",
        "cyrus-sasl-lib": "BSD-4-Clause-UC",
        "keyutils-libs": "LGPL-2.1-or-later",
        "libcom_err": "MIT",
    },
    "cryptography": {"openssl": "Apache-2.0"},
    "uvloop": {"libuv": "MIT"},
    "httptools": {"llhttp": "MIT"},
    "argon2-cffi-bindings": {"libargon2": "CC0-1.0 OR Apache-2.0"},
    "backports.zstd": {"libzstd": "BSD-3-Clause"},
    "swagger-ui-bundle-v2": {"Swagger UI": "Apache-2.0"},
    "pillow": {
        "brotli": "MIT",
        "dav1d": "BSD-2-Clause",
        "FreeType": "FTL",
        "HarfBuzz": "MIT",
        "libaom": "BSD-2-Clause",
        "libavif": "BSD-2-Clause",
        "libpng": "libpng-2.0",
        "libtiff": "libtiff",
        "libwebp": "BSD-3-Clause",
        "libxau": "X11",
        "libxcb": "X11",
        "libzstd": "BSD-3-Clause",
        "Little CMS 2": "MIT",
        "OpenJPEG": "BSD-2-Clause",
        "xz": "0BSD",
    },
}
"""Libraries in wheels whose bill of materials (PEP 770) does not name them or their licence, from the texts
that the wheels carry."""
MANY = 20
"""From so many parts on, the licences of a wheel's parts are listed without the parts."""
IDENTIFIER = re.compile(r"\b(?!AND\b|OR\b|WITH\b|LLVM-)[A-Z][\w.-]+")
"""An SPDX identifier in an expression; exceptions are left out."""
HEADER = """# Licences

imagehost is under the MIT licence. This page lists what is installed with the server, the client and all
their extras, and the libraries that wheels for Linux bundle, as their metadata and bills of materials
(PEP 770) name them; where a part is offered under one of several licences, all are listed. `uvx nox -s
licences` writes this page.

| package | licence | bundled in its wheel |
|---|---|---|
"""


def licence_of(distribution: Distribution) -> str:
    """Return the licence that a distribution declares."""
    metadata = distribution.metadata
    name = metadata["Name"]
    if expression := metadata["License-Expression"]:
        return str(expression)
    if name in DECLARED_BY_TEXT:
        return DECLARED_BY_TEXT[name]
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier", [])
        if text.startswith("License :: ") and text != "License :: OSI Approved"
    ]
    if classifiers:
        return ", ".join(classifiers)
    text = str(metadata["License"] or "")
    if not text or "\n" in text:
        raise SystemExit(f"expected a licence of {name}: add it to DECLARED_BY_TEXT")
    return text


def bundled_in(distribution: Distribution) -> dict[str, str]:
    """Return the parts of a wheel that others have made, with their licences."""
    name = distribution.metadata["Name"]
    known = BUNDLED.get(name, {})
    found = dict(known)
    for part, licences in _components(distribution):
        own = re.split(r"[._-]", part.lower())[0] in {name.lower().replace("-binary", ""), "pil"}
        if own or part.lower() in {other.lower() for other in known}:
            continue
        if not licences:
            raise SystemExit(f"expected a licence of {part} in {name}: add it to BUNDLED")
        found[part] = licences
    return found


def _components(distribution: Distribution) -> Iterator[tuple[str, str]]:
    for file in distribution.files or ():
        if file.parent.name != "sboms" or file.suffix != ".json":
            continue
        for component in json.loads(file.read_text())["components"]:
            if component.get("scope") in {"optional", "excluded"}:
                continue  # not said to be in the wheel
            entries = [entry.get("license", entry) for entry in component.get("licenses", [])]
            names = [entry.get("id") or entry.get("expression") or entry.get("name") for entry in entries]
            yield component["name"], " and ".join(filter(None, names))


def row(distribution: Distribution) -> str:
    """Return the row of a distribution."""
    parts = bundled_in(distribution)
    if len(parts) >= MANY:
        identifiers = sorted({each for text in parts.values() for each in IDENTIFIER.findall(text)})
        bundled = f"{len(parts)} parts: {', '.join(identifiers)}"
    else:
        bundled = ", ".join(f"{part} ({licence})" for part, licence in sorted(parts.items(), key=str))
    return f"| {distribution.metadata['Name']} | {licence_of(distribution)} | {bundled or '–'} |"


if __name__ == "__main__":
    found = {distribution.metadata["Name"]: distribution for distribution in distributions()}
    names = sorted(found.keys() - OWN - TOOLS, key=str.lower)
    Path(sys.argv[1]).write_text(
        HEADER + "".join(f"{row(found[name])}\n" for name in names), encoding="utf-8"
    )
