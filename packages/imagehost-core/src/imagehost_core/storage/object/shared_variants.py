"""Shared variants: the second level of the variant cache, in the object store, for all hosts.

Variants are the objects `variants/<shard>/<id>/<key>`. They are written in the background, when the response
is ready, and no request waits for them: where the store is slow, they are rendered again. One is written
under a lock of the image and only while the image exists, and deleted again if another host has deleted the
image meanwhile. What a crash leaves is found by garbage collection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import groupby

from imagehost_core.errors import UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.storage.cache.variant_files import decode_variant, encode_variant
from imagehost_core.storage.layout import shard
from imagehost_core.storage.locks import LockManager
from imagehost_core.storage.object.client import VARIANTS, ObjectClient, owner

_THREADS = 2
_QUEUE_BYTES = 64 * 2**20
"""Bytes of variants that may wait to be written, in each process; further ones are not shared."""
_PAUSE_SECONDS = 10.0
"""The time for which the store is not used after it did not respond."""
_BATCH = 1_000
_LOCK = "shared-variants"

log = logging.getLogger(__name__)


class SharedVariants:
    """The variants in an object store.

    Args:
        client: The client of the object store, for deletions and garbage collection.
        quick: A client of the same store with a short timeout and no retries, for variants.
        locks: The locks of the data directory.
        exists: Returns whether an image exists now.
        clock: The source of monotonic time in seconds.
    """

    def __init__(
        self,
        client: ObjectClient,
        quick: ObjectClient,
        locks: LockManager,
        exists: Callable[[ImageId], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._quick = quick
        self._locks = locks
        self._exists = exists
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, "shared-variants")
        self._queue_lock = threading.Lock()
        self._queued_bytes = 0
        self._writes: set[Future[None]] = set()
        self._paused_until = clock()

    def get(self, image_id: ImageId, key: str) -> bytes | None:
        """Return a variant, or `None` if it is not stored, is corrupt, or the store does not respond."""
        if self._clock() < self._paused_until:
            return None
        try:
            content = self._quick.read(self._path(image_id, key))
        except FileNotFoundError:
            return None
        except UnavailableError as error:
            self._pause(error)
            return None
        data = decode_variant(content)
        if data is None:
            log.warning("ignoring corrupt shared variant: image=%s key=%s", image_id, key)
        return data

    def put(self, image_id: ImageId, key: str, data: bytes) -> None:
        """Write a variant in the background; one that would wait behind too many others is left out."""
        with self._queue_lock:
            if self._queued_bytes + len(data) > _QUEUE_BYTES or self._clock() < self._paused_until:
                return
            self._queued_bytes += len(data)
            write = self._threads.submit(self._write, image_id, key, data)
            self._writes.add(write)
        write.add_done_callback(self._writes.discard)

    def wait(self, image_id: ImageId) -> None:
        """Wait until no variant of an image is being written by this host, whose record is deleted."""
        with self._locks.acquire(_LOCK, image_id):
            pass

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images with shared variants, in any order."""
        paths = (entry["path"] for entry in self._client.list(f"{VARIANTS}/"))
        for image_id, _ in groupby(owner(path, VARIANTS) for path in paths):
            if image_id is not None:
                yield image_id

    def sizes(self, image_id: ImageId) -> dict[str, int]:
        """Return the size of the object of each of an image's variants in bytes, by key."""
        prefix = self._path(image_id, "")
        return {entry["path"].removeprefix(prefix): entry["size"] for entry in self._client.list(prefix)}

    def delete(self, image_id: ImageId) -> None:
        """Delete all variants of an image, and verify that none is left.

        Raises:
            UnavailableError: The store did not delete all in time.
        """
        self._client.delete_all(self._path(image_id, ""))

    def sweep(self, limit_bytes: int, *, dry_run: bool = False) -> tuple[int, int]:
        """Delete the oldest variants, by the hour, until the others are within a limit.

        Args:
            limit_bytes: The most bytes to keep.
            dry_run: Whether to delete nothing.

        Returns:
            The number of deleted variants and their bytes.
        """
        by_hour: Counter[int] = Counter()
        for entry in self._client.list(f"{VARIANTS}/"):
            by_hour[int(entry["last_modified"].timestamp()) // 3_600] += entry["size"]
        left, last_hour = by_hour.total(), -1
        for hour, size in sorted(by_hour.items()):
            if left <= limit_bytes:
                break
            left, last_hour = left - size, hour
        if last_hour < 0:
            return 0, 0
        count = freed = 0
        batch: list[str] = []
        for entry in self._client.list(f"{VARIANTS}/"):
            if int(entry["last_modified"].timestamp()) // 3_600 <= last_hour:
                count, freed = count + 1, freed + entry["size"]
                batch.append(entry["path"])
            if len(batch) == _BATCH and not dry_run:
                self._client.delete(batch)
                batch = []
        if not dry_run:
            self._client.delete(batch)
        return count, freed

    def flush(self) -> None:
        """Wait until all variants are written that `put` was called with."""
        with self._queue_lock:
            writes = tuple(self._writes)
        wait(writes)

    def close(self) -> None:
        """Drop the variants that wait to be written."""
        self._threads.shutdown(cancel_futures=True)

    def _write(self, image_id: ImageId, key: str, data: bytes) -> None:
        path = self._path(image_id, key)
        try:
            with self._locks.acquire(_LOCK, image_id):
                if not self._exists(image_id):
                    return
                self._quick.write(path, encode_variant(data))
            # Another host, whose deletion does not wait for the lock, may have deleted the image meanwhile.
            if not self._exists(image_id):
                self._quick.delete([path])
        except UnavailableError as error:
            self._pause(error)
        except Exception:
            log.exception("cannot share variant: image=%s key=%s", image_id, key)
        finally:
            with self._queue_lock:
                self._queued_bytes -= len(data)

    def _pause(self, error: UnavailableError) -> None:
        log.warning("object store does not respond, variants are not shared for a while: %s", error.__cause__)
        self._paused_until = self._clock() + _PAUSE_SECONDS

    def _path(self, image_id: ImageId, key: str) -> str:
        return f"{VARIANTS}/{shard(image_id)}/{image_id}/{key}"
