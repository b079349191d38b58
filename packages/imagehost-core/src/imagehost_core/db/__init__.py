"""The database: accounts, albums, images and events in SQLite or PostgreSQL, and rate limit counters."""

from imagehost_core.db.accounts import AccountRepository
from imagehost_core.db.albums import AlbumRepository
from imagehost_core.db.cache_purges import CachePurgeRepository
from imagehost_core.db.database import Database
from imagehost_core.db.idempotency import IdempotencyRepository, StoredResponse
from imagehost_core.db.images import ImageRepository, Tombstone
from imagehost_core.db.imports import ImportRepository
from imagehost_core.db.keys import KeyRepository
from imagehost_core.db.leases import LeasedDelivery
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.outbox import OutboxRepository
from imagehost_core.db.postgres_rate_limits import PostgresRateLimitStore
from imagehost_core.db.rate_limits import RateLimitStore
from imagehost_core.db.recount import CounterMismatch
from imagehost_core.db.sessions import SessionRepository
from imagehost_core.db.sqlite_database import SqliteDatabase
from imagehost_core.db.webhooks import WebhookRepository

__all__ = [
    "AccountRepository",
    "AlbumRepository",
    "CachePurgeRepository",
    "CounterMismatch",
    "Database",
    "IdempotencyRepository",
    "ImageListRepository",
    "ImageRepository",
    "ImportRepository",
    "KeyRepository",
    "LeasedDelivery",
    "OutboxRepository",
    "PostgresRateLimitStore",
    "RateLimitStore",
    "SessionRepository",
    "SqliteDatabase",
    "StoredResponse",
    "Tombstone",
    "WebhookRepository",
]
