"""The retry schedule of webhook deliveries."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.ids import DeliveryId, EventId, WebhookId
from imagehost_core.models import DeliveryStatus, WebhookDelivery
from imagehost_core.testing import DEFAULT_NOW
from imagehost_core.webhooks import (
    RESPONSE_EXCERPT_BYTES,
    RETRY_SCHEDULE,
    Attempt,
    after_attempt,
    retry_delay,
)

NEW_DELIVERY = WebhookDelivery(
    id=DeliveryId("d" * 16),
    webhook_id=WebhookId("w" * 16),
    event_id=EventId("msg_" + "e" * 24),
    event="image.uploaded",
    status=DeliveryStatus.PENDING,
    attempts=0,
    next_attempt_at=DEFAULT_NOW,
    created_at=DEFAULT_NOW,
)


def attempt(status: int | None) -> Attempt:
    return Attempt(at=DEFAULT_NOW, status=status, duration_ms=12, response="x" * 2_000)


def test_the_schedule_is_as_documented() -> None:
    hours = [offset.total_seconds() / 3600 for offset in RETRY_SCHEDULE]
    assert hours == [0, 5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]


@given(st.integers(200, 299), st.integers(0, 12))
def test_every_2xx_is_success(status: int, attempts: int) -> None:
    step = after_attempt(evolve(NEW_DELIVERY, attempts=attempts), attempt(status), 0.5)
    assert step.delivery.status is DeliveryStatus.DELIVERED
    assert step.delivery.next_attempt_at is None
    assert step.disable is None


@given(
    st.one_of(st.none(), st.integers(100, 199), st.integers(300, 409), st.integers(411, 599)),
    st.integers(0, len(RETRY_SCHEDULE) - 2),
    st.floats(0, 1, exclude_max=True),
)
def test_any_other_outcome_is_retried_on_schedule(status: int | None, attempts: int, jitter: float) -> None:
    step = after_attempt(evolve(NEW_DELIVERY, attempts=attempts), attempt(status), jitter)
    delivery = step.delivery
    assert (delivery.status, delivery.attempts, step.disable) == (DeliveryStatus.PENDING, attempts + 1, None)
    assert delivery.next_attempt_at is not None
    gap = RETRY_SCHEDULE[attempts + 1] - RETRY_SCHEDULE[attempts]
    assert abs(delivery.next_attempt_at - DEFAULT_NOW - gap) <= gap * 0.1 + timedelta(microseconds=1)
    assert (delivery.response_status, delivery.duration_ms) == (status, 12)


def test_the_last_attempt_disables_the_webhook_with_a_reason() -> None:
    last = evolve(NEW_DELIVERY, attempts=len(RETRY_SCHEDULE) - 1)
    for status, outcome in ((500, "responded with 500"), (None, "did not respond")):
        step = after_attempt(last, attempt(status), 0.5)
        assert step.delivery.status is DeliveryStatus.FAILED
        assert step.disable is not None
        assert outcome in step.disable


def test_410_disables_the_webhook_immediately() -> None:
    step = after_attempt(NEW_DELIVERY, attempt(410), 0.5)
    assert step.delivery.status is DeliveryStatus.FAILED
    assert step.delivery.next_attempt_at is None
    assert step.disable == "the endpoint responded with 410 Gone"


def test_a_manual_retry_after_the_last_attempt_disables_nothing() -> None:
    step = after_attempt(evolve(NEW_DELIVERY, attempts=len(RETRY_SCHEDULE)), attempt(500), 0.5)
    assert (step.delivery.status, step.disable) == (DeliveryStatus.FAILED, None)


def test_only_the_start_of_a_response_is_stored() -> None:
    assert (
        len(after_attempt(NEW_DELIVERY, attempt(500), 0.5).delivery.response_excerpt)
        == RESPONSE_EXCERPT_BYTES
    )


@given(st.integers(1, 9))
def test_delays_are_jittered_around_the_schedule(attempts: int) -> None:
    shortest, middle, longest = (retry_delay(attempts, jitter) for jitter in (0.0, 0.5, 1.0))
    gap = RETRY_SCHEDULE[attempts] - RETRY_SCHEDULE[attempts - 1]
    assert shortest < middle < longest
    assert abs(middle - gap) <= timedelta(microseconds=1)
