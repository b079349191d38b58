"""The layout of a data directory.

```
imagehost.sqlite3       the database
rate_limits             the rate limit counters
images/ab/<id>/         one directory per image: its master and its derivatives
cache/ab/<id>/          copies of an object store's files, if images are stored in one instead
variants/ab/<id>/       one directory per image: its cached variants
staging/<process>/      files being received or built; removed when the process has exited
locks/                  advisory lock files, and the generations of images and of principals
secret                  the key of signed URLs
reserve                 disk space reserved for deletions
imagehost.toml          settings of the server, written by the operator
restoring/              a backup that is being restored; moved away when it is complete
moved                   present when this host is moved to another; with it nothing in the database is changed
log.pending             messages of commands, which the server logs
sample.png              an image to try the server with, written by its first start
installation.json       the record of the installation; there is one in `images` too
```

`ab` is the shard: the first two characters of the image's id. An image's files are in one
directory below each of `images`, `cache` and `variants`, so removing these removes all of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from imagehost_core.ids import ImageId, is_image_id
from imagehost_core.installation import RECORD_NAME

SHARD_CHARACTERS = 2
"""The characters of an image's id that are the name of its shard."""

MOVED = "moved"
"""The name of the file that is present when the host is moved to another."""

IGNORED_NAMES = frozenset({"imagehost.toml", "lost+found"})
"""What an empty data directory may contain: settings for the new host, and the directory that ext4 creates in
each file system."""

_OWN_NAME = re.compile(
    r"imagehost\.sqlite3(-wal|-shm|-journal)?|rate_limits(\.\w+)?|reserve(\.\w+)?|secret(\.part)?|"
    r"images|cache|variants|staging|locks|restoring|moved|installation\.json|log\.pending|sample\.png"
)
"""The names of what hosts create in a data directory, and of what they rename to it."""

SECRET_BYTES = 32
"""Bytes of the key of signed URLs: the output length of SHA-256 (RFC 2104, section 3)."""


class _Path:
    """A path in the data directory, as an attribute of its layout."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, layout: DataLayout, _owner: object) -> Path:
        return layout.root.joinpath(*self._names)


@frozen
class DataLayout:
    """The paths in a data directory.

    Attributes:
        root: The data directory.
    """

    root: Path

    database = _Path("imagehost.sqlite3")
    """The file of the database."""
    rate_limits = _Path("rate_limits")
    """The file of the rate limit counters."""
    images = _Path("images")
    """The directory of masters and derivatives."""
    cache = _Path("cache")
    """The directory of the copies of an object store's files."""
    variants = _Path("variants")
    """The directory of cached variants."""
    staging = _Path("staging")
    """The directory of the staging areas of all processes."""
    locks = _Path("locks")
    """The directory of the lock files."""
    generations = _Path("locks", "generations")
    """The file of the generations of images."""
    principal_generations = _Path("locks", "principal-generations")
    """The file of the generation of principals."""
    secret = _Path("secret")
    """The file of the signing secret."""
    reserve = _Path("reserve")
    """The file that reserves disk space for deletions."""
    settings_file = _Path("imagehost.toml")
    """The file with the server's settings."""
    pending_log = _Path("log.pending")
    """The file with messages of commands, which the server logs."""
    restoring = _Path("restoring")
    """The directory of a restore in progress."""
    record = _Path(RECORD_NAME)
    """The file with the record of the installation."""

    def foreign_names(self) -> list[str]:
        """Return the names of what is in the directory but belongs to no host; hidden files do not count."""
        if not self.root.exists():
            return []
        names = {path.name for path in self.root.iterdir()} - IGNORED_NAMES
        return sorted(name for name in names if _OWN_NAME.fullmatch(name) is None and name[0] != ".")

    @property
    def is_restoring(self) -> bool:
        """Whether a restore is in progress or was interrupted. The database is moved into place last."""
        return self.restoring.is_dir() and not self.database.exists()

    def variants_of(self, image_id: ImageId) -> Path:
        """Return the directory of an image's cached variants."""
        return self.variants / shard(image_id) / image_id


def shard(image_id: ImageId) -> str:
    """Return the name of the directory that holds an image's directory."""
    return image_id[:SHARD_CHARACTERS]


def misplaced_paths(root: Path) -> Iterator[str]:
    """Yield the relative paths of what is in a directory of shards but is no image's directory."""
    with suppress(FileNotFoundError):
        for entry in root.iterdir():
            if not entry.is_dir() or len(entry.name) != SHARD_CHARACTERS:
                yield entry.name
                continue
            for path in entry.iterdir():
                is_in_place = is_image_id(path.name) and shard(path.name) == entry.name
                # What is deleted meanwhile is neither.
                if not is_in_place or path.is_file():
                    yield f"{entry.name}/{path.name}"


def file_sizes(directory: Path) -> dict[str, int]:
    """Return the size of each file of a directory in bytes, by name; empty if there is no directory."""
    sizes = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            # A file may be deleted meanwhile.
            with suppress(FileNotFoundError):
                sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return sizes
