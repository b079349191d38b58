"""The import of images from files, directories and the data of other image hosts."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from enum import StrEnum
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from attrs import define, evolve, field, frozen

from imagehost_core.db.engines.database import Database, Transaction, text
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import ConflictError, ImageHostError, InsufficientStorageError, NotFoundError
from imagehost_core.formats import SNIFF_BYTES, sniff
from imagehost_core.headers.camera import read_taken_at
from imagehost_core.headers.scanner import read_first_exif, scan
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.maintenance.importers.sources import (
    ImportAlbum,
    ImportItem,
    OmittedItem,
    SourceItem,
    open_export,
    open_tables,
    read_account,
    read_chevereto,
    read_folder,
    read_lsky,
    read_zipline,
)
from imagehost_core.models import Account
from imagehost_core.services.accounts import AccountService
from imagehost_core.services.albums import AlbumService
from imagehost_core.services.references import Owner, get_account
from imagehost_core.services.upload import UploadService
from imagehost_core.uploads import MAX_DESCRIPTION, UploadOptions

log = logging.getLogger(__name__)


class ImportSource(StrEnum):
    """A kind of source."""

    FOLDER = "folder"
    LSKY = "lsky"
    CHEVERETO = "chevereto"
    ZIPLINE = "zipline"
    ACCOUNT = "account"
    """An export of an account of another imagehost, or of this one."""

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory with its files, and not a database beside another one."""
        return self in (ImportSource.FOLDER, ImportSource.ACCOUNT)


class ImportStatus(StrEnum):
    """The outcome of an import for one file."""

    IMPORTED = "imported"
    UNCHANGED = "unchanged"
    """An earlier import has stored it, and it exists or was deleted since."""
    OMITTED = "omitted"
    """It is no image, or the source does not have it."""
    FAILED = "failed"
    """It is an image that cannot be stored."""


@frozen
class ImportResult:
    """The outcome of an import for one file.

    Attributes:
        source_id: The id of the file in its source, such as its path.
        status: The outcome.
        image_id: The image, if it was imported, now or earlier.
        reason: The reason for which it was not.
    """

    source_id: str
    status: ImportStatus
    image_id: ImageId | None = None
    reason: str | None = None


@frozen(kw_only=True)
class ImportOptions:
    """Options of an import.

    Attributes:
        by_user: Whether the images of a user of the source become those of the account of that name, which is
            created if it does not exist; the other images, and without it all, become those of the owner.
        with_albums: Whether albums are created.
        is_public: Whether images and new albums are public; by default as the source says, and private if it
            does not say.
        upload: The other options of each upload.
    """

    by_user: bool = False
    with_albums: bool = True
    is_public: bool | None = None
    upload: UploadOptions = field(factory=UploadOptions)


@frozen
class ImportRepository:
    """Results of imports in the database."""

    database: Database

    def get(self, account_id: AccountId, source: str) -> str | None:
        """Return the id of what was created from a source, or `None`."""
        row = self.database.fetch_one(
            "SELECT result_id FROM imports WHERE account_id = :account AND source = :source",
            {"account": account_id, "source": source},
        )
        return None if row is None else text(row, "result_id")

    def put(
        self, transaction: Transaction, account_id: AccountId, source: str, result_id: str, previous: str
    ) -> None:
        """Record what was created from a source, in the transaction that creates it.

        Args:
            transaction: The transaction.
            account_id: The account.
            source: The source.
            result_id: The id of what was created.
            previous: The id of what was deleted since, which it replaces, or "".

        Raises:
            _ImportedError: Another import, or the same one, has recorded another result meanwhile.
        """
        if not transaction.execute(
            "INSERT INTO imports (account_id, source, result_id) VALUES (:account, :source, :result) "
            "ON CONFLICT (account_id, source) DO UPDATE SET result_id = excluded.result_id "
            "WHERE imports.result_id = :previous",
            {"account": account_id, "source": source, "result": result_id, "previous": previous},
        ):
            raise _ImportedError


class _ImportedError(ConflictError):
    """A source that was imported meanwhile."""


@frozen
class _Recorder:
    """Records what is created from a source; whether it exists already is decided before."""

    _imports: ImportRepository = field(repr=False)
    account: Account
    source: str
    previous: str = ""

    def previous_result(self) -> str | None:
        return None

    def record_result(self, transaction: Transaction, result: str) -> None:
        self._imports.put(transaction, self.account.id, self.source, result, self.previous)


@define
class _Albums:
    """The albums of one import, by account and name; each is created once."""

    _create: Callable[[Account, ImportAlbum], AlbumId]
    _ids: dict[tuple[int, str], AlbumId] = field(factory=dict)
    _lock: Lock = field(factory=Lock)

    def id_of(self, account: Account, album: ImportAlbum) -> AlbumId:
        with self._lock:
            key = account.id, album.name
            if key not in self._ids:
                self._ids[key] = self._create(account, album)
            return self._ids[key]


@frozen
class ImportService:
    """Imports into a host. One that was interrupted continues where it stopped when it is run again."""

    _uploads: UploadService = field(repr=False)
    _albums: AlbumService = field(repr=False)
    _accounts: AccountService = field(repr=False)
    _records: Repositories = field(repr=False)
    _concurrency: int

    def read(self, source: ImportSource, path: Path, files: Path | None = None) -> Iterator[SourceItem]:
        """Return the files that a source offers.

        Args:
            source: The kind of the source.
            path: The directory or file; for another image host its database or an export of it.
            files: For another image host, the directory of its files.

        Raises:
            TypeError: The directory of the files of another image host is missing.
            ValidationError: The path is no such source.
            OSError: The path cannot be read.
        """
        if source is ImportSource.FOLDER:
            return read_folder(path)
        if source is ImportSource.ACCOUNT:
            return read_account(path)
        if files is None:
            raise TypeError(f"expected the directory of the files beside source={source.value!r}")
        if source is ImportSource.LSKY:
            return read_lsky(open_tables(path), files)
        if source is ImportSource.CHEVERETO:
            return read_chevereto(open_tables(path), files)
        is_export = path.is_file() and path.suffix == ".json"
        return read_zipline(open_export(path) if is_export else open_tables(path), files)

    def run(
        self, items: Iterable[SourceItem], *, owner: Owner, options: ImportOptions | None = None
    ) -> Iterator[ImportResult]:
        """Import files, and yield the result of each, in order.

        A file is imported once: it is recognised by its id in the source and its content. One that was
        imported and then deleted is not imported again.

        Args:
            items: The files that a source offers.
            owner: The account.
            options: The options of the import.

        Raises:
            NotFoundError: There is no such account.
            InsufficientStorageError: The disk or a quota is full; what was yielded before is stored.
        """
        account = get_account(self._records.accounts, owner)
        chosen = options or ImportOptions()
        albums = _Albums(partial(self._create_album, is_public=chosen.is_public))
        in_flight: deque[Future[ImportResult]] = deque()
        pool = ThreadPoolExecutor(self._concurrency, "import")
        try:
            for item in items:
                in_flight.append(pool.submit(self._import, item, account, chosen, albums))
                if len(in_flight) > 2 * self._concurrency:
                    yield in_flight.popleft().result()
            while in_flight:
                yield in_flight.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    @property
    def _imports(self) -> ImportRepository:
        return ImportRepository(self._records.database)

    def _import(
        self, item: SourceItem, owner: Account, options: ImportOptions, albums: _Albums
    ) -> ImportResult:
        if isinstance(item, OmittedItem):
            return ImportResult(item.id, ImportStatus.OMITTED, reason=item.reason)
        try:
            with item.path.open("rb") as file:
                if sniff(file.read(SNIFF_BYTES)) is None:
                    reason = "not a JPEG, PNG, WebP or GIF"
                    return ImportResult(item.id, ImportStatus.OMITTED, reason=reason)
                file.seek(0)
                content = file_digest(file, "sha256").digest()
                created_at = item.created_at
                if item.is_file_time:
                    created_at = _taken_at(file) or created_at
            account = self._account_of(item, owner, options)
            source = sha256(item.id.encode("utf-8", "surrogateescape") + b"\0" + content).hexdigest()
            previous = self._imports.get(account.id, source)
            if previous is not None:
                return ImportResult(item.id, ImportStatus.UNCHANGED, ImageId(previous))
            image = self._uploads.upload(
                item.path,
                owner=account,
                filename=item.filename,
                options=self._options(item, account, options, albums),
                idempotency=_Recorder(self._imports, account, source),
                created_at=created_at,
            )
        except InsufficientStorageError:
            raise
        except _ImportedError:
            return self._import(item, owner, options, albums)
        except (ImageHostError, OSError) as error:
            return ImportResult(item.id, ImportStatus.FAILED, reason=str(error))
        return ImportResult(item.id, ImportStatus.IMPORTED, image.id)

    def _account_of(self, item: ImportItem, owner: Account, options: ImportOptions) -> Account:
        if options.by_user and item.username:
            return self._accounts.get_or_create(item.username)
        return owner

    def _options(
        self, item: ImportItem, account: Account, options: ImportOptions, albums: _Albums
    ) -> UploadOptions:
        album_id = options.upload.album_id
        if item.album is not None and album_id is None and options.with_albums:
            album_id = albums.id_of(account, item.album)
        return evolve(
            options.upload,
            album_id=album_id,
            description=_valid_text(item.description),
            is_public=bool(item.is_public if options.is_public is None else options.is_public),
        )

    def _create_album(self, account: Account, album: ImportAlbum, *, is_public: bool | None) -> AlbumId:
        """Return the album that an earlier import created under this name, or a new one."""
        source = f"album:{album.name}"
        previous = self._imports.get(account.id, source)
        if previous is not None:
            try:
                return self._albums.get(previous, owner=account).id
            except NotFoundError:
                log.info("album was deleted since an earlier import: album=%s", previous)
        try:
            return self._albums.create(
                owner=account,
                name=album.name,
                description=_valid_text(album.description),
                is_public=bool(album.is_public if is_public is None else is_public),
                idempotency=_Recorder(self._imports, account, source, previous or ""),
            ).id
        except _ImportedError:
            return self._create_album(account, album, is_public=is_public)


def _taken_at(file: BinaryIO) -> datetime | None:
    """Return the camera's date of a file; `None` without one, and for a file that the upload refuses."""
    size = file.seek(0, os.SEEK_END)
    try:
        return read_taken_at(read_first_exif(file, size, scan(file, size)))
    except ImageHostError:
        return None


def _valid_text(text: str) -> str:
    """Return text that a description can have."""
    return text.encode("utf-8", "replace").decode()[:MAX_DESCRIPTION]
