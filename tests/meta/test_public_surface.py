"""No public name appears, changes or goes without the changelog."""

from __future__ import annotations

import re
from pathlib import Path

from tests.meta.surface import RELEASED, public_surface

from imagehost_server.testing import RunningServer


def unnamed(changes: set[str], changelog: str) -> set[str]:
    """Return the changed lines of the surface whose name the newest section of a changelog does not have."""
    newest = changelog.split("\n## [")[1]
    return {line for line in changes if not re.search(rf"{re.escape(_name(line))}(?!\w)", newest)}


def _name(line: str) -> str:
    return line.split(" ")[-1].split(".")[-1]


def test_the_changelog_names_each_change_of_the_public_surface(
    workspace: Path, served: RunningServer
) -> None:
    now = public_surface(served)
    released = set(RELEASED.read_text(encoding="utf-8").splitlines())
    changelog = (workspace / "CHANGELOG.md").read_text(encoding="utf-8")
    assert unnamed(now ^ released, changelog) == set()


def test_a_change_that_the_newest_section_does_not_name_is_found() -> None:
    changes = {"imagehost_core.ImageHost.upload", "imagehost serve --port", "IMAGEHOST_DATA"}
    changelog = "# Changelog\n\n## [2.0.0]\n\n- `upload` takes more.\n\n## [1.0.0]\n\n- `--port`\n"
    assert unnamed(changes, changelog) == {"imagehost serve --port", "IMAGEHOST_DATA"}
