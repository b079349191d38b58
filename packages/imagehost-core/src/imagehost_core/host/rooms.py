"""The rooms that a host stands on, opened together and closed together."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

from imagehost_core.catalog import (
    AccountRows,
    AlbumRows,
    AnswerRows,
    Catalog,
    Counters,
    ImageRows,
    KeyRows,
    OutboxRows,
    SessionRows,
    WebhookRows,
)
from imagehost_core.clock import Clock
from imagehost_core.host.changes import Changes
from imagehost_core.ids import Random
from imagehost_core.records import Addresses
from imagehost_core.settings import Settings
from imagehost_core.storage import FileStore, Folders, Locks, Staging, Stamps
from imagehost_core.storage.durable import make_folder
from imagehost_core.variants import Variants
from imagehost_core.workers import CageLimits, WorkerPool

SECRET_BYTES = 32
"""The length of the key of signed addresses: that of SHA-256, which is enough (RFC 2104, section 3)."""


@frozen
class Rooms:
    """What a host stands on.

    Everything else in `imagehost_core.host` is given one of these; none of it is public.
    """

    settings: Settings
    addresses: Addresses
    clock: Clock
    random: Random
    folders: Folders
    locks: Locks
    stamps: Stamps
    staging: Staging
    files: FileStore
    catalog: Catalog
    accounts: AccountRows
    albums: AlbumRows
    images: ImageRows
    keys: KeyRows
    sessions: SessionRows
    answers: AnswerRows
    webhooks: WebhookRows
    outbox: OutboxRows
    counters: Counters
    changes: Changes
    variants: Variants
    workers: WorkerPool
    secret: bytes = field(repr=False)
    temporary: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close every room, the topmost first."""
        self.workers.close()
        self.catalog.close()
        self.counters.close()
        self.staging.close()
        self.stamps.close()
        if self.temporary is not None:
            self.temporary.cleanup()


def open_rooms(where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random) -> Rooms:
    """Open a data folder, which is made if there is none.

    Args:
        where: The folder; `:memory:` stands for a temporary one, which vanishes when the host closes.
        settings: All settings.
        clock: The source of the time.
        random: The source of unpredictable bytes.
    """
    temporary = tempfile.TemporaryDirectory(prefix="imagehost-") if where == ":memory:" else None
    folders = Folders(Path(temporary.name if temporary else where).resolve())
    make_folder(folders.root)
    locks = Locks(folders.locks)
    stamps = Stamps(folders.locks / "stamps")
    staging = Staging(folders.staging, settings.storage.free_bytes)
    catalog = Catalog(folders.catalog, locks)
    images = ImageRows(catalog)
    addresses = Addresses(settings.base_url, settings.delivery_url)
    webhooks = WebhookRows(catalog)
    outbox = OutboxRows(catalog, webhooks, random)
    workers = settings.workers
    return Rooms(
        settings=settings,
        addresses=addresses,
        clock=clock,
        random=random,
        folders=folders,
        locks=locks,
        stamps=stamps,
        staging=staging,
        files=FileStore(folders, staging),
        catalog=catalog,
        accounts=AccountRows(catalog),
        albums=AlbumRows(catalog, images),
        images=images,
        keys=KeyRows(catalog),
        sessions=SessionRows(catalog),
        answers=AnswerRows(catalog),
        webhooks=webhooks,
        outbox=outbox,
        counters=Counters(folders.counters, locks, clock),
        changes=Changes(outbox, addresses, clock, random),
        variants=Variants(folders, staging, locks, stamps, settings.delivery, images.exists),
        workers=WorkerPool(
            workers.processes, limits=CageLimits(memory_bytes=workers.memory_bytes), queue=workers.queue
        ),
        secret=_secret(folders, locks, random),
        temporary=temporary,
    )


def _secret(folders: Folders, locks: Locks, random: Random) -> bytes:
    """Return the signing secret of a data folder, which is made once."""
    with locks.hold("secret", ""):
        with suppress(FileNotFoundError):
            return folders.secret.read_bytes()
        secret = random(SECRET_BYTES)
        descriptor = os.open(folders.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secret)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return secret
