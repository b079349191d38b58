"""Leases of webhook deliveries: sender slots, fairness and late reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host

from imagehost_core import ImageHost, Settings
from imagehost_core.db.repositories.leases import LeasedDelivery
from imagehost_core.models import DeliveryStatus, Webhook, WebhookDelivery
from imagehost_core.services.webhooks import MAX_SENDERS
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import DEFAULT_NOW, FrozenClock
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK, RETRY_SCHEDULE, Attempt, SenderLoad

if TYPE_CHECKING:
    from tests.programs import Program

EACH_ENGINE = True

URL = "http://127.0.0.1:9/"
SETTINGS = Settings(
    base_url="https://img.example/v1",
    webhooks=WebhookSettings(allow_loopback=True),
    rendering=RenderingSettings(processes=1),
)


def attempt(status: int | None) -> Attempt:
    return Attempt(at=DEFAULT_NOW, status=status, duration_ms=1, response="")


@pytest.fixture
def webhook(host: ImageHost) -> Webhook:
    return host.webhooks.create(owner="admin", url=URL, events=["album.created"])


def fill(host: ImageHost, webhook: Webhook, count: int) -> None:
    for _ in range(count):
        host.webhooks.test(webhook.id, owner="admin")


def only(host: ImageHost, webhook: Webhook) -> WebhookDelivery:
    (delivery,) = host.webhooks.deliveries(webhook.id, owner="admin")
    return delivery


@pytest.fixture
def taken_over(
    host: ImageHost, webhook: Webhook, clock: FrozenClock
) -> tuple[LeasedDelivery, LeasedDelivery]:
    """An expired lease, and that of the sender that holds the delivery now."""
    fill(host, webhook, 1)
    (late,) = host.webhooks.lease(1)
    clock.advance(seconds=46)
    (now,) = host.webhooks.lease(1)
    return late, now


def test_a_late_failure_report_changes_nothing(
    host: ImageHost, webhook: Webhook, taken_over: tuple[LeasedDelivery, LeasedDelivery]
) -> None:
    late, now = taken_over
    host.webhooks.report([(late, attempt(500))])
    assert only(host, webhook).attempts == 0
    host.webhooks.report([(now, attempt(200))])
    host.webhooks.report([(late, attempt(500))])
    assert (only(host, webhook).status, only(host, webhook).attempts) == (DeliveryStatus.DELIVERED, 1)


def test_a_late_success_report_is_recorded(
    host: ImageHost, webhook: Webhook, taken_over: tuple[LeasedDelivery, LeasedDelivery]
) -> None:
    late, now = taken_over
    host.webhooks.report([(late, attempt(204))])
    assert only(host, webhook).status is DeliveryStatus.DELIVERED
    host.webhooks.report([(now, attempt(500))])
    assert only(host, webhook).status is DeliveryStatus.DELIVERED


def test_an_expired_lease_is_not_released_again(
    host: ImageHost, taken_over: tuple[LeasedDelivery, LeasedDelivery]
) -> None:
    late, now = taken_over
    host.webhooks.release(late)
    assert host.webhooks.lease(1) == ()
    host.webhooks.release(now)
    assert len(host.webhooks.lease(1)) == 1


def test_a_failure_reported_after_cancellation_does_not_reschedule(host: ImageHost, webhook: Webhook) -> None:
    fill(host, webhook, 2)
    one, other = host.webhooks.lease(2)
    host.webhooks.report([(one, attempt(410))])
    host.webhooks.report([(other, attempt(500))])
    states = {delivery.status for delivery in host.webhooks.deliveries(webhook.id, owner="admin")}
    assert states == {DeliveryStatus.FAILED}
    assert host.webhooks.next_due() is None


def test_a_report_for_a_deleted_webhook_is_ignored(host: ImageHost, webhook: Webhook) -> None:
    fill(host, webhook, 1)
    (due,) = host.webhooks.lease(1)
    host.webhooks.delete(webhook.id, owner="admin")
    host.webhooks.report([(due, attempt(200))])
    assert host.webhooks.next_due() is None


def test_a_manual_retry_of_a_disabled_webhook_is_attempted_once(host: ImageHost, webhook: Webhook) -> None:
    fill(host, webhook, 1)
    host.webhooks.update(webhook.id, owner="admin", is_active=False)
    delivery = only(host, webhook)
    assert delivery.status is DeliveryStatus.FAILED
    again = host.webhooks.retry(webhook.id, delivery.id, owner="admin")
    assert again.status is DeliveryStatus.PENDING
    (due,) = host.webhooks.lease(1)
    host.webhooks.report([(due, attempt(500))])
    assert (only(host, webhook).status, only(host, webhook).attempts) == (DeliveryStatus.FAILED, 1)


def test_the_last_failed_attempt_disables_the_webhook_and_cancels_the_rest(
    host: ImageHost, webhook: Webhook, clock: FrozenClock
) -> None:
    fill(host, webhook, 1)
    for _ in RETRY_SCHEDULE:
        (due,) = host.webhooks.lease(1)
        if due.delivery.attempts == len(RETRY_SCHEDULE) - 1:
            fill(host, webhook, 1)
        host.webhooks.report([(due, Attempt(at=clock(), status=None, duration_ms=1, response="no"))])
        clock.advance(hours=7)
    now = host.webhooks.get(webhook.id, owner="admin")
    assert (now.is_active, now.disabled_reason) == (
        False,
        "10 attempts failed; at the last the endpoint did not respond",
    )
    assert host.webhooks.lease(10) == ()


def test_an_update_by_the_owner_keeps_what_a_sender_recorded_meanwhile(
    host: ImageHost, webhook: Webhook
) -> None:
    """The sender's report comes while the new host is being resolved."""
    fill(host, webhook, 1)
    (due,) = host.webhooks.lease(1)

    def slowly(_name: str, _port: int) -> list[str]:
        host.webhooks.report([(due, attempt(410))])
        return ["8.8.8.8"]

    with open_host(host.path, settings=host.settings, clock=host.now, resolve=slowly) as other:
        changed = other.webhooks.update(webhook.id, owner="admin", url="https://hooks.example.com/")
    assert (changed.is_active, changed.disabled_reason) == (False, "the endpoint responded with 410 Gone")
    assert host.webhooks.get(webhook.id, owner="admin") == changed


def test_retry_all_now_makes_pending_deliveries_due(
    host: ImageHost, webhook: Webhook, clock: FrozenClock
) -> None:
    fill(host, webhook, 2)
    one, _under_way = host.webhooks.lease(2)
    host.webhooks.report([(one, attempt(500))])
    assert host.webhooks.lease(2) == ()
    assert host.webhooks.retry_all_now() == 1
    (again,) = host.webhooks.lease(2)  # and not what is under way
    assert again.delivery.id == one.delivery.id
    assert host.webhooks.retry_all_now() == 0


def test_taking_a_sender_slot_releases_the_leases_of_its_last_holder(
    host: ImageHost, webhook: Webhook
) -> None:
    fill(host, webhook, 3)
    with host.webhooks.sender_slot() as first, host.webhooks.sender_slot() as second:
        assert first is not None
        assert second == first + 1
        (mine,) = host.webhooks.report_and_lease((), SenderLoad(1), second)
        (dead,) = host.webhooks.report_and_lease((), SenderLoad(1), first)
        (unassigned,) = host.webhooks.lease(1)
        assert host.webhooks.lease(1) == ()
    with host.webhooks.sender_slot() as again:
        assert again == first
        (due,) = host.webhooks.lease(3)
        assert due.delivery.id == dead.delivery.id
    assert len({due.delivery.id, mine.delivery.id, unassigned.delivery.id}) == 3


DIE = """
    import os, signal, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import WebhookSettings, RenderingSettings
    from imagehost_core.webhooks import SenderLoad
    rendering = RenderingSettings(processes=1)
    settings = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=rendering)
    with ImageHost.open(sys.argv[1], settings=settings) as host, host.webhooks.sender_slot() as slot:
        print(slot, len(host.webhooks.report_and_lease((), SenderLoad(8), slot)))
        sys.stdin.readline()
"""


def test_the_sender_slot_of_a_killed_process_is_free_at_once(
    tmp_path: Path, program: Callable[..., Program]
) -> None:
    with open_host(tmp_path, settings=SETTINGS) as host:
        fill(host, host.webhooks.create(owner="admin", url=URL), 3)
        process = program(DIE, tmp_path)
        assert process.read_line() == "0 3"
        with host.webhooks.sender_slot() as other:
            assert other == 1
            assert host.webhooks.lease(8) == ()
        process.kill()
        with host.webhooks.sender_slot() as slot:
            assert slot == 0
            assert len(host.webhooks.lease(8)) == 3


def test_a_sender_works_without_a_slot_when_all_are_taken(
    host: ImageHost, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(host, webhook, 1)
    monkeypatch.setattr("imagehost_core.services.webhooks.MAX_SENDERS", 1)
    assert MAX_SENDERS > 1
    with host.webhooks.sender_slot() as first, host.webhooks.sender_slot() as second:
        assert first is not None
        assert second is None
        assert len(host.webhooks.report_and_lease((), SenderLoad(1), second)) == 1


@pytest.fixture(scope="module")
def loaded() -> Iterator[tuple[ImageHost, list[Webhook]]]:
    clock = FrozenClock()
    with open_host(":memory:", settings=SETTINGS, clock=clock) as host:
        created: list[Webhook] = [host.webhooks.create(owner="admin", url=URL) for _ in range(5)]
        yield host, created


@given(
    st.lists(st.integers(0, 2 * MAX_IN_FLIGHT_PER_WEBHOOK), min_size=5, max_size=5),
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
)
def test_leases_are_fair_among_webhooks_and_bounded_for_each(
    loaded: tuple[ImageHost, list[Webhook]], queues: list[int], asks: list[int]
) -> None:
    host, hooks = loaded
    for hook, length in zip(hooks, queues, strict=True):
        fill(host, hook, length)
    ids = [hook.id for hook in hooks]
    leased: list[LeasedDelivery] = []
    for requested in asks:
        before = Counter(due.webhook.id for due in leased)
        got = host.webhooks.lease(requested)
        free = sum(
            max(0, min(MAX_IN_FLIGHT_PER_WEBHOOK, length) - before[id_])
            for id_, length in zip(ids, queues, strict=True)
        )
        assert len(got) == min(requested, free)
        leased += got
    assert len({due.delivery.id for due in leased}) == len(leased)
    held = Counter(due.webhook.id for due in leased)
    assert max(held.values(), default=0) <= MAX_IN_FLIGHT_PER_WEBHOOK
    # No endpoint has two more than another that still waits.
    waiting = [
        held[id_]
        for id_, length in zip(ids, queues, strict=True)
        if min(MAX_IN_FLIGHT_PER_WEBHOOK, length) > held[id_]
    ]
    assert max(held.values(), default=0) <= min(waiting, default=MAX_IN_FLIGHT_PER_WEBHOOK) + 1
    for due in leased:
        host.webhooks.report([(due, attempt(200))])
    while rest := host.webhooks.lease(100):
        host.webhooks.report([(due, attempt(200)) for due in rest])
    assert host.webhooks.next_due() is None


def test_the_oldest_due_delivery_of_a_webhook_is_leased_first(
    host: ImageHost, webhook: Webhook, clock: FrozenClock
) -> None:
    for _ in range(3):
        fill(host, webhook, 1)
        clock.advance(seconds=1)
    created = [due.delivery.created_at for due in host.webhooks.lease(3)]
    assert created == sorted(created)
