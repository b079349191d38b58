"""Eviction of the least recently used files of a directory; the time of last use is a file's mtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

BATCH_FILES = 50_000
"""The most files that are held in memory, which take 20 MiB. A full variant cache of a million files evicts
about as many at a time."""


class _File(NamedTuple):
    """A file, ordered by its last use. A tuple, because a million of them are compared."""

    last_used: int
    path: str
    size: int


@frozen
class Eviction:
    """The result of an eviction.

    Attributes:
        count: The number of evicted files.
        bytes: Their bytes.
        remaining_bytes: The bytes of the other files.
    """

    count: int
    bytes: int
    remaining_bytes: int


class EvictionStopped(Exception):
    """An eviction was stopped before its end."""


def never() -> bool:
    """Return False: an eviction that nothing stops."""
    return False


def evict_least_recently_used(
    root: Path,
    limit_bytes: int,
    *,
    dry_run: bool = False,
    batch: int = BATCH_FILES,
    is_stopped: Callable[[], bool] = never,
) -> Eviction:
    """Delete the least recently used files below a directory until the others are within a limit.

    Args:
        root: The directory.
        limit_bytes: The most bytes to keep.
        dry_run: Whether to delete nothing.
        batch: The most files that are held in memory; each further batch searches the directory again.
        is_stopped: Called between two files; returns whether to stop.

    Raises:
        EvictionStopped: `is_stopped` has returned true.
    """
    total, oldest = _measure(root, batch, is_stopped)
    count = freed = 0
    while oldest and total - freed > limit_bytes:
        for file in oldest:
            if total - freed <= limit_bytes:
                break
            if is_stopped():
                raise EvictionStopped
            if not dry_run:
                Path(file.path).unlink(missing_ok=True)
            count, freed = count + 1, freed + file.size
        else:
            _, oldest = _measure(root, batch, is_stopped, oldest[-1])
    return Eviction(count, freed, total - freed)


def evict_until(root: Path, is_enough: Callable[[], bool]) -> None:
    """Delete the least recently used files below a directory until `is_enough` returns true."""
    with suppress(EvictionStopped):
        evict_least_recently_used(root, 0, is_stopped=is_enough)


def _measure(
    root: Path, limit: int, is_stopped: Callable[[], bool], after: _File | None = None
) -> tuple[int, list[_File]]:
    """Return the bytes of all files, and the least recently used ones of those after another."""
    total = 0

    def candidates() -> Iterator[_File]:
        nonlocal total
        for file in _files(os.fspath(root)):
            if is_stopped():
                raise EvictionStopped
            total += file.size
            if after is None or file > after:
                yield file

    oldest = nsmallest(limit, candidates())
    return total, oldest


def _files(directory: str) -> Iterator[_File]:
    """Yield each file, without those that are deleted meanwhile."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    yield _File(status.st_mtime_ns, entry.path, status.st_size)
