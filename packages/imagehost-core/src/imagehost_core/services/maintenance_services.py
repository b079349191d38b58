"""The services that clean, check and repair a data directory, which share their parts."""

from __future__ import annotations

from datetime import timedelta

from attrs import frozen

from imagehost_core.services.cleanup import GarbageCollector, ImageEraser
from imagehost_core.services.context import HostContext
from imagehost_core.services.expiry import ExpiredRecords
from imagehost_core.services.garbage import GarbageService
from imagehost_core.services.integrity import IntegrityService
from imagehost_core.services.integrity.database_checks import DatabaseChecker
from imagehost_core.services.integrity.derivative_repair import DerivativeRepairer
from imagehost_core.services.integrity.image_files import ImageFileChecker
from imagehost_core.services.integrity.unreferenced_files import UnreferencedFileChecker
from imagehost_core.services.maintenance import MaintenanceService
from imagehost_core.settings import Settings


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
