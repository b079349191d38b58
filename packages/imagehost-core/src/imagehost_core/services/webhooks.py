"""Webhooks: endpoints of accounts, and the delivery of events to them by leases."""

from __future__ import annotations

import json
import random as pseudo_random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypedDict, Unpack

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import to_rfc3339
from imagehost_core._util.machine import host_identity
from imagehost_core.db.engines.database import Queryable, Transaction
from imagehost_core.db.repositories import leases
from imagehost_core.db.repositories.leases import LeasedDelivery as LeasedDelivery
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import ErrorCollector, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import DeliveryId, WebhookId, new_event_id, new_id
from imagehost_core.lists import PageKeywords, parse_page_request
from imagehost_core.models import (
    Account,
    Deleted,
    EventName,
    Page,
    Webhook,
    WebhookDelivery,
    WebhookWithSecret,
)
from imagehost_core.observer import DeliveryAttempted
from imagehost_core.resources import with_current_urls
from imagehost_core.services.references import DeliveryRef, Owner, WebhookRef, get_account, webhook_id_of
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import WebhookSettings
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.webhooks import (
    Attempt,
    SenderLoad,
    after_attempt,
    new_webhook_secret,
    validate_webhook,
)

SECRET_OVERLAP = timedelta(hours=24)
"""Time for which the old secret signs beside the new one after a rotation."""
TEST_EVENT = "webhook.test"
"""Type of the event that `test` sends; no change emits it."""
LEASE_MARGIN = timedelta(seconds=30)
"""Time by which a lease outlasts the timeout of its attempt."""
MAX_SENDERS = 256
"""Sender slots: senders whose leases are released at once when their process dies."""
MAX_WEBHOOKS = 100
"""Webhooks of one account: each event is written once for each of them."""


class WebhookChanges(TypedDict, total=False):
    """The fields of a webhook that can be updated; a field that is left out keeps its value."""

    url: str
    events: Sequence[EventName]
    description: str
    is_active: bool


@frozen
class WebhookService:
    """Creates, lists, changes and deletes webhooks, and leases deliveries to senders."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _settings: WebhookSettings = field(repr=False)
    _env: Environment = field(repr=False)

    def create(
        self, url: str, *, owner: Owner, events: Sequence[EventName] = (), description: str = ""
    ) -> WebhookWithSecret:
        """Create a webhook. The result is the only place that has its secret.

        Args:
            url: An https URL with a public host.
            owner: The account.
            events: Event types to send; all, if empty.
            description: Up to 2,000 characters.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: A value is not allowed, or the account has 100 webhooks; all errors are reported
                together.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            values = self._validate({"url": url, "events": events, "description": description})
        with errors.catch():
            self._require_fewer_than_maximum(account, self._records.database)
        errors.raise_if_any()
        webhook = Webhook(
            id=new_id(WebhookId, self._env.random),
            account_id=account.id,
            url=url,
            events=values["events"],  # type: ignore[arg-type]
            description=description,
            is_active=True,
            created_at=self._env.clock(),
        )
        secret = new_webhook_secret(self._env.random)
        with self._units.transaction(account) as transaction:
            self._require_fewer_than_maximum(account, transaction)
            self._records.webhooks.insert(transaction, webhook, secret)
        return _with_secret(webhook, secret)

    def list(self, *, owner: Owner, **page: Unpack[PageKeywords]) -> Page[Webhook]:
        """Return a page of an account's webhooks, newest first.

        Raises:
            NotFoundError: There is no such account.
        """
        account = get_account(self._records.accounts, owner)
        return self._records.webhooks.list_by_account(account.id, parse_page_request(**page))

    def list_disabled(self, count: int = 20) -> tuple[Webhook, ...]:
        """Return the newest webhooks of all accounts that are disabled because they failed.

        Args:
            count: The most webhooks.
        """
        return self._records.webhooks.list_disabled(count)

    def get(self, webhook: WebhookRef, *, owner: Owner) -> Webhook:
        """Return the current record of an account's webhook.

        Raises:
            NotFoundError: The account has no such webhook.
        """
        return self._get(webhook, get_account(self._records.accounts, owner), self._records.database)

    def update(self, webhook: WebhookRef, *, owner: Owner, **changes: Unpack[WebhookChanges]) -> Webhook:
        """Change the given fields of a webhook.

        Activating it again clears the reason for which it was disabled.

        Args:
            webhook: The webhook.
            owner: The account.
            changes: `url`, `events`, `description`, `is_active`.

        Raises:
            NotFoundError: The account has no such webhook; the error also names values that are not allowed.
            ValidationError: Values are not allowed; every one is listed in `errors`.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        with errors.catch():
            self._get(webhook, account, self._records.database)
        with errors.catch():
            values = self._validate(dict(changes))
        errors.raise_if_any()
        if values.get("is_active"):
            values["disabled_reason"] = None
        with self._units.transaction(account) as transaction:
            # Read again: a sender may have disabled it since.
            current = self._get(webhook, account, transaction)
            changed = attrs.evolve(current, **values)  # type: ignore[arg-type]
            self._records.webhooks.update(transaction, changed)
            if current.is_active and not changed.is_active:
                self._records.outbox.cancel_pending(transaction, current.id)
        return changed

    def delete(self, webhook: WebhookRef, *, owner: Owner) -> Deleted:
        """Delete a webhook with its deliveries.

        Raises:
            NotFoundError: The account has no such webhook.
        """
        account = get_account(self._records.accounts, owner)
        with self._units.transaction(account) as transaction:
            current = self._get(webhook, account, transaction)
            self._records.webhooks.delete(transaction, current.id)
        return Deleted(id=current.id, deleted=True)

    def rotate_secret(self, webhook: WebhookRef, *, owner: Owner) -> WebhookWithSecret:
        """Replace the secret of a webhook; both sign for 24 hours.

        Raises:
            NotFoundError: The account has no such webhook.
        """
        account = get_account(self._records.accounts, owner)
        secret = new_webhook_secret(self._env.random)
        with self._units.transaction(account) as transaction:
            current = self._get(webhook, account, transaction)
            until = self._env.clock() + SECRET_OVERLAP
            self._records.webhooks.rotate_secret(transaction, current.id, secret, until)
        return _with_secret(current, secret)

    def test(self, webhook: WebhookRef, *, owner: Owner) -> WebhookDelivery:
        """Send a webhook an event of type `webhook.test`, whether or not it subscribes to that type.

        Raises:
            NotFoundError: The account has no such webhook.
        """
        account = get_account(self._records.accounts, owner)
        now = self._env.clock()
        with self._units.transaction(account) as transaction:
            current = self._get(webhook, account, transaction)
            body = {"type": TEST_EVENT, "timestamp": to_rfc3339(now), "data": {"webhook_id": current.id}}
            encoded = json.dumps(body, separators=(",", ":")).encode()
            event_id = new_event_id(self._env.random)
            (delivery_id,) = self._records.outbox.insert(
                transaction, event_id, TEST_EVENT, now, encoded, [current.id]
            )
            return self._delivery(current, delivery_id, transaction)

    def deliveries(
        self, webhook: WebhookRef, *, owner: Owner, **page: Unpack[PageKeywords]
    ) -> Page[WebhookDelivery]:
        """Return a page of a webhook's deliveries, newest first.

        Raises:
            NotFoundError: The account has no such webhook.
            BadRequestError: Values are not allowed; if there is no such webhook, the error says that too.
        """
        errors = ErrorCollector()
        with errors.catch():
            request = parse_page_request(**page)
        with errors.catch():
            current = self.get(webhook, owner=owner)
        errors.raise_if_any()
        return self._records.outbox.list_by_webhook(current.id, request)

    def delivery(self, webhook: WebhookRef, delivery: DeliveryRef, *, owner: Owner) -> WebhookDelivery:
        """Return the current record of a webhook's delivery.

        Raises:
            NotFoundError: The account has no such webhook, or the webhook no such delivery.
        """
        return self._delivery(self.get(webhook, owner=owner), delivery)

    def retry(self, webhook: WebhookRef, delivery: DeliveryRef, *, owner: Owner) -> WebhookDelivery:
        """Make a delivery due now, in any state.

        Raises:
            NotFoundError: The account has no such webhook, or the webhook no such delivery.
        """
        account = get_account(self._records.accounts, owner)
        with self._units.transaction(account) as transaction:
            current = self._get(webhook, account, transaction)
            record = self._delivery(current, delivery, transaction)
            self._records.outbox.requeue(transaction, record.id, self._env.clock())
            return self._delivery(current, record, transaction)

    def retry_all_now(self) -> int:
        """Make every pending delivery of the host due now; return their number.

        For an operator, after an outage of the host's own network.
        """
        with self._records.database.transaction(blind=True) as transaction:
            return self._records.outbox.make_due_now(transaction, self._env.clock())

    def recover_from_clock_step(self) -> int:
        """Make due what was put off by a clock that was ahead and is now set back; return its number."""
        with self._records.database.transaction(blind=True) as transaction:
            return self._records.outbox.make_future_due(transaction, self._env.clock())

    def lease(self, count: int) -> tuple[LeasedDelivery, ...]:
        """Lease up to `count` deliveries that are due to one sender, until it reports them.

        Accounts take turns, and one of them may have all.
        The deliveries of a sender that dies are released when its slot is taken again, or when the lease
        ends: 30 seconds after the timeout of an attempt.
        """
        return self.report_and_lease((), SenderLoad(count))

    @contextmanager
    def sender_slot(self) -> Iterator[int | None]:
        """Yield the number of a free sender slot, held while the block runs; `None` if all are taken.

        The operating system frees the slot of a process that dies. The next sender in the slot releases
        the leases of the dead one at once, so that a restarted sender does not wait for them to expire.
        """
        for number in range(MAX_SENDERS):
            with self._files.locks.try_acquire("sender", number) as acquired:
                if acquired:
                    slot = self._first_slot() + number
                    with self._records.database.transaction(blind=True) as transaction:
                        leases.release_slot(transaction, slot)
                    yield slot
                    return
        yield None

    def _first_slot(self) -> int:
        """Return the number of the first sender slot of this host, which no other host has.

        The slots of a host are files of its data directory that its processes lock.
        """
        if not self._records.database.dialect.is_shared:
            return 0
        identity = host_identity(self._files.locks.path)
        return int.from_bytes(blake2b(identity.encode(), digest_size=6).digest()) * MAX_SENDERS

    def report(self, attempts: Iterable[tuple[LeasedDelivery, Attempt]]) -> None:
        """Record the outcomes of attempts in one durable commit.

        Args:
            attempts: Each leased delivery with its attempt.
        """
        self.report_and_lease(attempts, SenderLoad(0))

    def report_and_lease(
        self,
        attempts: Iterable[tuple[LeasedDelivery, Attempt]],
        load: SenderLoad,
        sender_slot: int | None = None,
    ) -> tuple[LeasedDelivery, ...]:
        """Record the outcomes of attempts and lease more deliveries, in one durable commit.

        Args:
            attempts: Each leased delivery with its attempt.
            load: The sender's attempts, which decide how many are leased, and to which webhooks.
            sender_slot: The slot of the sender, if it has one.
        """
        now = self._env.clock()
        reports = list(attempts)
        if not reports and not (load.free and leases.is_any_due(self._records.database, now, load)):
            return ()
        duration = timedelta(seconds=self._settings.timeout_seconds) + LEASE_MARGIN
        # The rows of deliveries are locked, and an account's webhooks may change meanwhile.
        with self._records.database.transaction(blind=True) as transaction:
            for leased, attempt in reports:
                self._record_attempt(transaction, leased, attempt, now)
            due = leases.lease_due(transaction, now, duration, load, sender_slot) if load.free else ()
        for _, attempt in reports:
            self._env.observe(DeliveryAttempted(attempt.succeeded, attempt.duration_ms / 1_000))
        urls = self._records.urls
        return tuple(attrs.evolve(leased, body=with_current_urls(leased.body, urls)) for leased in due)

    def is_any_due(self) -> bool:
        """Return whether a delivery can be leased now: a short read of an index, without a lock."""
        return leases.is_any_due(self._records.database, self._env.clock(), SenderLoad(1))

    def next_due(self) -> datetime | None:
        """Return the time at which the next delivery is due, or `None` if none is pending."""
        return self._records.outbox.next_due()

    def release(self, *leased: LeasedDelivery) -> None:
        """Release leased deliveries that were not attempted."""
        with self._records.database.transaction(blind=True) as transaction:
            leases.release(transaction, leased)

    def delete_expired(self) -> None:
        """Delete events and deliveries older than `webhooks.retention_seconds`."""
        before = self._env.clock() - timedelta(seconds=self._settings.retention_seconds)
        with self._records.database.transaction() as transaction:
            self._records.outbox.delete_before(transaction, before)

    def _record_attempt(
        self, transaction: Transaction, leased: LeasedDelivery, attempt: Attempt, now: datetime
    ) -> None:
        """Record the outcome of an attempt, unless it failed after its lease ended.

        Another sender may have the delivery by then; a success is recorded in any case.
        """
        delivery = leased.delivery
        current = self._records.outbox.get(delivery.id, delivery.webhook_id, transaction)
        if current is None or not (attempt.succeeded or leases.is_held(transaction, leased)):
            return
        webhook_id = delivery.webhook_id
        is_active = attempt.succeeded or self._records.webhooks.is_active(transaction, webhook_id)
        # The clock may have been set back during the attempt.
        attempt = attrs.evolve(attempt, at=min(attempt.at, now))
        # The jitter spreads load; it needs no cryptographic randomness.
        step = after_attempt(current, attempt, pseudo_random.random(), is_active=is_active)  # noqa: S311
        self._records.outbox.record_attempt(transaction, step.delivery)
        if step.disable is not None:
            self._records.webhooks.disable(transaction, webhook_id, step.disable)
            self._records.outbox.cancel_pending(transaction, webhook_id)

    def _get(self, webhook: WebhookRef, account: Account, queryable: Queryable) -> Webhook:
        webhook_id = webhook_id_of(webhook)
        record = self._records.webhooks.get(WebhookId(webhook_id), account.id, queryable)
        if record is None:
            raise NotFoundError(
                f"expected the id of one of your webhooks but received {quote_value(webhook_id)}"
            )
        return record

    def _delivery(
        self, webhook: Webhook, delivery: DeliveryRef, transaction: Transaction | None = None
    ) -> WebhookDelivery:
        delivery_id = delivery.id if isinstance(delivery, WebhookDelivery) else DeliveryId(delivery)
        record = self._records.outbox.get(delivery_id, webhook.id, transaction)
        if record is None:
            raise NotFoundError(f"expected the id of a delivery but received {quote_value(delivery_id)}")
        return record

    def _require_fewer_than_maximum(self, account: Account, queryable: Queryable) -> None:
        """Raise ValidationError if the account has the largest number of webhooks."""
        if len(self._records.webhooks.ids_by_account(account.id, queryable)) >= MAX_WEBHOOKS:
            raise ValidationError.of("webhooks", f"at most {MAX_WEBHOOKS} per account", "one more")

    def _validate(self, changes: Mapping[str, object]) -> dict[str, object]:
        return validate_webhook(changes, self._env.resolve, allow_loopback=self._settings.allow_loopback)


def _with_secret(webhook: Webhook, secret: str) -> WebhookWithSecret:
    return WebhookWithSecret(**attrs.asdict(webhook, recurse=False), secret=secret)
