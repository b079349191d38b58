"""The rooms that a host stands on, opened together and closed together."""

from __future__ import annotations

import logging
import os
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import (
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
from imagehost_core.ids import Random
from imagehost_core.pixels import CHROMA, REDUCER
from imagehost_core.resources import Addresses
from imagehost_core.services.unit_of_work import Changes
from imagehost_core.settings import Settings
from imagehost_core.storage import FileStore, Folders, Locks, Reserve, Staging, Stamps
from imagehost_core.storage.durable import make_folder, open_private, sync_file, sync_folder
from imagehost_core.storage.variant_cache import Variants
from imagehost_core.workers import CageLimits, WorkerPool

log = logging.getLogger(__name__)

SECRET_BYTES = 32
"""The length of the key of signed addresses: that of SHA-256, which is enough (RFC 2104, section 3)."""


@frozen
class Rooms:
    """What a host stands on.

    Everything else in `imagehost_core.services` is given one of these; none of it is public.
    """

    settings: Settings
    addresses: Addresses
    clock: Clock
    random: Random
    folders: Folders
    reserve: Reserve
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
    _opened: ExitStack = field(repr=False)

    def close(self) -> None:
        """Close every room, the last opened first."""
        self._opened.close()


def open_rooms(where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random) -> Rooms:
    """Open a data folder, which is made if there is none.

    Args:
        where: The folder; `:memory:` stands for a temporary one, which vanishes when the host closes.
        settings: All settings.
        clock: The source of the time.
        random: The source of unpredictable bytes.
    """
    with ExitStack() as opened:
        rooms = _open(where, settings, clock, random, opened)
        # It is all there: from here on it is the caller who closes it.
        return attrs.evolve(rooms, opened=opened.pop_all())


def _open(
    where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random, opened: ExitStack
) -> Rooms:
    if where == ":memory:":
        where = opened.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-"))
    folders = Folders(Path(where).resolve())
    make_folder(folders.root)
    reserve = Reserve(folders.reserve)
    reserve.keep()
    locks = Locks(folders.locks)
    stamps = opened.enter_context(closing(Stamps(folders.locks / "stamps")))
    stamps.mend(locks, "image")
    staging = opened.enter_context(closing(Staging(folders.staging, settings.storage.free_bytes)))
    counters = opened.enter_context(closing(Counters(folders.counters, locks, clock, reserve)))
    catalog = opened.enter_context(closing(Catalog(folders.catalog, locks)))
    limits = CageLimits(memory_bytes=settings.workers.memory_bytes)
    workers = opened.enter_context(
        WorkerPool(settings.workers.processes, limits=limits, queue=settings.workers.queue)
    )
    if REDUCER != "compiled":
        log.info("pictures are reduced by Pillow, in four times the time: there was no compiler for ours")
    if CHROMA != "light":
        log.info("encoders choose the colours of 4:2:0, by numbers and not by light: there was no compiler")
    images = ImageRows(catalog)
    addresses = Addresses(settings.base_url, settings.delivery_url)
    webhooks = WebhookRows(catalog)
    outbox = OutboxRows(catalog, webhooks, random)
    return Rooms(
        settings=settings,
        addresses=addresses,
        clock=clock,
        random=random,
        folders=folders,
        reserve=reserve,
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
        counters=counters,
        changes=Changes(outbox, addresses, clock, random),
        variants=Variants(folders, staging, locks, stamps, settings.delivery, images.exists),
        workers=workers,
        secret=_secret(folders, locks, random),
        opened=opened,
    )


def _secret(folders: Folders, locks: Locks, random: Random) -> bytes:
    """Return the signing secret of a data folder, which is made once.

    It gets its name when it is whole: whoever knew that a crash had left it empty could sign anything.

    Raises:
        ValueError: The file holds fewer bytes than a secret has.
    """
    with locks.hold("secret", ""):
        if not folders.secret.exists():
            part = folders.root / "secret.part"
            part.unlink(missing_ok=True)
            with open_private(part, "xb") as file:
                file.write(random(SECRET_BYTES))
            sync_file(part)
            part.rename(folders.secret)
            sync_folder(folders.root)
        secret = folders.secret.read_bytes()
    if len(secret) < SECRET_BYTES:
        expected = f"expected at least {SECRET_BYTES} bytes"
        raise ValueError(f"{expected} for {folders.secret} but received {len(secret)}")
    return secret
