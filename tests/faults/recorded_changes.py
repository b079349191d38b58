"""Changes by several threads of which each attempt and each response is recorded, with its time.

`python -m tests.faults.recorded_changes DATABASE STORAGE DATA RESTORED SEED` changes a host until it is
killed. The records are the lines of its output, so that they survive the loss of the disk.
"""

from __future__ import annotations

import io
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from tests.faults.changes import OWNER, URL, open_host
from tests.hosts import Engines

from imagehost_core import ImageHost, restore
from imagehost_core.settings import SQLITE
from imagehost_core.testing import make_image

READY = "ready"
"""The event that all threads run."""
Value = Any
"""What a change has set: the description and album of an image, the name of others; `None`: it is deleted."""


@define
class Item:
    """An image, an album, a webhook or a restored host.

    Attributes:
        confirmed: The value that the last response confirmed.
        attempted: The values of later attempts.
    """

    confirmed: Value = None
    attempted: list[Value] = field(factory=list)

    @property
    def possible(self) -> list[Value]:
        """The values that it may have."""
        return [self.confirmed, *self.attempted]


@define
class Records:
    """What the output of the program says.

    Attributes:
        items: By kind and id.
        digests: The SHA-256 of each uploaded image by its id.
        responses: The number of responses before the power failure.
        last_response: The time of the last one, of `time.monotonic`.
    """

    items: dict[tuple[str, str], Item] = field(factory=dict)
    digests: dict[str, str] = field(factory=dict)
    responses: int = 0
    last_response: float = 0.0

    def read(self, line: str, cut: float) -> None:
        """Add a line.

        Args:
            line: The line.
            cut: The time of the power failure. A response after it proves nothing: the processor goes on,
                and ext4 may report a sync that it has not made to a file system that is shut down.
        """
        at, event, kind, key, value = json.loads(line)
        if event == READY:
            return
        if event == "digest":
            # A kill may come before the response to the upload: then nothing is known of the image.
            self.digests[key] = value
            return
        item = self.items.setdefault((kind, key), Item())
        if event == "attempt" or at >= cut:
            item.attempted.append(value)
        else:
            item.confirmed, item.attempted = value, []
            self.responses += 1
            self.last_response = at

    def of_kind(self, kind: str) -> dict[str, Item]:
        """Return the items of a kind by id."""
        return {key: item for (each, key), item in self.items.items() if each == kind}


def record(event: str, kind: str, key: object, value: Value) -> None:
    """Write a line with the time."""
    os.write(1, f"{json.dumps([time.monotonic(), event, kind, str(key), value])}\n".encode())


@contextmanager
def recorded(kind: str, key: object, value: Value) -> Iterator[None]:
    """Record the attempt to set a value, then the response."""
    record("attempt", kind, key, value)
    yield
    record("response", kind, key, value)


def change_images(host: ImageHost, rng: random.Random) -> None:
    """Upload, update, render and delete images of one thread."""
    data = make_image(24, 16, seed=rng.randrange(2**31))
    image = host.upload(data, owner=OWNER, description="new", convert_to_webp=False)
    record("digest", "image", image.id, sha256(data).hexdigest())
    record("response", "image", image.id, ["new", None])
    album = host.albums.create(owner=OWNER, name="a")
    record("response", "album", album.id, "a")
    if rng.random() < 0.5:
        host.render(image.id, "w=10&fm=png")
    for number in range(rng.randrange(3)):
        with recorded("image", image.id, [str(number), album.id]):
            host.images.update(image.id, owner=OWNER, description=str(number), album_id=album.id)
    if rng.random() < 0.6:
        with recorded("image", image.id, None):
            host.images.delete(image.id)
    if rng.random() < 0.5:
        with recorded("album", album.id, "b"):
            host.albums.update(album.id, owner=OWNER, name="b")


def change_webhooks(host: ImageHost, rng: random.Random) -> None:
    """Create, change and delete webhooks."""
    webhook = host.webhooks.create(owner=OWNER, url=URL, description="a")
    record("response", "webhook", webhook.id, "a")
    if rng.random() < 0.5:
        with recorded("webhook", webhook.id, "b"):
            host.webhooks.update(webhook.id, owner=OWNER, description="b")
    if rng.random() < 0.9:
        with recorded("webhook", webhook.id, None):
            host.webhooks.delete(webhook.id, owner=OWNER)


def back_up_and_restore(host: ImageHost, rng: random.Random, directory: Path | None) -> None:
    """Write a backup, and restore it into a directory if one is given."""
    backup = io.BytesIO()
    host.backups.write(backup)
    if directory is not None:
        backup.seek(0)
        target = directory / str(rng.randrange(2**31))
        record("response", "restored", target, restore([backup], target).image_count)
    host.maintenance.collect_garbage()
    time.sleep(0.3)


def main(database: str, storage: str, data: str, restored: str, seed: str) -> None:
    """Change a host by threads until the process is killed or each thread has failed."""
    directory = Path(restored) if database == SQLITE else None
    with open_host(Engines(database, storage), Path(data)) as host:
        host.upload(make_image(24, 16), owner=OWNER)

        def repeat(change: Callable[[ImageHost, random.Random], None], number: int) -> None:
            rng = random.Random(f"{seed}-{number}")
            try:
                while True:
                    change(host, rng)
            except Exception:
                traceback.print_exc()

        backups = partial(back_up_and_restore, directory=directory)
        changes = [change_images] * 3 + [change_webhooks, backups]
        threads = [
            threading.Thread(target=repeat, args=(change, number)) for number, change in enumerate(changes)
        ]
        for thread in threads:
            thread.start()
        record(READY, "", "", None)
        for thread in threads:
            thread.join()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
