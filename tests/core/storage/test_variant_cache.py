"""The variant cache: limited in size, never served when corrupt or stale."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.storage.stored_bytes import stored_bytes
from tests.page_cache import require_nowait

from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, new_image_id
from imagehost_core.observer import Measurement, Observer, VariantsSwept, ignore
from imagehost_core.settings import DeliverySettings
from imagehost_core.storage import DataLayout, StagingArea
from imagehost_core.storage.cache.eviction import EvictionStopped
from imagehost_core.storage.cache.variant_cache import (
    LARGE_VARIANT_BYTES,
    MEMORY_ENTRY_BYTES,
    TOUCH_SECONDS,
    VariantCache,
)

ID = ImageId("abCD0123456789xy")


class CacheDir:
    """A data directory with variant caches; images exist until they are added to `deleted`."""

    def __init__(self, root: Path, min_free_bytes: int = 0) -> None:
        self.layout = DataLayout(root)
        self.locks = LockManager(self.layout.locks)
        self.generations = GenerationTable(self.layout.generations)
        self.staging = StagingArea(self.layout.staging, min_free_bytes)
        self.deleted: set[ImageId] = set()

    def cache(
        self, observe: Observer = ignore, exists: Callable[[ImageId], bool] | None = None, **limits: Any
    ) -> VariantCache:
        """Return a cache with a separate memory, as each process has one."""
        return VariantCache(
            self.layout,
            self.staging,
            self.locks,
            self.generations,
            DeliverySettings(**limits),
            exists or (lambda image_id: image_id not in self.deleted),
            observe,
        )

    def stored_bytes(self) -> int:
        """Return the bytes of all variants on disk."""
        return stored_bytes(self.layout.variants)

    def on_disk(self, image_id: ImageId = ID) -> list[str]:
        """Return the keys of an image's variants on disk."""
        directory = self.layout.variants_of(image_id)
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def close(self) -> None:
        self.staging.close()
        self.generations.close()


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[CacheDir]:
    directory = CacheDir(tmp_path)
    yield directory
    directory.close()


def in_memory(cache: VariantCache, key: str) -> bytes | None:
    """Return a variant if it is in memory and valid."""
    return cache.get_memory(ID, key, cache._generations.read(ID))


def test_a_variant_is_cached_in_memory_and_for_other_processes_on_disk(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache()
    assert in_memory(cache, "key") is None
    cache.put(ID, "key", b"data")
    assert in_memory(cache, "key") == b"data"
    assert cache.get(ID, "key") == b"data"
    other = cache_dir.cache()
    assert in_memory(other, "key") is None
    assert other.get(ID, "key") == b"data"
    assert in_memory(other, "key") == b"data"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=60), where=st.data())
def test_a_corrupt_file_is_discarded(cache_dir: CacheDir, data: bytes, where: st.DataObject) -> None:
    image_id = new_image_id()
    cache_dir.cache().put(image_id, "key", data)
    path = cache_dir.layout.variants_of(image_id) / "key"
    whole = path.read_bytes()
    cut = where.draw(st.integers(0, len(whole) - 1))
    corrupt = where.draw(
        st.sampled_from(
            [
                whole[:cut],
                whole[:cut] + bytes([whole[cut] ^ 1]) + whole[cut + 1 :],
                whole + b"x",
                bytes(len(whole)),
            ]
        )
    )
    path.write_bytes(corrupt)
    assert cache_dir.cache().get(image_id, "key") is None
    assert not path.exists()
    cache_dir.cache().put(image_id, "key", b"new")
    assert cache_dir.cache().get(image_id, "key") == b"new"


def test_an_image_keeps_its_most_recently_used_variants_up_to_the_limit(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache(variants_per_image=3, memory_cache_bytes=0)
    directory = cache_dir.layout.variants_of(ID)
    for turn, key in enumerate("abc"):
        cache.put(ID, key, b"data")
        os.utime(directory / key, (turn, turn))
    assert cache.get(ID, "a") == b"data"
    cache.put(ID, "d", b"data")
    assert cache_dir.on_disk() == ["a", "c", "d"]
    other = new_image_id()
    cache.put(other, "x", b"data")
    assert cache_dir.on_disk() == ["a", "c", "d"], "each image has a separate limit"


def test_an_image_over_the_limit_has_more_than_one_variant_evicted(cache_dir: CacheDir) -> None:
    """So the variants are not sorted again for each further one."""
    cache = cache_dir.cache(variants_per_image=16, memory_cache_bytes=0)
    directory = cache_dir.layout.variants_of(ID)
    counts = []
    for turn in range(40):
        cache.put(ID, f"{turn}", b"data")
        os.utime(directory / f"{turn}", (turn, turn))
        keys = sorted(map(int, cache_dir.on_disk()))
        counts.append(len(keys))
        assert keys == list(range(turn + 1 - len(keys), turn + 1)), (
            "the least recently used are evicted first"
        )
    assert counts == [*range(1, 17), *[14, 15, 16] * 8]


def test_a_file_that_is_deleted_during_an_eviction_is_no_error(cache_dir: CacheDir) -> None:
    """A sweep may delete files at any time; a dangling link stands for a file that was just deleted."""
    cache = cache_dir.cache(variants_per_image=1)
    cache.put(ID, "a", b"data")
    (cache_dir.layout.variants_of(ID) / "deleted").symlink_to("missing")
    cache.put(ID, "b", b"data")
    assert cache_dir.on_disk() == ["b"]
    (cache_dir.layout.variants_of(ID) / "deleted").symlink_to("missing")
    cache.sweep()


def test_a_sweep_evicts_the_least_recently_used_variants_down_to_the_limit(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache(disk_cache_bytes=400)
    images = [new_image_id() for _ in range(6)]
    for turn, image_id in enumerate(images):
        cache_dir.cache().put(image_id, "key", bytes(100))
        os.utime(cache_dir.layout.variants_of(image_id) / "key", (turn, turn))
    assert cache_dir.cache().get(images[0], "key") == bytes(100)
    cache.sweep()
    size = (cache_dir.layout.variants_of(images[0]) / "key").stat().st_size
    cached = [image_id for image_id in images if cache_dir.on_disk(image_id)]
    assert cached == [images[0], *images[-(400 // size - 1) :]]


def test_sweeps_run_automatically_and_keep_the_limit(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache(disk_cache_bytes=2_000, memory_cache_bytes=0)
    for _ in range(100):
        cache.put(new_image_id(), "key", bytes(90))
        assert cache_dir.stored_bytes() <= 2_000 + 2 * 2_000 // 20 + 2 * 110
    cache.flush()
    assert 1_500 < cache_dir.stored_bytes() <= 2_000 + 2_000 // 20 + 110


class BlockedSweep:
    """An observer that stops each sweep at its end, until `proceed` is set."""

    def __init__(self) -> None:
        self.swept, self.proceed = threading.Event(), threading.Event()

    def __call__(self, measurement: Measurement) -> None:
        if isinstance(measurement, VariantsSwept):
            self.swept.set()
            self.proceed.wait(20)
            self.proceed.set()


def test_a_request_does_not_wait_for_the_sweep_that_it_causes(cache_dir: CacheDir) -> None:
    sweep = BlockedSweep()
    cache = cache_dir.cache(sweep, disk_cache_bytes=2_000, memory_cache_bytes=0)
    # A cache above its limit, as after the limit was lowered.
    other = cache_dir.cache()
    for _ in range(50):
        other.put(new_image_id(), "key", bytes(90))
    try:
        cache.put(ID, "key", bytes(110))
        assert sweep.swept.wait(60), "the sweep runs in the background"
        # The sweep has not ended: only another twentieth of the limit is written meanwhile.
        ids = [new_image_id() for _ in range(20)]
        for image_id in ids:
            cache.put(image_id, "key", bytes(50))
        assert [bool(cache_dir.on_disk(image_id)) for image_id in ids] == [True] * 3 + [False] * 17
    finally:
        sweep.proceed.set()
    cache.flush()
    assert cache_dir.stored_bytes() <= 2_000 + 2_000 // 20 + 110
    cache.put(image_id := new_image_id(), "key", bytes(50))
    assert cache_dir.on_disk(image_id) == ["key"], "after the sweep, variants are written again"
    cache.flush()
    assert cache_dir.stored_bytes() <= 2_000


def test_closing_stops_a_sweep(cache_dir: CacheDir) -> None:
    sweep = BlockedSweep()
    cache = cache_dir.cache(sweep, disk_cache_bytes=2_000, memory_cache_bytes=0)
    cache.put(ID, "key", bytes(110))
    assert sweep.swept.wait(60)
    sweep.proceed.set()
    cache.close()
    stored = cache_dir.stored_bytes()
    cache.put(new_image_id(), "key", bytes(2_000))
    cache.flush()
    assert cache_dir.stored_bytes() > stored + 2_000, "no sweep starts after that"
    with pytest.raises(EvictionStopped):
        cache.sweep(lambda: True)
    with cache_dir.locks.try_acquire("sweep") as acquired:
        assert acquired


def test_a_sweep_that_fails_is_logged_and_tried_again(
    cache_dir: CacheDir, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(measurement: Measurement) -> None:
        if isinstance(measurement, VariantsSwept):
            raise OSError("expected")

    cache = cache_dir.cache(fail, disk_cache_bytes=2_000, memory_cache_bytes=0)
    for turn in range(1, 3):
        cache.put(new_image_id(), "key", bytes(110))
        cache.flush()
        assert caplog.text.count("sweep of a cache failed") == turn


def test_a_sweep_does_nothing_while_another_runs(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache(disk_cache_bytes=0)
    cache_dir.cache().put(ID, "key", b"data")
    with cache_dir.locks.try_acquire("sweep"):
        cache.sweep()
        assert cache_dir.on_disk() == ["key"]
    cache.sweep()
    assert cache_dir.on_disk() == []


def test_a_render_in_progress_caches_nothing_for_a_deleted_image(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache()

    cache.put(ID, "other", b"data")
    with cache_dir.locks.acquire("image", ID), cache_dir.generations.bump(ID):
        cache_dir.deleted.add(ID)
        cache.purge(ID)
    with pytest.raises(NotFoundError):
        cache.put(ID, "key", b"too late")
    assert cache_dir.on_disk() == []
    assert in_memory(cache, "key") is None
    assert in_memory(cache, "other") is None
    with pytest.raises(NotFoundError):
        cache.put(ID, "other", b"data")


def test_a_purge_waits_for_a_variant_that_is_being_written(cache_dir: CacheDir) -> None:
    """The image is deleted after a render has seen that it exists, and before the variant is on the disk."""
    purge = threading.Thread(target=lambda: cache_dir.cache().purge(ID))

    def exists(_image_id: ImageId) -> bool:
        purge.start()
        # It cannot end before the variant is written.
        purge.join(timeout=0.5)
        return True

    cache_dir.cache(exists=exists).put(ID, "key", b"data")
    purge.join()
    assert cache_dir.on_disk() == []


def test_a_variant_that_is_read_during_a_change_is_not_cached_in_memory(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache()
    cache_dir.cache().put(ID, "key", b"data")
    with cache_dir.generations.bump(ID):
        assert cache.get(ID, "key") == b"data"
        assert in_memory(cache, "key") is None
    assert in_memory(cache, "key") is None
    assert cache.get(ID, "key") == b"data"
    assert in_memory(cache, "key") == b"data"


def test_a_variant_that_is_stored_while_its_image_changes_is_not_in_memory(cache_dir: CacheDir) -> None:
    """The whole change is between the look at the record and the write."""
    is_changed = False

    def change(_: ImageId) -> bool:
        nonlocal is_changed
        is_changed = True
        with cache_dir.generations.bump(ID):
            pass
        return True

    cache = cache_dir.cache(exists=change)
    cache.put(ID, "key", b"data")
    assert is_changed
    assert in_memory(cache, "key") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in directories")
def test_a_variant_that_is_read_from_the_disk_while_its_image_changes_is_not_in_memory(
    cache_dir: CacheDir,
) -> None:
    """The whole change is between the beginning and the end of the read, of a named pipe."""
    cache = cache_dir.cache()
    cache.put(ID, "key", b"data")
    path = cache_dir.layout.variants_of(ID) / "key"
    content = path.read_bytes()
    with cache_dir.generations.bump(ID):
        path.unlink()
        os.mkfifo(path)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(cache.get, ID, "key")
        # Waits until the reader has opened the file.
        with path.open("wb") as file:
            with cache_dir.generations.bump(ID):
                pass
            file.write(content)
        assert reading.result(30) == b"data"
    assert in_memory(cache, "key") is None


def test_a_variant_in_the_page_cache_is_read_without_waiting(cache_dir: CacheDir, tmp_path: Path) -> None:
    require_nowait(tmp_path)
    cache_dir.cache().put(ID, "key", b"data")
    cache_dir.cache().put(ID, "large", bytes(LARGE_VARIANT_BYTES + 1))
    cache = cache_dir.cache()
    assert cache.read_nowait(ID, "key") == ("disk", b"data")
    assert cache.read_nowait(ID, "key") == ("memory", b"data")
    assert cache.read_nowait(ID, "large") is None
    assert cache.read_nowait(ID, "other") is None
    path = cache_dir.layout.variants_of(ID) / "key"
    path.write_bytes(path.read_bytes()[:-1])
    assert cache_dir.cache().read_nowait(ID, "key") is None


@pytest.mark.parametrize("is_verified", [True, False])
def test_a_variant_of_which_the_page_cache_has_a_part_is_left_to_a_thread(
    cache_dir: CacheDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_verified: bool
) -> None:
    require_nowait(tmp_path)
    data, read = os.urandom(9_000), os.preadv
    cache = cache_dir.cache(memory_cache_bytes=0)
    cache.put(ID, "key", data)
    for _ in range(is_verified):
        assert cache.read_nowait(ID, "key") == ("disk", data)
    monkeypatch.setattr(os, "preadv", lambda *arguments: min(4_096, read(*arguments)))
    assert cache.read_nowait(ID, "key") is None
    assert cache.get(ID, "key") == data


def test_the_checksum_of_a_variant_is_verified_once_by_a_process(cache_dir: CacheDir, tmp_path: Path) -> None:
    """Corrupt bytes come from a power failure, so no process has verified them before."""
    require_nowait(tmp_path)
    cache_dir.cache().put(ID, "key", b"data")
    path = cache_dir.layout.variants_of(ID) / "key"
    verified = cache_dir.cache(memory_cache_bytes=0)
    assert verified.read_nowait(ID, "key") == ("disk", b"data")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert verified.read_nowait(ID, "key") is not None
    assert cache_dir.cache().read_nowait(ID, "key") is None


def test_a_variant_that_must_be_read_from_the_disk_is_left_to_a_thread(
    cache_dir: CacheDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def would_block(*_: object) -> int:
        raise BlockingIOError

    cache_dir.cache().put(ID, "key", b"data")
    cache = cache_dir.cache()
    monkeypatch.setattr(os, "preadv", would_block)
    assert cache.read_nowait(ID, "key") is None
    assert cache.get(ID, "key") == b"data"


def test_a_variant_that_is_read_without_waiting_while_its_image_changes_is_not_sent(
    cache_dir: CacheDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_nowait(tmp_path)
    cache_dir.cache().put(ID, "key", b"data")
    cache, read = cache_dir.cache(), os.preadv

    def read_and_change(*arguments: Any) -> int:
        size = read(*arguments)
        with cache_dir.generations.bump(ID):
            pass
        return size

    monkeypatch.setattr(os, "preadv", read_and_change)
    assert cache.read_nowait(ID, "key") is None
    assert in_memory(cache, "key") is None
    monkeypatch.undo()
    with cache_dir.generations.bump(ID):
        assert cache.read_nowait(ID, "key") is None
    assert cache.read_nowait(ID, "key") == ("disk", b"data")


def test_the_time_of_the_last_use_is_updated_after_an_hour(cache_dir: CacheDir, tmp_path: Path) -> None:
    require_nowait(tmp_path)
    cache_dir.cache().put(ID, "key", b"data")
    path = cache_dir.layout.variants_of(ID) / "key"
    now = path.stat().st_mtime
    for age in (TOUCH_SECONDS - 60, TOUCH_SECONDS + 60):
        os.utime(path, (now - age, now - age))
        assert cache_dir.cache().read_nowait(ID, "key") == ("disk", b"data")
        assert (path.stat().st_mtime < now - 60) is (age < TOUCH_SECONDS)


def test_a_process_updates_the_time_of_the_last_use_each_hour(
    cache_dir: CacheDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_nowait(tmp_path)
    cache = cache_dir.cache(memory_cache_bytes=0)
    cache.put(ID, "key", b"data")
    path = cache_dir.layout.variants_of(ID) / "key"
    now = path.stat().st_mtime
    for later, is_used in ((0, False), (TOUCH_SECONDS + 60, True)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        os.utime(path, (now - 1, now - 1))
        assert cache.read_nowait(ID, "key") == ("disk", b"data")
        assert (path.stat().st_mtime > now - 1) is is_used


def test_a_change_invalidates_the_memory_but_not_the_disk(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache()
    cache.put(ID, "key", b"data")
    with cache_dir.generations.bump(ID):
        assert in_memory(cache, "key") is None
    assert in_memory(cache, "key") is None
    assert cache.get(ID, "key") == b"data"


def test_the_memory_has_a_limit(cache_dir: CacheDir) -> None:
    cache = cache_dir.cache(memory_cache_bytes=2 * (100 + MEMORY_ENTRY_BYTES) + 50)
    for key in "abc":
        cache.put(ID, key, bytes(100))
    assert [in_memory(cache, key) is not None for key in "abc"] == [False, True, True]


def test_small_variants_in_memory_take_no_more_than_the_limit(cache_dir: CacheDir) -> None:
    limit = 64 * 1_024
    cache = cache_dir.cache(memory_cache_bytes=limit)
    tracemalloc.start()
    try:
        for number in range(200):
            cache.put(ID, f"{number:032x}", b"%032d" % number)
        assert in_memory(cache, f"{number:032x}") == b"%032d" % number
        # What the cache gives back: others allocate memory too, such as the interpreter for its names.
        filled, _ = tracemalloc.get_traced_memory()
        del cache
        gc.collect()
        emptied, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert limit / 2 < filled - emptied < limit


def test_a_disk_with_too_little_free_space_caches_nothing_and_rendering_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Variants can be rendered again: they must not use the space that uploads and deletions need."""
    cache_dir = CacheDir(tmp_path, min_free_bytes=2**62)
    cache = cache_dir.cache()
    cache.put(ID, "key", b"data")
    assert cache_dir.on_disk() == []
    assert in_memory(cache, "key") == b"data", "the memory is not full"
    assert f"disk full, variant not cached on disk: image={ID}" in caplog.text
    cache_dir.close()


def test_rendering_goes_on_when_the_disk_is_really_full(small_disk: Callable[..., Path]) -> None:
    cache_dir = CacheDir(small_disk())
    cache = cache_dir.cache(memory_cache_bytes=0)
    large = bytes(2**21)
    for _ in range(2):
        cache.put(ID, "key", large)
        assert cache.get(ID, "key") is None
    assert cache_dir.on_disk() == []
    cache.put(ID, "small", b"data")
    assert cache_dir.on_disk() == ["small"]
    cache_dir.close()


@pytest.mark.parametrize("is_rendered_now", [True, False])
def test_a_large_variant_is_a_file_at_its_data_and_never_in_memory(
    cache_dir: CacheDir, is_rendered_now: bool
) -> None:
    data = os.urandom(LARGE_VARIANT_BYTES + 1)
    cache = cache_dir.cache()
    cache.put(ID, "key", data)
    content = cache.open_stored(ID, "key", data) if is_rendered_now else cache_dir.cache().open(ID, "key")
    assert content is not None
    assert not isinstance(content, bytes)
    with content:
        assert in_memory(cache, "key") is None
        with cache_dir.generations.bump(ID):
            cache_dir.deleted.add(ID)
            cache.purge(ID)
        assert cache.open(ID, "key") is None, "nothing is opened after a deletion"
        assert content.read() == data, "a response that has begun is complete"


@pytest.mark.parametrize("size", [0, 1, LARGE_VARIANT_BYTES])
def test_a_variant_up_to_the_limit_is_in_memory(cache_dir: CacheDir, size: int) -> None:
    cache, data = cache_dir.cache(), bytes(size)
    cache.put(ID, "key", data)
    assert in_memory(cache, "key") == cache.open(ID, "key") == cache.open_stored(ID, "key", data) == data


@pytest.mark.parametrize("position", [0, 5, 9, 16, LARGE_VARIANT_BYTES, -1])
def test_a_large_variant_whose_file_is_corrupt_is_discarded(cache_dir: CacheDir, position: int) -> None:
    cache = cache_dir.cache()
    cache.put(ID, "key", bytes(2 * LARGE_VARIANT_BYTES))
    path = cache_dir.layout.variants_of(ID) / "key"
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert cache.open(ID, "key") is None
    assert not path.exists()


def test_a_large_variant_that_cannot_be_written_is_in_memory_for_the_next_requests(tmp_path: Path) -> None:
    """Otherwise each request that waited for its rendering would render it again."""
    cache_dir = CacheDir(tmp_path, min_free_bytes=2**62)
    cache, data = cache_dir.cache(), bytes(LARGE_VARIANT_BYTES + 1)
    cache.put(ID, "key", data)
    assert cache.open_stored(ID, "key", data) is data
    assert cache.get(ID, "key") is data
    cache_dir.close()
