"""Imports from directories, and what all imports do on each engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from tests.core.headers.test_headers_camera import photograph
from tests.core.services.importing import FAILED, IMPORTED, OMITTED, UNCHANGED, imported, statuses

from imagehost_core import ImageHost, InsufficientStorageError, NotFoundError, UploadOptions
from imagehost_core.maintenance.importers.service import ImportOptions, ImportSource
from imagehost_core.testing import make_image

EACH_ENGINE = True


@pytest.fixture
def host(opened: Callable[..., ImageHost]) -> ImageHost:
    """A host of its own for each test."""
    return opened()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with images at two levels, and files that are no images."""
    root = tmp_path / "photos"
    (root / "trips" / "rome").mkdir(parents=True)
    (root / ".cache").mkdir()
    for seed, name in enumerate(("a.png", "trips/b.png", "trips/rome/c.png", ".cache/d.png", ".hidden.png")):
        (root / name).write_bytes(make_image(8, 8, seed=seed))
    (root / "notes.txt").write_text("no image", encoding="utf-8")
    (root / "broken.png").write_bytes(make_image(8, 8)[:60])
    (root / "link.png").symlink_to(root / "a.png")
    (root / "loop").symlink_to(root)
    return root


def test_a_directory_becomes_albums_and_what_is_no_image_is_reported(host: ImageHost, folder: Path) -> None:
    results = imported(host, folder)
    assert statuses(results) == {
        "photos/a.png": IMPORTED,
        "photos/trips/b.png": IMPORTED,
        "photos/trips/rome/c.png": IMPORTED,
        "photos/.cache": OMITTED,
        "photos/.hidden.png": OMITTED,
        "photos/link.png": OMITTED,
        "photos/loop": OMITTED,
        "photos/notes.txt": OMITTED,
        "photos/broken.png": FAILED,
    }
    assert results["photos/link.png"].reason == "a symbolic link"
    albums = {int(album.id): album for album in host.albums.list(owner="admin")}
    assert {album.name: album.image_count for album in albums.values()} == {
        "photos": 1,
        "photos/trips": 1,
        "photos/trips/rome": 1,
    }
    images = {image.filename: image for image in host.images.iter(owner="admin")}
    assert albums[images["c.webp"].album_id or 0].name == "photos/trips/rome"
    assert not any(image.is_public for image in images.values())


def test_the_time_of_an_image_is_that_of_the_camera_and_of_the_file_without_one(
    host: ImageHost, tmp_path: Path
) -> None:
    modified, taken = datetime(2020, 2, 3, tzinfo=UTC), datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    (tmp_path / "photo.jpg").write_bytes(photograph())
    (tmp_path / "plain.png").write_bytes(make_image(8, 8))
    (tmp_path / "future.jpg").write_bytes(photograph(camera={0x9003: "2150:01:01 00:00:00"}))
    for path in tmp_path.iterdir():
        os.utime(path, (modified.timestamp(), modified.timestamp()))
    imported(host, tmp_path)
    images = {image.filename.partition(".")[0]: image for image in host.images.iter(owner="admin")}
    assert (images["photo"].created_at, images["photo"].taken_at) == (taken, taken)
    assert (images["plain"].created_at, images["plain"].taken_at) == (modified, None)
    assert images["future"].created_at == images["future"].updated_at < host.now()


@pytest.mark.parametrize("is_public", [None, True, False])
def test_albums_that_an_import_creates_are_as_public_as_its_images(
    host: ImageHost, folder: Path, is_public: bool | None
) -> None:
    imported(host, folder, options=ImportOptions(is_public=is_public))
    albums = host.albums.list(owner="admin").items
    assert [album.is_public for album in albums] == [is_public is True] * 3
    assert [album.public_image_count for album in albums] == [int(is_public is True)] * 3
    assert host.gallery().total == (3 if is_public else 0)


def test_a_second_import_stores_nothing_again_and_takes_what_is_new(host: ImageHost, folder: Path) -> None:
    first = imported(host, folder)
    (folder / "trips" / "new.png").write_bytes(make_image(8, 8, seed=9))
    (folder / "a.png").write_bytes(make_image(8, 8, seed=10))
    second = imported(host, folder)
    assert [name for name, result in second.items() if result.status is IMPORTED] == [
        "photos/a.png",
        "photos/trips/new.png",
    ]
    unchanged = {name: result for name, result in second.items() if result.status is UNCHANGED}
    assert {name: result.image_id for name, result in unchanged.items()} == {
        name: first[name].image_id for name in ("photos/trips/b.png", "photos/trips/rome/c.png")
    }
    assert len(host.albums.list(owner="admin").items) == 3


@pytest.mark.parametrize("count", range(6))
def test_an_import_that_was_interrupted_continues(host: ImageHost, folder: Path, count: int) -> None:
    run = host.imports.run(host.imports.read(ImportSource.FOLDER, folder), owner="admin")
    list(islice(run, count))
    run.close()  # type: ignore[attr-defined]
    imported(host, folder)
    assert sorted(image.filename for image in host.images.iter(owner="admin")) == [
        "a.webp",
        "b.webp",
        "c.webp",
    ]


def test_a_file_that_is_offered_at_the_same_time_again_is_stored_once(host: ImageHost, folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: imported(host, folder), range(4)))
    assert len({run["photos/a.png"].image_id for run in runs}) == 1
    assert sum(run["photos/a.png"].status is IMPORTED for run in runs) == 1
    assert len(list(host.images.iter(owner="admin"))) == len(host.albums.list(owner="admin").items) == 3


def test_an_imported_image_that_was_deleted_stays_deleted(host: ImageHost, folder: Path) -> None:
    image_id = imported(host, folder)["photos/a.png"].image_id
    assert image_id is not None
    host.images.delete(image_id)
    assert imported(host, folder)["photos/a.png"].status is UNCHANGED
    with pytest.raises(NotFoundError):
        host.images.get(image_id)


def test_a_deleted_album_is_created_again(host: ImageHost, folder: Path) -> None:
    imported(host, folder)
    for album in host.albums.list(owner="admin"):
        host.albums.delete(album, owner="admin")
    (folder / "new.png").write_bytes(make_image(8, 8, seed=9))
    imported(host, folder)
    assert [(album.name, album.image_count) for album in host.albums.list(owner="admin")] == [("photos", 1)]


def test_the_time_of_a_file_is_that_of_its_image_unless_it_is_in_the_future(
    host: ImageHost, tmp_path: Path
) -> None:
    old, future = tmp_path / "old.png", tmp_path / "future.png"
    for seed, path in enumerate((old, future)):
        path.write_bytes(make_image(8, 8, seed=seed))
    os.utime(old, (1_000_000_000, 1_000_000_000))
    os.utime(future, (9_000_000_000, 9_000_000_000))
    for path in (old, future):
        imported(host, path)
    newest, oldest = host.images.iter(owner="admin")
    assert oldest.created_at == datetime.fromtimestamp(1_000_000_000, UTC)
    assert newest.created_at <= host.now()
    assert list(host.check(quick=True)) == []


def test_options_choose_the_visibility_the_albums_and_the_stored_format(
    host: ImageHost, folder: Path
) -> None:
    options = ImportOptions(is_public=True, with_albums=False, upload=UploadOptions(convert_to_webp=False))
    imported(host, folder, options=options)
    images = list(host.images.iter(owner="admin"))
    assert {(image.is_public, image.album_id, str(image.format)) for image in images} == {(True, None, "png")}


def test_a_full_quota_ends_the_import_which_then_continues(host: ImageHost, folder: Path) -> None:
    size = host.upload(make_image(8, 8), owner="admin").size
    host.accounts.update("admin", quota_bytes=2 * size)
    with pytest.raises(InsufficientStorageError):
        imported(host, folder)
    host.accounts.update("admin", quota_bytes=None)
    assert UNCHANGED in statuses(imported(host, folder)).values()
    assert len(list(host.images.iter(owner="admin"))) == 4
