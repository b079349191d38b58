"""Assembly of the services: each gets the resources that it uses, and no others."""

from __future__ import annotations

import socket
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

from attrs import frozen

from imagehost_core.context import HostContext
from imagehost_core.ids import Random
from imagehost_core.maintenance.backup import BackupService
from imagehost_core.maintenance.check import IntegrityService
from imagehost_core.maintenance.check.database_checks import DatabaseChecker
from imagehost_core.maintenance.check.derivative_repair import DerivativeRepairer
from imagehost_core.maintenance.check.image_files import ImageFileChecker
from imagehost_core.maintenance.check.unreferenced_files import UnreferencedFileChecker
from imagehost_core.maintenance.garbage import ExpiredRecords, GarbageCollector, GarbageService
from imagehost_core.maintenance.importers import ImportService
from imagehost_core.maintenance.importers.service import ImportRepository
from imagehost_core.maintenance.service import MaintenanceService
from imagehost_core.services.accounts import AccountService, usage_cache
from imagehost_core.services.albums import AlbumService
from imagehost_core.services.bulk import BulkImageService
from imagehost_core.services.cache_purges import CachePurgeService
from imagehost_core.services.deletion import ImageDeleter, ImageEraser
from imagehost_core.services.delivery import ImageResolver
from imagehost_core.services.idempotency import IdempotencyService
from imagehost_core.services.image_lists import ImageLists, page_cache
from imagehost_core.services.images import ImageService
from imagehost_core.services.keys import KeyService
from imagehost_core.services.rate_limiter import RateLimiter
from imagehost_core.services.read_cache import record_cache
from imagehost_core.services.rendering import RenderingService
from imagehost_core.services.sessions import SessionService
from imagehost_core.services.signed_urls import UrlSigner
from imagehost_core.services.upload import UploadService
from imagehost_core.services.webhooks import MAX_SENDERS, WebhookService
from imagehost_core.settings import Settings
from imagehost_core.webhooks import HostResolver


@frozen
class MaintenanceServices:
    """The services that clean, check and repair a data directory.

    Attributes:
        eraser: Erases the files of deleted images.
        collector: Removes what crashes and failed deletions left.
        integrity: The integrity check.
        maintenance: The facade for servers.
    """

    eraser: ImageEraser
    collector: GarbageCollector
    integrity: IntegrityService
    maintenance: MaintenanceService


def build_maintenance(context: HostContext, settings: Settings) -> MaintenanceServices:
    """Return the services for the resources of a host."""
    database, images, blobs, variants = context.database, context.images, context.blobs, context.variants
    locks, generations, staging = context.locks, context.generations, context.staging
    eraser = ImageEraser(database, images, blobs, variants)
    collector = GarbageCollector(
        images=images,
        blobs=blobs,
        locks=locks,
        generations=generations,
        staging=staging,
        reserve=context.reserve,
        eraser=eraser,
        installation=context.installation,
    )
    unreferenced = UnreferencedFileChecker(
        images=images,
        blobs=blobs,
        variants=variants,
        locks=locks,
        generations=generations,
        staging=staging,
        eraser=eraser,
        installation=context.installation,
    )
    database_checker = DatabaseChecker(database, context.clock)
    derivatives = DerivativeRepairer(
        database=database,
        images=images,
        blobs=blobs,
        locks=locks,
        generations=generations,
        staging=staging,
        executor=context.executor,
        timeout_seconds=settings.rendering.ingest_timeout_seconds,
    )
    files = ImageFileChecker(database, blobs, locks, derivatives)
    integrity = IntegrityService(database_checker, files, unreferenced)
    garbage = GarbageService(
        unreferenced=unreferenced,
        database=database_checker,
        expired=ExpiredRecords(
            database=database,
            sessions=context.sessions,
            idempotency=context.idempotency,
            outbox=context.outbox,
            event_retention=timedelta(seconds=settings.webhooks.retention_seconds),
            clock=context.clock,
        ),
        variants=variants,
        staging=staging,
        locks=locks,
        installation=context.installation,
    )
    maintenance = MaintenanceService(
        database, context.accounts, staging, context.executor, collector, garbage, blobs, context.clock
    )
    return MaintenanceServices(eraser, collector, integrity, maintenance)


@frozen
class HostServices:
    """The services of a host, as `ImageHost` exposes them, and the collector of its garbage."""

    collector: GarbageCollector
    delivery: ImageResolver
    images: ImageService
    albums: AlbumService
    accounts: AccountService
    keys: KeyService
    sessions: SessionService
    webhooks: WebhookService
    cache_purges: CachePurgeService
    rate_limiter: RateLimiter
    uploads: UploadService
    idempotency: IdempotencyService
    maintenance: MaintenanceService
    integrity: IntegrityService
    backups: BackupService
    imports: ImportService


def first_sender_slot(context: HostContext) -> int:
    """Return the number of the first sender slot of a host, which no other host has.

    The slots of a host are files of its data directory that its processes lock. A copy of the directory is
    another one, and so is the directory on another machine.
    """
    status = context.layout.locks.stat()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
    except OSError:
        boot = socket.gethostname()
    digest = blake2b(f"{boot} {status.st_dev} {status.st_ino}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) * MAX_SENDERS


def assemble_services(
    context: HostContext, settings: Settings, random: Random, resolve: HostResolver
) -> HostServices:
    """Return the services over the resources of a host.

    Args:
        context: The resources.
        settings: All settings of the host.
        random: The source of unpredictable bytes.
        resolve: The DNS lookup of webhook hosts.
    """
    database, accounts, images = context.database, context.accounts, context.images
    clock = context.clock
    rendering = RenderingService(
        context.blobs, context.variants, context.executor, settings.rendering.render_timeout_seconds
    )
    upkeep = build_maintenance(context, settings)
    delivery = ImageResolver(
        images=images,
        generations=context.generations,
        variants=context.variants,
        blobs=context.blobs,
        rendering=rendering,
        settings=settings.delivery,
        principals=context.principals,
        secret=context.secret,
        clock=clock,
    )
    signer = UrlSigner(
        accounts=accounts,
        resolver=delivery,
        urls=context.urls,
        settings=settings.delivery,
        secret=context.secret,
        clock=clock,
    )
    deleter = ImageDeleter(
        database=database,
        images=images,
        accounts=accounts,
        locks=context.locks,
        generations=context.generations,
        reserve=context.reserve,
        eraser=upkeep.eraser,
        cache_purges=context.cache_purges,
        units=context.units,
        clock=clock,
    )
    bulk = BulkImageService(
        database=database,
        images=images,
        albums=context.albums,
        accounts=accounts,
        locks=context.locks,
        generations=context.generations,
        deleter=deleter,
        signer=signer,
        cache_purges=context.cache_purges,
        units=context.units,
        clock=clock,
    )
    image_service = ImageService(
        database=database,
        images=images,
        lists=ImageLists(context.image_lists, context.albums, accounts, page_cache(database)),
        albums=context.albums,
        accounts=accounts,
        locks=context.locks,
        generations=context.generations,
        deleter=deleter,
        signer=signer,
        bulk=bulk,
        cache_purges=context.cache_purges,
        units=context.units,
        clock=clock,
        records=record_cache(database),
    )
    album_service = AlbumService(
        database=database,
        albums=context.albums,
        images=images,
        accounts=accounts,
        units=context.units,
        clock=clock,
        delete_image=image_service.delete_from_album,
    )
    account_service = AccountService(
        database=database,
        accounts=accounts,
        sessions=context.sessions,
        webhooks=context.webhooks,
        images=images,
        locks=context.locks,
        generations=context.generations,
        principals=context.principals,
        cache_purges=context.cache_purges,
        clock=clock,
        delete_image=image_service.delete,
        usages=usage_cache(database),
        units=context.units,
        random=random,
    )
    keys = KeyService(
        database=database,
        keys=context.keys,
        sessions=context.sessions,
        accounts=accounts,
        principals=context.principals,
        units=context.units,
        clock=clock,
        random=random,
    )
    sessions = SessionService(
        database=database,
        sessions=context.sessions,
        accounts=accounts,
        principals=context.principals,
        units=context.units,
        settings=settings.sessions,
        clock=clock,
        random=random,
    )
    webhooks = WebhookService(
        database=database,
        webhooks=context.webhooks,
        outbox=context.outbox,
        accounts=accounts,
        locks=context.locks,
        units=context.units,
        first_slot=first_sender_slot(context) if database.dialect.is_shared else 0,
        settings=settings.webhooks,
        clock=clock,
        random=random,
        resolve=resolve,
        observe=context.observe,
    )
    cache_purges = CachePurgeService(
        database=database,
        purges=context.cache_purges,
        urls=context.urls,
        settings=settings.purge,
        shared_max_age=timedelta(seconds=settings.delivery.shared_max_age_seconds),
        clock=clock,
        observe=context.observe,
    )
    rate_limiter = RateLimiter(context.rate_limits, settings.limits, clock)
    uploads = UploadService(
        database=database,
        accounts=accounts,
        albums=context.albums,
        images=images,
        blobs=context.blobs,
        staging=context.staging,
        locks=context.locks,
        executor=context.executor,
        units=context.units,
        limits=settings.limits,
        defaults=settings.uploads,
        ingest_timeout_seconds=settings.rendering.ingest_timeout_seconds,
        clock=clock,
        random=random,
        observe=context.observe,
    )
    idempotency = IdempotencyService(database, context.idempotency, context.locks, context.units, clock)
    backups = BackupService(
        context.layout,
        database,
        images,
        context.blobs,
        context.staging,
        context.secret,
        context.installation.record,
        clock,
    )
    imports = ImportService(
        uploads,
        album_service,
        account_service,
        accounts,
        ImportRepository(context.database),
        settings.rendering.processes,
    )
    return HostServices(
        collector=upkeep.collector,
        delivery=delivery,
        images=image_service,
        albums=album_service,
        accounts=account_service,
        keys=keys,
        sessions=sessions,
        webhooks=webhooks,
        cache_purges=cache_purges,
        rate_limiter=rate_limiter,
        uploads=uploads,
        idempotency=idempotency,
        maintenance=upkeep.maintenance,
        integrity=upkeep.integrity,
        backups=backups,
        imports=imports,
    )
