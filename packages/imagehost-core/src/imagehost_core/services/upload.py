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
from typing import BinaryIO, Unpack

from attrs import field, frozen

from imagehost_core.headers import ImageHeader, scan
from imagehost_core.ids import ID_LENGTH, ImageId, base62, new_image_id
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.limits import require_quota
from imagehost_core.models import Account, Image
from imagehost_core.services import owners
from imagehost_core.services.albums import require_album
from imagehost_core.services.context import HostContext
from imagehost_core.services.idempotency import SubOperation
from imagehost_core.services.owners import Owner
from imagehost_core.services.unit_of_work import UnitOfWork
from imagehost_core.storage import StagedFile
from imagehost_core.storage.blob_store import MASTER, derivative_name
from imagehost_core.storage.durable import translate_disk_full
from imagehost_core.storage.staging import CHUNK
from imagehost_core.uploads.filenames import clean_filename, with_extension
from imagehost_core.uploads.options import UploadKeywords, UploadOptions

log = logging.getLogger(__name__)

UploadSource = StagedFile | str | os.PathLike[str] | bytes | BinaryIO
"""What an upload can be made of; text is a path. A file object is read from where it stands to its end."""


@frozen
class UploadService:
    """The uploads of a host."""

    _context: HostContext = field(repr=False)

    def stage(self) -> StagedFile:
        """Return an empty staged file that grows by `write`, for `upload`; closing it removes it.

        Raises:
            InsufficientStorageError: Less than the minimum free disk space is left.
        """
        return self._context.staging.stage()

    def upload(
        self,
        source: UploadSource,
        *,
        owner: Owner,
        filename: str | None = None,
        options: UploadOptions | None = None,
        idempotency: SubOperation | None = None,
        **keywords: Unpack[UploadKeywords],
    ) -> Image:
        """Store an image, as `ImageHost.upload` does."""
        wanted = options or UploadOptions(**keywords)
        account = owners.get_or_create_account(self._context, owner)
        with as_staged_file(self._context, source) as complete:
            name = filename if filename is not None else default_filename(source)
            return upload(self._context, complete, account, name, wanted, idempotency)


@contextmanager
def as_staged_file(context: HostContext, source: UploadSource) -> Iterator[StagedFile]:
    """Yield a source as a staged file, complete.

    Raises:
        PayloadTooLargeError: It is larger than 50 MB; the error tells its whole size.
        InsufficientStorageError: The disk has no room.
    """
    if isinstance(source, StagedFile):
        source.finish()
        yield source
        return
    with context.staging.stage() as copy:
        if isinstance(source, bytes):
            copy.write(source)
        elif isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                _copy(file, copy)
        else:
            _copy(source, copy)
        copy.finish()
        yield copy


def default_filename(source: UploadSource) -> str | None:
    """Return the name that a source has of its own, or `None`."""
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else None


def upload(
    context: HostContext,
    staged: StagedFile,
    account: Account,
    filename: str | None,
    options: UploadOptions,
    idempotency: SubOperation | None = None,
) -> Image:
    """Store a staged file as an image.

    Args:
        context: Of the host.
        staged: The file, complete.
        account: Whose image it will be.
        filename: The name that it came with.
        options: What is asked for.
        idempotency: The part of a request that must not do anything twice, for which this is.

    Raises:
        UnsupportedMediaTypeError: Its content is not JPEG, PNG, WebP or GIF.
        ValidationError: It is damaged or over a limit, or the album is none of the account's.
        InsufficientStorageError: The quota or the disk has no room.
        UnavailableError: All workers are busy, and too many uploads wait.
    """
    before = _previous_result(context, idempotency)
    if before is not None:
        return before
    with staged.path.open("rb") as file:
        header = scan(file, staged.size)
    require_album(context, options.album_id, account.id)
    quota = context.settings.limits.for_account(account.limits).quota_bytes
    require_quota(context.accounts.used_bytes(account.id), 1, quota)
    context.staging.require_free_space(staged.size)
    with context.staging.folder() as built:
        ingested = _ingest(context, staged, header, options, built)
        image = _build_image(context, ingested, built, account, filename, options)
        require_quota(context.accounts.used_bytes(account.id), image.size, quota)
        context.staging.require_free_space(0)
        # Held until the record stands, so that nobody takes the files for an orphan's.
        with context.unit_of_work.begin() as change, context.locks.acquire("image", image.id):
            try:
                context.blobs.put(image.id, built)
                _commit(context, image, quota, change, idempotency)
            except BaseException:
                _rollback(context, image.id)
                raise
    return image


def _copy(source: BinaryIO, target: StagedFile) -> None:
    while chunk := source.read(CHUNK):
        target.write(chunk)


def _ingest(
    context: HostContext, staged: StagedFile, header: ImageHeader, options: UploadOptions, built: Path
) -> IngestResult:
    """Decode a file in a worker; leave the master and its reductions in a folder."""
    job = IngestJob(
        format=header.format,
        requested_format=options.format,
        convert_to_webp=options.convert_to_webp is not False,
        quality=options.quality,
        remove_exif=options.remove_exif,
    )
    deadline = context.settings.rendering.ingest_timeout_seconds
    with translate_disk_full(), staged.path.open("rb") as file:
        made = context.executor.ingest(job, file, header.end_offset, deadline=deadline, into=built)
    ingested, (master, *rungs) = made
    if ingested.unchanged:
        # Contract 4: *the bytes are stored as they came, less anything after the image's end*.
        staged.path.replace(master)
        os.truncate(master, header.end_offset)
    master.rename(built / MASTER)
    for rung, size in zip(rungs, ingested.derivatives, strict=True):
        rung.rename(built / derivative_name(max(size.width, size.height)))
    return ingested


def _build_image(
    context: HostContext,
    ingested: IngestResult,
    built: Path,
    account: Account,
    filename: str | None,
    options: UploadOptions,
) -> Image:
    image_id = new_image_id(context.random)
    original = clean_filename(filename)
    shown = base62(ID_LENGTH, context.random) if options.auto_rename else original
    now = context.clock()
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
        derivatives=tuple((rung.width, rung.height) for rung in ingested.derivatives),
        created_at=now,
        updated_at=now,
    )


def _commit(
    context: HostContext, image: Image, quota: int, change: UnitOfWork, once: SubOperation | None
) -> None:
    with context.database.transaction() as transaction:
        require_album(context, image.album_id, image.account_id, transaction)
        context.accounts.add_usage(transaction, image.account_id, image.size, quota)
        context.images.insert(transaction, image)
        change.image_uploaded(transaction, image)
        if once is not None:
            once.record_result(transaction, image.id)


def _rollback(context: HostContext, image_id: ImageId) -> None:
    """Remove the files of an upload that failed. That this fails too is told to the log alone."""
    try:
        # An interrupt can come when the record already stands; then its files stay.
        if not context.images.exists(image_id):
            context.blobs.delete(image_id)
    except Exception:
        context.staging.mark_incomplete(image_id)
        log.exception("the files of %s, an upload that failed, may still be there", image_id)


def _previous_result(context: HostContext, once: SubOperation | None) -> Image | None:
    made = once.previous_result() if once else None
    return None if made is None else context.images.get(ImageId(made))
