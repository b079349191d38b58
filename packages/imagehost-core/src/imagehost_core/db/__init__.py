"""The database: accounts, albums, images and events in SQLite or PostgreSQL, and rate limit counters."""

from imagehost_core.db.engines.database import Database, ReadCache
from imagehost_core.db.engines.rate_limits import PostgresRateLimitStore, RateLimitStore
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.cache_purges import CachePurgeRepository
from imagehost_core.db.repositories.idempotency import IdempotencyRepository, StoredResponse
from imagehost_core.db.repositories.images import ImageRepository, Tombstone
from imagehost_core.db.repositories.keys import KeyRepository
from imagehost_core.db.repositories.leases import LeasedDelivery
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.db.repositories.sessions import SessionRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository

__all__ = [
    "AccountRepository",
    "AlbumRepository",
    "CachePurgeRepository",
    "Database",
    "IdempotencyRepository",
    "ImageListRepository",
    "ImageRepository",
    "KeyRepository",
    "LeasedDelivery",
    "OutboxRepository",
    "PostgresRateLimitStore",
    "RateLimitStore",
    "ReadCache",
    "SessionRepository",
    "SqliteDatabase",
    "StoredResponse",
    "Tombstone",
    "WebhookRepository",
]
