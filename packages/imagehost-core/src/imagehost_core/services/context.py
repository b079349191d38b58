"""The context that a host stands on, opened together and closed together."""

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
    AccountRepository,
    AlbumRepository,
    Database,
    IdempotencyRepository,
    ImageRepository,
    KeyRepository,
    OutboxRepository,
    RateLimitStore,
    SessionRepository,
    WebhookRepository,
)
from imagehost_core.ids import Random
from imagehost_core.pixels import CHROMA_SUBSAMPLING, RESAMPLER
from imagehost_core.resources import UrlBuilder
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import Settings
from imagehost_core.storage import (
    DataLayout,
    DiskReserve,
    GenerationTable,
    LocalBlobStore,
    LockManager,
    StagingArea,
)
from imagehost_core.storage.durable import make_folder, open_owner_only, sync_file, sync_folder
from imagehost_core.storage.variant_cache import VariantCache
from imagehost_core.workers import ImageExecutor

log = logging.getLogger(__name__)

SECRET_BYTES = 32
"""The length of the key of signed addresses: that of SHA-256, which is enough (RFC 2104, section 3)."""


@frozen
class HostContext:
    """What a host stands on.

    Everything else in `imagehost_core.services` is given one of these; none of it is public.
    """

    settings: Settings
    urls: UrlBuilder
    clock: Clock
    random: Random
    layout: DataLayout
    reserve: DiskReserve
    locks: LockManager
    generations: GenerationTable
    staging: StagingArea
    blobs: LocalBlobStore
    database: Database
    accounts: AccountRepository
    albums: AlbumRepository
    images: ImageRepository
    keys: KeyRepository
    sessions: SessionRepository
    idempotency: IdempotencyRepository
    webhooks: WebhookRepository
    outbox: OutboxRepository
    rate_limits: RateLimitStore
    unit_of_work: UnitOfWorkFactory
    variants: VariantCache
    executor: ImageExecutor
    secret: bytes = field(repr=False)
    _opened: ExitStack = field(repr=False)

    def close(self) -> None:
        """Close every room, the last opened first."""
        self._opened.close()


def open_context(
    where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random
) -> HostContext:
    """Open a data folder, which is made if there is none.

    Args:
        where: The folder; `:memory:` stands for a temporary one, which vanishes when the host closes.
        settings: All settings.
        clock: The source of the time.
        random: The source of unpredictable bytes.
    """
    with ExitStack() as opened:
        context = _open(where, settings, clock, random, opened)
        # It is all there: from here on it is the caller who closes it.
        return attrs.evolve(context, opened=opened.pop_all())


def _open(
    where: str | os.PathLike[str], settings: Settings, clock: Clock, random: Random, opened: ExitStack
) -> HostContext:
    if where == ":memory:":
        where = opened.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-"))
    folders = DataLayout(Path(where).resolve())
    make_folder(folders.root)
    reserve = DiskReserve(folders.reserve)
    reserve.acquire()
    locks = LockManager(folders.locks)
    stamps = opened.enter_context(closing(GenerationTable(folders.generations)))
    stamps.repair(locks, "image")
    staging = opened.enter_context(closing(StagingArea(folders.staging, settings.storage.min_free_bytes)))
    counters = opened.enter_context(closing(RateLimitStore(folders.rate_limits, locks, clock, reserve)))
    catalog = opened.enter_context(closing(Database(folders.database, locks)))
    limits = SandboxLimits(memory_bytes=settings.rendering.memory_limit_bytes)
    workers = opened.enter_context(
        ImageExecutor(settings.rendering.processes, limits=limits, queue=settings.rendering.queue)
    )
    if RESAMPLER != "native":
        log.info("pictures are reduced by Pillow, in four times the time: there was no compiler for ours")
    if CHROMA_SUBSAMPLING != "sharp":
        log.info("encoders choose the colours of 4:2:0, by numbers and not by light: there was no compiler")
    images = ImageRepository(catalog)
    addresses = UrlBuilder(settings.base_url, settings.delivery_url)
    webhooks = WebhookRepository(catalog)
    outbox = OutboxRepository(catalog, webhooks, random)
    return HostContext(
        settings=settings,
        urls=addresses,
        clock=clock,
        random=random,
        layout=folders,
        reserve=reserve,
        locks=locks,
        generations=stamps,
        staging=staging,
        blobs=LocalBlobStore(folders.images, staging),
        database=catalog,
        accounts=AccountRepository(catalog),
        albums=AlbumRepository(catalog),
        images=images,
        keys=KeyRepository(catalog),
        sessions=SessionRepository(catalog),
        idempotency=IdempotencyRepository(catalog),
        webhooks=webhooks,
        outbox=outbox,
        rate_limits=counters,
        unit_of_work=UnitOfWorkFactory(outbox, addresses, clock, random),
        variants=VariantCache(folders, staging, locks, stamps, settings.delivery, images.exists),
        executor=workers,
        secret=_secret(folders, locks, random),
        opened=opened,
    )


def _secret(folders: DataLayout, locks: LockManager, random: Random) -> bytes:
    """Return the signing secret of a data folder, which is made once.

    It gets its name when it is whole: whoever knew that a crash had left it empty could sign anything.

    Raises:
        ValueError: The file holds fewer bytes than a secret has.
    """
    with locks.acquire("secret", ""):
        if not folders.secret.exists():
            part = folders.root / "secret.part"
            part.unlink(missing_ok=True)
            with open_owner_only(part, "xb") as file:
                file.write(random(SECRET_BYTES))
            sync_file(part)
            part.rename(folders.secret)
            sync_folder(folders.root)
        secret = folders.secret.read_bytes()
    if len(secret) < SECRET_BYTES:
        expected = f"expected at least {SECRET_BYTES} bytes"
        raise ValueError(f"{expected} for {folders.secret} but received {len(secret)}")
    return secret
