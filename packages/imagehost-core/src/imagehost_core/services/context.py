"""Host context: the stores, locks, caches and worker processes of one data directory."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import (
    AccountRepository,
    AlbumRepository,
    CachePurgeRepository,
    Database,
    IdempotencyRepository,
    ImageListRepository,
    ImageRepository,
    ImportRepository,
    KeyRepository,
    OutboxRepository,
    RateLimitStore,
    SessionRepository,
    WebhookRepository,
)
from imagehost_core.errors import ConflictError
from imagehost_core.ids import Random
from imagehost_core.observer import Observer, ignore
from imagehost_core.pixels import CHROMA_SUBSAMPLING, RESAMPLER
from imagehost_core.resources import UrlBuilder
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.services.principals import LOCK as PRINCIPALS_LOCK
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import Settings
from imagehost_core.storage import (
    BlobStore,
    DataLayout,
    DiskReserve,
    GenerationTable,
    LocalBlobStore,
    LockManager,
    StagingArea,
)
from imagehost_core.storage.durable import make_directory, open_owner_only, sync_directory, sync_file
from imagehost_core.storage.layout import SECRET_BYTES
from imagehost_core.storage.variant_cache import VariantCache
from imagehost_core.workers import ImageExecutor
from imagehost_core.workers.borrowed import BorrowedPool

log = logging.getLogger(__name__)


@frozen
class HostContext:
    """The resources of a host, opened and closed together.

    `ImageHost` alone holds one; it gives each service the resources that the service uses.
    """

    urls: UrlBuilder
    layout: DataLayout
    reserve: DiskReserve
    locks: LockManager
    generations: GenerationTable
    principals: PrincipalCache
    staging: StagingArea
    blobs: BlobStore
    variants: VariantCache
    executor: ImageExecutor
    database: Database
    accounts: AccountRepository
    albums: AlbumRepository
    images: ImageRepository
    image_lists: ImageListRepository
    keys: KeyRepository
    sessions: SessionRepository
    idempotency: IdempotencyRepository
    webhooks: WebhookRepository
    outbox: OutboxRepository
    cache_purges: CachePurgeRepository
    imports: ImportRepository
    rate_limits: RateLimitStore
    units: UnitOfWorkFactory
    observe: Observer
    secret: bytes = field(repr=False)
    _stack: ExitStack = field(repr=False)

    def close(self) -> None:
        """Close every resource, the last opened first."""
        self._stack.close()


def open_context(
    path: str | os.PathLike[str],
    settings: Settings,
    clock: Clock,
    random: Random,
    broker: socket.socket | None = None,
    observe: Observer = ignore,
) -> HostContext:
    """Open a data directory; create it if it does not exist.

    Args:
        path: The directory; `:memory:` is a temporary one, which is removed when the host closes.
        settings: All settings of the host.
        clock: The source of the current time.
        random: The source of unpredictable bytes.
        broker: The socket to the broker of image worker processes; without it the host starts its own.
        observe: Receives measurements.

    Raises:
        ConflictError: A restore into the directory is in progress, or was interrupted.
    """
    with ExitStack() as stack:
        context = _open(path, settings, clock, random, broker, observe, stack)
        # From here on the caller closes it.
        return attrs.evolve(context, stack=stack.pop_all())


def _open(
    path: str | os.PathLike[str],
    settings: Settings,
    clock: Clock,
    random: Random,
    broker: socket.socket | None,
    observe: Observer,
    stack: ExitStack,
) -> HostContext:
    if path == ":memory:":
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-"))
    layout = DataLayout(Path(path).resolve())
    if layout.is_restoring:
        raise ConflictError(
            f"expected a host in {layout.root} but a restore is in progress or was interrupted: "
            "repeat it, or delete the directory"
        )
    make_directory(layout.root)
    reserve = DiskReserve(layout.reserve)
    reserve.acquire()
    locks = LockManager(layout.locks)
    generations = stack.enter_context(closing(GenerationTable(layout.generations)))
    generations.repair(locks, "image")
    principal_generations = stack.enter_context(closing(GenerationTable(layout.principal_generations)))
    principal_generations.repair(locks, PRINCIPALS_LOCK)
    staging = stack.enter_context(closing(StagingArea(layout.staging, settings.storage.min_free_bytes)))
    rate_limits = stack.enter_context(closing(RateLimitStore(layout.rate_limits, locks, clock, reserve)))
    database = stack.enter_context(closing(Database(layout.database, locks, observe=observe)))
    sandbox = SandboxLimits(memory_bytes=settings.rendering.memory_limit_bytes)
    executor = stack.enter_context(
        ImageExecutor(
            settings.rendering.processes,
            limits=sandbox,
            queue=settings.rendering.queue,
            pool=None if broker is None else BorrowedPool(broker),
            observe=observe,
        )
    )
    _log_missing_native_modules()
    images = ImageRepository(database)
    urls = UrlBuilder(settings.base_url, settings.delivery_url)
    webhooks = WebhookRepository(database)
    outbox = OutboxRepository(database, webhooks, random)
    return HostContext(
        urls=urls,
        layout=layout,
        reserve=reserve,
        locks=locks,
        generations=generations,
        principals=PrincipalCache(locks, principal_generations),
        staging=staging,
        blobs=LocalBlobStore(layout.images, staging),
        variants=VariantCache(layout, staging, locks, generations, settings.delivery, images.exists, observe),
        executor=executor,
        database=database,
        accounts=AccountRepository(database),
        albums=AlbumRepository(database),
        images=images,
        image_lists=ImageListRepository(database, settings.lists.timeout_seconds),
        keys=KeyRepository(database),
        sessions=SessionRepository(database),
        idempotency=IdempotencyRepository(database),
        webhooks=webhooks,
        outbox=outbox,
        imports=ImportRepository(database),
        cache_purges=CachePurgeRepository(database, settings.purge.url is not None),
        rate_limits=rate_limits,
        units=UnitOfWorkFactory(outbox, urls, clock, random),
        observe=observe,
        secret=_read_or_create_secret(layout, locks, random),
        stack=stack,
    )


def _log_missing_native_modules() -> None:
    if RESAMPLER != "native":
        log.info("native resampler not built; falling back to Pillow (about 4x slower)")
    if CHROMA_SUBSAMPLING != "sharp":
        log.info("native chroma subsampling not built; falling back to the encoders' own")


def _read_or_create_secret(layout: DataLayout, locks: LockManager, random: Random) -> bytes:
    """Return the signing secret of a data directory, created once.

    It is renamed into place when it is complete: with a secret that a crash left empty, anyone could sign.

    Raises:
        ValueError: The file has fewer bytes than a secret.
    """
    with locks.acquire("secret"):
        if not layout.secret.exists():
            temporary = layout.root / "secret.part"
            temporary.unlink(missing_ok=True)
            with open_owner_only(temporary, "xb") as file:
                file.write(random(SECRET_BYTES))
            sync_file(temporary)
            temporary.rename(layout.secret)
            sync_directory(layout.root)
        secret = layout.secret.read_bytes()
    if len(secret) < SECRET_BYTES:
        expected = f"expected at least {SECRET_BYTES} bytes"
        raise ValueError(f"{expected} for {layout.secret} but received {len(secret)}")
    return secret
