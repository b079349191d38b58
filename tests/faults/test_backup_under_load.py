"""Backups of a server that receives uploads and deletions meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from attrs import define, field
from tests.faults.conftest import NO_LIMITS, client_of

from imagehost_core import ImageHost, Settings
from imagehost_core.ids import ImageId
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

COMMAND = [sys.executable, "-m", "imagehost_server"]
THREADS, IMAGES, BACKUPS = 4, 40, 3
"""Clients, the number of images of each, and backups: a full one and increments."""
PIPE_BYTES, DELETIONS_PER_CHUNK = 65_536, 3


@define
class Load:
    """Clients that upload and delete images until they are stopped."""

    server: RunningServer
    uploaded: list[ImageId] = field(factory=list)
    deleted: list[ImageId] = field(factory=list)
    stopped: threading.Event = field(factory=threading.Event)
    clients: list[Future[None]] = field(factory=list)

    def wait_for(self, deletions: int) -> None:
        """Wait until that many images have been deleted."""
        while len(self.deleted) < deletions:
            assert not any(client.done() for client in self.clients)
            self.stopped.wait(0.02)

    def run(self, seed: int) -> None:
        chance = random.Random(seed)
        mine: list[ImageId] = []
        with client_of(self.server, self.server.token) as client:
            while not self.stopped.is_set():
                if len(mine) > IMAGES and chance.random() < 0.5:
                    image_id = mine.pop(chance.randrange(len(mine)))
                    client.delete(f"/v1/images/{image_id}").raise_for_status()
                    self.deleted.append(image_id)
                else:
                    image = make_image(100, 80, seed=chance.randrange(2**16))
                    form = {"convertToWebP": "false"}
                    response = client.post("/v1/upload", files={"image": image}, data=form).raise_for_status()
                    mine.append(ImageId(response.json()["data"]["id"]))
                    self.uploaded.append(mine[-1])


def back_up_slowly(load: Load, file: Path, arguments: list[str]) -> str:
    """Take a backup during which images are deleted, however fast it is; return what it reported."""
    command = [*COMMAND, "backup", "-", "--data", str(load.server.data), *arguments]
    with (
        file.open("wb") as target,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        # The pipe is full until it is read, and the backup waits.
        while chunk := process.stdout.read(PIPE_BYTES):
            target.write(chunk)
            load.wait_for(len(load.deleted) + DELETIONS_PER_CHUNK)
        report = process.stderr.read().decode()
        assert process.wait() == 0, report
    return report


def test_backups_during_uploads_and_deletions_restore_a_consistent_host_with_all_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    expected: list[tuple[set[ImageId], set[ImageId]]] = []
    files = [tmp_path / f"backup-{number}" for number in range(BACKUPS)]
    reports: list[str] = []
    with running(tmp_path / "data", variables=NO_LIMITS) as server, ThreadPoolExecutor(THREADS) as threads:
        load = Load(server)
        load.clients = [threads.submit(load.run, seed) for seed in range(THREADS)]
        try:
            for number, file in enumerate(files):
                load.wait_for(len(load.deleted) + IMAGES)
                deleted_before, uploaded_before = set(load.deleted), set(load.uploaded)
                since = ["--since", str(files[number - 1])] if number else []
                reports.append(back_up_slowly(load, file, since))
                expected.append((uploaded_before - set(load.deleted), deleted_before))
        finally:
            load.stopped.set()
        for client in load.clients:
            client.result()
    assert any("Deleted during the backup" in report for report in reports)

    for number, (kept, deleted) in enumerate(expected):
        copy = tmp_path / f"copy-{number}"
        subprocess.run([*COMMAND, "restore", *files[: number + 1], "--data", copy], check=True)
        with ImageHost.open(copy, settings=Settings(rendering=RenderingSettings(processes=1))) as host:
            images = {image.id: image for image in host.images.iter(owner="admin")}
            assert kept <= images.keys()
            assert not deleted & images.keys()
            assert list(host.check(quick=True)) == []
            stored = {ImageId(path.parent.name): path for path in (copy / "images").rglob("master")}
            assert stored.keys() == images.keys()
            for image_id, path in stored.items():
                assert sha256(path.read_bytes()).hexdigest() == images[image_id].sha256
