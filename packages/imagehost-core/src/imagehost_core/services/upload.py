"""The way of an upload: bytes → header → worker → durable blob → one transaction.

Options are checked before anything is read, the header before any decoder runs, the album before
anything is stored. When `upload` returns, the master and its record survive a power cut; when it
raises, nothing is left behind.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO

from imagehost_core.headers import Header, scan
from imagehost_core.ids import ID_LENGTH, ImageId, base62, new_image_id
from imagehost_core.jobs import Ingested, IngestJob
from imagehost_core.limits import check_quota
from imagehost_core.models import Account, Image
from imagehost_core.services.albums import check_album
from imagehost_core.services.context import Rooms
from imagehost_core.services.idempotency import Part
from imagehost_core.services.unit_of_work import Change
from imagehost_core.storage import Staged
from imagehost_core.storage.blob_store import MASTER, rung_name
from imagehost_core.storage.durable import room_on_disk
from imagehost_core.storage.staging import CHUNK
from imagehost_core.uploads.filenames import clean_filename, with_extension
from imagehost_core.uploads.options import UploadOptions

log = logging.getLogger(__name__)

Source = Staged | str | os.PathLike[str] | bytes | BinaryIO
"""What an upload can be made of; text is a path. A file object is read from where it stands to its end."""


@contextmanager
def staged(rooms: Rooms, source: Source) -> Iterator[Staged]:
    """Yield a source as a staged file, complete.

    Raises:
        PayloadTooLargeError: It is larger than 50 MB; the error tells its whole size.
        InsufficientStorageError: The disk has no room.
    """
    if isinstance(source, Staged):
        source.finish()
        yield source
        return
    with rooms.staging.stage() as copy:
        if isinstance(source, bytes):
            copy.write(source)
        elif isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                _copy(file, copy)
        else:
            _copy(source, copy)
        copy.finish()
        yield copy


def default_filename(source: Source) -> str | None:
    """Return the name that a source has of its own, or `None`."""
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else None


def upload(
    rooms: Rooms,
    staged: Staged,
    account: Account,
    filename: str | None,
    options: UploadOptions,
    once: Part | None = None,
) -> Image:
    """Store a staged file as an image.

    Args:
        rooms: Of the host.
        staged: The file, complete.
        account: Whose image it will be.
        filename: The name that it came with.
        options: What is asked for.
        once: The part of a request that must not do anything twice, for which this is.

    Raises:
        UnsupportedMediaTypeError: Its content is not JPEG, PNG, WebP or GIF.
        ValidationError: It is damaged or over a limit, or the album is none of the account's.
        InsufficientStorageError: The quota or the disk has no room.
        UnavailableError: All workers are busy, and too many uploads wait.
    """
    before = _made_before(rooms, once)
    if before is not None:
        return before
    with staged.path.open("rb") as file:
        header = scan(file, staged.size)
    check_album(rooms, options.album_id, account.id)
    quota = rooms.settings.limits.of(account.limits).quota_bytes
    check_quota(rooms.accounts.used_bytes(account.id), 1, quota)
    rooms.staging.check_room(staged.size)
    with rooms.staging.folder() as built:
        ingested = _ingest(rooms, staged, header, options, built)
        image = _describe(rooms, ingested, built, account, filename, options)
        check_quota(rooms.accounts.used_bytes(account.id), image.size, quota)
        rooms.staging.check_room(0)
        # Held until the record stands, so that nobody takes the files for an orphan's.
        with rooms.changes.one() as change, rooms.locks.hold("image", image.id):
            try:
                rooms.files.put(image.id, built)
                _record(rooms, image, quota, change, once)
            except BaseException:
                _undo(rooms, image.id)
                raise
    return image


def _copy(source: BinaryIO, target: Staged) -> None:
    while chunk := source.read(CHUNK):
        target.write(chunk)


def _ingest(rooms: Rooms, staged: Staged, header: Header, options: UploadOptions, built: Path) -> Ingested:
    """Decode a file in a worker; leave the master and its reductions in a folder."""
    job = IngestJob(
        format=header.format,
        wanted=options.format,
        convert_to_webp=options.convert_to_webp is not False,
        quality=options.quality,
        remove_exif=options.remove_exif,
    )
    deadline = rooms.settings.workers.ingest_deadline
    with room_on_disk(), staged.path.open("rb") as file:
        made = rooms.workers.ingest(job, file, header.end, deadline=deadline, into=built)
    ingested, (master, *rungs) = made
    if ingested.unchanged:
        # Contract 4: *the bytes are stored as they came, less anything after the image's end*.
        staged.path.replace(master)
        os.truncate(master, header.end)
    master.rename(built / MASTER)
    for rung, size in zip(rungs, ingested.rungs, strict=True):
        rung.rename(built / rung_name(max(size.width, size.height)))
    return ingested


def _describe(
    rooms: Rooms,
    ingested: Ingested,
    built: Path,
    account: Account,
    filename: str | None,
    options: UploadOptions,
) -> Image:
    image_id = new_image_id(rooms.random)
    original = clean_filename(filename)
    shown = base62(ID_LENGTH, rooms.random) if options.auto_rename else original
    now = rooms.clock()
    with (built / MASTER).open("rb") as master:
        digest = file_digest(master, "sha256").hexdigest()
        size = master.seek(0, os.SEEK_END)
    return Image(
        id=ImageId(image_id),
        account_id=account.id,
        album_id=options.album_id,
        filename=with_extension(shown, ingested.format),
        original_filename=original,
        description=options.description,
        is_public=options.is_public,
        format=ingested.format,
        size=size,
        width=ingested.size.width,
        height=ingested.size.height,
        frames=ingested.frames,
        has_alpha=ingested.has_alpha,
        sha256=digest,
        placeholder=ingested.placeholder,
        rungs=tuple((rung.width, rung.height) for rung in ingested.rungs),
        created_at=now,
        updated_at=now,
    )


def _record(rooms: Rooms, image: Image, quota: int, change: Change, once: Part | None) -> None:
    with rooms.catalog.transaction() as transaction:
        check_album(rooms, image.album_id, image.account_id, transaction)
        rooms.accounts.charge(transaction, image.account_id, image.size, quota)
        rooms.images.insert(transaction, image)
        change.image_uploaded(transaction, image)
        if once is not None:
            once.make(transaction, image.id)


def _undo(rooms: Rooms, image_id: ImageId) -> None:
    """Remove the files of an upload that failed. That this fails too is told to the log alone."""
    try:
        # An interrupt can come when the record already stands; then its files stay.
        if not rooms.images.exists(image_id):
            rooms.files.delete(image_id)
    except Exception:
        rooms.staging.leave_sign(image_id)
        log.exception("the files of %s, an upload that failed, may still be there", image_id)


def _made_before(rooms: Rooms, once: Part | None) -> Image | None:
    made = once.made() if once else None
    return None if made is None else rooms.images.get(ImageId(made))
