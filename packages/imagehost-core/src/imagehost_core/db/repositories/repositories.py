"""The repositories of one database, as one value."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.db.engines.database import Database
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.cache_purges import CachePurgeRepository
from imagehost_core.db.repositories.idempotency import IdempotencyRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.db.repositories.keys import KeyRepository
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.db.repositories.sessions import SessionRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository
from imagehost_core.ids import Random
from imagehost_core.models import UrlBuilder


@frozen
class Repositories:
    """The records of a host: a database and the repository of each kind of record in it.

    `urls` builds the URLs of images, also in what was stored to be sent later.
    """

    database: Database = field(repr=False)
    urls: UrlBuilder
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

    @classmethod
    def of(
        cls,
        database: Database,
        random: Random,
        urls: UrlBuilder,
        *,
        list_timeout_seconds: float,
        with_purges: bool,
    ) -> Repositories:
        """Return the repositories of a database.

        Args:
            database: The database.
            random: The source of unpredictable bytes.
            urls: The builder of the images' URLs.
            list_timeout_seconds: The longest duration of the queries of a list.
            with_purges: Whether changes record what a shared cache must remove.
        """
        webhooks = WebhookRepository(database)
        return cls(
            database,
            urls,
            AccountRepository(database),
            AlbumRepository(database, urls),
            ImageRepository(database, urls),
            ImageListRepository(database, list_timeout_seconds, urls),
            KeyRepository(database),
            SessionRepository(database),
            IdempotencyRepository(database),
            webhooks,
            OutboxRepository(database, webhooks, random),
            CachePurgeRepository(database, with_purges),
        )
