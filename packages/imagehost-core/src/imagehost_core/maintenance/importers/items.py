"""What a source offers to an import: files with their metadata, and files that it cannot offer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from attrs import frozen

MAX_ALBUM_NAME = 100


@frozen(kw_only=True)
class ImportAlbum:
    """An album of a source.

    Attributes:
        name: Its name.
        description: Its description.
        is_public: Whether its images may be in the gallery; `None` if the source does not say.
    """

    name: str
    description: str = ""
    is_public: bool | None = None


@frozen(kw_only=True)
class ImportItem:
    """An image file of a source.

    Attributes:
        id: An id that is unique in the source, and the same when the source is read again.
        path: The file.
        filename: The original filename.
        username: The name of the user of the source to whom it belongs, or `None`.
        album: Its album, or `None`.
        description: Its description.
        is_public: Whether it is public; `None` if the source does not say.
        created_at: The time of its upload, or `None`.
    """

    id: str
    path: Path
    filename: str
    username: str | None = None
    album: ImportAlbum | None = None
    description: str = ""
    is_public: bool | None = None
    created_at: datetime | None = None


@frozen
class OmittedItem:
    """A file or record of a source that cannot be imported.

    Attributes:
        id: Its id in the source, or its path.
        reason: The reason.
    """

    id: str
    reason: str


SourceItem = ImportItem | OmittedItem


def parse_timestamp(value: object) -> datetime | None:
    """Return a time of a source; `None` for a value that is none.

    Args:
        value: ISO 8601 text, in UTC unless it has an offset, or milliseconds since 1970.
    """
    try:
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            return datetime.fromtimestamp(int(value) / 1_000, UTC)
        parsed = datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def find_file(root: Path, *candidates: str) -> Path | None:
    """Return the first of some relative paths that is a file below a directory, or `None`.

    A path that leads out of the directory, also by a symbolic link, is not returned.
    """
    base = root.resolve()
    for candidate in candidates:
        try:
            path = (base / candidate.lstrip("/")).resolve()
            if path.is_relative_to(base) and path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None
