"""The data directory: permissions, and deletion on a full disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tests.core.services.conftest import Stores
from tests.open_host import open_host

from imagehost_core import ImageHost, InsufficientStorageError, Settings, UnavailableError
from imagehost_core.coordination.disk_reserve import RESERVE_BYTES, DiskReserve
from imagehost_core.settings import PostgresSettings, RenderingSettings, StorageSettings
from imagehost_core.storage.cache.eviction import evict_until
from imagehost_core.testing import make_image

SETTINGS = Settings(storage=StorageSettings(min_free_bytes=0), rendering=RenderingSettings(processes=1))


def fill(disk: Path, name: str) -> None:
    """Fill the disk to the last byte."""
    with (disk / name).open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_deletions_free_space_on_a_full_disk(small_disk: Callable[..., Path]) -> None:
    disk = small_disk("48m", 2_000)
    with open_host(disk / "data", settings=SETTINGS) as host:
        owner = host.accounts.get("admin")
        stored = [host.upload(make_image(200, 200, seed=seed), owner=owner) for seed in range(6)]
        fill(disk, "other")
        with pytest.raises(InsufficientStorageError):
            host.upload(make_image(seed=9), owner=owner)
        for image in stored[:3]:
            assert host.rate_limiter.admit(owner).admitted
            host.images.delete(image.id)
        assert {image.id for image in host.images.list(owner=owner)} == {image.id for image in stored[3:]}
        (disk / "other").unlink()
        host.images.delete(stored[3].id)
        assert (disk / "data" / "reserve").stat().st_size == RESERVE_BYTES
        host.upload(make_image(seed=9), owner=owner)


def test_the_disk_reserve_is_released_only_when_the_disk_is_full(small_disk: Callable[..., Path]) -> None:
    disk = small_disk("48m")
    reserve = DiskReserve(disk / "reserve")
    reserve.acquire()
    reserve.acquire()
    reserve.release()
    assert (disk / "reserve").stat().st_size == RESERVE_BYTES
    fill(disk, "full")
    reserve.release()
    reserve.release()
    assert not (disk / "reserve").exists()
    reserve.acquire()
    assert not (disk / "reserve").exists()


def test_a_small_disk_has_no_reserve(small_disk: Callable[..., Path]) -> None:
    disk = small_disk("4m")
    DiskReserve(disk / "reserve").acquire()
    assert list(disk.iterdir()) == []


def test_a_full_disk_without_a_reserve_has_fewer_cached_variants_instead(
    small_disk: Callable[..., Path],
) -> None:
    disk = small_disk("48m")
    (disk / "variants").mkdir()
    for number in range(12):
        (disk / "variants" / f"{number:02}").write_bytes(bytes(2**19))
        os.utime(disk / "variants" / f"{number:02}", (number, number))
    fill(disk, "full")
    DiskReserve(disk / "reserve", partial(evict_until, disk / "variants")).release()
    left = sorted(path.name for path in (disk / "variants").iterdir())
    assert left == [f"{number:02}" for number in range(RESERVE_BYTES // 2**19, 12)]


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_host_opens_on_a_full_disk_serves_and_deletes(
    small_disk: Callable[..., Path], has_reserve: bool
) -> None:
    disk = small_disk("48m")
    with open_host(disk / "data", settings=SETTINGS) as host:
        stored = [host.upload(make_image(200, 200, seed=seed), owner="admin") for seed in range(3)]
        for width in range(1, 12):
            host.render(stored[0].id, f"w={width * 100}&fm=png")
    if not has_reserve:
        (disk / "data" / "reserve").unlink()
    fill(disk, "other")
    with open_host(disk / "data", settings=SETTINGS) as host:
        assert [image.id for image in host.images.list(owner="admin")] == [
            image.id for image in reversed(stored)
        ]
        assert host.render(stored[1].id, "w=10").width == 10
        with pytest.raises(InsufficientStorageError):
            host.upload(make_image(2_000, 1_500, seed=9), owner="admin", convert_to_webp=False)
        host.images.delete(stored[0].id)
        assert len(list(host.images.list(owner="admin"))) == 2


def test_a_database_that_cannot_be_used_leaves_nothing_in_a_new_directory(tmp_path: Path) -> None:
    settings = Settings(
        database="postgresql://127.0.0.1:1/images", postgres=PostgresSettings(timeout_seconds=1)
    )
    for data in (tmp_path / "made", tmp_path):
        with pytest.raises(UnavailableError):
            ImageHost.open(data, settings=settings)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Set the umask to 0."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has these permissions")
@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("where", ["data", "deep/data"])
def test_all_files_of_a_data_directory_are_owner_only(tmp_path: Path, where: str, stores: Stores) -> None:
    """The database has password hashes, its log the latest writes, and images may be private."""
    tmp_path.chmod(0o755)
    root = tmp_path / where
    if where == "data":
        root.mkdir(mode=0o755)
    with open_host(root, settings=SETTINGS) as host, host.uploads.stage() as staged:
        staged.write(b"half an image")
        image = host.upload(make_image(900, 700), owner="admin", is_public=False)
        host.upload(make_image(), owner="admin", convert_to_webp=False)
        host.render(image.id, "w=10")
        assert host.rate_limiter.admit(host.accounts.get("admin")).admitted
        stores(host).files.staging.mark_incomplete("test")
        modes = {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*")}
        seen = {name.split("/")[0] for name in modes}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}
    assert seen >= {
        *(f"imagehost.sqlite3{ending}" for ending in ("", "-wal", "-shm")),
        *("rate_limits", "images", "variants", "staging", "locks", "secret", "reserve"),
    }


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has these permissions")
def test_a_created_data_directory_is_owner_only(tmp_path: Path) -> None:
    with open_host(tmp_path / "made", settings=SETTINGS):
        assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    (tmp_path / "given").mkdir(mode=0o755)
    with open_host(tmp_path / "given", settings=SETTINGS):
        assert (tmp_path / "given").stat().st_mode & 0o777 == 0o755
