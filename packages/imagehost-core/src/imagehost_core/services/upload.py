"""Upload pipeline: stage the file, scan its header, admit, ingest in a worker process, store, commit.

Options are checked before a byte is read, token, album, quota and disk space before any decoder runs, and
token, album and quota again in the transaction. Once `upload` returns, the master and its record survive a
power failure; if it raises, nothing is stored.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, Unpack, cast

from attrs import evolve, field, frozen

from imagehost_core._util.durable import translate_disk_errors
from imagehost_core._util.fields import parse_positive_int
from imagehost_core._util.sources import require_source, unwrapped
from imagehost_core.db.repositories.images import Upload
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import ErrorCollector, ImageHostError
from imagehost_core.headers.camera import read_taken_at
from imagehost_core.headers.header import ImageHeader
from imagehost_core.headers.scanner import read_first_exif, scan
from imagehost_core.ids import ID_LENGTH, MAX_ALBUM_ID, ImageId, base62, new_image_id
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.limits import account_key, require_quota
from imagehost_core.models import Account, Album, Image
from imagehost_core.observer import UploadEnded
from imagehost_core.services.album_rules import require_album
from imagehost_core.services.idempotency import ResultRecorder
from imagehost_core.services.references import AlbumRef, Owner, get_account
from imagehost_core.services.unit_of_work import UnitOfWork, UnitOfWorkFactory
from imagehost_core.settings import Settings
from imagehost_core.storage import StagedFile
from imagehost_core.storage.blob_store import MASTER, derivative_name, file_checksum
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.storage.staging import CHUNK_BYTES
from imagehost_core.transform import Size
from imagehost_core.uploads import (
    UploadKeywords,
    UploadOptions,
    clean_filename,
    parse_upload_options,
    with_extension,
)
from imagehost_core.workers.costs import ingest_cost
from imagehost_core.workers.executor import ImageExecutor

log = logging.getLogger(__name__)

Content = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""A path, bytes, or a file object, which is read from its position to its end."""
UploadSource = StagedFile | Content | tuple[str, Content]
"""The source of an upload: content, a pair of a file name and content, or a staged file."""


@frozen
class UploadService:
    """Receives files, and stores each as an image with its derivatives."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _settings: Settings = field(repr=False)
    _env: Environment = field(repr=False)

    def stage(self) -> StagedFile:
        """Return an empty staged file that grows by `write`, for `upload`; closing it removes it.

        Raises:
            InsufficientStorageError: Less than the minimum free disk space is left.
        """
        return self._files.staging.stage()

    def upload(
        self,
        source: UploadSource,
        *,
        owner: Owner,
        filename: str | None = None,
        options: UploadOptions | None = None,
        idempotency: ResultRecorder | None = None,
        received_at: datetime | None = None,
        created_at: datetime | None = None,
        **keywords: Unpack[UploadKeywords],
    ) -> Image:
        """Store an image, as `ImageHost.upload` does.

        Args:
            source: As for `ImageHost.upload`.
            owner: As for `ImageHost.upload`.
            filename: As for `ImageHost.upload`.
            options: As for `ImageHost.upload`.
            idempotency: The record of the request's result.
            received_at: When the request with the source was complete; by default when the source was.
            created_at: The time of an earlier upload to another host; by default that.
            keywords: As for `ImageHost.upload`.
        """
        if isinstance(source, tuple) and len(source) == 2:
            filename = source[0] if filename is None else filename
            source = source[1]
        account = get_account(self._records.accounts, owner)
        self._units.verify(account)
        image = self._previous_result(idempotency)
        if image is not None:
            return image
        with self._measure() as sizes:
            options = self._validate(options, keywords, account)
            if options.remove_exif is None:
                options = evolve(options, remove_exif=self._settings.uploads.remove_exif)
            name = clean_filename(filename if filename is not None else _source_name(source))
            with self._stage(source, name) as staged, translate_disk_errors():
                sizes["received"] = staged.size
                received_at = received_at or self._env.clock()
                image = self._find_reusable(account, options, staged.sha256)
                if image is not None:
                    return image
                header, taken_at = self._scan(staged)
                self._admit(staged, account)
                with self._files.staging.temporary_directory() as directory:
                    result = self._ingest(staged, header, options, directory, account)
                    image = self._describe(result, directory, account, name, options, received_at)
                    earliest = min(created_at or received_at, received_at)
                    image = evolve(image, created_at=earliest, taken_at=taken_at)
                    with self._units.begin() as unit, self._store(image, directory):
                        stored = self._commit(unit, image, account, options, staged.sha256, idempotency)
                        if stored.is_reused:
                            self._rollback(image)
            sizes["stored"] = 0 if stored.is_reused else stored.size
        return evolve(stored, is_reused=bool(stored.is_reused)) if options.reuse else stored

    def parse_options(
        self,
        fields: Iterable[tuple[str, str]],
        *,
        owner: Owner,
        aliases: Mapping[str, str] | None = None,
    ) -> UploadOptions:
        """Return the options in the text fields of an upload form, as `parse_upload_options` does.

        Args:
            fields: Names and values of the fields, in any order.
            owner: The account that must own the album.
            aliases: Other names of fields, as for `parse_upload_options`.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: As for `parse_upload_options`, or the account has no such album; every one is
                listed in `errors`.
        """
        texts = list(fields)
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            options = parse_upload_options(texts, aliases)
        for name, text in texts:
            if name == "album_id" and text:
                with errors.catch():
                    self._require_album(text, account)
        errors.raise_if_any()
        return options

    def _validate(
        self, options: UploadOptions | None, keywords: UploadKeywords, account: Account
    ) -> UploadOptions:
        """Return the options, given as such or in keywords.

        Raises:
            ValidationError: Values are not allowed, or the account has no such album; every one is listed in
                `errors`.
        """
        if options is not None:
            if keywords:
                given = ", ".join(sorted(keywords))
                raise TypeError(f"expected options or keywords but received both: {given}")
            require_album(self._records.albums, options.album_id, account.id)
            return options
        errors = ErrorCollector()
        with errors.catch():
            parsed = UploadOptions(**keywords)
        with errors.catch():
            self._require_album(keywords.get("album_id"), account)
        errors.raise_if_any()
        return parsed

    def _require_album(self, album: AlbumRef | None, account: Account) -> None:
        """Raise ValidationError if a value is an album or its id, but not one of the account."""
        album_id = parse_positive_int(album.id if isinstance(album, Album) else album, MAX_ALBUM_ID)
        require_album(self._records.albums, album_id, account.id)

    def _find_reusable(self, account: Account, options: UploadOptions, sha256: str) -> Image | None:
        """Return the image that an upload with `reuse` returns, before any work is done for another one."""
        if not options.reuse:
            return None
        album = require_album(self._records.albums, options.album_id, account.id)
        image = self._records.images.find_upload(_upload(account, options, album, sha256))
        if image is None:
            return None
        self._units.verify(account)
        return evolve(image, is_reused=True)

    def _previous_result(self, idempotency: ResultRecorder | None) -> Image | None:
        """Return the image that an earlier attempt of the same request stored."""
        image_id = idempotency.previous_result() if idempotency else None
        return None if image_id is None else self._records.images.get(ImageId(image_id))

    @contextmanager
    def _stage(self, source: UploadSource, name: str) -> Iterator[StagedFile]:
        """Yield a source as a complete staged file, with its name in errors.

        Raises:
            ValidationError: It is neither a path, nor bytes, nor a file.
            PayloadTooLargeError: It has more than 50 MB; the error has its whole size.
            InsufficientStorageError: The disk is full.
        """
        if isinstance(source, StagedFile):
            source.finish(name)
            yield source
            return
        source = cast("Content", unwrapped(source))
        require_source(source)
        with self._files.staging.stage() as staged:
            if isinstance(source, bytes | bytearray | memoryview):
                staged.write(bytes(source))
            elif isinstance(source, str | os.PathLike):
                with Path(source).open("rb") as file:
                    _copy(file, staged)
            else:
                _copy(source, staged)
            staged.finish(name)
            yield staged

    @contextmanager
    def _measure(self) -> Iterator[dict[str, int]]:
        """Measure an upload; the block sets the bytes that were `received` and `stored`."""
        sizes = {"received": 0, "stored": 0}
        code = "ok"
        try:
            yield sizes
        except BaseException as error:
            code = error.code if isinstance(error, ImageHostError) else ImageHostError.code
            raise
        finally:
            self._env.observe(UploadEnded(code, sizes["received"], sizes["stored"]))

    def _scan(self, staged: StagedFile) -> tuple[ImageHeader, datetime | None]:
        """Return the header of a file, and when the photograph was taken.

        Raises:
            UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
            ValidationError: The header exceeds a limit.
        """
        with staged.path.open("rb") as file:
            header = scan(file, staged.size)
            return header, read_taken_at(read_first_exif(file, staged.size, header))

    def _admit(self, staged: StagedFile, account: Account) -> None:
        """Raise InsufficientStorageError unless the quota and the disk have space for a file."""
        require_quota(self._records.accounts.used_bytes(account.id), 1, self._quota(account), staged.size)
        self._files.staging.require_free_space(staged.size)

    def _ingest(
        self,
        staged: StagedFile,
        header: ImageHeader,
        options: UploadOptions,
        directory: Path,
        account: Account,
    ) -> IngestResult:
        """Create the master and its derivatives in a directory, in a worker process."""
        job = IngestJob(
            format=header.format,
            requested_format=options.format,
            convert_to_webp=options.convert_to_webp,
            quality=options.quality,
            remove_exif=bool(options.remove_exif),
            is_displayable=header.is_displayable,
        )
        cost = ingest_cost(
            header.format,
            Size(*header.canvas_extent),
            frames=header.frames,
            has_alpha=header.has_alpha,
            length=header.end_offset,
            scans=header.scans,
            requested=options.format,
        )
        timeout_seconds = self._settings.rendering.ingest_timeout_seconds
        request = cost.request(timeout_seconds, flow=account_key(account.id))
        with staged.path.open("rb") as file:
            result, (master, *derivatives) = self._executor.ingest(
                job, file, header.end_offset, request, into=directory
            )
        if result.unchanged:
            # The bytes are stored as uploaded, without data after the end of the image.
            staged.path.replace(master)
            os.truncate(master, header.end_offset)
        master.rename(directory / MASTER)
        for derivative, size in zip(derivatives, result.derivatives, strict=True):
            derivative.rename(directory / derivative_name(max(size.width, size.height)))
        return result

    def _describe(
        self,
        result: IngestResult,
        directory: Path,
        account: Account,
        original_filename: str,
        options: UploadOptions,
        now: datetime,
    ) -> Image:
        """Return the record of an image whose files are in a directory."""
        filename = base62(ID_LENGTH, self._env.random) if options.auto_rename else original_filename
        with (directory / MASTER).open("rb") as master:
            digest = file_digest(master, "sha256").hexdigest()
            size = master.seek(0, os.SEEK_END)
        return Image(
            id=ImageId(new_image_id(self._env.random)),
            account_id=account.id,
            album_id=options.album_id,
            filename=with_extension(filename, result.format),
            original_filename=original_filename,
            description=options.description,
            is_public=options.is_public is True,
            format=result.format,
            size=size,
            width=result.size.width,
            height=result.size.height,
            frames=result.frames,
            has_alpha=result.has_alpha,
            sha256=digest,
            placeholder=result.placeholder,
            derivatives=tuple((size.width, size.height) for size in result.derivatives),
            derivative_checksums=tuple(
                file_checksum(directory / derivative_name(max(size.width, size.height)))
                for size in result.derivatives
            ),
            created_at=now,
            updated_at=now,
            urls=self._records.images.urls,
        )

    @contextmanager
    def _store(self, image: Image, directory: Path) -> Iterator[None]:
        """Make the files of an image durable for a block that commits its record; remove them if it fails.

        The lock is held until the record is committed, so that the files are not collected as orphans.

        Raises:
            InsufficientStorageError: The disk is full.
        """
        # The master can be larger than the upload.
        self._files.staging.require_free_space(0)
        with self._files.locks.acquire("image", image.id):
            try:
                self._files.blobs.put(image.id, directory)
                yield
            except BaseException:
                self._rollback(image)
                raise

    def _commit(
        self,
        unit: UnitOfWork,
        image: Image,
        account: Account,
        options: UploadOptions,
        sha256: str,
        idempotency: ResultRecorder | None,
    ) -> Image:
        """Insert the record of an image with its usage, event and result of its request, and return it.

        With `reuse`, return the image that an equal upload has stored meanwhile.
        """
        with self._units.transaction(account) as transaction:
            album = require_album(self._records.albums, image.album_id, image.account_id, transaction)
            upload = _upload(account, options, album, sha256)
            image = evolve(image, is_public=upload.is_public)
            equal = self._records.images.find_upload(upload, transaction) if options.reuse else None
            if equal is not None:
                return evolve(equal, is_reused=True)
            self._records.accounts.add_usage(transaction, image.account_id, image.size, self._quota(account))
            self._records.images.insert(transaction, image, upload)
            unit.image_uploaded(transaction, image)
            if idempotency is not None:
                idempotency.record_result(transaction, image.id)
        return image

    def _rollback(self, image: Image) -> None:
        """Remove the files of an upload without a record; if that fails, log the error and leave a marker."""
        try:
            # An interrupt, or a response that is late, can come after the commit; then the files stay.
            if not self._records.images.is_recorded(image.id, image.account_id):
                self._files.blobs.delete(image.id)
        except Exception:
            self._files.staging.mark_incomplete(image.id)
            log.exception("cannot remove files of a failed upload: image=%s", image.id)

    def _quota(self, account: Account) -> int:
        return self._settings.limits.for_account(account).quota_bytes


def _upload(account: Account, options: UploadOptions, album: Album | None, sha256: str) -> Upload:
    is_public = album is None or album.is_public if options.is_public is None else options.is_public
    converts = options.format is None and options.convert_to_webp
    stored_as = (options.format, converts, options.quality, options.remove_exif, options.auto_rename)
    return Upload(
        account_id=account.id,
        sha256=sha256,
        options=json.dumps(stored_as),
        album_id=options.album_id,
        is_public=is_public,
        description=options.description,
    )


def _source_name(source: UploadSource) -> str | None:
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    name = getattr(source, "name", None) or getattr(source, "filename", None)
    return name if isinstance(name, str) else None


def _copy(source: BinaryIO, target: StagedFile) -> None:
    while chunk := source.read(CHUNK_BYTES):
        target.write(chunk)
