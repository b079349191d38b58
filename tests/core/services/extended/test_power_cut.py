"""Power failures directly after a response, simulated with ext4 on a loop device: no change is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.loop_disk import LoopDisk, loop_disk

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import RenderingSettings, StorageSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

pytestmark = pytest.mark.faults

SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    storage=StorageSettings(min_free_bytes=0),
)

WORK = """
    import os, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import StorageSettings, RenderingSettings
    from imagehost_core.testing import make_image

    rendering, storage = RenderingSettings(processes=1), StorageSettings(min_free_bytes=0)
    settings = Settings(base_url="https://img.example/v1", rendering=rendering, storage=storage)
    data = make_image(40, 30)
    with ImageHost.open(sys.argv[1], settings=settings) as host:
        address = host.images.signed_url(host.upload(data, owner="admin", is_public=False).id, "w=10").url
        # From here on the catalog writes over a log that has its length already. While a log grows, each
        # of its syncs takes the renames of others along, which would hide that they were not synced.
        for turn in range(12):
            host.images.update(address.rpartition("/")[2][:16], description="x" * 1000)
        host._context.records.database._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        print(address)
        for line in sys.stdin:
            if line.strip() == "upload":
                image = host.upload(data, owner="admin")
                host.render(image.id, "w=10")
                print(image.id)
            elif line.strip() == "sync":
                os.sync()
                print("synced")
            else:
                print(host.images.delete(line.strip()).id)
"""


RESTORE = """
    import sys
    from imagehost_core import restore

    with open(sys.argv[1], "rb") as backup:
        restore([backup], sys.argv[2])
    print("restored")
    sys.stdin.read()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with loop_disk(tmp_path) as disk:
        yield disk


@pytest.mark.parametrize("answered", [1, 5])
def test_a_power_cut_loses_no_acknowledged_upload(
    disk: LoopDisk, program: Callable[..., Program], answered: int
) -> None:
    working = program(WORK, disk.root / "data")
    address = working.read_line()
    stored = []
    for _ in range(answered):
        working.write_line("upload")
        stored.append(working.read_line())
    disk.cut()
    working.kill()
    disk.unmount()
    disk.mount()
    with ImageHost.open(disk.root / "data", settings=SETTINGS) as host:
        assert [image.id for image in host.gallery()] == stored[::-1]
        for image_id in stored:
            assert sha256(host.render(image_id).data).hexdigest() == host.images.get(image_id).sha256
            assert host.render(image_id, "w=10").width == 10
        path, query = address.removeprefix("https://img.example/img/").split("?")
        assert host.delivery.resolve(path, query).image.account_id == 1, "the signing secret is the same"


def test_a_power_cut_restores_no_deleted_image(
    disk: LoopDisk, program: Callable[..., Program], stored_files: Callable[[Path], list[str]]
) -> None:
    working = program(WORK, disk.root / "data")
    working.read_line()
    created = []
    for _ in range(4):
        working.write_line("upload")
        created.append(working.read_line())
    working.write_line("sync")
    assert working.read_line() == "synced"
    for image_id in created[:3]:
        working.write_line(image_id)
        assert working.read_line() == image_id
    disk.cut()
    working.kill()
    disk.unmount()
    disk.mount()
    with ImageHost.open(disk.root / "data", settings=SETTINGS) as host:
        assert [image.id for image in host.gallery()] == created[3:]
        stored = stored_files(disk.root / "data")
        assert not [path for path in stored if any(image_id in path for image_id in created[:3])]
        assert host.render(created[3]).width == 40


def test_a_power_cut_loses_nothing_of_a_restored_host(
    disk: LoopDisk, tmp_path: Path, program: Callable[..., Program]
) -> None:
    backup = tmp_path / "backup"
    with ImageHost.open(tmp_path / "source", settings=SETTINGS) as host, backup.open("wb") as file:
        stored = [host.upload(make_image(40, 30, seed=seed), owner="admin").id for seed in range(5)]
        host.backups.write(file)
    restoring = program(RESTORE, backup, disk.root / "data")
    assert restoring.read_line() == "restored"
    disk.cut()
    restoring.kill()
    disk.unmount()
    disk.mount()
    with ImageHost.open(disk.root / "data", settings=SETTINGS) as host:
        assert [image.id for image in host.gallery()] == stored[::-1]
        for image_id in stored:
            assert sha256(host.render(image_id).data).hexdigest() == host.images.get(image_id).sha256
