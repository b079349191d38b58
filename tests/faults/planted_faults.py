"""Faults planted into the host, each of which a check of `tests.faults` must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imagehost_core.db.engines.database import Transaction
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.models import Image
from imagehost_core.services.upload import UploadService


def commit_before_files() -> None:
    """Commit the record of an upload before its files are stored."""

    @contextmanager
    def store(self: Any, image: Image, directory: Path) -> Iterator[None]:
        yield
        self._files.blobs.put(image.id, directory)

    UploadService._store = store  # type: ignore[method-assign]


def delete_without_tombstone() -> None:
    """Delete the record of an image without the tombstone of its files."""
    insert = ImageRepository.insert_tombstone

    def insert_none(self: Any, transaction: Transaction, image: Image, *arguments: Any) -> None:
        insert(self, transaction, image, *arguments)
        transaction.execute("DELETE FROM tombstones WHERE image_id = :id", {"id": image.id})

    ImageRepository.insert_tombstone = insert_none  # type: ignore[assignment, method-assign]


def event_in_its_own_transaction() -> None:
    """Record an event in a transaction after that of the change."""
    record = OutboxRepository.record

    def record_later(self: Any, transaction: Transaction, *arguments: Any) -> None:
        def record_now() -> None:
            with self.database.transaction() as later:
                record(self, later, *arguments)

        transaction.on_commit(record_now)

    OutboxRepository.record = record_later  # type: ignore[assignment, method-assign]


PLANTED_FAULTS: Mapping[str, Callable[[], None]] = {
    function.__name__: function
    for function in (commit_before_files, delete_without_tombstone, event_in_its_own_transaction)
}
"""The functions that plant a fault into this process."""
