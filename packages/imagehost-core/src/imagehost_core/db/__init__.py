"""The catalog: the records of accounts, keys, albums, images and events, in SQLite."""

from imagehost_core.db.accounts import AccountRows
from imagehost_core.db.albums import AlbumRows
from imagehost_core.db.database import Catalog
from imagehost_core.db.idempotency import Answer, AnswerRows
from imagehost_core.db.images import Grave, ImageRows
from imagehost_core.db.keys import KeyRows
from imagehost_core.db.leases import Due
from imagehost_core.db.outbox import OutboxRows
from imagehost_core.db.rate_limits import Counters
from imagehost_core.db.sessions import SessionRows
from imagehost_core.db.webhooks import WebhookRows

__all__ = [
    "AccountRows",
    "AlbumRows",
    "Answer",
    "AnswerRows",
    "Catalog",
    "Counters",
    "Due",
    "Grave",
    "ImageRows",
    "KeyRows",
    "OutboxRows",
    "SessionRows",
    "WebhookRows",
]
