"""What follows from an attempt to deliver an event."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.ids import DeliveryId, EventId, WebhookId
from imagehost_core.models import DeliveryState, WebhookDelivery
from imagehost_core.testing import DEFAULT_NOW
from imagehost_core.webhooks.retry import (
    JITTER,
    RESPONSE_EXCERPT_BYTES,
    RETRY_SCHEDULE,
    Attempt,
    after_attempt,
    retry_delay,
)

FRESH = WebhookDelivery(
    id=DeliveryId("d" * 16),
    webhook_id=WebhookId("w" * 16),
    event_id=EventId("msg_" + "e" * 24),
    type="image.uploaded",
    state=DeliveryState.PENDING,
    attempts=0,
    next_attempt_at=DEFAULT_NOW,
    created_at=DEFAULT_NOW,
)


def attempt(status: int | None) -> Attempt:
    return Attempt(at=DEFAULT_NOW, status=status, duration_ms=12, response="x" * 2_000)


def test_the_schedule_is_the_contract_s() -> None:
    hours = [offset.total_seconds() / 3600 for offset in RETRY_SCHEDULE]
    assert hours == [0, 5 / 3600, 5 / 60, 0.5, 2, 5, 10, 14, 20, 24]


@given(st.integers(200, 299), st.integers(0, 12))
def test_every_2xx_is_success(status: int, attempts: int) -> None:
    verdict = after_attempt(evolve(FRESH, attempts=attempts), attempt(status), 0.5)
    assert verdict.delivery.state is DeliveryState.DELIVERED
    assert verdict.delivery.next_attempt_at is None
    assert verdict.disable is None


@given(
    st.one_of(st.none(), st.integers(100, 199), st.integers(300, 409), st.integers(411, 599)),
    st.integers(0, len(RETRY_SCHEDULE) - 2),
    st.floats(0, 1, exclude_max=True),
)
def test_everything_else_is_tried_again_on_schedule(status: int | None, attempts: int, chance: float) -> None:
    verdict = after_attempt(evolve(FRESH, attempts=attempts), attempt(status), chance)
    after = verdict.delivery
    assert (after.state, after.attempts, verdict.disable) == (DeliveryState.PENDING, attempts + 1, None)
    assert after.next_attempt_at is not None
    gap = RETRY_SCHEDULE[attempts + 1] - RETRY_SCHEDULE[attempts]
    assert abs(after.next_attempt_at - DEFAULT_NOW - gap) <= gap * JITTER + timedelta(microseconds=1)
    assert (after.last_status, after.last_duration_ms) == (status, 12)


def test_the_last_attempt_disables_the_destination_with_a_reason() -> None:
    last = evolve(FRESH, attempts=len(RETRY_SCHEDULE) - 1)
    for status, said in ((500, "responded with 500"), (None, "did not respond")):
        verdict = after_attempt(last, attempt(status), 0.5)
        assert verdict.delivery.state is DeliveryState.FAILED
        assert verdict.disable is not None
        assert said in verdict.disable


def test_410_disables_at_once() -> None:
    verdict = after_attempt(FRESH, attempt(410), 0.5)
    assert verdict.delivery.state is DeliveryState.FAILED
    assert verdict.delivery.next_attempt_at is None
    assert verdict.disable == "the endpoint responded with 410 Gone"


def test_a_retry_by_hand_after_the_last_attempt_disables_nothing() -> None:
    verdict = after_attempt(evolve(FRESH, attempts=len(RETRY_SCHEDULE)), attempt(500), 0.5)
    assert (verdict.delivery.state, verdict.disable) == (DeliveryState.FAILED, None)


def test_only_the_first_bytes_of_an_answer_are_kept() -> None:
    assert len(after_attempt(FRESH, attempt(500), 0.5).delivery.last_response) == RESPONSE_EXCERPT_BYTES


@given(st.integers(1, 9))
def test_the_waits_are_jittered_around_the_schedule(attempts: int) -> None:
    shortest, middle, longest = (retry_delay(attempts, chance) for chance in (0.0, 0.5, 1.0))
    gap = RETRY_SCHEDULE[attempts] - RETRY_SCHEDULE[attempts - 1]
    assert shortest < middle < longest
    assert abs(middle - gap) <= timedelta(microseconds=1)
