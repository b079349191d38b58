"""Checks of the files that records name: masters by their SHA-256, and derivatives.

Files are read in several threads, because hashing releases the GIL. A file that seems wrong is read again
while the lock of its image is held, so that a deletion in progress is no finding.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import cast

import attrs
from attrs import field, frozen

from imagehost_core._util.machine import available_cores
from imagehost_core.db.engines.database import Database, SqlRow, text
from imagehost_core.db.image_rows import INVALID_ROW, to_image
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import InternalError, NotFoundError, UnavailableError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.ids import ImageId
from imagehost_core.jobs import IngestJob
from imagehost_core.maintenance import integrity_queries
from imagehost_core.maintenance.check.findings import CheckName, CheckProgress, Finding, FindingKind
from imagehost_core.models import Image
from imagehost_core.storage import MASTER
from imagehost_core.storage.blob_store import DERIVATIVE_PREFIX, checksum, derivative_name, file_checksum
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.transform import Size
from imagehost_core.workers.costs import ingest_cost
from imagehost_core.workers.executor import ImageExecutor


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
        stored = Format(image.format)
        job = IngestJob(
            format=stored,
            requested_format=stored,
            derivative_sides=tuple(max(size) for size in image.derivatives),
        )
        cost = ingest_cost(
            stored,
            Size(image.width, image.height),
            frames=image.frames,
            has_alpha=image.has_alpha,
            length=image.size,
        )
        try:
            with self._files.blobs.open(image.id, checksum=image.sha256) as file:
                request = cost.request(self._timeout_seconds)
                result, (_, *paths) = self._executor.ingest(job, file, image.size, request, into=directory)
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


log = logging.getLogger(__name__)

_OF_DERIVATIVES = frozenset({FindingKind.DERIVATIVE_MISSING, FindingKind.DERIVATIVE_CORRUPT})

THREADS_PER_CORE = 2
"""Threads that read files: one waits for the disk while the other hashes."""


@frozen
class ImageFileChecker:
    """The comparison of the files of each image with its record."""

    _database: Database = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _derivatives: DerivativeRepairer = field(repr=False)

    def check(
        self, *, repair: bool, quick: bool, report: Callable[[CheckProgress], object]
    ) -> Iterator[Finding]:
        """Yield the files of images that are missing or corrupt, and files that their record does not name.

        Args:
            repair: Whether to repair what can be repaired.
            quick: Whether to compare sizes without reading the files.
            report: Called with the progress.
        """
        with self._database.without_time_limit():
            total, done = integrity_queries.image_count(self._database), 0
        report(CheckProgress(CheckName.IMAGES, done, total))
        with ThreadPoolExecutor(THREADS_PER_CORE * available_cores(), "integrity check") as threads:
            for rows in integrity_queries.image_rows(self._database):
                found = threads.map(lambda row: self._inspect_row(row, quick=quick), rows)
                for row, findings in zip(rows, found, strict=True):
                    if findings:
                        yield from self._confirm(ImageId(text(row, "id")), repair=repair, quick=quick)
                done += len(rows)
                report(CheckProgress(CheckName.IMAGES, done, total))

    def _confirm(self, image_id: ImageId, *, repair: bool, quick: bool) -> list[Finding]:
        """Return the findings of an image, made while nothing could change it, after their repair."""
        # An upload holds the lock until its record is committed, a deletion until its files are gone.
        with self._files.locks.acquire("image", image_id):
            row = integrity_queries.image_row(self._database, image_id)
            findings = [] if row is None else self._inspect_row(row, quick=quick)
            if repair:
                findings = [self._delete_unnamed(image_id, finding) for finding in findings]
        damaged = [finding for finding in findings if finding.kind in _OF_DERIVATIVES]
        if row is None or not (repair and damaged):
            return findings
        image = to_image(row)
        # Unless the master is intact, the derivatives are all that is left of the image.
        repaired = self._derivatives.repair(image) if self._is_intact(image) else ""
        return [finding.repaired(repaired) if finding in damaged else finding for finding in findings]

    def _delete_unnamed(self, image_id: ImageId, finding: Finding) -> Finding:
        """Delete the derivative that a finding is about, if the record does not name it."""
        if finding.kind is FindingKind.ORPHAN:
            try:
                self._files.blobs.delete_file(image_id, finding.id.partition("/")[2])
            except OSError:
                log.exception("cannot delete a derivative without a record: image=%s", image_id)
                return finding
            return finding.repaired("deleted the file")
        return finding

    def _inspect_row(self, row: SqlRow, *, quick: bool) -> list[Finding]:
        image_id = str(row["id"])
        try:
            return list(self._inspect(to_image(row), quick=quick))
        except INVALID_ROW as error:
            details = f"expected the row of an image but received {type(error).__name__}: {error}"
            return [Finding(FindingKind.INVALID_RECORD, image_id, details)]
        except OSError as error:
            details = f"expected readable files but received an error: {error}"
            return [Finding(FindingKind.MASTER_CORRUPT, image_id, details)]

    def _inspect(self, image: Image, *, quick: bool) -> Iterator[Finding]:
        """Yield what is wrong with the files of an image."""
        sizes = dict(self._files.blobs.sizes(image.id))
        size = sizes.pop(MASTER, None)
        if size is None:
            details = f"expected the master of {image.filename!r} but there is none"
            yield Finding(FindingKind.MASTER_MISSING, image.id, details)
        elif size != image.size:
            details = f"expected {image.size} bytes for the master but received {size}"
            yield Finding(FindingKind.MASTER_CORRUPT, image.id, details)
        elif not quick:
            digest = self._hash(image.id)
            if digest != image.sha256:
                details = f"expected SHA-256 {image.sha256} for the master but received {digest}"
                yield Finding(FindingKind.MASTER_CORRUPT, image.id, details)
        # Uploads of earlier versions have recorded no checksums.
        for (width, height), expected in zip_longest(image.derivatives, image.derivative_checksums):
            name = derivative_name(max(width, height))
            if not sizes.pop(name, None):
                details = f"expected a derivative of {width}×{height} pixels but there is none"
                yield Finding(FindingKind.DERIVATIVE_MISSING, f"{image.id}/{name}", details)
            elif not quick and expected is not None:
                received = self._checksum(image.id, name)
                if received != expected:
                    details = f"expected CRC-32 {expected} for the derivative but received {received}"
                    yield Finding(FindingKind.DERIVATIVE_CORRUPT, f"{image.id}/{name}", details)
        for name in sizes:
            if name.startswith(DERIVATIVE_PREFIX):
                details = "expected no derivative that the record does not name"
                yield Finding(FindingKind.ORPHAN, f"{image.id}/{name}", details)
            else:
                details = "expected only a master and derivatives among the files of an image"
                yield Finding(FindingKind.UNKNOWN_FILE, f"{image.id}/{name}", details)

    def _checksum(self, image_id: ImageId, name: str) -> int | None:
        """Return the CRC-32 of a derivative; `None` if it was deleted meanwhile."""
        try:
            with self._files.blobs.open(image_id, name, fresh=True) as file:
                return checksum(file)
        except NotFoundError:
            return None

    def _is_intact(self, image: Image) -> bool:
        """Return whether the master of an image can be read and is as it was uploaded."""
        try:
            return self._hash(image.id) == image.sha256
        except OSError:
            return False

    def _hash(self, image_id: ImageId) -> str:
        """Return the SHA-256 of a master; "" if it was deleted meanwhile."""
        try:
            file = self._files.blobs.open(image_id, fresh=True)
        except NotFoundError:
            return ""
        with file:
            # It needs `readinto`, which every binary file has, but `BinaryIO` does not declare.
            return file_digest(cast("BufferedReader", file), "sha256").hexdigest()
