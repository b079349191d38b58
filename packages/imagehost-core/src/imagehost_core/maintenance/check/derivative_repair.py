"""Repair of derivatives: created again from the master, or else forgotten, so that renders use the master."""

from __future__ import annotations

import logging
from pathlib import Path

import attrs
from attrs import field, frozen

from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import InternalError, UnavailableError, ValidationError
from imagehost_core.jobs import IngestJob
from imagehost_core.models import Image
from imagehost_core.storage.blob_store import derivative_name, file_checksum
from imagehost_core.storage.image_store import ImageFiles
from imagehost_core.transform import Size
from imagehost_core.workers import ImageExecutor, ingest_cost

log = logging.getLogger(__name__)


@frozen
class DerivativeRepairer:
    """The repair of the derivatives of images whose master is intact."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _timeout_seconds: float = field(repr=False)

    def repair(self, image: Image) -> str:
        """Replace all derivatives of an image; the caller holds no lock.

        The files are created before the lock is acquired, which uploads and deletions would wait for.

        Returns:
            What was done; "" if there was no worker process in time, or the image was deleted meanwhile.
        """
        with self._files.staging.temporary_directory() as directory:
            try:
                sizes = self._create(image, directory)
            except UnavailableError:
                log.exception("cannot create derivatives now: image=%s", image.id)
                return ""
            with self._files.locks.acquire("image", image.id), self._files.generations.bump(image.id):
                current = self._records.images.get(image.id)
                if current is None:
                    return ""
                self._replace(current, sizes, directory)
        return "created from the master" if sizes else "forgotten: variants are rendered from the master"

    def _create(self, image: Image, directory: Path) -> tuple[Size, ...]:
        """Create the derivatives in a directory, as at an upload, and return their sizes.

        Returns:
            No sizes if the decoder rejects the master.

        Raises:
            UnavailableError: No worker process was free in time.
        """
        job = IngestJob(
            format=image.format,
            requested_format=image.format,
            derivative_sides=tuple(max(size) for size in image.derivatives),
        )
        try:
            with self._files.blobs.open(image.id, checksum=image.sha256) as file:
                result, (_, *paths) = self._executor.ingest(
                    job,
                    file,
                    image.size,
                    deadline=self._timeout_seconds,
                    into=directory,
                    cost=ingest_cost(
                        image.format,
                        Size(image.width, image.height),
                        frames=image.frames,
                        has_alpha=image.has_alpha,
                        length=image.size,
                    ),
                )
        except (ValidationError, InternalError):
            log.exception("cannot create derivatives: image=%s", image.id)
            return ()
        for path, size in zip(paths, result.derivatives, strict=True):
            path.rename(directory / derivative_name(max(size.width, size.height)))
        return result.derivatives

    def _replace(self, image: Image, sizes: tuple[Size, ...], directory: Path) -> None:
        names = [derivative_name(max(size.width, size.height)) for size in sizes]
        checksums = tuple(file_checksum(directory / name) for name in names)
        for name in names:
            self._files.blobs.replace_file(image.id, name, directory / name)
        changed = attrs.evolve(
            image,
            derivatives=tuple((size.width, size.height) for size in sizes),
            derivative_checksums=checksums,
        )
        with self._records.database.transaction() as transaction:
            self._records.images.update_derivatives(transaction, changed)
        for old in {derivative_name(max(size)) for size in image.derivatives} - set(names):
            self._files.blobs.delete_file(image.id, old)
