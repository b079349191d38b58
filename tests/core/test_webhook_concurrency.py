"""Which deliveries a sender attempts next: shares of accounts, and turns of webhooks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.ids import AccountId, DeliveryId, WebhookId
from imagehost_core.webhooks import (
    MAX_IN_FLIGHT_PER_WEBHOOK,
    SenderLoad,
    WaitingDelivery,
    next_deliveries,
)

CONCURRENCY = 32
ACCOUNTS = [AccountId(number) for number in range(1, 41)]


def waiting(queues: dict[AccountId, int]) -> list[WaitingDelivery]:
    """Return deliveries of webhooks with one delivery each."""
    return [
        WaitingDelivery(0, due_at, DeliveryId(f"{account_id}:{due_at}"), account_id)
        for account_id, count in queues.items()
        for due_at in range(count)
    ]


def owners(delivery_ids: list[DeliveryId]) -> Counter[AccountId]:
    """Return the number of deliveries of each account."""
    return Counter(AccountId(int(delivery_id.partition(":")[0])) for delivery_id in delivery_ids)


def test_a_lone_account_gets_a_quarter_and_several_get_equal_shares() -> None:
    def shares(accounts: int) -> list[int]:
        queues = dict.fromkeys(ACCOUNTS[:accounts], 100)
        return sorted(owners(next_deliveries(waiting(queues), SenderLoad(CONCURRENCY, {}))).values())

    assert {n: shares(n) for n in (1, 2, 3, 5)} == {1: [8], 2: [7, 7], 3: [5, 6, 6], 5: [4] * 5}


QUEUES = st.dictionaries(st.sampled_from(ACCOUNTS), st.integers(1, 40), max_size=40)


@given(st.lists(st.tuples(QUEUES, st.sets(st.integers(0, CONCURRENCY - 1))), max_size=8))
def test_no_account_holds_more_than_a_quarter_and_a_free_attempt_goes_to_those_with_fewest(
    rounds: list[tuple[dict[AccountId, int], set[int]]],
) -> None:
    """Attempts start, and some of them end, in any order."""
    running: list[AccountId] = []
    for queues, ended in rounds:
        held = Counter(running)
        load = SenderLoad(CONCURRENCY - len(running), held)
        started = owners(next_deliveries(waiting(queues), load))
        assert all(started[account_id] <= count for account_id, count in queues.items())
        running += started.elements()
        assert len(running) <= CONCURRENCY
        held = Counter(running)
        assert max(held.values(), default=0) <= CONCURRENCY // 4
        left = [account_id for account_id in queues if started[account_id] < queues[account_id]]
        if len(running) < CONCURRENCY:
            # Those that wait hold their share; one that held nothing waits only if nothing is free.
            assert all(3 * held[account_id] >= CONCURRENCY - len(running) for account_id in left)
            assert all(held[account_id] for account_id in queues)
        for account_id in started:
            assert all(held[account_id] <= held[other] + 1 for other in left)
        running = [account_id for index, account_id in enumerate(running) if index not in ended]


@given(st.lists(st.integers(0, MAX_IN_FLIGHT_PER_WEBHOOK), min_size=1, max_size=8), st.integers(1, 40))
def test_webhooks_of_an_account_take_turns(lengths: list[int], free: int) -> None:
    deliveries = [
        WaitingDelivery(turn, 0, DeliveryId(f"{webhook}:{turn}"), ACCOUNTS[0])
        for webhook, length in enumerate(lengths)
        for turn in range(length)
    ]
    chosen = Counter(delivery.partition(":")[0] for delivery in next_deliveries(deliveries, SenderLoad(free)))
    assert chosen.total() == min(free, sum(lengths))
    waits = [chosen[str(index)] for index, length in enumerate(lengths) if chosen[str(index)] < length]
    assert all(count <= min(waits, default=count) + 1 for count in chosen.values())


def test_a_webhook_that_has_not_responded_yet_is_tried_one_at_a_time() -> None:
    known, other = WebhookId("wh_1"), WebhookId("wh_2")
    load = SenderLoad(CONCURRENCY, {}, frozenset({known}))
    assert (load.limit_of(known), load.limit_of(other)) == (MAX_IN_FLIGHT_PER_WEBHOOK, 1)
    assert SenderLoad(CONCURRENCY, {}).limit_of(other) == MAX_IN_FLIGHT_PER_WEBHOOK
