"""Backups: what an increment has, what a backup tells of damage, and the order in which they are restored."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.open_host import open_host

from imagehost_core import Album, ConflictError, Image, ImageHost, UploadKeywords, ValidationError, restore
from imagehost_core.installation import RECORD_NAME
from imagehost_core.maintenance.backup import BackupInfo, BackupResult
from imagehost_core.testing import FrozenClock, make_image

LARGE = make_image(1_400, 1_100)
"""An image with derivatives."""


def upload(host: ImageHost, seed: int = 0, **options: Unpack[UploadKeywords]) -> Image:
    return host.upload(make_image(40 + seed % 7, 30, seed=seed), owner="admin", **options)


def backed_up(host: ImageHost, since: datetime | None = None) -> tuple[io.BytesIO, BackupResult]:
    """Return a backup, at its beginning, and its result."""
    stream, reported = io.BytesIO(), list[tuple[int, int]]()
    result = host.backups.write(stream, since=since, progress=lambda *numbers: reported.append(numbers))
    count = result.info.image_count
    assert reported == [(done, count) for done in range(1, count + 1)]
    stream.seek(0)
    return stream, result


@contextmanager
def restored(*streams: io.BytesIO) -> Iterator[ImageHost]:
    """Open a host that is restored from backups."""
    with TemporaryDirectory() as directory:
        restore(streams, Path(directory) / "data")
        with open_host(Path(directory) / "data", settings=ONE_WORKER) as host:
            yield host


def albums_of(host: ImageHost, owner: str = "admin") -> list[Album]:
    """Return all albums of an account."""
    page = host.albums.list(owner=owner, per_page=100)
    albums = list(page)
    while page.next_cursor is not None:
        page = host.albums.list(owner=owner, per_page=100, cursor=page.next_cursor)
        albums += page
    return albums


def files_of_images(data: Path) -> dict[str, bytes]:
    root = data / "images"
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and RECORD_NAME not in path.name
    }


def content(host: ImageHost) -> dict[str, object]:
    """Return everything that two equal hosts have in common."""
    accounts = list(host.accounts.iter())
    return {
        "accounts": accounts,
        "usage": {account.name: host.accounts.usage(account.name) for account in accounts},
        "images": {account.name: list(host.images.iter(owner=account.name)) for account in accounts},
        "albums": {account.name: albums_of(host, account.name) for account in accounts},
        "gallery": [image.id for image in host.gallery()],
        "keys": {account.name: list(host.keys.list(owner=account.name)) for account in accounts},
        "files": files_of_images(host.path),
    }


def require_sound(host: ImageHost) -> None:
    """Assert that counters and indexes are right, and that each image has its files."""
    assert list(host.check(quick=True)) == []
    for image in host.images.iter(owner="admin"):
        assert len(host.render(image.id).data) == image.size


def test_an_increment_has_the_files_of_new_images_only(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 11, 20, tzinfo=UTC))
    with open_host(tmp_path / "data", settings=ONE_WORKER, clock=clock) as host:
        upload(host, 1)
        clock.advance(hours=2)
        base, first = backed_up(host)
        upload(host, 2)
        clock.advance(seconds=1)
        increment, second = backed_up(host, first.info.created_at)
        assert (first.info.image_count, second.info.image_count) == (1, 1)
        assert (first.info.since, second.info.since) == (None, first.info.created_at)
        with restored(base, increment) as copy:
            assert content(copy) == content(host)


def test_an_upload_whose_record_was_committed_after_the_backup_is_in_the_increment(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 11, 20, tzinfo=UTC))
    with open_host(tmp_path / "data", settings=ONE_WORKER, clock=clock) as host:
        clock.advance(seconds=60)
        base, first = backed_up(host)
        clock.advance(seconds=-30)
        late = upload(host)
        clock.advance(seconds=60)
        increment, _ = backed_up(host, first.info.created_at)
    with restored(base, increment) as copy:
        assert copy.images.get(late.id) == late


@pytest.mark.parametrize("damage", ["missing", "changed", "no derivative"])
def test_a_backup_names_the_images_that_are_damaged_on_the_host(
    opened: Callable[..., ImageHost], damage: str
) -> None:
    host = opened()
    whole, image = upload(host), host.upload(LARGE, owner="admin")
    directory = host.path / "images" / image.id[:2] / image.id
    if damage == "missing":
        (directory / "master").unlink()
    elif damage == "changed":
        (directory / "master").write_bytes(b"other bytes")
    else:
        next(directory.glob("derivative-*")).unlink()
    backup, result = backed_up(host)
    assert result.damaged == (image.id,)
    with restored(backup) as copy:
        expected = {whole.id} if damage == "missing" else {whole.id, image.id}
        assert {each.id for each in copy.images.iter(owner="admin")} == expected
        damaged = [] if damage == "missing" else [image.id]
        assert [finding.id.partition("/")[0] for finding in copy.check(quick=True)] == damaged
        assert files_of_images(copy.path).keys() == {
            name for name in files_of_images(host.path) if damage != "missing" or image.id not in name
        }


def test_backups_in_a_wrong_order_or_with_a_gap_are_refused(tmp_path: Path) -> None:
    clock = FrozenClock(datetime(2026, 11, 20, tzinfo=UTC))
    with open_host(tmp_path / "data", settings=ONE_WORKER, clock=clock) as host:
        backups: list[io.BytesIO] = []
        since = None
        for seed in range(3):
            upload(host, seed)
            clock.advance(hours=2)
            stream, result = backed_up(host, since)
            backups.append(stream)
            since = result.info.created_at
            clock.advance(seconds=1)
    base, first, second = backups
    for wrong in (
        [],
        [first],
        [base, second],
        [base, second, first],
        [first, base],
        [base, io.BytesIO(base.getvalue())],
        [base, io.BytesIO()],
    ):
        for stream in backups:
            stream.seek(0)
        with pytest.raises(ValidationError):
            restore(wrong, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
    first.seek(0)
    with pytest.raises(ValidationError, match="expected a full backup first"):
        restore([first], tmp_path / "copy")
    for stream in backups:
        stream.seek(0)
    assert restore(backups, tmp_path / "copy").image_count == 3


def test_since_a_time_in_the_future_is_refused(host: ImageHost) -> None:
    with pytest.raises(ValidationError):
        host.backups.write(io.BytesIO(), since=host.now() + timedelta(minutes=1))


def test_the_time_of_a_backup_is_at_its_beginning(host: ImageHost) -> None:
    backup, result = backed_up(host)
    assert BackupInfo.read(backup) == result.info
    with pytest.raises(ValidationError):
        BackupInfo.read(io.BytesIO())


def test_an_increment_of_another_host_is_refused(host: ImageHost, opened: Callable[..., ImageHost]) -> None:
    _, other = backed_up(opened())
    with pytest.raises(ConflictError, match="take a full backup"):
        host.backups.write(io.BytesIO(), since=other.info)
    host.backups.write(io.BytesIO(), since=backed_up(host)[1].info)
