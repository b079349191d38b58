"""Changes and their events: recorded together, told to subscribers when all is done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import OutboxRepository
from imagehost_core.db.database import Transaction
from imagehost_core.events import AlbumCreated, AlbumUpdated, DeletedImage, Event, ImageDeleted, ImageUploaded
from imagehost_core.ids import AccountId, EventId, Random, new_event_id
from imagehost_core.models import Album, Image
from imagehost_core.resources import UrlBuilder

Subscriber = Callable[[Event], object]

log = logging.getLogger(__name__)


@frozen
class EventBus:
    """The callbacks of the program that embeds the core."""

    _callbacks: list[Subscriber] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call a callback with each event from now on; return what ends that."""
        with self._lock:
            self._callbacks.append(callback)

        def remove() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return remove

    def publish(self, event: Event) -> None:
        """Call every callback; one that fails stops neither the others nor the change."""
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            try:
                callback(event)
            except Exception:
                log.exception("a subscriber failed on %s", event.type)


@frozen
class UnitOfWork:
    """A change under way: it records its events in the transaction that makes it."""

    _outbox: OutboxRepository
    _addresses: UrlBuilder
    _clock: Clock
    _random: Random
    events: list[Event] = field(factory=list)

    def image_uploaded(self, transaction: Transaction, image: Image) -> None:
        """Record that an image was stored."""
        record = self._addresses.image_record(image)
        event = ImageUploaded(id=self._new(), timestamp=self._clock(), data=record)
        self._record(transaction, image.account_id, event)

    def image_deleted(self, transaction: Transaction, account_id: AccountId, gone: DeletedImage) -> None:
        """Record that an image is gone."""
        event = ImageDeleted(id=self._new(), timestamp=gone.deleted_at, data=gone)
        self._record(transaction, account_id, event)

    def album_created(self, transaction: Transaction, album: Album) -> None:
        """Record that an album was made."""
        record = self._addresses.album_record(album)
        event = AlbumCreated(id=self._new(), timestamp=self._clock(), data=record)
        self._record(transaction, album.account_id, event)

    def album_updated(self, transaction: Transaction, album: Album) -> None:
        """Record that an album's record or membership was changed."""
        record = self._addresses.album_record(album)
        event = AlbumUpdated(id=self._new(), timestamp=self._clock(), data=record)
        self._record(transaction, album.account_id, event)

    def _new(self) -> EventId:
        return new_event_id(self._random)

    def _record(self, transaction: Transaction, account_id: AccountId, event: Event) -> None:
        self._outbox.record(transaction, account_id, event)
        self.events.append(event)


@frozen
class UnitOfWorkFactory:
    """How the host changes anything of which there is an event."""

    _outbox: OutboxRepository
    _addresses: UrlBuilder
    _clock: Clock
    _random: Random
    bus: EventBus = field(factory=EventBus)

    @contextmanager
    def begin(self) -> Iterator[UnitOfWork]:
        """Yield a change; its events are told when the block has ended well.

        Every lock is free then, so that a subscriber may ask the host for anything.
        """
        change = UnitOfWork(self._outbox, self._addresses, self._clock, self._random)
        yield change
        for event in change.events:
            self.bus.publish(event)
