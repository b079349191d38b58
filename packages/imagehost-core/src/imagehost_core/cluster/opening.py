"""The opening of what a host shares with others by a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from imagehost_core._util.clock import Clock, utc_now
from imagehost_core.cluster.cache_lease import CacheLease, LeasedGenerationTable
from imagehost_core.cluster.rate_limits import PostgresRateLimitStore
from imagehost_core.cluster.remote_changes import process_caches
from imagehost_core.db.engines.installation import share_secret
from imagehost_core.db.engines.shared_state import SharedState
from imagehost_core.observer import Observer, ignore
from imagehost_core.settings import PostgresSettings, SettingsError
from imagehost_core.storage import BlobStore, DataLayout
from imagehost_core.storage.cache.variant_cache import VariantCache

if TYPE_CHECKING:
    from imagehost_core.cluster.postgres_database import PostgresDatabase


def open_postgres(
    url: str, settings: PostgresSettings, *, clock: Clock = utc_now, observe: Observer = ignore
) -> PostgresDatabase:
    """Open a PostgreSQL database, and migrate it if needed.

    Args:
        url: Its URL.
        settings: The connections to it.
        clock: The clock of the host. Another than the system's replaces that of the server too.
        observe: Receives the measurement of each transaction.

    Raises:
        InternalError: It is no database of a host.
        SettingsError: The packages of the engine are not installed.
        UnavailableError: The server does not respond.
    """
    try:
        from imagehost_core.cluster.postgres_database import PostgresDatabase
    except ImportError as error:
        command = "pip install './packages/imagehost-core[postgres]'"
        expected = f"psycopg and psycopg-pool, which `{command}` installs in a clone,"
        raise SettingsError(f"expected {expected} for PostgreSQL but received: {error}") from error
    return PostgresDatabase(
        url,
        pool_size=settings.pool_size,
        timeout=settings.timeout_seconds,
        statement_timeout=settings.statement_timeout_seconds,
        uses_server_clock=clock is utc_now,
        observe=observe,
    )


def open_state_of_hosts(
    stack: ExitStack,
    layout: DataLayout,
    url: str,
    settings: PostgresSettings,
    clock: Clock,
    observe: Observer,
) -> SharedState:
    """Open the state that this host shares with others, and its processes with each other.

    Args:
        stack: Closes what is opened.
        layout: The data directory of this host.
        url: The URL of the database.
        settings: The connections to it.
        clock: The clock of the host. Another than the system's replaces that of the server too.
        observe: Receives the measurement of each transaction.
    """
    lease = CacheLease()
    images = stack.enter_context(closing(LeasedGenerationTable(layout.generations, lease)))
    principals = stack.enter_context(closing(LeasedGenerationTable(layout.principal_generations, lease)))
    database = stack.enter_context(closing(open_postgres(url, settings, clock=clock, observe=observe)))

    def keep_coherent(variants: VariantCache, blobs: BlobStore, on_join: Callable[[], object]) -> None:
        caches = process_caches(images, principals, variants, blobs, layout.generations, on_join)
        database.keep_coherent(caches)

    return SharedState(
        images=images,
        principals=principals,
        database=database,
        rate_limits=PostgresRateLimitStore(database, clock),
        share_secret=partial(share_secret, database, "signing"),
        keep_coherent=keep_coherent,
    )
