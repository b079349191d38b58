"""The caches of a process when another host deletes or changes an image in the object store of both."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from attrs import frozen
from obstore.store import MemoryStore
from tests.waiting import wait_until

from imagehost_core.cluster.cache_lease import CacheLease, LeasedGenerationTable
from imagehost_core.cluster.object.blob_cache import BlobCache
from imagehost_core.cluster.object.object_blob_store import ObjectBlobStore
from imagehost_core.cluster.remote_changes import ProcessCaches, process_caches
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import ALL_IMAGES, PRINCIPALS, deleted_image
from imagehost_core.ids import ImageId
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import MASTER, DataLayout, StagingArea
from imagehost_core.storage.cache.variant_cache import VariantCache

ID, OTHER = ImageId("abCD0123456789xy"), ImageId("zzCD0123456789xy")
KEY = "key"
STORED = {f"images/{image_id[:2]}/{image_id}/{MASTER}": b"master" for image_id in (ID, OTHER)}


@frozen
class Process:
    """A process of a host, with what it keeps of images."""

    layout: DataLayout
    locks: LockManager
    images: LeasedGenerationTable
    principals: LeasedGenerationTable
    variants: VariantCache
    blobs: ObjectBlobStore
    caches: ProcessCaches

    def variant(self, image_id: ImageId) -> bytes | None:
        """Return a variant that is in memory and valid."""
        return self.variants.get_memory(image_id, KEY, self.images.read(image_id))

    def files(self, image_id: ImageId) -> list[Path]:
        """Return the files of an image on the disk."""
        return [path for path in self.layout.root.rglob(f"{image_id}/*") if path.is_file()]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """A process with a lease, a master and a variant of two images, and a principal."""
    layout, store = DataLayout(tmp_path), MemoryStore()
    for path, data in STORED.items():
        store.put(path, data)
    with ExitStack() as stack:
        staging = stack.enter_context(closing(StagingArea(layout.staging, 0)))
        locks, lease = LockManager(layout.locks), CacheLease()
        lease.until = math.inf
        images, principals = (
            stack.enter_context(closing(LeasedGenerationTable(tmp_path / name, lease)))
            for name in ("generations", "principal-generations")
        )

        def exists(image_id: ImageId) -> bool:
            return True

        blobs = ObjectBlobStore(store, BlobCache(layout.cache, staging, locks, 2**20, exists))
        stack.callback(blobs.close)
        variants = VariantCache(layout, staging, locks, images, DeliverySettings(), exists)
        stack.callback(variants.close)
        for image_id in (ID, OTHER):
            blobs.open(image_id).close()
            variants.put(image_id, KEY, b"variant")
        caches = process_caches(images, principals, variants, blobs, tmp_path / "generations", lambda: None)
        yield Process(layout, locks, images, principals, variants, blobs, caches)


def test_no_file_of_an_image_is_left_that_another_host_has_deleted(process: Process) -> None:
    assert {path.name for path in process.files(ID)} == {MASTER, KEY}
    process.caches.invalidate([deleted_image(ID)])
    assert process.files(ID) == []
    assert process.variant(ID) is None
    assert (process.variant(OTHER), len(process.files(OTHER))) == (b"variant", 2)


def test_a_variant_is_not_in_memory_that_was_read_before_its_file_was_deleted(process: Process) -> None:
    with process.locks.acquire("variants", ID):
        generation = process.images.read(ID)
        thread = threading.Thread(target=process.caches.invalidate, args=[[deleted_image(ID)]])
        thread.start()
        wait_until(lambda: process.images.read(ID) != generation)
        # The file is deleted when the lock is free.
        assert process.variants.get(ID, KEY) == b"variant"
        assert process.variant(ID) is not None
    thread.join(30)
    assert process.variant(ID) is None


@pytest.mark.parametrize("keys", [[ID], [ALL_IMAGES], [ID, PRINCIPALS], [deleted_image(ID)]])
def test_an_image_that_another_host_has_changed_is_not_served_from_memory(
    process: Process, keys: list[str]
) -> None:
    before = process.images.read(ID), process.images.read(OTHER), process.principals.read(PRINCIPALS)
    process.caches.invalidate(keys)
    assert process.variant(ID) is None
    after = process.images.read(ID), process.images.read(OTHER), process.principals.read(PRINCIPALS)
    assert [old != new for old, new in zip(before, after, strict=True)] == [
        True,
        ALL_IMAGES in keys,
        PRINCIPALS in keys,
    ]


def test_nothing_is_served_from_memory_without_a_lease(process: Process) -> None:
    process.caches.lease.end()
    assert process.variant(ID) is None
    assert process.images.read(ID) is None
    assert process.principals.read(PRINCIPALS) is None


def test_nothing_is_served_from_memory_after_the_connection_was_lost(process: Process) -> None:
    before = process.principals.read(PRINCIPALS)
    process.caches.invalidate_all()
    assert process.variant(ID) is None
    assert process.variant(OTHER) is None
    assert process.principals.read(PRINCIPALS) != before
