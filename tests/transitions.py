"""What becomes of an image whose album is private: the table of the documentation, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from attrs import frozen

DELETED = "the album is deleted"
MOVES = {
    "is moved to no album": None,
    "is moved to a public album": True,
    "is moved to a private album": False,
}
"""The moves of an image: whether its new album is public; `None` for no album."""
SWITCHES = {"the album is made public": True, "the album is made private": False}
"""The changes of an album: whether it becomes public."""
ALBUMS = {"no album": None, "a public album": True, "a private album": False}
IMAGES = {"public": True, "private": False}
FLAGS = (None, True, False)
"""The values of `images_public` in the order of the columns; `None` for a request without it."""


@frozen
class Transition:
    """A request for an image, and its outcome.

    Attributes:
        image: Whether the image is public.
        album: Whether its album is public; `None` for no album.
        action: What happens to the image or its album.
        images_public: The value in the request, or `None`.
        outcome: `listed`, `public` or `private`.
    """

    image: bool
    album: bool | None
    action: str
    images_public: bool | None
    outcome: str

    @property
    def is_public(self) -> bool:
        """Whether the image is public afterwards."""
        return self.outcome != "private"

    @property
    def is_made_private(self) -> bool:
        """Whether the image has left a private album, and has become private."""
        return self.image and not self.is_public and self.action not in SWITCHES


def read_transitions(workspace: Path) -> list[Transition]:
    """Return the transitions of the table in the documentation; each that is possible is there once."""
    text = (workspace / "docs" / "http.md").read_text(encoding="utf-8")
    table = text.partition("### Private albums")[2].partition("### ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line
    ]
    found = [transition for row in rows[2:] for transition in _read_row(row)]
    expected = {
        (image, album, action, flag)
        for image, album, action, flag in product(
            IMAGES.values(), ALBUMS.values(), (DELETED, *MOVES, *SWITCHES), FLAGS
        )
        if album is not None or action in MOVES
    }
    assert {(each.image, each.album, each.action, each.images_public) for each in found} == expected
    assert len(found) == len(expected)
    return found


def _read_row(row: list[str]) -> Iterator[Transition]:
    image, albums, actions, *outcomes = row
    for album, action in product(albums.split(", "), actions.split(", ")):
        if album != "no album" or action in MOVES:
            for flag, outcome in zip(FLAGS, outcomes, strict=True):
                yield Transition(IMAGES[image], ALBUMS[album], action, flag, outcome)
