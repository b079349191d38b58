"""Check that a version can be released from this commit, and print the command that tags it.

Usage: python release.py VERSION
       python release.py --write

`[tool.release]` in pyproject.toml has the version and the address of the repository. `--write` copies both to
where the three packages need them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "https://repository.example/imagehost"
"""The address until the project has one: no version is released with it."""
VERSION, ADDRESS = "version", "repository"
PACKAGE = "packages/*/pyproject.toml"
PLACES = (
    (PACKAGE, r'(?m)^version = "(.*)"$', VERSION),
    (PACKAGE, r'"imagehost-\w+(?:\[[\w-]+\])?==(.*)"', VERSION),
    ("packages/imagehost-client/src/imagehost_client/_config.py", r'(?m)^__version__ = "(.*)"$', VERSION),
    (PACKAGE, r'(?m)^\w+ = "(https://.*?)(?:/docs|/CHANGELOG\.md)?"$', ADDRESS),
)
"""Where the version and the address of the repository are: files, a pattern, and which of the two."""


def read(root: Path = ROOT) -> dict[str, str]:
    """Return the version and the address of the repository."""
    release = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["release"]
    return {name: release[name] for name in (VERSION, ADDRESS)}


def differences(root: Path = ROOT) -> list[str]:
    """Return the places that have another version or address."""
    values = read(root)
    return [
        f"expected {name} {values[name]} in {path.relative_to(root)} but received {received}"
        for files, pattern, name in PLACES
        for path in sorted(root.glob(files))
        for received in re.findall(pattern, path.read_text(encoding="utf-8"))
        if received != values[name]
    ]


def write(root: Path = ROOT) -> None:
    """Write the version and the address of the repository to their places."""
    values = read(root)
    for files, pattern, name in PLACES:
        for path in root.glob(files):
            text = path.read_text(encoding="utf-8")
            for found in re.finditer(pattern, text):
                text = text.replace(found[0], found[0].replace(found[1], values[name]))
            path.write_text(text, encoding="utf-8")


def problems(version: str, root: Path = ROOT) -> list[str]:
    """Return why a version cannot be released: changed files, another version, no date, no address."""
    found = []
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    )
    if status.stdout:
        found.append(f"expected no changed files but received:\n{status.stdout.rstrip()}")
    values = read(root)
    if values[VERSION] != version:
        found.append(f"expected version {version} in [tool.release] but received {values[VERSION]}")
    if values[ADDRESS] == PLACEHOLDER:
        found.append(f"expected the address of the repository in [tool.release] but received {PLACEHOLDER}")
    found += differences(root)
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        found.append(f"expected the heading '## [{version}] - YYYY-MM-DD' in CHANGELOG.md")
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
        sys.exit()
    found = problems(sys.argv[1])
    print("\n".join(found) or f"git tag --sign v{sys.argv[1]} && git push origin v{sys.argv[1]}")
    sys.exit(bool(found))
