"""Operations on an object store: objects are created and verified, downloaded, listed and deleted."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import md5, sha256
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen
from obstore.exceptions import AlreadyExistsError, PreconditionError

from imagehost_core._util.durable import open_owner_only, translate_disk_full
from imagehost_core.cluster.object.retries import NO_RESPONSE, IncompleteObjectError, RetryPolicy, failure
from imagehost_core.errors import UnavailableError
from imagehost_core.ids import ImageId, is_image_id
from imagehost_core.observer import StoreBytesTransferred
from imagehost_core.storage.blob_store import file_sha256
from imagehost_core.storage.layout import shard

if TYPE_CHECKING:
    from obstore import GetOptions, ListStream, ObjectMeta, PutResult
    from obstore.store import ObjectStore

IMAGES = "images"
"""The first segment of the paths of files."""


def owner(path: str) -> ImageId | None:
    """Return the image that an object belongs to, or `None` if it can belong to none."""
    match path.split("/"):
        case ["images", directory, image_id, _] if is_image_id(image_id):
            return image_id if shard(image_id) == directory else None
    return None


_PAGE = 1_000
"""Objects of a page of a list: the most of S3."""
_CHUNK_BYTES = 2**20
_CONCURRENT_PARTS = 2
PROBE = "probe"
"""The path of an object that is written to read the store's clock."""


@frozen
class ObjectClient:
    """The client of an object store.

    Attributes:
        store: The object store.
        retry: The bounds of each operation.
        part_bytes: The size of the parts of a large file, and of the largest one that is sent in one request.
    """

    store: ObjectStore
    retry: RetryPolicy
    part_bytes: int = 8 * 2**20

    def size(self, key: str, until: float | None = None) -> int | None:
        """Return the size of an object in bytes, or `None` if there is none.

        Args:
            key: The path of the object.
            until: As for `RetryPolicy.run`.
        """
        try:
            return self.retry.run(lambda: self.store.head(key)["size"], f"head {key}", until)
        except FileNotFoundError:
            return None

    def create(self, key: str, data: bytes, until: float | None = None) -> None:
        """Create an object, and verify it.

        Args:
            key: The path of the object.
            data: Its bytes.
            until: As for `RetryPolicy.run`.

        Raises:
            FileExistsError: There is such an object already.
            UnavailableError: The store did not respond in time; the object may exist.
        """
        attempts = 0

        def send() -> PutResult:
            nonlocal attempts
            attempts += 1
            return self.store.put(key, data, mode="create", use_multipart=False)

        digest = sha256(data).hexdigest()
        try:
            result = self.retry.run(send, f"create {key}", until)
        except AlreadyExistsError as error:
            # An earlier attempt may have created it though its response was lost.
            if attempts > 1 and self._sha256(key) == digest:
                return
            raise FileExistsError(errno.EEXIST, "the object exists already", key) from error
        self.retry.observe(StoreBytesTransferred("create", len(data)))
        # The entity tag of S3 is the MD5, unless the store encrypts with a key of its own.
        if (result["e_tag"] or "").strip('"') != md5(data, usedforsecurity=False).hexdigest():
            self._require_sha256(key, digest)

    def overwrite(self, key: str, path: Path) -> None:
        """Store a file as an object, in parts if it is large, and verify it.

        Raises:
            UnavailableError: The store did not respond in time.
        """
        put = partial(
            self.store.put, key, path, chunk_size=self.part_bytes, max_concurrency=_CONCURRENT_PARTS
        )
        self.retry.run(put, f"put {key}")
        self.retry.observe(StoreBytesTransferred("put", path.stat().st_size))
        self._require_sha256(key, file_sha256(path))

    def download(self, key: str, path: Path) -> int:
        """Write an object to a file, which is replaced; return its size in bytes.

        After a failure the download continues where it ended, if the object is the same.

        Raises:
            FileNotFoundError: There is no such object.
            InsufficientStorageError: The disk is full.
            UnavailableError: The store did not respond in time.
        """
        with open_owner_only(path, "wb") as file, translate_disk_full():
            return self._read(key, file.write)

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        Raises:
            FileNotFoundError: There is no such object.
            UnavailableError: The store did not respond in time.
        """
        data = bytearray()
        self._read(key, data.extend)
        return bytes(data)

    def write(self, key: str, data: bytes) -> None:
        """Store an object without verifying it, in place of another.

        Raises:
            UnavailableError: The store did not respond in time.
        """
        self.retry.run(lambda: self.store.put(key, data, use_multipart=False), f"put {key}")
        self.retry.observe(StoreBytesTransferred("put", len(data)))

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; those that are missing are ignored."""
        if keys:
            self.retry.run(lambda: self._delete(keys), f"delete {keys[0]}")

    def delete_all(self, prefix: str) -> None:
        """Delete all objects below a prefix, and verify by a list that none is left.

        Raises:
            UnavailableError: Objects were left when the time was over.
        """
        until = self.retry.start()
        while keys := [entry["path"] for entry in self.list(prefix, until)]:
            self.retry.run(partial(self._delete, keys), f"delete {prefix}", until)
            if self.retry.clock() >= until:
                left = TimeoutError(f"{len(keys)} objects are left")
                raise UnavailableError(NO_RESPONSE) from failure(f"delete {prefix}", left)

    def list(self, prefix: str, until: float | None = None) -> Iterator[ObjectMeta]:
        """Yield the objects below a prefix, read page by page.

        Args:
            prefix: Segments of a path, with a slash at the end.
            until: As for `RetryPolicy.run`; by default each page has a time of its own.
        """
        stream: ListStream[Sequence[ObjectMeta]] | None = None
        last: str | None = None

        def next_page() -> Sequence[ObjectMeta]:
            nonlocal stream
            pages = stream or self.store.list(prefix, offset=last, chunk_size=_PAGE)
            stream = None
            page = next(pages, ())
            stream = pages
            return page

        while page := self.retry.run(next_page, f"list {prefix}", until):
            yield from page
            last = page[-1]["path"]

    def read_clock(self) -> datetime:
        """Return the time of the store's clock: that of an object which is written now."""
        self.retry.run(lambda: self.store.put(PROBE, b"", use_multipart=False), f"put {PROBE}")
        return self.retry.run(lambda: self.store.head(PROBE)["last_modified"], f"head {PROBE}")

    def _delete(self, keys: Sequence[str]) -> None:
        remaining = list(keys)
        try:
            self.store.delete(remaining)
        except FileNotFoundError:
            # Some stores report the first missing object, and leave those after it.
            for key in remaining:
                try:
                    self.store.delete(key)
                except FileNotFoundError:
                    continue

    def _read(self, key: str, write: Callable[[bytes], object]) -> int:
        """Pass an object's bytes to a function, each once and in order; return their number."""
        received = 0
        e_tag: str | None = None

        def receive() -> int:
            nonlocal received, e_tag
            options: GetOptions = {}
            if received:
                options = {"range": {"offset": received}, "if_match": e_tag}
            result = self.store.get(key, options=options)
            e_tag = result.meta["e_tag"]
            for chunk in result.stream(min_chunk_size=_CHUNK_BYTES):
                write(chunk)
                received += len(chunk)
            if received != result.meta["size"]:
                raise IncompleteObjectError(f"expected {result.meta['size']} bytes but received {received}")
            return received

        try:
            return self.retry.run(receive, f"get {key}")
        except PreconditionError as error:
            raise UnavailableError(NO_RESPONSE) from failure(f"get {key}", error)
        finally:
            self.retry.observe(StoreBytesTransferred("get", received))

    def _sha256(self, key: str) -> str:
        digest = sha256()
        self._read(key, digest.update)
        return digest.hexdigest()

    def _require_sha256(self, key: str, expected: str) -> None:
        """Raise UnavailableError unless an object has a SHA-256."""
        received = self._sha256(key)
        if received != expected:
            error = IncompleteObjectError(f"expected SHA-256 {expected} of {key} but received {received}")
            raise UnavailableError(NO_RESPONSE) from failure(f"verify {key}", error)
