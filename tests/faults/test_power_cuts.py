"""Power failures at random times during changes: every response that was sent before holds afterwards.

A response is recorded outside the disk, with its time. On PostgreSQL its data directory loses the power; the
object store does not, as SeaweedFS itself loses what it has confirmed.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from attrs import define
from tests.faults.changes import OWNER, open_host
from tests.faults.engines import EnginePair
from tests.faults.recorded_changes import Records, Value
from tests.faults.trials import Record, run_trials, trial_count
from tests.hosts import Engines
from tests.loop_disk import LoopDisk, loop_disk
from tests.postgres import PostgresServer

from imagehost_core import ImageHost
from imagehost_core.maintenance.check.findings import FindingKind

CUTS_PER_DISK = 10
MEGABYTES = 512

log = logging.getLogger(__name__)


@define
class PowerCuts:
    """A host whose disk loses its power.

    Attributes:
        disk: The disk.
        engines: The database and the storage.
        data: The data directory.
        postgres: The server whose data directory is on the disk; otherwise that of the host is.
        records: What the host has confirmed so far.
    """

    disk: LoopDisk
    engines: Engines
    data: Path
    postgres: PostgresServer | None
    records: Records

    @property
    def restored(self) -> Path:
        """The directory of restored hosts."""
        return self.disk.root / "restored"

    def change_until_cut(self, root: Path, seconds: float, seed: int) -> None:
        """Change the host in another process until the power fails."""
        arguments = (self.engines.database, self.engines.storage, self.data, self.restored, seed)
        command = [sys.executable, "-m", "tests.faults.recorded_changes", *map(str, arguments)]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                command,
                cwd=root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            assert process.stdout is not None
            lines = list(iter_until_ready(process.stdout))
            errors.seek(0)
            assert '"ready"' in "".join(lines), errors.read().decode()[-2000:]
            reading = threading.Thread(target=lines.extend, args=(process.stdout,))
            reading.start()
            time.sleep(seconds)
            cut = time.monotonic()
            self.disk.cut()
            process.kill()
            reading.join()
        for line in lines:
            self.records.read(line, cut)
        age = cut - self.records.last_response
        log.info("cut responses=%d last_before_s=%.3f", self.records.responses, age)

    def restore_power(self) -> None:
        """Mount the disk again, and start the database server."""
        if self.postgres is not None:
            self.postgres.kill()
        self.disk.unmount()
        self.disk.mount()
        if self.postgres is not None:
            self.postgres.start()

    def check(self) -> None:
        """Assert that the host is what the responses say."""
        with open_host(self.engines, self.data) as host:
            found = values(host)
            for (kind, key), item in self.records.items.items():
                if kind in found:
                    value = found[kind].get(key)
                    assert value in item.possible, f"{kind} {key}: {value} is none of {item.possible}"
                    # Only one value is possible for what comes after.
                    item.confirmed, item.attempted = value, []
            host.maintenance.collect_garbage()
            # Variants are not synced, as they can be rendered again.
            findings = list(host.check(repair=True))
            assert {finding.kind for finding in findings} <= {FindingKind.VARIANT_CORRUPT}, findings
            assert list(host.check()) == []
            for image_id in found["image"]:
                if image_id in self.records.digests:
                    data = host.render(image_id).data
                    assert sha256(data).hexdigest() == self.records.digests[image_id]
            deleted = {key for key, item in self.records.of_kind("image").items() if item.confirmed is None}
            paths = [str(path) for path in self.data.rglob("*")]
            assert not [path for path in paths if any(image_id in path for image_id in deleted)]
        for directory, item in self.records.of_kind("restored").items():
            with ImageHost.open(directory) as restored:
                assert restored.images.list(owner=OWNER).total == item.confirmed
                assert list(restored.check()) == []


def iter_until_ready(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of `recorded_changes` up to the one that says that all threads run."""
    for line in lines:
        yield line
        if '"ready"' in line:
            return


def values(host: ImageHost) -> dict[str, dict[str, Value]]:
    """Return the value of each image, album and webhook, as `recorded_changes` records them."""
    return {
        "image": {image.id: [image.description, image.album_id] for image in host.images.iter(owner=OWNER)},
        "album": {
            str(row["id"]): row["name"]
            for row in host._context.records.database.fetch_all("SELECT id, name FROM albums", {})
        },
        "webhook": {
            str(row["id"]): row["description"]
            for row in host._context.records.database.fetch_all("SELECT id, description FROM webhooks", {})
        },
    }


@contextmanager
def powered(pair: EnginePair) -> Iterator[PowerCuts]:
    """Yield a host whose records are on a disk that can lose its power."""
    with tempfile.TemporaryDirectory(prefix="imagehost-power-") as name:
        folder = Path(name)
        # The server of PostgreSQL runs as another user.
        folder.chmod(0o711)
        with loop_disk(folder, MEGABYTES) as disk:
            if pair.s3 is None:
                yield PowerCuts(disk, Engines("sqlite", "folder"), disk.root / "data", None, Records())
                return
            directory = disk.root / "postgres"
            directory.mkdir()
            server = PostgresServer(directory, "shared_buffers=32MB", "max_wal_size=64MB")
            os.sync()
            server.start()
            try:
                engines = Engines(server.url_of(), pair.s3.url())
                yield PowerCuts(disk, engines, folder / "data", server, Records())
            finally:
                server.kill()


def test_every_response_before_a_power_failure_holds_after_it(
    engine_pair: EnginePair, workspace: Path, record_property: Record
) -> None:
    with run_trials("a power failure during changes", engine_pair.name, record_property) as trials:
        left = trial_count(2, 300)
        while left:
            failed = len(trials.failures)
            with powered(engine_pair) as host:
                for _ in range(min(left, CUTS_PER_DISK)):
                    left -= 1
                    seconds, seed = trials.random.uniform(0.05, 2.0), trials.random.randrange(2**31)
                    with trials.trial(f"after {seconds:.3f} s, seed {seed}"):
                        host.change_until_cut(workspace, seconds, seed)
                        host.restore_power()
                        host.check()
                    if len(trials.failures) > failed:
                        # What is left on the disk is not defined.
                        break
