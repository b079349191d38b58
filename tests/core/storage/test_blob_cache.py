"""The cache of an object store's files: one download at a time, whole files, a bound, lasting deletions."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.storage.stored_bytes import stored_bytes

from imagehost_core.cluster.object.blob_cache import BlobCache
from imagehost_core.coordination.locks import LockManager
from imagehost_core.errors import NotFoundError, UnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.storage import MASTER, DataLayout, StagingArea

if TYPE_CHECKING:
    from tests.programs import Program

ID = ImageId("abCD0123456789xy")
OTHER = ImageId("zz" + "0" * 14)
WAIT = 20.0


def download(content: bytes) -> Callable[[Path], int]:
    return lambda path: path.write_bytes(content)


def must_not_download(path: Path) -> int:
    raise AssertionError("expected a cached file but it was downloaded")


def read(file: BinaryIO) -> bytes:
    with file:
        return file.read()


def new_cache(
    layout: DataLayout,
    staging: StagingArea,
    limit: int = 1_000,
    exists: Callable[[ImageId], bool] = lambda _: True,
) -> BlobCache:
    return BlobCache(layout.cache, staging, LockManager(layout.locks), limit, exists)


@pytest.fixture
def cache(layout: DataLayout, staging: StagingArea) -> BlobCache:
    return new_cache(layout, staging)


@contextmanager
def temporary_layout() -> Iterator[DataLayout]:
    with TemporaryDirectory(prefix="imagehost-test-") as directory:
        yield DataLayout(Path(directory))


def test_a_file_is_downloaded_once(cache: BlobCache, layout: DataLayout, staging: StagingArea) -> None:
    assert read(cache.open(ID, MASTER, download(b"whole"), WAIT)) == b"whole"
    assert read(cache.open(ID, MASTER, must_not_download, WAIT)) == b"whole"
    of_another_process = new_cache(layout, staging)
    assert read(of_another_process.open(ID, MASTER, must_not_download, WAIT)) == b"whole"
    assert list(cache.ids()) == [ID]


def test_concurrent_requests_share_a_download(cache: BlobCache) -> None:
    started, finish, downloads = threading.Event(), threading.Event(), list[int]()

    def slow(path: Path) -> int:
        downloads.append(1)
        started.set()
        assert finish.wait(WAIT)
        return path.write_bytes(b"whole")

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(cache.open, ID, MASTER, slow, WAIT)
        assert started.wait(WAIT)
        others = [threads.submit(cache.open, ID, MASTER, slow, WAIT) for _ in range(3)]
        finish.set()
        assert [read(future.result()) for future in (first, *others)] == [b"whole"] * 4
    assert len(downloads) == 1


def test_processes_share_a_download(
    layout: DataLayout, cache: BlobCache, program: Callable[..., Program]
) -> None:
    other = program(
        """
        import sys
        from pathlib import Path
        from imagehost_core.storage import DataLayout, StagingArea
        from imagehost_core.coordination.locks import LockManager
        from imagehost_core.cluster.object.blob_cache import BlobCache
        layout = DataLayout(Path(sys.argv[1]))
        cache = BlobCache(layout.cache, StagingArea(layout.staging, 0), LockManager(layout.locks), 1_000)
        def download(path):
            print("downloading")
            sys.stdin.readline()
            return path.write_bytes(b"whole")
        cache.open(sys.argv[2], "master", download, 20).close()
        """,
        layout.root,
        ID,
    )
    assert other.read_line() == "downloading"
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(cache.open, ID, MASTER, must_not_download, WAIT)
        other.write_line()
        assert read(waiting.result()) == b"whole"


def test_a_request_waits_no_longer_than_it_may(cache: BlobCache) -> None:
    started, finish = threading.Event(), threading.Event()

    def stalled(path: Path) -> int:
        started.set()
        assert finish.wait(WAIT)
        return path.write_bytes(b"whole")

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(cache.open, ID, MASTER, stalled, WAIT)
        assert started.wait(WAIT)
        with pytest.raises(UnavailableError):
            cache.open(ID, MASTER, must_not_download, 0.05)
        finish.set()
        assert read(first.result()) == b"whole"


def test_a_download_that_fails_leaves_nothing(cache: BlobCache, layout: DataLayout) -> None:
    def truncated(path: Path) -> int:
        path.write_bytes(b"wh")
        raise UnavailableError("the store has closed the connection")

    with pytest.raises(UnavailableError):
        cache.open(ID, MASTER, truncated, WAIT)
    assert [path for path in layout.root.rglob("*") if path.is_file() and path.read_bytes() == b"wh"] == []
    assert read(cache.open(ID, MASTER, download(b"whole"), WAIT)) == b"whole"


def test_a_file_is_synced_before_it_is_in_the_cache(cache: BlobCache, system_calls: list[str]) -> None:
    names = list[str]()

    def named(path: Path) -> int:
        names.append(path.name)
        return path.write_bytes(b"whole")

    cache.open(ID, MASTER, named, WAIT).close()
    assert f"sync {names[0]}" in system_calls


def test_evicted_files_are_gone_and_stay_readable_where_they_are_open(
    cache: BlobCache, layout: DataLayout
) -> None:
    for name in (MASTER, "derivative-512"):
        cache.open(ID, name, download(b"whole"), WAIT).close()
    other = cache.open(OTHER, MASTER, download(b"other"), WAIT)
    with cache.open(ID, MASTER, must_not_download, WAIT) as file:
        cache.evict(ID)
        cache.evict(ID)
        assert not (layout.cache / "ab" / ID).exists()
        assert file.read() == b"whole"
    assert read(other) == b"other"
    assert list(cache.ids()) == [OTHER]


def test_a_download_in_progress_does_not_bring_back_a_deleted_image(
    layout: DataLayout, staging: StagingArea
) -> None:
    image = SimpleNamespace(exists=True)
    cache = new_cache(layout, staging, exists=lambda _: image.exists)

    def deleted_meanwhile(path: Path) -> int:
        size = path.write_bytes(b"whole")
        image.exists = False
        cache.evict(ID)
        return size

    with pytest.raises(NotFoundError):
        cache.open(ID, MASTER, deleted_meanwhile, WAIT)
    assert [path for path in layout.cache.rglob("*") if path.is_file()] == []


@given(
    sizes=st.lists(st.integers(0, 400), max_size=30),
    limit=st.integers(0, 1_000),
)
def test_the_cache_is_bounded(sizes: list[int], limit: int) -> None:
    with temporary_layout() as layout, closing(StagingArea(layout.staging, 0)) as staging:
        cache = new_cache(layout, staging, limit)
        for number, size in enumerate(sizes):
            cache.open(ImageId(f"ab{number:014}"), MASTER, download(bytes(size)), WAIT).close()
            stored = stored_bytes(layout.cache)
            assert stored <= limit + 2 * (limit // 20 + 400)
        cache.flush()
        cache.sweep()
        stored = stored_bytes(layout.cache)
        assert stored <= limit


def test_the_least_recently_used_files_are_evicted(cache: BlobCache, layout: DataLayout) -> None:
    ids = [ImageId(f"ab{number:014}") for number in range(4)]
    for number, image_id in enumerate(ids[:3]):
        cache.open(image_id, MASTER, download(bytes(300)), WAIT).close()
        cache.flush()  # During a sweep, a file may not be cached.
        os.utime(layout.cache / "ab" / image_id / MASTER, (number, number))
    cache.open(ids[0], MASTER, must_not_download, WAIT).close()
    cache.flush()
    cache.open(ids[3], MASTER, download(bytes(300)), WAIT).close()
    cache.flush()
    left = {path.parent.name for path in layout.cache.rglob(MASTER)}
    assert left == {ids[0], ids[2], ids[3]}


class SlowlySweptCache(BlobCache):
    """A cache whose sweeps take until `proceed` is set."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.proceed = threading.Event()

    def sweep(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        assert self.proceed.wait(WAIT)
        super().sweep(is_stopped)


def test_a_download_does_not_wait_for_the_sweep_that_it_causes(
    layout: DataLayout, staging: StagingArea
) -> None:
    cache = SlowlySweptCache(layout.cache, staging, LockManager(layout.locks), 1_000)
    ids = [ImageId(f"ab{number:014}") for number in range(6)]
    try:
        for image_id in ids:
            assert read(cache.open(image_id, MASTER, download(bytes(300)), WAIT)) == bytes(300)
        assert set(cache.ids()) == set(ids[:2]), "further files are not cached before the end of the sweep"
    finally:
        cache.proceed.set()
    cache.flush()
    for image_id in ids:
        assert read(cache.open(image_id, MASTER, download(bytes(300)), WAIT)) == bytes(300)
        cache.flush()
    assert 0 < len(list(layout.cache.rglob(MASTER))) <= 3


def test_without_disk_space_a_file_that_is_not_cached_is_unavailable(layout: DataLayout) -> None:
    with closing(StagingArea(layout.staging, 0)) as staging:
        new_cache(layout, staging).open(ID, MASTER, download(b"whole"), WAIT).close()
    with closing(StagingArea(layout.staging, 2 * shutil.disk_usage(layout.root).total)) as full:
        cache = new_cache(layout, full)
        assert read(cache.open(ID, MASTER, must_not_download, WAIT)) == b"whole"
        with pytest.raises(UnavailableError, match="disk space"):
            cache.open(OTHER, MASTER, must_not_download, WAIT)


def test_an_uncached_file_is_downloaded_each_time_and_leaves_nothing(
    cache: BlobCache, layout: DataLayout
) -> None:
    cache.open(ID, MASTER, download(b"cached"), WAIT).close()
    assert read(cache.open_uncached(download(b"stored now"))) == b"stored now"
    assert [path.read_bytes() for path in layout.root.rglob(MASTER)] == [b"cached"]
    assert not [
        path for path in layout.root.rglob("*") if path.is_file() and path.read_bytes() == b"stored now"
    ]
