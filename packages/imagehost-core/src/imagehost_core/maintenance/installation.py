"""The installation of a host: found or created when it is opened, adopted, verified before a collection."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from attrs import evolve, field, frozen

from imagehost_core._util.clock import Clock, utc_now
from imagehost_core._util.durable import read_file, translate_disk_errors, write_file
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.installation import is_used, read_record, share_record, write_record
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.engines import open_database, open_image_store
from imagehost_core.errors import InstallationError, UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.installation import (
    FORMAT,
    RECORD_NAME,
    InstallationRecord,
    Place,
    RecordState,
    find_installation,
    is_large_collection,
    parse_record,
    require_supported,
)
from imagehost_core.maintenance.integrity_queries import image_count
from imagehost_core.settings import FOLDER, SQLITE, Settings, redact_password
from imagehost_core.storage import BlobStore, DataLayout, StagingArea

log = logging.getLogger(__name__)


@frozen
class Installation:
    """The data directory, the database and the store of images that a host is opened with.

    Attributes:
        layout: The data directory.
        database: The database.
        blobs: The store of images.
        settings: The settings that name them.
    """

    layout: DataLayout = field(repr=False)
    database: Database = field(repr=False)
    blobs: BlobStore = field(repr=False)
    settings: Settings = field(repr=False)

    def directory(self) -> Place:
        """Read the record of the data directory."""
        path = self.layout.record
        data = read_file(path)
        record = None if data is None else _parse_file(data, path)
        return Place(f"the data directory {self.layout.root}", "--data", record)

    def records(self) -> Place:
        """Read the record of the database, and look for data if there is none."""
        url = self.settings.database
        name = f"the database {self.layout.database if url == SQLITE else redact_password(url)}"
        record = read_record(self.database)
        return Place(name, "IMAGEHOST_DATABASE", record, record is None and is_used(self.database))

    def images(self) -> Place:
        """Read the record of the store of images, and look for images if there is none.

        Raises:
            UnavailableError: The store does not respond in time.
        """
        url = self.settings.storage.url
        name = f"the image store {self.layout.images if url == FOLDER else url}"
        data = self.blobs.read_record()
        if data is not None:
            return Place(name, "IMAGEHOST_STORAGE", _parse_file(data, f"{RECORD_NAME} of {name}"))
        return Place(name, "IMAGEHOST_STORAGE", has_data=next(self.blobs.ids(), None) is not None)

    def places(self) -> tuple[Place, Place, Place]:
        """Read all three."""
        return self.directory(), self.records(), self.images()

    def open(self, clock: Clock) -> InstallationGuard:
        """Find the installation that the three belong to; create one if they are new.

        It is complete once the database says so, and until then continued by the next call.

        Raises:
            ConflictError: They do not belong together, or belong to no installation, or the host is moved.
            UnavailableError: The store of images does not respond, and the installation is not complete.
        """
        if self.database.refuses_writes:
            raise InstallationError(
                "expected a host that is used here but it is moved, by `imagehost backup --move`; use it "
                "where the backup was restored, or take the move back with `imagehost adopt`"
            )
        record = self._find()
        if record is None:
            candidate = InstallationRecord(created_at=clock(), state=RecordState.CREATING)
            record = share_record(self.database, candidate)
        complete = record.with_state(RecordState.COMPLETE)
        if record.state is RecordState.CREATING:
            self._complete_storage(complete)
            with self.database.transaction() as transaction:
                write_record(transaction, complete)
        elif record.format < FORMAT:
            complete = self._raise_format(complete)
        if not self.layout.record.exists():
            self.write_directory(complete)
        return InstallationGuard(self, complete)

    def _raise_format(self, record: InstallationRecord) -> InstallationRecord:
        """Write the records of migrated data; that of the database last, so that a crash repeats it."""
        raised = record.in_this_format()
        self.blobs.write_record(raised.to_json().encode())
        self.write_directory(raised)
        with self.database.transaction() as transaction:
            write_record(transaction, raised)
        log.warning("data have a new format: format=%d lowest_writer=%s", raised.format, raised.writer)
        return raised

    def write_directory(self, record: InstallationRecord) -> None:
        """Write the record of the data directory."""
        write_file(self.layout.record, record.to_json().encode())

    def _find(self) -> InstallationRecord | None:
        places = self._places_at_start()
        try:
            record = find_installation(*places)
        except InstallationError:
            # Another host may have created the installation between two of the reads.
            places = self._places_at_start()
            record = find_installation(*places)
        images = places[2].record
        if record is not None and images is not None and images.state is RecordState.RESTORING:
            # The restore is complete with its records.
            self.blobs.write_record(record.to_json().encode())
        return record

    def _places_at_start(self) -> tuple[Place, Place, Place]:
        directory = self.directory()
        records = self.records()
        try:
            return directory, records, self.images()
        except UnavailableError:
            if records.record is None:
                raise
            # A store that responds later is verified before anything is collected.
            log.warning("image store does not respond: its installation is not verified")
            return directory, records, Place("the image store", "IMAGEHOST_STORAGE", records.record)

    def _complete_storage(self, record: InstallationRecord) -> None:
        found = self.images()
        if found.record is not None and not found.record.is_same(record):
            raise InstallationError(
                f"expected an empty store but {found.name} is that of another installation"
            )
        self.blobs.write_record(record.to_json().encode())


def _parse_file(data: bytes, name: object) -> InstallationRecord:
    """Return the record in a file, which can be written anew if it is damaged."""
    try:
        return parse_record(data, name)
    except InstallationError as error:
        raise InstallationError(
            f"{error.details}; remove it, and `imagehost adopt` writes another"
        ) from error


@frozen
class InstallationGuard:
    """The guard of what a host may collect: only what belongs to the installation that it was opened with.

    Attributes:
        installation: The data directory, the database and the store of images.
        record: The record that they had.
    """

    installation: Installation = field(repr=False)
    record: InstallationRecord

    def require_unchanged(self) -> None:
        """Raise ConflictError unless all three belong to the installation and incarnation as before.

        Raises:
            ConflictError: One of them was restored since, or is another.
            UnavailableError: One of them does not respond.
        """
        for place in self.installation.places():
            if place.record is None or not place.record.is_same(self.record):
                received = "none" if place.record is None else f"{place.record}"
                raise InstallationError(
                    f"expected {self.record} in {place.name} but received {received}: nothing is collected; "
                    "restart this host, which says what to do"
                )

    def unrecorded(
        self, images: ImageRepository, *, collect: bool, allow_many: bool = False, allow_newer: bool = False
    ) -> tuple[ImageId, ...]:
        """Return the ids of files without a record at this time; their upload may be in progress.

        Args:
            images: The images.
            collect: Whether they are to be deleted; those that are protected are not.
            allow_many: Whether they may be many.
            allow_newer: Whether those are deleted that are newer than a restored backup.

        Raises:
            ConflictError: They are to be deleted, and many beside the images that have a record, or the
                installation is another.
        """
        recorded, count = image_count(self.installation.database), 0
        found: list[ImageId] = []
        for _, missing in images.find_unrecorded(self.installation.blobs.ids()):
            found += missing
            if collect and not allow_many:
                count += sum(not self.is_protected(image_id, allow_newer=allow_newer) for image_id in missing)
                if is_large_collection(count, recorded):
                    raise InstallationError(
                        f"expected few files without a record but found those of {count} images or more "
                        f"beside {recorded} images with one: nothing is collected; check "
                        "IMAGEHOST_DATABASE and IMAGEHOST_STORAGE; `imagehost gc --dry-run` lists them, "
                        "`imagehost gc --allow-many` removes them"
                    )
        if collect:
            # After the list, so that it has no files that another incarnation has stored.
            self.require_unchanged()
        return tuple(found)

    def is_protected(self, image_id: ImageId, *, allow_newer: bool) -> bool:
        """Return whether files without a record are newer than the backup whose records were restored."""
        if self.record.backup_at is None or allow_newer:
            return False
        modified_at = self.installation.blobs.modified_at(image_id)
        return modified_at is not None and modified_at >= self.record.backup_at

    def forget_backup(self) -> None:
        """Record that all files are collected that are newer than a restored backup."""
        with self.installation.database.transaction() as transaction:
            write_record(transaction, evolve(self.record, backup_at=None))


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
    chosen = settings or Settings()
    nothing = f"expected the data of a host but {layout.root} and what it uses are empty"
    is_local = (chosen.database, chosen.storage.url) == (SQLITE, FOLDER)
    # To open a database is to create it: the next command would take it for a host.
    if is_local and not (layout.database.exists() or layout.images.exists()):
        raise InstallationError(nothing)
    with translate_disk_errors(), open_installation(layout, chosen) as installation:
        places = installation.places()
        for place in places:
            if place.record is not None:
                require_supported(place.record, place.name)
        own, records, images = places
        if not any(place.record or place.has_data for place in places):
            raise InstallationError(nothing)
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
        database = stack.enter_context(closing(open_database(layout, settings)))
        blobs = open_image_store(layout, staging, locks, settings.storage, lambda _: False)
        yield Installation(layout, database, blobs, settings)


def _compare(installation: Installation) -> Adoption:
    """Count the images that the database and the store have in common, and those that one of them has."""
    images = ImageRepository(installation.database)
    count = image_count(installation.database)
    recorded = unrecorded = 0
    for existing, missing in images.find_unrecorded(installation.blobs.ids()):
        recorded, unrecorded = recorded + existing, unrecorded + len(missing)
    return Adoption(InstallationRecord(created_at=utc_now()), count, count - recorded, unrecorded)
