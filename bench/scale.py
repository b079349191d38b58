"""Measure what changes something, with 1,000 images of one account and with many more.

    python -m bench.scale [DIRECTORY] [--images 100000] [--rounds 20]

The data directories are those of `bench.lists`, kept in DIRECTORY if one is given; copies are changed. The
account also has a webhook for all events, with as many deliveries as images. Each operation is called in
alternating rounds on the small and on the large host. The output has the CPU time of the process, without
that of image workers: the medians, their ratio, and the most, as FTS5 merges its segments now and then. At
last all images of the large host are in one album, which is deleted while another thread renames one.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle
from pathlib import Path

from attrs import define, field
from bench.lists import SMALL, build, timed
from bench.peers import machine

from imagehost_core import Album, ImageHost, Settings
from imagehost_core.maintenance.recount import repair_counters
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image

OWNER = "admin"
ENDPOINT = "http://127.0.0.1:9/hook"
BULK = 100
GOAL = 1.3
"""The largest ratio that is good."""
SETTINGS = Settings(
    base_url="https://img.example/v1",
    rendering=RenderingSettings(processes=1),
    webhooks=WebhookSettings(allow_loopback=True, send_in_server=False),
)
PNG = make_image(8, 8)

_SERIES = "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < :count)"
_EVENTS = f"INSERT INTO events {_SERIES} SELECT n, 'msg_' || n, 'image.uploaded', x'', n FROM series"
_DELIVERIES = f"""
INSERT INTO webhook_deliveries (id, webhook_id, event_number, state, created_at)
{_SERIES} SELECT 'dlv_' || n, :webhook, n, 'delivered', n FROM series
"""


@define
class Account:
    """An account with many images, and what is changed next.

    Attributes:
        host: The host.
        webhook: The id of a webhook with many deliveries.
        images: The ids of images, again and again.
        large: The id of an album with a twentieth of the images.
        album: An album of 100 images.
        calls: The number of texts so far.
    """

    host: ImageHost
    webhook: str
    images: Iterator[str]
    large: int = 1
    album: Album = field(init=False)
    calls: int = 0

    def __attrs_post_init__(self) -> None:
        self.album = self.new_album()

    def next(self, count: int = BULK) -> list[str]:
        """Return the ids of the next images, which are public and in no album."""
        ids = [next(self.images) for _ in range(count)]
        self.host.images.update_many(ids, owner=OWNER, is_public=True, album_id=None)
        return ids

    def new(self, count: int = BULK) -> list[str]:
        """Return the ids of new images."""
        return [self.host.upload(PNG, owner=OWNER, filename="a.png").id for _ in range(count)]

    def text(self) -> str:
        """Return another text than before."""
        self.calls += 1
        return f"changed {self.calls}"

    def new_album(self) -> Album:
        """Return a new album of 100 images."""
        album = self.host.albums.create(self.text(), owner=OWNER)
        self.host.albums.add_images(album, self.next(), owner=OWNER)
        return album

    def new_key(self) -> str:
        """Return the id of a new key."""
        return self.host.keys.create(owner=OWNER).id

    def new_webhook(self) -> str:
        """Return the id of a new webhook; there are few, as an account may have 100."""
        for webhook in self.host.webhooks.list(owner=OWNER):
            if webhook.id != self.webhook:
                self.host.webhooks.delete(webhook, owner=OWNER)
        return self.host.webhooks.create(owner=OWNER, url=ENDPOINT).id


Operation = Callable[[Account], Callable[[], object]]
"""Prepares an operation, and returns the function that is measured."""

OPERATIONS: dict[str, Operation] = {
    "image: upload": lambda a: partial(a.host.upload, PNG, owner=OWNER, filename="a.png"),
    "image: upload into a large album": lambda a: partial(
        a.host.upload, PNG, owner=OWNER, filename="a.png", album_id=a.large
    ),
    "image: another description": lambda a: partial(
        a.host.images.update, *a.next(1), owner=OWNER, description=a.text()
    ),
    "image: another album": lambda a: partial(
        a.host.images.update, *a.next(1), owner=OWNER, album_id=a.album.id
    ),
    "image: private": lambda a: partial(a.host.images.update, *a.next(1), owner=OWNER, is_public=False),
    "image: delete": lambda a: partial(a.host.images.delete, *a.new(1), owner=OWNER),
    "100 images: another description": lambda a: partial(
        a.host.images.update_many, a.next(), owner=OWNER, description=a.text()
    ),
    "100 images: private": lambda a: partial(
        a.host.images.update_many, a.next(), owner=OWNER, is_public=False
    ),
    "100 images: delete": lambda a: partial(a.host.images.delete_many, a.new(), owner=OWNER),
    "album: create": lambda a: partial(a.host.albums.create, a.text(), owner=OWNER),
    "album of 100: another name": lambda a: partial(
        a.host.albums.update, a.album, owner=OWNER, name=a.text()
    ),
    "album of 100: private": lambda a: partial(
        a.host.albums.update, a.new_album(), owner=OWNER, is_public=False
    ),
    "album of 100: delete": lambda a: partial(a.host.albums.delete, a.new_album(), owner=OWNER),
    "large album: another name": lambda a: partial(a.host.albums.update, a.large, owner=OWNER, name=a.text()),
    "large album: add 100": lambda a: partial(a.host.albums.add_images, a.large, a.next(), owner=OWNER),
    "large album: share": lambda a: partial(a.host.albums.create_share, a.large, owner=OWNER),
    "key: create": lambda a: partial(a.host.keys.create, owner=OWNER),
    "key: another name": lambda a: partial(a.host.keys.update, a.new_key(), owner=OWNER, name=a.text()),
    "key: delete": lambda a: partial(a.host.keys.delete, a.new_key(), owner=OWNER),
    "webhook: create": lambda a: partial(
        a.host.webhooks.create, owner=OWNER, url=f"{ENDPOINT}/{a.new_webhook()}"
    ),
    "webhook: another description": lambda a: partial(
        a.host.webhooks.update, a.webhook, owner=OWNER, description=a.text()
    ),
    "webhook: test": lambda a: partial(a.host.webhooks.test, a.webhook, owner=OWNER),
    "webhook: delete": lambda a: partial(a.host.webhooks.delete, a.new_webhook(), owner=OWNER),
    "session: create": lambda a: partial(a.host.sessions.create, a.host.accounts.get(OWNER)),
    "account: another quota": lambda a: partial(a.host.accounts.update, OWNER, quota_bytes=10**15 + a.calls),
}
"""What is measured. A large album has a twentieth of the images, and the webhook a delivery for each."""


def open_account(source: Path, directory: Path, images: int, stack: ExitStack) -> Account:
    """Return the account of a copy of a data directory.

    Args:
        source: The data directory.
        directory: The directory of the copy.
        images: The number of images.
        stack: Closes the host.
    """
    data = Path(shutil.copytree(source, directory / str(images)))
    host = stack.enter_context(ImageHost.open(data, settings=SETTINGS))
    host.accounts.update(OWNER, quota_bytes=10**15)
    webhook = host.webhooks.create(owner=OWNER, url=ENDPOINT).id
    with closing(sqlite3.connect(data / "imagehost.sqlite3", isolation_level=None)) as database:
        for statement in (_EVENTS, _DELIVERIES):
            database.execute(statement, {"count": images, "webhook": webhook})
        # Otherwise each change would go on merging what the bulk insertion has left.
        database.execute("INSERT INTO image_words (image_words) VALUES ('optimize')")
        # As a list has them, from which people choose.
        rows = database.execute(
            "SELECT id FROM images WHERE account_id = 1 ORDER BY created_at DESC, id DESC"
        )
        ids = [image_id for (image_id,) in rows.fetchmany(100_000)]
    with host._context.records.database.transaction() as transaction:  # noqa: SLF001
        repair_counters(transaction)
    return Account(host, webhook, cycle(ids))


def delete_large_album(account: Account) -> None:
    """Delete an album of all images, which stay, and print how long it and other changes meanwhile take."""
    host, waits, is_deleted = account.host, list[float](), threading.Event()
    with host._context.records.database.transaction() as transaction:  # noqa: SLF001
        transaction.execute("UPDATE images SET album_id = :album", {"album": account.large})
        repair_counters(transaction)
    images = host.albums.get(account.large, owner=OWNER).image_count

    def rename() -> None:
        while not is_deleted.is_set():
            waits.append(timed(partial(host.albums.update, account.album, owner=OWNER, name=account.text())))

    thread = threading.Thread(target=rename)
    thread.start()
    start, cpu = time.monotonic(), time.thread_time()
    host.albums.delete(account.large, owner=OWNER)
    seconds, cpu = time.monotonic() - start, time.thread_time() - cpu
    is_deleted.set()
    thread.join()
    waited = f"median {statistics.median(waits):.0f} ms, most {max(waits):.0f} ms"
    print(f"album of {images:,} deleted: {seconds:.1f} s, {cpu:.1f} s of CPU; {len(waits)} changes: {waited}")


def main() -> None:
    """Build what is missing, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path, nargs="?", help="keeps the data directories")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(machine())
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        small, large = (
            open_account(build(options.directory or temporary, images), temporary, images, stack)
            for images in (SMALL, options.images)
        )
        print(f"{'CPU ms':34}{SMALL:>10,}{options.images:>12,}   ratio   most")
        for name, prepare in OPERATIONS.items():
            times = [
                [timed(prepare(account), time.process_time) for account in (small, large)]
                for _ in range(options.rounds + 2)
            ][2:]
            before, after = (statistics.median(column) for column in zip(*times, strict=True))
            mark = "  !" if after > GOAL * before else ""
            ratio, most = after / before, max(column for _, column in times)
            print(f"{name:34}{before:10.2f}{after:12.2f}   {ratio:5.2f}{most:7.1f}{mark}", flush=True)
        delete_large_album(large)


if __name__ == "__main__":
    main()
