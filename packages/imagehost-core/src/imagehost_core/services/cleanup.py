"""What crashes and failures have left: bytes of deleted images, and files that never got a record.

Each leaves something by which it is known, so that looking for it costs nothing while there is none: a
deletion its grave in the catalog, a process that died its staging folder, which becomes a sign there. And
nothing that somebody still needs is taken for a leftover: whoever stores an image holds its lock until the
record stands.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from attrs import field, frozen

from imagehost_core.ids import ImageId
from imagehost_core.services.context import HostContext

_BATCH = 1_000
"""Of how many files at a time the catalog is asked whether they have a record."""

log = logging.getLogger(__name__)


@frozen
class GarbageCollector:
    """The leftovers of a host."""

    _context: HostContext = field(repr=False)

    def finish_deletions(self) -> None:
        """Erase what is left of deleted images, by processes that died or by attempts that failed.

        What cannot be erased now either is left for the next time, and stops nothing else.
        """
        context = self._context
        for image_id in context.images.tombstones():
            with context.locks.acquire("image", image_id), context.generations.bump(image_id):
                # Whoever was just deleting it has held the lock.
                if context.images.tombstone(image_id) is not None:
                    erase_files(context, image_id)

    def collect_marked(self) -> tuple[ImageId, ...]:
        """Finish what was left unfinished, as far as there is a sign of it.

        Where there is none, this asks for a few names of files and makes one query; and nobody does it twice
        at a time. So it may be called every minute, in every process.

        Returns:
            The ids under which there were files of uploads that never ended.
        """
        context = self._context
        with context.locks.try_acquire("collect") as alone:
            if not alone:
                return ()
            context.staging.remove_stale()
            self.finish_deletions()
            context.reserve.acquire()
            signs = context.staging.incomplete_markers()
            return self._remove_orphans(signs) if signs else ()

    def collect_all(self) -> tuple[ImageId, ...]:
        """Remove what crashes have left over, sign or no sign, and the variants above their bound.

        Returns:
            The ids under which there were files of uploads that never ended.
        """
        context = self._context
        with context.locks.acquire("collect", ""):
            context.staging.remove_stale()
            self.finish_deletions()
            context.variants.sweep()
            return self._remove_orphans(context.staging.incomplete_markers())

    def _remove_orphans(self, signs: tuple[Path, ...]) -> tuple[ImageId, ...]:
        """Remove all files without a record, and then the signs of them, which were there before."""
        outcomes = {image_id: self._collect(image_id) for image_id in self._orphans()}
        if None not in outcomes.values():
            for sign in signs:
                sign.unlink(missing_ok=True)
        collected = tuple(image_id for image_id, removed in outcomes.items() if removed)
        if collected:
            log.warning("removed the files of %d uploads that never ended", len(collected))
        return collected

    def _orphans(self) -> Iterator[ImageId]:
        """Yield the ids of files that had no record when they were looked at; an upload may be under way."""
        ids = self._context.blobs.ids()
        while batch := tuple(islice(ids, _BATCH)):
            known = self._context.images.existing(batch)
            yield from (image_id for image_id in batch if image_id not in known)

    def _collect(self, image_id: ImageId) -> bool | None:
        """Remove an orphan; return whether it was one, or `None` where it cannot be removed."""
        context = self._context
        # An upload under way holds the lock until its record stands.
        with context.locks.acquire("image", image_id):
            orphan = not context.images.exists(image_id) and context.blobs.has(image_id)
            if orphan:
                try:
                    context.blobs.delete(image_id)
                except OSError:
                    log.exception("the files of %s, which has no record, cannot be removed", image_id)
                    return None
        return orphan


def erase_files(context: HostContext, image_id: ImageId) -> Exception | None:
    """Remove all bytes of an image that has no record, and then its grave. The caller holds its lock.

    Returns:
        What went wrong, if anything did: then the grave is still there.
    """
    try:
        context.variants.purge(image_id)
        context.blobs.delete(image_id)
        with context.database.transaction() as transaction:
            context.images.delete_tombstone(transaction, image_id)
    except Exception as problem:
        log.warning("the bytes of %s are not all gone yet", image_id, exc_info=problem)
        return problem
    return None
