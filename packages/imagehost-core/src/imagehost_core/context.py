"""Host context: the stores, locks, caches and worker processes of one data directory."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Event

from attrs import evolve, field, frozen

from imagehost_core._util.durable import make_directory, open_owner_only, sync_directory, sync_file
from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import PRINCIPALS
from imagehost_core.db.engines.installation import read_record
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.engines import open_database, open_image_store, open_shared_state
from imagehost_core.environment import Environment
from imagehost_core.errors import InstallationError
from imagehost_core.ids import Random
from imagehost_core.limits import RateLimitCounters
from imagehost_core.maintenance.installation import Installation, InstallationGuard
from imagehost_core.models import UrlBuilder
from imagehost_core.pixels import log_missing_native_modules
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import SQLITE, Settings
from imagehost_core.storage import DataLayout, StagingArea
from imagehost_core.storage.cache.eviction import evict_until
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.storage.layout import SECRET_BYTES
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.memory import MemorySettings

log = logging.getLogger(__name__)


@frozen
class HostContext:
    """The resources of a host, opened and closed together.

    `ImageHost` alone holds one; it gives each service the resources that the service uses.
    """

    layout: DataLayout
    urls: UrlBuilder
    records: Repositories
    files: ImageFiles
    executor: ImageExecutor
    installation: InstallationGuard
    principals: PrincipalCache
    rate_limits: RateLimitCounters
    units: UnitOfWorkFactory
    env: Environment
    secret: bytes = field(repr=False)
    missed_changes: Event = field(repr=False)
    _stack: ExitStack = field(repr=False)

    def close(self) -> None:
        """Close every resource, the last opened first."""
        self._stack.close()


def open_context(
    path: str | os.PathLike[str],
    settings: Settings,
    env: Environment,
    server_processes: int = 1,
    executor: ImageExecutor | None = None,
) -> HostContext:
    """Open a data directory; create it if it does not exist.

    Args:
        path: The directory; `:memory:` is a temporary one, which is removed when the host closes.
        settings: All settings of the host.
        env: What the host takes from outside; the clock of the database server replaces the system's.
        server_processes: The number of processes of this machine that share image work.
        executor: Worker processes that the caller closes; by default the host has its own.

    Raises:
        ConflictError: Directory, database and store of images do not belong together, are of a version that
            is not supported, or contain what no host has created; a restore is in progress or was
            interrupted; or the host is moved.
        SettingsError: The object store of the settings cannot be used.
    """
    with ExitStack() as stack:
        if path == ":memory:":
            path = stack.enter_context(tempfile.TemporaryDirectory(prefix="imagehost-"))
        layout = DataLayout(Path(path).resolve())
        if settings.database == SQLITE and layout.is_restoring:
            raise InstallationError(
                f"expected a host in {layout.root} but a restore is in progress or was interrupted: "
                "repeat it, or delete the directory"
            )
        require_own_directory(layout)
        if settings.database != SQLITE and not layout.record.exists():
            # In a new directory a database that cannot be used leaves nothing.
            open_database(layout, settings).close()
        make_directory(layout.root)
        reserve = DiskReserve(layout.reserve, partial(evict_until, layout.variants))
        # The database needs space to be opened, also to delete what fills the disk.
        reserve.release()
        reserve.acquire()
        locks = LockManager(layout.locks)
        staging = stack.enter_context(closing(StagingArea(layout.staging, settings.storage.min_free_bytes)))
        shared = open_shared_state(stack, layout, locks, reserve, settings, env.clock, env.observe)
        shared.images.repair(locks, "image")
        shared.principals.repair(locks, PRINCIPALS)
        database = shared.database
        env = evolve(env, clock=database.clock or env.clock)
        executor = executor or stack.enter_context(_new_executor(locks, settings, server_processes, env))
        urls = UrlBuilder(settings.base_url or "", settings.delivery_url)
        records = Repositories.of(
            database,
            env.random,
            urls,
            list_timeout_seconds=settings.lists.timeout_seconds,
            with_purges=settings.purge.url is not None,
        )
        exists = records.images.exists
        blobs = stack.enter_context(
            closing(
                open_image_store(
                    layout,
                    staging,
                    locks,
                    settings.storage,
                    exists,
                    # The host can serve what it has cached.
                    is_required=read_record(database) is None,
                    observe=env.observe,
                )
            )
        )
        installation = Installation(layout, database, blobs, settings).open(env.clock)
        shutil.rmtree(layout.restoring, ignore_errors=True)
        variants = stack.enter_context(
            closing(
                VariantCache(layout, staging, locks, shared.images, settings.delivery, exists, env.observe)
            )
        )
        missed_changes = Event()
        shared.keep_coherent(variants, blobs, missed_changes.set)
        return HostContext(
            layout=layout,
            urls=urls,
            records=records,
            files=ImageFiles(blobs, variants, staging, locks, shared.images, reserve),
            executor=executor,
            installation=installation,
            principals=PrincipalCache(locks, shared.principals),
            rate_limits=shared.rate_limits,
            units=UnitOfWorkFactory(records, env),
            env=env,
            secret=shared.share_secret(_read_or_create_secret(layout, locks, env.random)),
            missed_changes=missed_changes,
            # The caller closes it from here on.
            stack=stack.pop_all(),
        )


def require_own_directory(layout: DataLayout) -> None:
    """Raise ConflictError if a data directory without a record contains what no host has created."""
    if not layout.record.exists() and (names := layout.foreign_names()):
        advice = "choose another directory, or move it away"
        if layout.database.exists():
            advice = "move it away; or, if the directory is that of a host, `imagehost adopt` keeps it"
        raise InstallationError(
            f"expected a new or empty data directory but {layout.root} contains {names[0]}, which this "
            f"version of imagehost has not created: {advice}"
        )


def _new_executor(
    locks: LockManager, settings: Settings, server_processes: int, env: Environment
) -> ImageExecutor:
    log_missing_native_modules()
    rendering = settings.rendering
    return ImageExecutor(
        max(1, rendering.processes // server_processes),
        limits=SandboxLimits(rendering.memory_limit_bytes, task_cpu_seconds=rendering.cpu_seconds),
        queue=rendering.queue,
        memory=MemorySettings(rendering.memory_budget_bytes, server_processes, locks.path),
        observe=env.observe,
    )


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
        # Also if it exists: the open that created it, or another file of the directory, may have failed here.
        sync_directory(layout.root)
        secret = layout.secret.read_bytes()
    if len(secret) < SECRET_BYTES:
        expected = f"expected at least {SECRET_BYTES} bytes"
        raise ValueError(f"{expected} for {layout.secret} but received {len(secret)}")
    return secret
