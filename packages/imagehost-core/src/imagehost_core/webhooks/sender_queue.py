"""The order of due deliveries: attempts in progress of a sender are shared between accounts.

An account with fewer attempts in progress comes first, and within it a webhook with fewer. One account
has at most a quarter of a sender's attempts, two have a fifth each, and so on (`may_take`). So another
account's event finds a free one, however long the endpoints of these take to respond.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Set

from attrs import evolve, frozen

from imagehost_core.ids import AccountId, DeliveryId, WebhookId
from imagehost_core.limits import may_take

MAX_IN_FLIGHT_PER_WEBHOOK = 8
"""Attempts to one webhook at a time, of all senders."""
FREE_SHARE = 3
"""An account starts an attempt while it has less than one in this number of the free ones in progress."""


@frozen
class SenderLoad:
    """The attempts of a sender.

    Attributes:
        free: Attempts that it can start.
        in_progress: The number of those in progress by account; accounts share a sender only if it is given.
        responsive: The webhooks whose last attempt of the sender got a response. Others are tried one at a
            time, so that an endpoint that is silent holds one attempt. `None` if it is not known.
    """

    free: int
    in_progress: Mapping[AccountId, int] | None = None
    responsive: Set[WebhookId] | None = None

    def limit_of(self, webhook_id: WebhookId) -> int:
        """Return the number of attempts to a webhook at a time."""
        is_limited = self.responsive is not None and webhook_id not in self.responsive
        return 1 if is_limited else MAX_IN_FLIGHT_PER_WEBHOOK

    def count_of(self, account_id: AccountId) -> int:
        """Return the number of an account's attempts in progress; 0 if accounts do not share the sender."""
        return (self.in_progress or {}).get(account_id, 0)

    def may_start(self, account_id: AccountId) -> bool:
        """Return whether the sender may start an attempt of an account."""
        return may_take(self.count_of(account_id), self.free, FREE_SHARE)

    def with_attempt(self, account_id: AccountId) -> SenderLoad:
        """Return the load with one attempt of an account more."""
        if self.in_progress is None:
            return evolve(self, free=self.free - 1)
        in_progress = {**self.in_progress, account_id: self.count_of(account_id) + 1}
        return evolve(self, free=self.free - 1, in_progress=in_progress)


@frozen(order=True)
class WaitingDelivery:
    """A due delivery that no sender attempts.

    Attributes:
        turn: Attempts to its webhook that are in progress or come before it.
        due_at: When it was due, in microseconds since 1970.
        id: The delivery.
        account_id: The account of its webhook.
    """

    turn: int
    due_at: int
    id: DeliveryId
    account_id: AccountId


def next_deliveries(waiting: Iterable[WaitingDelivery], load: SenderLoad) -> list[DeliveryId]:
    """Return the deliveries that a sender attempts next, in their order.

    Args:
        waiting: The due deliveries.
        load: The attempts of the sender.
    """
    queues: dict[AccountId, deque[WaitingDelivery]] = {}
    for delivery in sorted(waiting):
        queues.setdefault(delivery.account_id, deque()).append(delivery)
    chosen: list[DeliveryId] = []
    while ready := [account_id for account_id in queues if load.may_start(account_id)]:
        account_id = min(ready, key=lambda each: (load.count_of(each), queues[each][0]))
        chosen.append(queues[account_id].popleft().id)
        if not queues[account_id]:
            del queues[account_id]
        load = load.with_attempt(account_id)
    return chosen
