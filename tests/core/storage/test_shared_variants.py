"""Variants that hosts share in an object store: written in the background, gone with their image, bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore, S3Store

from imagehost_core.ids import ImageId
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, GenerationTable, LockManager, StagingArea
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.storage.cache.variant_files import encode_variant
from imagehost_core.storage.object.client import ObjectClient
from imagehost_core.storage.object.retries import RetryPolicy
from imagehost_core.storage.object.shared_variants import SharedVariants

if TYPE_CHECKING:
    from obstore.store import ObjectStore

ID = ImageId("abCD0123456789xy")
OTHER = ImageId("zz" + "0" * 14)


def new_shared(
    store: ObjectStore,
    locks: LockManager | None = None,
    exists: Callable[[ImageId], bool] = lambda _: True,
) -> SharedVariants:
    """Return the shared variants of a host; without locks it can write none."""
    client, quick = ObjectClient(store, RetryPolicy(20)), ObjectClient(store, RetryPolicy(0))
    return SharedVariants(client, quick, cast("LockManager", locks), exists)


class Host:
    """A host with its own data directory, on an object store and a set of deleted images that hosts share."""

    def __init__(self, path: Path, store: ObjectStore, deleted: set[ImageId], stack: ExitStack) -> None:
        layout = DataLayout(path)
        staging = stack.enter_context(closing(StagingArea(layout.staging, 0)))
        locks = LockManager(layout.locks)
        generations = stack.enter_context(closing(GenerationTable(layout.generations)))
        self.on_check: Callable[[], object] = lambda: None
        self.deleted = deleted
        self.shared = new_shared(store, locks, self.exists)
        stack.callback(self.shared.close)
        self.cache = VariantCache(
            layout, staging, locks, generations, DeliverySettings(), self.exists, shared=self.shared
        )

    def exists(self, image_id: ImageId) -> bool:
        """Return whether an image exists, after what the test does meanwhile."""
        exists = image_id not in self.deleted
        self.on_check()
        return exists


@pytest.fixture
def store() -> ObjectStore:
    return MemoryStore()


@pytest.fixture
def hosts(tmp_path: Path, store: ObjectStore) -> Iterator[tuple[Host, Host]]:
    deleted: set[ImageId] = set()
    with ExitStack() as stack:
        yield Host(tmp_path / "a", store, deleted, stack), Host(tmp_path / "b", store, deleted, stack)


def paths(store: ObjectStore) -> list[str]:
    return [entry["path"] for page in store.list("variants/") for entry in page]


def test_a_variant_that_one_host_has_rendered_is_fetched_by_another(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    first.cache.put(ID, "key", b"data", share=True)
    first.shared.flush()
    assert second.cache.get(ID, "key") is None
    assert second.cache.fetch(ID, "key") == b"data"
    assert second.cache.get(ID, "key") == b"data"
    assert second.cache.sizes(ID), "it is on the disk of the second host"
    assert second.cache.fetch(ID, "other") is None


def test_a_variant_that_is_not_to_be_shared_is_not(hosts: tuple[Host, Host], store: ObjectStore) -> None:
    hosts[0].cache.put(ID, "key", b"data")
    hosts[0].shared.flush()
    assert paths(store) == []


@given(data=st.binary(min_size=1, max_size=60), where=st.data())
def test_a_corrupt_variant_is_not_used(data: bytes, where: st.DataObject) -> None:
    store, content = MemoryStore(), encode_variant(data)
    position = where.draw(st.integers(0, len(content) - 1))
    damaged = where.draw(
        st.sampled_from(
            [
                content[:position],
                content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :],
            ]
        )
    )
    store.put(f"variants/ab/{ID}/key", damaged)
    with closing(new_shared(store)) as shared:
        assert shared.get(ID, "key") is None


def test_a_variant_of_a_deleted_image_is_not_written(hosts: tuple[Host, Host], store: ObjectStore) -> None:
    first, _ = hosts
    first.deleted.add(ID)
    first.shared.put(ID, "key", b"data")
    first.shared.flush()
    assert paths(store) == []


def test_a_variant_is_deleted_again_if_another_host_deletes_its_image_meanwhile(
    hosts: tuple[Host, Host], store: ObjectStore
) -> None:
    first, second = hosts

    def delete_on_the_second_host() -> None:
        # After the first host has found that the image exists, and before it writes the variant.
        first.on_check = lambda: None
        first.deleted.add(ID)
        second.cache.purge(ID)
        second.shared.delete(ID)

    first.on_check = delete_on_the_second_host
    first.shared.put(ID, "key", b"data")
    first.shared.flush()
    assert paths(store) == []


def test_a_purge_waits_for_a_variant_that_its_host_is_writing(
    hosts: tuple[Host, Host], store: ObjectStore
) -> None:
    first, _ = hosts
    checked, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        first.on_check = lambda: None
        checked.set()
        assert go_on.wait(20)

    first.on_check = pause
    first.shared.put(ID, "key", b"data")
    assert checked.wait(20)
    first.deleted.add(ID)
    purged = threading.Event()

    def purge() -> None:
        first.cache.purge(ID)
        purged.set()

    thread = threading.Thread(target=purge)
    thread.start()
    assert not purged.wait(0.1)
    go_on.set()
    thread.join(20)
    # What was written before is deleted with the image's files, and nothing is written afterwards.
    first.shared.delete(ID)
    first.shared.flush()
    assert paths(store) == []


def test_a_store_that_does_not_respond_is_left_alone_for_a_while(tmp_path: Path) -> None:
    now = [0.0]
    unreachable = S3Store(
        "bucket",
        endpoint="http://127.0.0.1:1",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    calls: list[str] = []

    class Counting(ObjectClient):
        def read(self, key: str) -> bytes:
            calls.append(key)
            return super().read(key)

    client = Counting(unreachable, RetryPolicy(0))
    locks = LockManager(tmp_path / "locks")
    with closing(SharedVariants(client, client, locks, lambda _: True, lambda: now[0])) as shared:
        assert shared.get(ID, "key") is None
        assert shared.get(ID, "key") is None
        assert len(calls) == 1
        now[0] = 11.0
        assert shared.get(ID, "key") is None
        assert len(calls) == 2


def test_variants_that_would_wait_behind_too_many_others_are_left_out(
    hosts: tuple[Host, Host], store: ObjectStore
) -> None:
    first, _ = hosts
    go_on = threading.Event()
    first.on_check = lambda: go_on.wait(20)
    for number in range(6):
        first.shared.put(ID, f"key{number}", bytes(20 * 2**20))
    go_on.set()
    first.shared.flush()
    assert len(paths(store)) == 3


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(1, 100), max_size=20), limit=st.integers(0, 2_000))
def test_garbage_collection_reduces_variants_to_their_limit(sizes: list[int], limit: int) -> None:
    store = MemoryStore()
    for number, size in enumerate(sizes):
        store.put(f"variants/ab/{ID}/{number}", bytes(size))
    with closing(new_shared(store)) as shared:
        expected = shared.sweep(limit, dry_run=True)
        assert sum(shared.sizes(ID).values()) == sum(sizes)
        assert shared.sweep(limit) == expected
        left = sum(shared.sizes(ID).values())
        assert left <= limit
        assert left + expected[1] == sum(sizes)
        assert not expected[0] or sum(sizes) > limit


def test_ids_are_those_of_images_with_variants(hosts: tuple[Host, Host], store: ObjectStore) -> None:
    for image_id in (ID, OTHER):
        for key in ("a", "b"):
            hosts[0].shared.put(image_id, key, b"data")
    hosts[0].shared.flush()
    store.put("variants/ab/other/key", b"")
    assert sorted(hosts[1].cache.shared_ids()) == [ID, OTHER]
    hosts[1].cache.delete_shared(ID)
    assert list(hosts[1].cache.shared_ids()) == [OTHER]
