"""Webhook destinations: made and changed by their owners, worked through by senders."""

from __future__ import annotations

import json
import random as chances
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import to_rfc3339
from imagehost_core.db import LeasedDelivery, leases
from imagehost_core.db.database import Queryable, Transaction
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import DeliveryId, WebhookId, new_event_id, new_webhook_id
from imagehost_core.models import Account, Page, Webhook, WebhookDelivery, WebhookWithSecret
from imagehost_core.pagination import PageRequest
from imagehost_core.services import owners
from imagehost_core.services.context import HostContext
from imagehost_core.services.owners import Owner
from imagehost_core.webhooks.retry import Attempt, after_attempt
from imagehost_core.webhooks.signing import new_webhook_secret
from imagehost_core.webhooks.validation import Resolve, resolve, validate_webhook

SECRET_OVERLAP = timedelta(hours=24)
"""For how long the old secret signs beside the new one."""
TEST_EVENT = "webhook.test"
"""The kind of the event that `test` sends. It is none of SPEC 6: it tells of no change."""
LEASE_MARGIN = timedelta(seconds=30)
"""How much longer than its timeout an attempt is leased."""
MAX_SENDERS = 256
"""How many senders are known by a seat."""
MAX_IN_FLIGHT_PER_ENDPOINT = 8
"""How many attempts to one destination are under way at a time."""
MAX_WEBHOOKS = 100
"""How many destinations an account may have: each event is written once for each of them."""


@frozen
class WebhookService:
    """The webhook destinations of a host."""

    _context: HostContext = field(repr=False)
    _resolve: Resolve = field(default=resolve, repr=False)

    def create(
        self, *, owner: Owner, url: str, events: Iterable[str] = (), description: str = ""
    ) -> WebhookWithSecret:
        """Make a destination; its secret is to be had from the answer and never again.

        Args:
            owner: Whose events it gets.
            url: An https address that everybody can reach.
            events: The kinds that it gets; all, if empty.
            description: Up to 2,000 characters.

        Raises:
            ValidationError: A value is not allowed, or the account has 100 destinations. Names every
                fault.
        """
        context = self._context
        account = owners.get_or_create_account(context, owner)
        values = self._validated({"url": url, "events": tuple(events), "description": description})
        webhook = Webhook(
            id=new_webhook_id(context.random),
            account_id=account.id,
            url=url,
            events=values["events"],  # type: ignore[arg-type]
            description=description,
            is_active=True,
            created_at=context.clock(),
        )
        secret = new_webhook_secret(context.random)
        with context.database.transaction() as transaction:
            if len(context.webhooks.ids_by_account(account.id, transaction)) >= MAX_WEBHOOKS:
                fault = FieldError("webhooks", f"at most {MAX_WEBHOOKS} of an account", "one more")
                raise ValidationError(errors=[fault])
            context.webhooks.insert(transaction, webhook, secret)
        return WebhookWithSecret(webhook, secret)

    def list(self, *, owner: Owner, page: PageRequest | None = None) -> Page[Webhook]:
        """Return an account's destinations, newest first."""
        account = owners.find_account(self._context, owner)
        wanted = page or PageRequest()
        if account is None:
            return Page.empty(wanted.page, wanted.per_page)
        return self._context.webhooks.list_by_account(account.id, wanted)

    def get(self, webhook_id: str, *, owner: Owner) -> Webhook:
        """Return a destination of an account.

        Raises:
            NotFoundError: It has no such destination.
        """
        return self._find(webhook_id, owners.get_account(self._context, owner), self._context.database)

    def update(self, webhook_id: str, *, owner: Owner, **changes: object) -> Webhook:
        """Change some of a destination's fields; what is not given stays.

        Making it active again clears the reason why it was disabled.

        Args:
            webhook_id: Which.
            owner: Whose it is.
            changes: `url`, `events`, `description`, `is_active`.

        Raises:
            NotFoundError: The account has no such destination.
            ValidationError: A value is not allowed. Names every fault.
        """
        context, account = self._context, owners.get_account(self._context, owner)
        self._find(webhook_id, account, context.database)
        values = self._validated(changes)
        if values.get("is_active"):
            values["disabled_reason"] = None
        with context.database.transaction() as transaction:
            # As it is now: a sender may have disabled it since.
            webhook = self._find(webhook_id, account, transaction)
            changed = attrs.evolve(webhook, **values)  # type: ignore[arg-type]
            context.webhooks.update(transaction, changed)
            if webhook.is_active and not changed.is_active:
                context.outbox.cancel_pending(transaction, webhook.id)
        return changed

    def delete(self, webhook_id: str, *, owner: Owner) -> None:
        """Delete a destination, and all that was still to be sent to it.

        Raises:
            NotFoundError: The account has no such destination.
        """
        webhook = self.get(webhook_id, owner=owner)
        with self._context.database.transaction() as transaction:
            self._context.webhooks.delete(transaction, webhook.id)

    def rotate_secret(self, webhook_id: str, *, owner: Owner) -> WebhookWithSecret:
        """Give a destination another secret. For 24 hours both sign.

        Raises:
            NotFoundError: The account has no such destination.
        """
        context, webhook = self._context, self.get(webhook_id, owner=owner)
        secret = new_webhook_secret(context.random)
        with context.database.transaction() as transaction:
            context.webhooks.rotate_secret(transaction, webhook.id, secret, context.clock() + SECRET_OVERLAP)
        return WebhookWithSecret(webhook, secret)

    def test(self, webhook_id: str, *, owner: Owner) -> WebhookDelivery:
        """Send a destination an event of the kind `webhook.test`, whatever kinds it gets.

        Raises:
            NotFoundError: The account has no such destination.
        """
        context, webhook = self._context, self.get(webhook_id, owner=owner)
        now = context.clock()
        body = {"type": TEST_EVENT, "timestamp": to_rfc3339(now), "data": {"webhook_id": webhook.id}}
        encoded = json.dumps(body, separators=(",", ":")).encode()
        with context.database.transaction() as transaction:
            event_id = new_event_id(context.random)
            context.outbox.insert_event(transaction, webhook.account_id, event_id, TEST_EVENT, now, encoded)
            made = context.outbox.insert_delivery(transaction, webhook.id, event_id, TEST_EVENT, now)
        return self.delivery(webhook.id, made, owner=owner)

    def deliveries(
        self, webhook_id: str, *, owner: Owner, page: PageRequest | None = None
    ) -> Page[WebhookDelivery]:
        """Return the deliveries to a destination, newest first.

        Raises:
            NotFoundError: The account has no such destination.
        """
        webhook = self.get(webhook_id, owner=owner)
        return self._context.outbox.list_by_webhook(webhook.id, page or PageRequest())

    def delivery(self, webhook_id: str, delivery_id: str, *, owner: Owner) -> WebhookDelivery:
        """Return a delivery to a destination.

        Raises:
            NotFoundError: The account has no such destination, or that no such delivery.
        """
        webhook = self.get(webhook_id, owner=owner)
        found = self._context.outbox.get(DeliveryId(delivery_id), webhook.id)
        if found is None:
            raise NotFoundError(f"expected the id of a delivery but received {quote_value(delivery_id)}")
        return found

    def retry(self, webhook_id: str, delivery_id: str, *, owner: Owner) -> WebhookDelivery:
        """Send a delivery once more, now, whatever came of it before.

        Raises:
            NotFoundError: The account has no such destination, or that no such delivery.
        """
        delivery = self.delivery(webhook_id, delivery_id, owner=owner)
        with self._context.database.transaction() as transaction:
            self._context.outbox.requeue(transaction, delivery.id, self._context.clock())
        return self.delivery(webhook_id, delivery_id, owner=owner)

    def retry_all_now(self) -> int:
        """Make every delivery that waits for its next attempt due now, and return how many did.

        For the operator: the schedule has been waiting for others, but the fault was here.
        """
        with self._context.database.transaction() as transaction:
            return self._context.outbox.make_due_now(transaction, self._context.clock())

    def lease(self, count: int) -> tuple[LeasedDelivery, ...]:
        """Take up to `count` deliveries that are due, for one sender; each is its own until it reports.

        A sender that dies gives back what it had when its seat is taken again, or when the lease ends: 30
        seconds after the timeout.
        """
        return self.report_and_lease((), count)

    @contextmanager
    def sender_slot(self) -> Iterator[int | None]:
        """Yield a seat for a sender, which is its own while the block runs; `None` if all are taken.

        The system lets go of the seat of a process that dies. Whoever takes it next gives back at once
        what the dead one had leased: a sender that is started again loses no time.
        """
        context = self._context
        for number in range(MAX_SENDERS):
            with context.locks.try_acquire("sender", number) as is_free:
                if is_free:
                    with context.database.transaction() as transaction:
                        leases.release_all_of(transaction, number)
                    yield number
                    return
        yield None

    def report(self, attempts: Iterable[tuple[LeasedDelivery, Attempt]]) -> None:
        """Record what came of attempts, and what follows from each, in one durable commit.

        Args:
            attempts: Each delivery as it was leased, and what came of it.
        """
        self.report_and_lease(attempts, 0)

    def report_and_lease(
        self, attempts: Iterable[tuple[LeasedDelivery, Attempt]], count: int, sender_slot: int | None = None
    ) -> tuple[LeasedDelivery, ...]:
        """Record what came of attempts, and take up to `count` deliveries more, in one durable commit.

        Args:
            attempts: Each delivery as it was leased, and what came of it.
            count: How many to take at most.
            sender_slot: That of the sender, if it has one.
        """
        context, now, told = self._context, self._context.clock(), list(attempts)
        if not told and not (count and leases.is_any_due(context.database, now, MAX_IN_FLIGHT_PER_ENDPOINT)):
            return ()
        until = now + timedelta(seconds=context.settings.webhooks.timeout_seconds) + LEASE_MARGIN
        with context.database.transaction() as transaction:
            for due, attempt in told:
                self._record(transaction, due, attempt)
            return (
                tuple(
                    leases.lease_due(transaction, now, until, count, MAX_IN_FLIGHT_PER_ENDPOINT, sender_slot)
                )
                if count
                else ()
            )

    def next_due(self) -> datetime | None:
        """Return when the next delivery is due, or `None` where none is pending."""
        return self._context.outbox.next_due()

    def release(self, *dues: LeasedDelivery) -> None:
        """Give back deliveries that were leased and not attempted."""
        with self._context.database.transaction() as transaction:
            leases.release(transaction, dues)

    def delete_expired(self) -> None:
        """Forget old events and their deliveries, as long ago as the setting says."""
        before = self._context.clock() - timedelta(seconds=self._context.settings.webhooks.retention_seconds)
        with self._context.database.transaction() as transaction:
            self._context.outbox.delete_before(transaction, before)

    def _record(self, transaction: Transaction, due: LeasedDelivery, attempt: Attempt) -> None:
        """Record what came of an attempt, if it still matters.

        A lease may have ended meanwhile, and another sender may have the delivery. Then a failure is
        nobody's business any more; but what has arrived has arrived.
        """
        context, delivery = self._context, due.delivery
        known = context.outbox.get(delivery.id, delivery.webhook_id, transaction)
        if known is None or not (attempt.succeeded or leases.is_held(transaction, due)):
            return
        webhook_id = delivery.webhook_id
        is_active = attempt.succeeded or context.webhooks.is_active(transaction, webhook_id)
        # Chance spreads the load, no more.
        verdict = after_attempt(known, attempt, chances.random(), is_active=is_active)  # noqa: S311
        context.outbox.record_attempt(transaction, verdict.delivery)
        if verdict.disable is not None:
            self._disable(transaction, webhook_id, verdict.disable)

    def _find(self, webhook_id: str, account: Account, reader: Queryable) -> Webhook:
        found = self._context.webhooks.get(WebhookId(webhook_id), account.id, reader)
        if found is None:
            raise NotFoundError(
                f"expected the id of a webhook of yours but received {quote_value(webhook_id)}"
            )
        return found

    def _disable(self, transaction: Transaction, webhook_id: WebhookId, reason: str) -> None:
        self._context.webhooks.disable(transaction, webhook_id, reason)
        self._context.outbox.cancel_pending(transaction, webhook_id)

    def _validated(self, changes: Mapping[str, object]) -> dict[str, object]:
        allow = self._context.settings.webhooks.allow_loopback
        return validate_webhook(changes, self._resolve, allow_loopback=allow)
