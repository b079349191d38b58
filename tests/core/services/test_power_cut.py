"""Power failures, simulated with ext4 on a loop device: no acknowledged change is lost.

The file system is shut down at once (`EXT4_IOC_SHUTDOWN`) without flushing its journal: what was not synced
is lost, as in a power failure.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from imagehost_core import ImageHost, Settings
from imagehost_core.settings import RenderingSettings, StorageSettings
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.core.conftest import Program

pytestmark = pytest.mark.faults

EXT4_IOC_SHUTDOWN = 0x8004587D
"""`_IOR('X', 125, __u32)` (Linux, fs/ext4/ext4.h)."""
NO_LOG_FLUSH = (2).to_bytes(4, sys.byteorder)
SETTINGS = Settings(rendering=RenderingSettings(processes=1), storage=StorageSettings(min_free_bytes=0))

WORK = """
    import os, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import StorageSettings, RenderingSettings
    from imagehost_core.testing import make_image

    settings = Settings(rendering=RenderingSettings(processes=1), storage=StorageSettings(min_free_bytes=0))
    data = make_image(40, 30)
    with ImageHost.open(sys.argv[1], settings=settings) as host:
        address = host.images.signed_url(host.upload(data, owner="admin", is_public=False).id, "w=10")
        # From here on the catalog writes over a log that has its length already. While a log grows, each
        # of its syncs takes the renames of others along, which would hide that they were not synced.
        for turn in range(12):
            host.images.update(address[26:42], description="x" * 1000)
        host._context.database._writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
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


class Disk:
    """An ext4 file system on a loop device that can lose its power."""

    def __init__(self, folder: Path) -> None:
        self._image, self.root = folder / "disk.img", folder / "disk"
        self.root.mkdir()
        with self._image.open("wb") as file:
            file.truncate(32 * 2**20)
        self._run("mkfs.ext4", "-q", "-F", str(self._image))
        self.mount()

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self._image), str(self.root))

    def cut(self) -> None:
        """Lose all that was not synced."""
        descriptor = os.open(self.root, os.O_RDONLY)
        fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH)
        os.close(descriptor)

    def unmount(self) -> None:
        self._run("umount", str(self.root))

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        created = Disk(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NOT TESTED: power cuts, for want of the right to make a file system ({error})")
    yield created
    created.unmount()


@pytest.mark.parametrize("answered", [1, 5])
def test_a_power_cut_loses_no_acknowledged_upload(
    disk: Disk, program: Callable[..., Program], answered: int
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
        path, query = address.removeprefix("http://127.0.0.1:8000/img/").split("?")
        assert host.delivery.resolve(path, query).image.account_id == 1, "the signing secret is the same"


def test_a_power_cut_restores_no_deleted_image(
    disk: Disk, program: Callable[..., Program], stored_files: Callable[[Path], list[str]]
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
    disk: Disk, tmp_path: Path, program: Callable[..., Program]
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
