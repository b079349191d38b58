"""Backups and their restore: what a restored host has, and what an interrupted or damaged one leaves."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.services.conftest import ONE_WORKER
from tests.core.services.test_backup import (
    LARGE,
    albums_of,
    backed_up,
    content,
    require_sound,
    restored,
    upload,
)

from imagehost_core import (
    ConflictError,
    ImageHost,
    InsufficientStorageError,
    UnauthorizedError,
    restore,
)
from imagehost_core.models import ALL_SCOPES, Role
from imagehost_core.settings import Settings, WebhookSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

RESTORED_FILES = {"installation.json", "imagehost.sqlite3", "images", "secret"}

OPERATIONS = ("upload", "large", "album", "move", "describe", "delete", "delete_album", "increment")


@settings(max_examples=12)
@given(operations=st.lists(st.sampled_from(OPERATIONS), max_size=14), seed=st.integers(0, 2**32))
def test_a_host_restored_from_a_backup_and_its_increments_equals_the_source(
    host: ImageHost, operations: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    backup, result = backed_up(host)
    backups, taken_at = [backup], result.info.created_at
    for number, operation in enumerate([*operations, "increment"]):
        images, albums = list(host.images.iter(owner="admin")), albums_of(host)
        if operation == "upload":
            upload(host, chance.randrange(1_000), is_public=chance.random() < 0.7)
        elif operation == "large":
            host.upload(LARGE, owner="admin", album_id=chance.choice(albums).id if albums else None)
        elif operation == "album":
            host.albums.create(owner="admin", name=f"album {number}", is_public=chance.random() < 0.7)
        elif operation == "move" and images:
            host.images.update(chance.choice(images), album_id=chance.choice(albums).id if albums else None)
        elif operation == "describe" and images:
            host.images.update(chance.choice(images), description=f"description {number}")
        elif operation == "delete" and images:
            host.images.delete(chance.choice(images))
        elif operation == "delete_album" and albums:
            host.albums.delete(chance.choice(albums), owner="admin", delete_images=chance.random() < 0.5)
        elif operation == "increment":
            increment, result = backed_up(host, taken_at)
            backups.append(increment)
            taken_at = result.info.created_at
    expected = content(host)
    for streams in (backups, [io.BytesIO(b"".join(stream.getvalue() for stream in backups))]):
        with restored(*streams) as copy:
            assert content(copy) == expected
            require_sound(copy)


def test_images_deleted_during_the_backup_are_missing_in_the_restored_host_with_right_counts(
    opened: Callable[..., ImageHost],
) -> None:
    host = opened()
    album = host.albums.create(owner="admin", name="Cats")
    images = sorted((upload(host, seed, album_id=album.id) for seed in range(5)), key=lambda image: image.id)

    def delete_the_others(done: int, total: int) -> None:
        assert total == len(images)
        if done == 1:
            for image in images[2:]:
                host.images.delete(image)

    stream = io.BytesIO()
    result = host.backups.write(stream, progress=delete_the_others)
    assert result.deleted == tuple(image.id for image in images[2:])
    assert result.damaged == ()
    stream.seek(0)
    with restored(stream) as copy:
        assert content(copy) == content(host)
        require_sound(copy)


def test_an_image_deleted_while_its_files_are_read_is_in_the_backup(opened: Callable[..., ImageHost]) -> None:
    host = opened()
    image = host.upload(make_image(2_000, 1_500), owner="admin", convert_to_webp=False)

    class DeletingStream(io.BytesIO):
        def write(self, data: object) -> int:
            # The database takes a small part of this.
            if self.tell() > 500_000 and len(host.images.list(owner="admin")):
                host.images.delete(image)
            return super().write(data)  # type: ignore[arg-type]

    stream = DeletingStream()
    assert host.backups.write(stream).deleted == ()
    with restored(io.BytesIO(stream.getvalue())) as copy:
        assert copy.images.get(image.id) == image
        require_sound(copy)


def test_the_files_of_an_image_damaged_later_come_from_the_earlier_backup(
    opened: Callable[..., ImageHost],
) -> None:
    host = opened()
    image = upload(host)
    base, first = backed_up(host)
    (host.path / "images" / image.id[:2] / image.id / "master").unlink()
    increment, second = backed_up(host, first.info.created_at)
    assert second.damaged == (image.id,)
    with restored(base, increment) as copy:
        require_sound(copy)
        assert copy.images.get(image.id) == image


def test_keys_signed_urls_settings_and_webhooks_are_restored_and_sessions_and_caches_are_not(
    opened: Callable[..., ImageHost], tmp_path: Path
) -> None:
    loopback = Settings(
        base_url="https://img.example/v1",
        rendering=ONE_WORKER.rendering,
        webhooks=WebhookSettings(allow_loopback=True),
    )
    host = opened(settings=loopback)
    (host.path / "imagehost.toml").write_text('base_url = "https://img.example.com/v1"\n')
    image = upload(host, is_public=False)
    host.render(image.id, "w=10")
    token = host.keys.create(owner="admin", name="key", scopes=ALL_SCOPES).token
    account = host.accounts.get("admin")
    session = host.sessions.create(account)
    webhook = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/hook")
    upload(host, 2)
    [leased] = host.webhooks.lease(1)
    backup, _ = backed_up(host)

    result = restore([backup], tmp_path / "copy")
    assert result.image_count == 2
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {*RESTORED_FILES, "imagehost.toml"}
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "copy").rglob("*")} == {0}
    with ImageHost.open(tmp_path / "copy", settings=loopback) as copy:
        copied, signed = (each.images.signed_url(image.id).url for each in (copy, host))
        assert copied.split("?")[0] == signed.split("?")[0]
        assert (copy.path / "secret").read_bytes() == (host.path / "secret").read_bytes()
        assert copy.authenticate(token).account.name == "admin"
        with pytest.raises(UnauthorizedError):
            copy.authenticate(session.token)
        assert copy.webhooks.get(webhook.id, owner="admin") == host.webhooks.get(webhook.id, owner="admin")
        # Its sender does not exist any more, so the delivery is due at once.
        assert [each.delivery.id for each in copy.webhooks.lease(1)] == [leased.delivery.id]


def test_settings_in_the_new_data_directory_are_kept(host: ImageHost, tmp_path: Path) -> None:
    (host.path / "imagehost.toml").write_text("# of the source\n")
    backup, _ = backed_up(host)
    data = tmp_path / "copy"
    data.mkdir()
    (data / "imagehost.toml").write_text("# of the new host\n")
    restore([backup], data)
    assert (data / "imagehost.toml").read_text() == "# of the new host\n"


@pytest.mark.parametrize("name", ["imagehost.sqlite3", "images", "photo.jpg", "restoring"])
def test_a_directory_with_files_is_refused_and_left_as_it_is(
    host: ImageHost, tmp_path: Path, name: str
) -> None:
    backup, _ = backed_up(host)
    data = tmp_path / "data"
    data.mkdir()
    (data / name).write_text("mine")
    with pytest.raises((ConflictError, FileExistsError)):
        restore([backup], data)
    assert [path.name for path in data.iterdir()] == [name]
    assert (data / name).read_text() == "mine"


def test_the_copy_of_the_database_has_no_space_of_deleted_rows(opened: Callable[..., ImageHost]) -> None:
    host = opened()
    _, before = backed_up(host)
    for album in [host.albums.create(owner="admin", name="x", description="y" * 2_000) for _ in range(100)]:
        host.albums.delete(album, owner="admin")
    _, after = backed_up(host)
    assert abs(after.bytes - before.bytes) < 50_000


def test_a_host_restored_after_an_account_was_deleted_has_none_of_its_images(
    opened: Callable[..., ImageHost],
) -> None:
    host = opened()
    host.accounts.create("anna", role=Role.USER)
    host.upload(make_image(9, 9), owner="anna")
    upload(host)
    base, first = backed_up(host)
    host.accounts.delete("anna")
    increment, _ = backed_up(host, first.info.created_at)
    with restored(base, increment) as copy:
        assert content(copy) == content(host)


@pytest.mark.parametrize("size", ["64k", "700k"])
def test_a_restore_on_a_full_disk_leaves_nothing(
    host: ImageHost, small_disk: Callable[..., Path], size: str
) -> None:
    for seed in range(10):
        host.upload(make_image(300, 300, seed=seed), owner="admin", convert_to_webp=False)
    backup, _ = backed_up(host)
    disk = small_disk(size)
    with pytest.raises(InsufficientStorageError):
        restore([backup], disk / "data")
    assert list(disk.iterdir()) == []


DIE = """
    import os, signal, sys
    from imagehost_core import restore

    backup, data = sys.argv[1:3]
    steps = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"}
    left = 0

    def die(event, arguments):
        global left
        if event in steps and str(arguments[0]).startswith(data):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    number, died = 0, 1
    while died:
        number += 1
        child = os.fork()
        if child == 0:
            left = number
            sys.addaudithook(die)
            with open(backup, "rb") as file:
                restore([file], data)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print("died" if died else "restored", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.faults
@pytest.mark.parametrize("begins", ["anew", "with what the last kill left"])
def test_a_killed_restore_leaves_no_host_and_can_be_repeated(
    opened: Callable[..., ImageHost], tmp_path: Path, program: Callable[..., Program], begins: str
) -> None:
    source = opened()
    upload(source)
    backup, _ = backed_up(source)
    (tmp_path / "backup").write_bytes(backup.getvalue())
    data = tmp_path / "copy"
    restores = program(DIE, tmp_path / "backup", data)
    interrupted = 0
    while restores.read_line() == "died":
        if (data / "imagehost.sqlite3").exists():
            # All that was left to do was to remove the empty directory of the restore.
            with ImageHost.open(data, settings=ONE_WORKER) as copy:
                assert content(copy) == content(source)
            break
        if (data / "restoring").exists():
            interrupted += 1
            with pytest.raises(ConflictError, match="restore"):
                ImageHost.open(data)
        if begins == "anew":
            restore([io.BytesIO(backup.getvalue())], data)
            assert {path.name for path in data.iterdir()} == RESTORED_FILES
            for path in sorted(data.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
        restores.write_line()
    assert interrupted > 10


def test_a_second_restore_of_a_directory_at_the_same_time_is_refused(host: ImageHost, tmp_path: Path) -> None:
    backup, _ = backed_up(host)
    outcomes: list[str] = []

    def restore_again(_done: int, _total: int) -> None:
        with pytest.raises(ConflictError, match="another is running"):
            restore([io.BytesIO(backup.getvalue())], tmp_path / "copy")
        outcomes.append("refused")

    upload(host)
    backup, _ = backed_up(host)
    restore([backup], tmp_path / "copy", progress=restore_again)
    assert outcomes
    assert {path.name for path in (tmp_path / "copy").iterdir()} >= RESTORED_FILES
