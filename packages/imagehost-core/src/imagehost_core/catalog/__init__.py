"""The catalog: the records of accounts, keys, albums, images and events, in SQLite."""

from imagehost_core.catalog.accounts import AccountRows
from imagehost_core.catalog.albums import AlbumRows
from imagehost_core.catalog.answers import Answer, AnswerRows
from imagehost_core.catalog.counters import Counters
from imagehost_core.catalog.database import Catalog
from imagehost_core.catalog.images import Grave, ImageRows
from imagehost_core.catalog.keys import KeyRows
from imagehost_core.catalog.leases import Due
from imagehost_core.catalog.outbox import OutboxRows
from imagehost_core.catalog.sessions import SessionRows
from imagehost_core.catalog.webhooks import WebhookRows

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
