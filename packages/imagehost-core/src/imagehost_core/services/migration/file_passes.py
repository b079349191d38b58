"""Passes over the images of a host, each of which copies the files that the earlier ones have not copied."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from imagehost_core.db import ImageRepository
from imagehost_core.db.columns import integer, text
from imagehost_core.db.database import Database, Queryable, SqlRow
from imagehost_core.db.id_set import ImageIdSet
from imagehost_core.db.images import INVALID_ROW, to_image
from imagehost_core.db.integrity import image_rows
from imagehost_core.errors import ConflictError
from imagehost_core.ids import ImageId
from imagehost_core.models import Image
from imagehost_core.services.migration.files import CopyStatus, ImageFileCopier
from imagehost_core.services.migration.progress import MigrationCallback, MigrationProgress, MigrationStage
from imagehost_core.services.migration.stores import Files
from imagehost_core.storage import BlobStore

DEFAULT_THREADS = 8
"""Images whose files are copied at the same time."""
_BATCH = 1_000
_TOTALS = "SELECT count(*) AS images, coalesce(sum(size), 0) AS bytes FROM images"


class FilePasses:
    """The passes of one migration.

    Args:
        source: The files of the host.
        target: Where they are copied to.
        threads: Images whose files are copied at the same time, from 1.
        progress: Called after each image, and at the end of each pass.

    Attributes:
        copied: The number of images whose files were copied.
        present: The number of images whose files the target had already.
        damaged: Images whose master the last pass found to be missing or damaged.
        incomplete: Images with derivatives that are missing or damaged.
    """

    def __init__(
        self, source: BlobStore, target: Files, threads: int, progress: MigrationCallback | None
    ) -> None:
        self.copied = self.present = 0
        self.damaged: list[ImageId] = []
        self.incomplete: list[ImageId] = []
        self._target = target.blobs
        self._copier = ImageFileCopier(source, target.blobs, target.staging)
        self._threads, self._progress = threads, progress
        self._verified, self._stored = ImageIdSet(), ImageIdSet()
        self._stored.add(target.blobs.ids())

    def copy_missing(self, queryable: Queryable) -> None:
        """Copy the files of the images that no earlier pass has copied."""
        self.damaged.clear()
        totals = queryable.fetch_one(_TOTALS, {})
        assert totals is not None
        count, size = integer(totals, "images"), integer(totals, "bytes")
        done = done_bytes = 0
        threads = ThreadPoolExecutor(self._threads, "migration")
        try:
            for rows in image_rows(queryable):
                missing = [row for row in rows if ImageId(text(row, "id")) not in self._verified]
                done += len(rows) - len(missing)
                done_bytes += sum(integer(row, "size") for row in rows)
                done_bytes -= sum(integer(row, "size") for row in missing)
                images = [image for image in map(self._parse, missing) if image is not None]
                may_exist = [image.id in self._stored for image in images]
                self._stored.add(image.id for image in images)
                for image, status in zip(images, threads.map(self._copy, images, may_exist), strict=True):
                    self._note(image, status)
                    done, done_bytes = done + 1, done_bytes + image.size
                    self._report(done, count, done_bytes, size)
        finally:
            threads.shutdown(cancel_futures=True)
        self._report(done, count, done_bytes, size)

    def delete_unreferenced(self, database: Database) -> None:
        """Delete the files in the target of images that the source does not have any more."""
        images = ImageRepository(database)
        stored = iter(self._stored)
        while batch := frozenset(islice(stored, _BATCH)):
            for image_id in batch - images.existing(batch):
                self._target.delete(image_id)

    def __enter__(self) -> FilePasses:
        return self

    def __exit__(self, *_error: object) -> None:
        self._verified.close()
        self._stored.close()

    def _report(self, done: int, count: int, done_bytes: int, size: int) -> None:
        if self._progress is not None:
            self._progress(MigrationProgress(MigrationStage.FILES, done, count, done_bytes, size))

    def _parse(self, row: SqlRow) -> Image | None:
        """Return the image of a row; a row that no version has stored is that of a damaged image."""
        try:
            return to_image(row)
        except INVALID_ROW:
            self.damaged.append(ImageId(text(row, "id")))
            return None

    def _copy(self, image: Image, may_exist: bool) -> CopyStatus:
        try:
            return self._copier.copy(image, may_exist=may_exist)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            raise ConflictError(
                "expected one migration to the target at a time but another is running"
            ) from error

    def _note(self, image: Image, status: CopyStatus) -> None:
        if status is CopyStatus.DAMAGED:
            self.damaged.append(image.id)
            return
        self._verified.add([image.id])
        if status is CopyStatus.PRESENT:
            self.present += 1
            return
        self.copied += 1
        if status is CopyStatus.INCOMPLETE:
            self.incomplete.append(image.id)
