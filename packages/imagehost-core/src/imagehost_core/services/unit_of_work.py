"""Unit of work: changes recorded together with their events, which are published once all is durable.

Who may change something is decided here, in the transaction of the change: memory and earlier reads only save
the work for a request that is refused anyway.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from attrs import field, frozen

from imagehost_core.authorization import AuthorizedAccount, require_permission
from imagehost_core.db.engines.database import Transaction
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import NotFoundError
from imagehost_core.events import (
    AlbumCreated,
    AlbumUpdated,
    DeletedImage,
    Event,
    ImageDeleted,
    ImageUploaded,
)
from imagehost_core.ids import AccountId, new_event_id
from imagehost_core.models import ALL_SCOPES, Account, Album, ApiKey, Image, Principal, Session
from imagehost_core.resources import AlbumRecord, ImageRecord
from imagehost_core.services.principals import principal_of

Subscriber = Callable[[Event], object]
"""A callback of the embedding program, called with each event."""

log = logging.getLogger(__name__)


@frozen
class EventBus:
    """The callbacks of this process that receive each event once it is committed."""

    _callbacks: list[Subscriber] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each event from now on; return the function that ends the subscription."""
        with self._lock:
            self._callbacks.append(callback)

        def unsubscribe() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Call every subscriber; an exception in one is logged, and the others are called."""
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            try:
                callback(event)
            except Exception:
                log.exception("event subscriber failed: event=%s", event.type)


@frozen
class UnitOfWork:
    """A change in progress: records its events in the transaction of the change."""

    _outbox: OutboxRepository
    _env: Environment
    events: list[Event] = field(factory=list)

    def image_uploaded(self, transaction: Transaction, image: Image) -> None:
        """Record `image.uploaded`."""
        self._record(transaction, image.account_id, ImageUploaded, ImageRecord.of(image), image)

    def image_deleted(self, transaction: Transaction, account_id: AccountId, deleted: DeletedImage) -> None:
        """Record `image.deleted`."""
        self._record(transaction, account_id, ImageDeleted, deleted, at=deleted.deleted_at)

    def album_created(self, transaction: Transaction, album: Album) -> None:
        """Record `album.created`."""
        self._record(transaction, album.account_id, AlbumCreated, AlbumRecord.of(album), album.cover)

    def album_updated(self, transaction: Transaction, album: Album) -> None:
        """Record `album.updated`: a field or the membership changed."""
        self._record(transaction, album.account_id, AlbumUpdated, AlbumRecord.of(album), album.cover)

    def _record(
        self,
        transaction: Transaction,
        account_id: AccountId,
        kind: Callable[..., Event],
        data: object,
        image: Image | None = None,
        at: datetime | None = None,
    ) -> None:
        """Record an event; raise BaseUrlError if a webhook is to receive a URL that the host cannot build."""
        event_id = new_event_id(self._env.random)
        timestamp = at or self._env.clock()
        event = kind(id=event_id, timestamp=timestamp, data=data)
        if self._outbox.record(transaction, account_id, event) and image is not None:
            image.urls.image(image)
        self.events.append(event)


@frozen
class UnitOfWorkFactory:
    """The factory of units of work and their transactions; it publishes their events."""

    _records: Repositories
    _env: Environment
    bus: EventBus = field(factory=EventBus)

    @contextmanager
    def begin(self) -> Iterator[UnitOfWork]:
        """Yield a unit of work; publish its events if the block ends without an exception.

        Acquire locks inside the block, so that they are released before a subscriber is called.
        """
        unit = UnitOfWork(self._records.outbox, self._env)
        yield unit
        for event in unit.events:
            self.bus.publish(event)

    def transaction(self, account: Account) -> AbstractContextManager[Transaction]:
        """Run a block in a write transaction of an account, after `verify`."""
        return self.verified(account, self._records.database.transaction(account.id))

    @contextmanager
    def verified(
        self, account: Account | None, begin: AbstractContextManager[Transaction]
    ) -> Iterator[Transaction]:
        """Run a block in a write transaction after `verify`, or without it if there is no account."""
        with begin as transaction:
            if account is not None:
                self.verify(account, transaction)
            yield transaction

    def verify(self, account: Account, transaction: Transaction | None = None) -> Principal:
        """Raise unless an account exists and a token that acts for it permits its operation now.

        Args:
            account: An `AuthorizedAccount`, or one that the program acts for without a token.
            transaction: The transaction of the operation, until whose end the answer holds.

        Returns:
            The principal as it is now; without a token, one with all scopes.

        Raises:
            NotFoundError: The account is gone.
            UnauthorizedError: The token is not valid any more.
            ForbiddenError: It does not permit the operation any more.
        """
        lock = "" if transaction is None else transaction.dialect.for_share
        current = self._records.accounts.get(account.id, transaction, lock=lock)
        if not isinstance(account, AuthorizedAccount):
            if current is None:
                raise NotFoundError(f"expected an account that exists but {account.name} was deleted")
            return Principal(current, ALL_SCOPES)
        key_id, session_id, now = account.principal.key_id, account.principal.session_id, self._env.clock()
        token: ApiKey | Session | None = None
        if key_id is not None:
            token = self._records.keys.get(key_id, account.id, transaction, lock=lock)
        elif session_id is not None:
            token = self._records.sessions.get(session_id, account.id, now, transaction, lock=lock)
        principal = principal_of(token, current, now)
        for requirement in account.requirements:
            require_permission(principal, requirement)
        return principal
