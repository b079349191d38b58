"""Backups: a consistent copy of a data directory as one stream, while the host serves requests.

The database is copied first, then the files that its copy names. Files of images are never changed, so
they need no copy at one instant. Those of an image that is deleted meanwhile are left out, and the backup
lists it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from attrs import asdict, field, frozen

from imagehost_core._util.clock import Clock, to_rfc3339
from imagehost_core._util.durable import require_free_bytes, translate_disk_errors
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import (
    InstallationError,
    InternalError,
    NotFoundError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import ImageId
from imagehost_core.installation import InstallationRecord, parse_record
from imagehost_core.maintenance.archive import (
    DATABASE,
    INFO,
    SECRET,
    SETTINGS,
    SKIPPED,
    ArchiveReader,
    ArchiveWriter,
    Member,
    image_member,
)
from imagehost_core.maintenance.snapshot import Snapshot
from imagehost_core.models import Image
from imagehost_core.storage import MASTER, BlobStore, DataLayout
from imagehost_core.storage.blob_store import derivative_name
from imagehost_core.storage.image_files import ImageFiles

FORMAT = 1
"""The number of the format of archives; a change that older versions cannot restore has another."""
OVERLAP = timedelta(hours=1)
"""The time before `since` whose images are included too. An image gets its `created_at` before its record is
committed, at most some minutes, so an older one can be missing in the previous backup."""

BackupProgress = Callable[[int, int], object]
"""A callback with the number of images done, and of all images."""

log = logging.getLogger(__name__)


@frozen
class BackupInfo:
    """The time of a backup, from its beginning.

    Attributes:
        created_at: When the copy of the database was taken: the backup contains all changes before.
        since: When the previous backup was taken, if this one has only the files of images since then.
        image_count: The number of images whose files it was to contain.
        installation: The record of the installation that it is a backup of.
        records_only: Whether it has no files of images, because these stay where they are.
    """

    created_at: datetime
    since: datetime | None
    image_count: int
    installation: InstallationRecord | None = None
    records_only: bool = False

    @staticmethod
    def read(stream: BinaryIO) -> BackupInfo:
        """Return the time of the backup that a stream begins with; the rest of it is not read.

        Raises:
            ValidationError: The stream is no backup.
        """
        with closing(ArchiveReader(stream)) as reader:
            if not reader.has_archive():
                raise ValidationError("expected a backup but received an empty file")
            return parse_info(next(reader.members()))


@frozen
class BackupResult:
    """A backup that was written.

    Attributes:
        info: Its time and the number of images.
        bytes: Bytes of its files before compression.
        deleted: Images that were deleted before their files were read; the backup does not contain them.
        damaged: Images with missing files, or whose master has another SHA-256 than its record. The backup
            contains what is there.
    """

    info: BackupInfo
    bytes: int
    deleted: tuple[ImageId, ...]
    damaged: tuple[ImageId, ...]


@frozen
class BackupService:
    """Writes backups and increments while the host is in use."""

    _layout: DataLayout = field(repr=False)
    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _secret: bytes = field(repr=False)
    _installation: InstallationRecord = field(repr=False)
    _clock: Clock = field(repr=False)

    def write(
        self,
        stream: BinaryIO,
        *,
        since: datetime | BackupInfo | None = None,
        records_only: bool = False,
        move: bool = False,
        progress: BackupProgress | None = None,
    ) -> BackupResult:
        """Write a backup to a stream, for `restore`.

        It contains password hashes, webhook secrets and private images.

        Args:
            stream: A binary stream; it is not closed.
            since: The previous backup, or its time (`BackupInfo.created_at`). The backup then has the whole
                database, but only the files of images since an hour before that time.
            records_only: Whether to leave out the files of images, which stay where they are.
            move: Whether to refuse writes from now on, as the backup is restored to use the host there.
                After an error they are allowed again; `adopt` takes a move back.
            progress: Called after each image.

        Raises:
            ConflictError: `since` is a backup of another host, or from before a restore.
            ValidationError: `since` is in the future.
            InsufficientStorageError: A disk has no space for the copy of the database, or for the stream.
            InternalError: A file cannot be read, or a disk cannot be written.
            OSError: The stream cannot be written for another reason.
        """
        if isinstance(since, BackupInfo):
            if since.installation is None or not since.installation.is_same(self._installation):
                received = "another" if since.installation is None else f"one of {since.installation}"
                raise InstallationError(
                    f"expected a backup of {self._installation} for since but received {received}: take "
                    "a full backup"
                )
            since = since.created_at
        with ExitStack() as undo:
            if move:
                self._records.database.refuse_writes()
                undo.callback(self._records.database.allow_writes)
            result = self._write(stream, since, progress, records_only=records_only)
            undo.pop_all()
        return result

    def _write(
        self,
        stream: BinaryIO,
        since: datetime | None,
        progress: BackupProgress | None,
        *,
        records_only: bool,
    ) -> BackupResult:
        created_at = self._clock()
        if since is not None and since > created_at:
            raise ValidationError(f"expected a time before {to_rfc3339(created_at)} for since")
        first = None if since is None else max(since, datetime.fromtimestamp(0, UTC)) - OVERLAP
        with translate_disk_errors(), ExitStack() as stack:
            scratch = stack.enter_context(self._files.staging.temporary_directory())
            require_free_bytes(scratch, self._records.database.size_bytes, 0)
            copy = scratch / DATABASE
            self._records.database.copy_to(copy)
            snapshot = stack.enter_context(closing(Snapshot(copy)))
            archive = stack.enter_context(
                closing(ArchiveWriter(stream, scratch, int(created_at.timestamp())))
            )
            count = 0 if records_only else snapshot.count_images(first)
            info = BackupInfo(created_at, since, count, self._installation, records_only)
            writer = _Writer(self._files.blobs, self._records.images, archive)
            writer.add_bytes(INFO, _serialize(info))
            writer.add_file(DATABASE, copy)
            writer.add_bytes(SECRET, self._secret)
            writer.add_file(SETTINGS, self._layout.settings_file)
            images = () if records_only else snapshot.images(first)
            for done, image in enumerate(images, 1):
                writer.add_image(image)
                if progress is not None:
                    progress(done, info.image_count)
            return writer.finish(info)


def parse_info(member: Member) -> BackupInfo:
    """Return the time of a backup from its first member.

    Raises:
        ValidationError: The member is damaged or of a newer version.
    """
    try:
        values = json.loads(member.read())
        if values["format"] != FORMAT:
            received = quote_value(values["format"])
            raise ValidationError(f"expected format {FORMAT} in the backup but received {received}")
        since, record = values["since"], values.get("installation")
        return BackupInfo(
            created_at=_parse_timestamp(values["created_at"]),
            since=None if since is None else _parse_timestamp(since),
            image_count=int(values["image_count"]),
            installation=None if record is None else parse_record(json.dumps(record), "the backup"),
            records_only=bool(values.get("records_only", False)),
        )
    except (InstallationError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        received = quote_value(repr(error))
        raise ValidationError(f"expected {INFO} in the backup but received {received}") from error


def _serialize(info: BackupInfo) -> bytes:
    values = {"format": FORMAT, **asdict(info)}
    return json.dumps(values, indent=2, default=to_rfc3339).encode() + b"\n"


def _parse_timestamp(text: str) -> datetime:
    timestamp = datetime.fromisoformat(text)
    if timestamp.tzinfo is None:
        raise ValueError(f"expected a time zone in {text!r}")
    return timestamp


class _Writer:
    """The files of a host on their way into an archive."""

    def __init__(self, blobs: BlobStore, images: ImageRepository, archive: ArchiveWriter) -> None:
        self._blobs = blobs
        self._images = images
        self._archive = archive
        self._bytes = 0
        self._skipped: list[ImageId] = []
        self._deleted: list[ImageId] = []
        self._damaged: list[ImageId] = []

    def add_bytes(self, name: str, data: bytes) -> None:
        self._archive.add_bytes(name, data)
        self._bytes += len(data)

    def add_file(self, name: str, path: Path) -> None:
        """Append a file, if it exists."""
        with suppress(FileNotFoundError), path.open("rb") as file:
            self._add(name, file)

    def add_image(self, image: Image) -> None:
        """Append the files of an image."""
        names = {MASTER, *(derivative_name(max(size)) for size in image.derivatives)}
        with ExitStack() as stack:
            # All are opened before one is read: they stay readable if the image is deleted.
            files: dict[str, BinaryIO] = {}
            for name in sorted(names):
                with suppress(NotFoundError):
                    files[name] = stack.enter_context(self._blobs.open(image.id, name, fresh=True))
            is_deleted = len(files) < len(names) and not self._images.exists(image.id)
            if is_deleted or MASTER not in files:
                self._skipped.append(image.id)
                files.clear()
            digests = {name: self._add(image_member(image.id, name), file) for name, file in files.items()}
        if is_deleted:
            self._deleted.append(image.id)
        elif len(files) < len(names) or digests[MASTER] != image.sha256:
            log.warning("backup of a damaged image: image=%s", image.id)
            self._damaged.append(image.id)

    def finish(self, info: BackupInfo) -> BackupResult:
        self.add_bytes(SKIPPED, "".join(f"{image_id}\n" for image_id in self._skipped).encode())
        self._archive.finish()
        return BackupResult(info, self._bytes, tuple(self._deleted), tuple(self._damaged))

    def _add(self, name: str, file: BinaryIO) -> str:
        size = file.seek(0, 2)
        file.seek(0)
        self._bytes += size
        try:
            return self._archive.add(name, file, size)
        except EOFError as error:
            raise InternalError(f"{name} was changed while it was read: {error}") from error
