"""Operations of a host that are tried while a system call fails, and what must hold after each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from uuid import uuid4

from attrs import define, field
from tests.faults.conftest import staged_files, stored_ids

from imagehost_core import Image, ImageHost, NotFoundError, Settings
from imagehost_core.errors import InternalError
from imagehost_core.maintenance.restore import restore
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image

SETTINGS = Settings(rendering=RenderingSettings(processes=1))
SMALL, WIDE = make_image(24, 16), make_image(1200, 500)
"""An image that is stored as it is, and one with a derivative."""


@define
class World:
    """A host, and the images that it must have.

    Attributes:
        root: The directory below which system calls fail.
        host: The host.
        images: The images that it must have, by id.
        renders: The number of variants that were rendered.
    """

    root: Path
    host: ImageHost
    images: dict[str, Image] = field(factory=dict)
    renders: int = 0

    @staticmethod
    def open(root: Path) -> World:
        """Open a new host with an image, and start its worker process."""
        world = World(root, ImageHost.open(root / "data", settings=SETTINGS))
        world.upload()
        return world

    @property
    def data(self) -> Path:
        return self.root / "data"

    def upload(self, *, album_id: int | None = None) -> Image:
        return self.add(
            self.host.upload(SMALL, owner="admin", filename="a.png", convert_to_webp=False, album_id=album_id)
        )

    def add(self, image: Image) -> Image:
        self.images[image.id] = image
        return image

    def read_again(self, image_ids: Iterable[str]) -> None:
        """Note which images exist after deletions that failed and may have been done."""
        for image_id in image_ids:
            try:
                self.images[image_id] = self.host.images.get(image_id)
            except NotFoundError:
                self.images.pop(image_id, None)

    def check(self) -> None:
        """Check this host after garbage collection."""
        check_host(self.host, self.images)

    def check_after_crash(self) -> None:
        """Check what a host would find if this process were killed now."""
        copy = self.root / "copy"
        shutil.copytree(self.data, copy, ignore=shutil.ignore_patterns("reserve", "locks"))
        check_directory(copy, self.images)
        shutil.rmtree(copy)


def check_directory(data: Path, images: dict[str, Image]) -> None:
    """Check the host of a data directory after garbage collection."""
    with ImageHost.open(data, settings=SETTINGS) as host:
        check_host(host, images)


def check_host(host: ImageHost, images: dict[str, Image]) -> None:
    """Check that a host has exactly the given images, whole, and that nothing else is left."""
    host.maintenance.cleanup()
    host.maintenance.collect_garbage()
    listed = {image.id: image for image in host.images.iter(owner="admin")}
    assert listed == images, "the records differ from what was confirmed"
    assert stored_ids(host.path) == sorted(images), "bytes without a record, or a record without bytes"
    for image in images.values():
        master = host.path / "images" / image.id[:2] / image.id / "master"
        assert sha256(master.read_bytes()).hexdigest() == image.sha256
    usage = host.accounts.usage("admin")
    assert (usage.images, usage.bytes) == (len(images), sum(image.size for image in images.values()))
    assert staged_files(host.path) == [], "staged files are left"
    assert list(host.check()) == []


def check_deleted(world: World, image_ids: Iterable[str], done: bool) -> None:
    """Check that the files of deleted images are gone; otherwise note which of the images exist."""
    if not done:
        world.read_again(image_ids)
        return
    for image_id in image_ids:
        assert not list(world.data.glob(f"*/*/{image_id}")), "files of a deleted image are left"


Operation = Callable[[], object]
Check = Callable[[bool], object]
"""It checks an operation of a trial, given whether it has returned without an exception."""
Prepare = Callable[[World], tuple[Operation, Check]]


def no_check(done: bool) -> None:
    """Check nothing besides the host."""


def upload(world: World) -> tuple[Operation, Check]:
    return world.upload, no_check


def upload_with_derivative(world: World) -> tuple[Operation, Check]:
    uploaded: list[Image] = []

    def operation() -> None:
        image = world.host.upload(WIDE, owner="admin", filename="a.png", format="webp")
        uploaded.append(world.add(image))

    def check(done: bool) -> None:
        for image in uploaded:
            assert image.derivatives
            assert world.host.render(image, "w=64").width == 64

    return operation, check


def update(world: World) -> tuple[Operation, Check]:
    image = world.upload()

    def operation() -> None:
        world.add(world.host.images.update(image.id, is_public=False, description="changed"))

    def check(done: bool) -> None:
        assert world.host.images.get(image.id).is_public is not done

    return operation, check


def delete(world: World) -> tuple[Operation, Check]:
    image = world.upload()
    world.host.render(image, "w=8")

    def operation() -> None:
        world.host.images.delete(image.id)
        del world.images[image.id]

    return operation, lambda done: check_deleted(world, [image.id], done)


def delete_many(world: World) -> tuple[Operation, Check]:
    ids = [world.upload().id for _ in range(3)]
    world.host.render(ids[0], "w=8")
    deleted: list[str] = []

    def operation() -> None:
        results = world.host.images.delete_many(ids, owner="admin")
        for result in results:
            if result.status == "deleted":
                deleted.append(result.id)
                del world.images[result.id]
        for result in results:
            if result.error is not None:
                raise InternalError(result.error.details)

    def check(done: bool) -> None:
        check_deleted(world, deleted, True)
        check_deleted(world, [image_id for image_id in ids if image_id not in deleted], done)

    return operation, check


def delete_album(world: World) -> tuple[Operation, Check]:
    album = world.host.albums.create(owner="admin", name="a")
    ids = [world.upload(album_id=album.id).id for _ in range(2)]

    def operation() -> None:
        world.host.albums.delete(album.id, owner="admin", delete_images=True)
        for image_id in ids:
            del world.images[image_id]

    def check(done: bool) -> None:
        check_deleted(world, ids, done)
        albums = {each.id for each in world.host.albums.list(owner="admin")}
        assert not (done and album.id in albums)
        if album.id in albums:
            world.host.albums.delete(album.id, owner="admin", delete_images=True)
            world.read_again(ids)

    return operation, check


def render(world: World) -> tuple[Operation, Check]:
    image_id = min(world.images)
    world.renders += 1
    params = f"w={8 + world.renders % 4000}&h=8&fm=png"
    return lambda: world.host.render(image_id, params), lambda _: world.host.render(image_id, params)


def back_up(world: World) -> tuple[Operation, Check]:
    stream = BytesIO()

    def check(done: bool) -> None:
        if done:
            restored = world.root / f"restored-{uuid4().hex}"
            stream.seek(0)
            restore([stream], restored)
            check_directory(restored, world.images)
            shutil.rmtree(restored)

    return lambda: world.host.backups.write(stream), check


def restore_backup(world: World) -> tuple[Operation, Check]:
    stream = BytesIO()
    world.host.backups.write(stream)
    stream.seek(0)
    restored = world.root / f"restored-{uuid4().hex}"

    def check(done: bool) -> None:
        if not (restored / "imagehost.sqlite3").exists():
            assert not done
            stream.seek(0)
            restore([stream], restored)
        check_directory(restored, world.images)
        shutil.rmtree(restored)

    return lambda: restore([stream], restored), check


def collect_garbage(world: World) -> tuple[Operation, Check]:
    """Leave files without a record, variants without an image, and the directory of a killed process."""
    image_id = min(world.images)
    world.host.render(image_id, "w=8")
    for name in ("images", "variants"):
        directory = world.data / name / image_id[:2]
        shutil.copytree(directory / image_id, directory / f"{image_id[:2]}{'0' * 14}", dirs_exist_ok=True)
    killed = world.data / "staging" / uuid4().hex
    killed.mkdir()
    for name in ("lock", "upload"):
        (killed / name).touch()
    return world.host.maintenance.collect_garbage, no_check


def open_host(world: World) -> tuple[Operation, Check]:
    def operation() -> None:
        with ImageHost.open(world.data, settings=SETTINGS) as host:
            assert host.images.list(owner="admin").total == len(world.images)

    return operation, no_check


def create_host(world: World) -> tuple[Operation, Check]:
    """Create a host; closing it is part of `checkpoint`."""
    created = world.root / f"created-{uuid4().hex}"
    opened: list[ImageHost] = []

    def check(done: bool) -> None:
        for host in opened:
            host.close()
        check_directory(created, {})
        shutil.rmtree(created)

    return lambda: opened.append(ImageHost.open(created, settings=SETTINGS)), check


def checkpoint(world: World) -> tuple[Operation, Check]:
    """Open the database alone and close it, which writes the log to the database file."""
    copy = world.root / f"closed-{uuid4().hex}"
    shutil.copytree(world.data, copy, ignore=shutil.ignore_patterns("reserve", "locks"))

    def operation() -> None:
        with ImageHost.open(copy, settings=SETTINGS) as host:
            assert host.images.list(owner="admin").total == len(world.images)

    def check(done: bool) -> None:
        check_directory(copy, world.images)
        shutil.rmtree(copy)

    return operation, check


OPERATIONS: dict[str, Prepare] = {
    "upload": upload,
    "upload with derivative": upload_with_derivative,
    "update": update,
    "delete": delete,
    "bulk delete": delete_many,
    "delete album": delete_album,
    "render": render,
    "backup": back_up,
    "restore": restore_backup,
    "gc": collect_garbage,
    "open": open_host,
    "create": create_host,
    "checkpoint": checkpoint,
}
