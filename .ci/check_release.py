"""Check that a version can be released from this commit, and print the command that tags it.

Usage: python check_release.py VERSION
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def problems(version: str, root: Path = ROOT) -> list[str]:
    """Return why `version` cannot be released: changed files, other versions, no dated heading."""
    found = []
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    )
    if status.stdout:
        found.append(f"expected no changed files but received:\n{status.stdout.rstrip()}")
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        received = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["version"]
        if received != version:
            found.append(f"expected version {version} in {path.relative_to(root)} but received {received}")
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        found.append(f"expected the heading '## [{version}] - YYYY-MM-DD' in CHANGELOG.md")
    return found


if __name__ == "__main__":
    found = problems(sys.argv[1])
    print("\n".join(found) or f"git tag --sign v{sys.argv[1]} && git push origin v{sys.argv[1]}")
    sys.exit(bool(found))
