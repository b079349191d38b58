"""Adoption: data directory, database and store of images become one installation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path

from attrs import frozen

from imagehost_core._util.clock import utc_now
from imagehost_core.db import ImageRepository
from imagehost_core.db.engines.installation import write_record
from imagehost_core.db.engines.opening import open_database
from imagehost_core.errors import InstallationError
from imagehost_core.installation import InstallationRecord, RecordState, require_supported
from imagehost_core.maintenance.installation import Installation
from imagehost_core.maintenance.integrity_queries import image_count
from imagehost_core.settings import Settings
from imagehost_core.storage import DataLayout, LockManager, StagingArea
from imagehost_core.storage.durable import translate_disk_errors
from imagehost_core.storage.image_store import open_image_store

_BATCH = 1_000


@frozen
class Adoption:
    """What was made one installation.

    Attributes:
        record: Its record.
        image_count: The number of images with a record in the database.
        missing: The number of those without files.
        unrecorded: The number of images with files and without a record.
    """

    record: InstallationRecord
    image_count: int
    missing: int
    unrecorded: int


def adopt(
    directory: str | os.PathLike[str], *, settings: Settings | None = None, force: bool = False
) -> Adoption:
    """Make a data directory, its database and its store of images one installation, of a new incarnation.

    Hosts that have one of them open collect nothing from then on. A move is taken back. If database and
    store agree already, only the directory joins them.

    Args:
        directory: The data directory.
        settings: The settings that name the other two.
        force: Whether to adopt a database and a store that have no image in common.

    Raises:
        ConflictError: There are no data, database and store have no image in common, a restore is in
            progress, or a version is not supported.
        UnavailableError: The database or the store does not respond.
    """
    layout = DataLayout(Path(directory).resolve())
    with translate_disk_errors(), open_installation(layout, settings or Settings()) as installation:
        places = installation.places()
        for place in places:
            if place.record is not None:
                require_supported(place.record, place.name)
        own, records, images = places
        if not any(place.record or place.has_data for place in places):
            raise InstallationError(
                f"expected the data of a host but {layout.root} and what it uses are empty"
            )
        if images.record is not None and images.record.state is RecordState.RESTORING:
            raise InstallationError(
                f"expected a whole host but a restore to {images.name} is in progress or was interrupted"
            )
        adoption = _compare(installation)
        if (
            not force
            and adoption.image_count + adoption.unrecorded
            and adoption.image_count == adoption.missing
        ):
            raise InstallationError(
                f"expected images in {records.name} that have files in {images.name} but of "
                f"{adoption.image_count} images none has, and {adoption.unrecorded} have files only: "
                "check IMAGEHOST_DATABASE and IMAGEHOST_STORAGE; `imagehost adopt --force` accepts it"
            )
        installation.database.allow_writes()
        if records.record is not None and images.record is not None and records.record.is_same(images.record):
            record = records.record
        else:
            first = records.record or images.record or own.record
            record = adoption.record if first is None else first.begin(utc_now())
            installation.blobs.write_record(record.to_json().encode())
            with installation.database.transaction() as transaction:
                write_record(transaction, record)
        installation.write_directory(record)
        return Adoption(record, adoption.image_count, adoption.missing, adoption.unrecorded)


@contextmanager
def open_installation(layout: DataLayout, settings: Settings) -> Iterator[Installation]:
    """Open the stores of a host, without the services that would change them.

    Raises:
        SettingsError: The object store cannot be used.
        UnavailableError: The database does not respond.
    """
    locks = LockManager(layout.locks)
    with ExitStack() as stack:
        staging = stack.enter_context(closing(StagingArea(layout.staging, 0)))
        database = stack.enter_context(
            closing(open_database(settings.database, layout.database, locks, settings.postgres))
        )
        blobs = open_image_store(layout, staging, locks, settings.storage, lambda _: False)
        yield Installation(layout, database, blobs, settings)


def _compare(installation: Installation) -> Adoption:
    """Count the images that the database and the store have in common, and those that one of them has."""
    images, count = ImageRepository(installation.database), image_count(installation.database)
    recorded = unrecorded = 0
    ids = installation.blobs.ids()
    while batch := tuple(islice(ids, _BATCH)):
        existing = len(images.existing(batch))
        recorded, unrecorded = recorded + existing, unrecorded + len(batch) - existing
    return Adoption(InstallationRecord(created_at=utc_now()), count, count - recorded, unrecorded)
