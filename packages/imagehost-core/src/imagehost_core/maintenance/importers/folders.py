"""Import from files and directories; each directory with images becomes an album."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from imagehost_core.maintenance.importers.items import (
    MAX_ALBUM_NAME,
    ImportAlbum,
    ImportItem,
    OmittedItem,
    SourceItem,
)


def read_folder(path: Path) -> Iterator[SourceItem]:
    """Yield the files of a directory, sorted by their paths, or a single file.

    The album of a file is its directory: `trips/rome` for `rome/1.jpg` in `/photos/trips`. A single file has
    no album. Hidden files and directories, and symbolic links, are omitted.

    Args:
        path: The directory or file.
    """
    root = path.resolve()
    if not root.is_dir():
        yield _item(root, root.name, None)
        return
    for directory, names, files in os.walk(root, onerror=_raise):
        here = Path(directory)
        label = "/".join((root.name, *here.relative_to(root).parts))
        for name in [name for name in names if name.startswith(".") or (here / name).is_symlink()]:
            names.remove(name)
            yield OmittedItem(f"{label}/{name}", _reason(here / name))
        names.sort()
        album = ImportAlbum(name=_album_name(label))
        for name in sorted(files):
            file = here / name
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                yield OmittedItem(f"{label}/{name}", _reason(file))
            else:
                yield _item(file, f"{label}/{name}", album)


def _item(path: Path, item_id: str, album: ImportAlbum | None) -> ImportItem:
    modified_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return ImportItem(id=item_id, path=path, filename=path.name, album=album, created_at=modified_at)


def _album_name(label: str) -> str:
    """Return a name of an album from the path of a directory: its end, if it is too long."""
    printable = "".join(character for character in label if character.isprintable()).strip()
    return printable if len(printable) <= MAX_ALBUM_NAME else f"…{printable[1 - MAX_ALBUM_NAME :]}"


def _reason(path: Path) -> str:
    if path.is_symlink():
        return "a symbolic link"
    return "hidden" if path.name.startswith(".") else "not a regular file"


def _raise(error: OSError) -> None:
    raise error
