"""The blob store in an object store: S3, Google Cloud Storage, Azure Blob Storage, through obstore.

An image's files are the objects `images/<shard>/<id>/<name>`. The master is written last and only if there is
none: with it the image is complete. No object is overwritten, and each is compared with what was sent before
`put` returns. Objects of an upload that crashed have no record, and are found by garbage collection.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from imagehost_core.cluster.object.blob_cache import BlobCache
from imagehost_core.cluster.object.client import IMAGES, PROBE, ObjectClient, owner
from imagehost_core.cluster.object.retries import CircuitBreaker, RetryPolicy
from imagehost_core.errors import EngineUnavailableError, InternalError, NotFoundError, UnavailableError
from imagehost_core.ids import ImageId, delivery_not_found_text
from imagehost_core.installation import RECORD_NAME
from imagehost_core.observer import Observer, ignore
from imagehost_core.storage.blob_store import MASTER, has_checksum, is_file_name
from imagehost_core.storage.layout import shard

if TYPE_CHECKING:
    from obstore.store import ObjectStore

UPLOAD_GRACE_SECONDS = 3_600
"""The age, by the store's clock, from which objects without a record belong to no upload in progress."""
_CLAIM = "uploading"
"""The name of the object that reserves an id while a large master is uploaded."""


class ObjectBlobStore:
    """A blob store in an object store, with a cache in the data directory.

    What `put` has stored is as durable as the object store makes it. Several hosts may use the same store.
    Its bucket must have no versioning: a deleted object would stay as an earlier version.

    ```python
    from obstore.store import S3Store

    blobs = ObjectBlobStore(S3Store("bucket", prefix="imagehost"), cache)
    blobs.put(image_id, files)
    ```

    Args:
        store: The object store, with a prefix of its own and without retries (`max_retries` is 0).
        cache: The cache of this host.
        timeout_seconds: The longest duration of an operation on one file.
        probe: The same store with shorter timeouts, for `check_ready`.
        observe: Receives the measurements of requests to the store.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: BlobCache,
        timeout_seconds: float = 20.0,
        probe: ObjectStore | None = None,
        observe: Observer = ignore,
    ) -> None:
        self._probe = ObjectClient(probe or store, RetryPolicy(0, observe=observe))
        self._breaker = CircuitBreaker(self._request_list)
        self._retry = RetryPolicy(timeout_seconds, self._breaker, observe=observe)
        self._client = ObjectClient(store, self._retry)
        self._cache = cache
        self._store_time: tuple[float, datetime] | None = None

    def put(self, image_id: ImageId, files: Path) -> None:
        """Store the files of an image; the object store's durability holds for them when this returns.

        Args:
            image_id: The id under which nothing is stored yet.
            files: A directory of a master and other files, without subdirectories. It is deleted.

        Raises:
            FileExistsError: Files are stored under the id already; they stay as they are.
            UnavailableError: The store did not respond in time. Some of the files may be stored.
        """
        paths = sorted(files.iterdir(), key=lambda path: (path.name == MASTER, path.name))
        if not paths or paths[-1].name != MASTER:
            raise ValueError("expected a master among the files")
        until = self._retry.start()
        if self._client.size(self._key(image_id, MASTER), until) is not None:
            raise _exists(image_id)
        created: list[str] = []
        try:
            for path in paths:
                key = self._key(image_id, path.name)
                if path.stat().st_size <= self._client.part_bytes:
                    self._client.create(key, path.read_bytes(), until)
                else:
                    self._create_large(image_id, key, path)
                created.append(key)
        except FileExistsError:
            self._client.delete(created)
            raise _exists(image_id) from None
        shutil.rmtree(files)

    def open(
        self,
        image_id: ImageId,
        name: str = MASTER,
        *,
        checksum: str | int | None = None,
        fresh: bool = False,
    ) -> BinaryIO:
        """Open one of an image's files for reading, from the cache or downloaded now.

        The file stays readable if the image is deleted.

        Args:
            image_id: The image.
            name: The name that the file had when it was put.
            checksum: The SHA-256 or the CRC-32 of the file in the image's record, to verify a download.
            fresh: Whether to download what is stored now and cache nothing, as a check or a backup does.

        Raises:
            NotFoundError: The image has no such file, or nothing is stored under the id.
            InternalError: The stored file has another checksum.
            UnavailableError: The store did not respond in time.
        """
        if not is_file_name(name):
            raise NotFoundError(delivery_not_found_text(image_id))
        download = partial(self._download, image_id, name, checksum=checksum)
        if fresh:
            return self._cache.open_uncached(download)
        return self._cache.open(image_id, name, download, self._retry.seconds)

    def delete(self, image_id: ImageId) -> None:
        """Delete all files of an image, and verify that none is left.

        Raises:
            OSError: A cached file could not be deleted; try again.
            UnavailableError: The store did not delete all in time; try again.
        """
        self._client.delete_all(self._prefix(image_id))
        self.evict(image_id)

    def evict(self, image_id: ImageId) -> None:
        """Delete the copies of an image's files that this host has cached.

        Call it once the record is deleted, by this host or another: no download in progress is cached
        afterwards.

        Raises:
            OSError: Some of them could not be deleted; try again.
        """
        self._cache.evict(image_id)

    def cached_ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images of which this host has cached files, in any order."""
        return self._cache.ids()

    def replace_file(self, image_id: ImageId, name: str, file: Path) -> None:
        """Store one of the files of an image; the given file is deleted."""
        self._client.overwrite(self._key(image_id, name), file)
        self.evict(image_id)
        file.unlink()

    def delete_file(self, image_id: ImageId, name: str) -> None:
        """Delete one of an image's files, if it is there."""
        if is_file_name(name):
            self._client.delete([self._key(image_id, name)])
            self.evict(image_id)

    def has(self, image_id: ImageId) -> bool:
        """Return whether files are stored under an id, also if the image is incomplete."""
        return any(True for _ in self._client.list(self._prefix(image_id)))

    @property
    def upload_grace_seconds(self) -> float:
        """The age from which files without a record belong to no upload in progress on another host."""
        return UPLOAD_GRACE_SECONDS

    def may_be_uploading(self, image_id: ImageId) -> bool:
        """Return whether files without a record may be those of an upload in progress on another host.

        The newest object's age is measured by the clock of the store: those of hosts can be wrong.
        """
        newest = self.modified_at(image_id)
        return newest is not None and self._now() - newest < timedelta(seconds=UPLOAD_GRACE_SECONDS)

    def modified_at(self, image_id: ImageId) -> datetime | None:
        """Return when a file of an image was stored last, by the clock of the store; `None` without files."""
        return max(
            (entry["last_modified"] for entry in self._client.list(self._prefix(image_id))), default=None
        )

    def read_record(self) -> bytes | None:
        """Return the record of the installation that the prefix belongs to, or `None`."""
        try:
            return self._client.read(RECORD_NAME)
        except FileNotFoundError:
            return None

    def write_record(self, data: bytes | None) -> None:
        """Store the record of the installation, in place of another; `None` deletes it."""
        if data is None:
            self._client.delete([RECORD_NAME])
        else:
            self._client.write(RECORD_NAME, data)

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images, also of incomplete ones, in any order."""
        for image_id, _ in groupby(owner(entry["path"]) for entry in self._client.list(f"{IMAGES}/")):
            if image_id is not None:
                yield image_id

    def sizes(self, image_id: ImageId) -> Mapping[str, int]:
        """Return the size of each of an image's files in bytes, by name; empty if nothing is stored."""
        prefix = self._prefix(image_id)
        return {entry["path"].removeprefix(prefix): entry["size"] for entry in self._client.list(prefix)}

    def unknown_paths(self) -> Iterator[str]:
        """Yield the paths, relative to the store, of what is in it but can belong to no image."""
        for entry in self._client.list(f"{IMAGES}/"):
            if owner(entry["path"]) is None:
                yield entry["path"].removeprefix(f"{IMAGES}/")

    def check_ready(self) -> None:
        """Raise EngineUnavailableError unless the store responds to one request."""
        try:
            self._request_list()
        except UnavailableError as error:
            raise EngineUnavailableError(
                "storage", f"expected a response but received {error.__cause__}"
            ) from error
        self._breaker.close()

    def _request_list(self) -> None:
        for _ in self._probe.list(f"{PROBE}/"):
            break

    def close(self) -> None:
        """Stop the eviction from this host's cache that is in progress."""
        self._cache.close()

    def _prefix(self, image_id: ImageId) -> str:
        return f"{IMAGES}/{shard(image_id)}/{image_id}/"

    def _key(self, image_id: ImageId, name: str) -> str:
        return self._prefix(image_id) + name

    def _create_large(self, image_id: ImageId, key: str, path: Path) -> None:
        """Upload a file in parts, which no store does only if there is no such object.

        Another upload under the id would fail to create the claim; one that ended before is found after it.
        """
        claim = self._key(image_id, _CLAIM)
        self._client.create(claim, b"")
        try:
            if self._client.size(key) is not None:
                raise _exists(image_id)
            self._client.overwrite(key, path)
        finally:
            self._client.delete([claim])

    def _download(self, image_id: ImageId, name: str, path: Path, *, checksum: str | int | None) -> int:
        """Write a file of an image to a path; return its size.

        One that has another checksum is downloaded once more, because it may have been changed in transit.
        """
        for _ in range(2):
            try:
                size = self._client.download(self._key(image_id, name), path)
            except FileNotFoundError:
                raise NotFoundError(delivery_not_found_text(image_id)) from None
            if checksum is None or has_checksum(path, checksum):
                return size
        raise InternalError(f"expected the stored file {name} of image {image_id} but received a damaged one")

    def _now(self) -> datetime:
        """Return the time of the store's clock, read at most a minute ago."""
        now = time.monotonic()
        if self._store_time is None or now - self._store_time[0] > 60:
            self._store_time = now, self._client.read_clock()
        read_at, store_time = self._store_time
        return store_time + timedelta(seconds=now - read_at)


def _exists(image_id: ImageId) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "files are stored already", image_id)
