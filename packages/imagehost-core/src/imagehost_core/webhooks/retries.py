"""The retry schedule of webhook deliveries.

A 2xx response is success, 410 disables the webhook, anything else is retried. After the last attempt
the webhook is disabled. These functions decide and send nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve, frozen

from imagehost_core.models import DeliveryStatus, WebhookDelivery

RETRY_SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""The time of each attempt, relative to the first."""
JITTER = 0.1
"""The largest relative change of a delay, so that simultaneous failures are not retried simultaneously."""
RESPONSE_EXCERPT_BYTES = 500
"""The length of the stored excerpt of a response, in bytes."""
GONE = 410


@frozen(kw_only=True)
class Attempt:
    """The outcome of one attempt to deliver an event.

    Attributes:
        at: The start of the attempt.
        status: The HTTP status of the response, or `None` without a response.
        duration_ms: The duration, in milliseconds.
        response: The start of the response's body, or the reason for which there was none.
    """

    at: datetime
    status: int | None
    duration_ms: int
    response: str

    @property
    def succeeded(self) -> bool:
        """Whether the endpoint accepted the event."""
        return self.status is not None and 200 <= self.status < 300


@frozen
class NextStep:
    """The consequence of an attempt.

    Attributes:
        delivery: The updated delivery.
        disable: The reason to disable the webhook, or `None`.
    """

    delivery: WebhookDelivery
    disable: str | None = None


def after_attempt(
    delivery: WebhookDelivery, attempt: Attempt, jitter: float, *, is_active: bool = True
) -> NextStep:
    """Return the consequence of an attempt.

    Args:
        delivery: The delivery before the attempt.
        attempt: The outcome of the attempt.
        jitter: A random number from 0 to below 1.
        is_active: Whether the webhook is active; deliveries of an inactive one are retried manually only.
    """
    count = delivery.attempts + 1
    excerpt = attempt.response[:RESPONSE_EXCERPT_BYTES]
    updated = evolve(
        delivery,
        attempts=count,
        next_attempt_at=None,
        last_attempt_at=attempt.at,
        response_status=attempt.status,
        response_excerpt="" if attempt.status is None else excerpt,
        duration_ms=attempt.duration_ms,
        error=excerpt or None if attempt.status is None else None,
    )
    if attempt.succeeded:
        return NextStep(evolve(updated, status=DeliveryStatus.DELIVERED))
    failed = evolve(updated, status=DeliveryStatus.FAILED)
    if not is_active:
        return NextStep(failed)
    if attempt.status == GONE:
        return NextStep(failed, "the endpoint responded with 410 Gone")
    if count == len(RETRY_SCHEDULE):
        outcome = "did not respond" if attempt.status is None else f"responded with {attempt.status}"
        return NextStep(failed, f"{count} attempts failed; at the last the endpoint {outcome}")
    if count > len(RETRY_SCHEDULE):
        return NextStep(failed)  # retried manually after the last scheduled attempt
    return NextStep(evolve(updated, next_attempt_at=attempt.at + retry_delay(count, jitter)))


def retry_delay(attempts: int, jitter: float) -> timedelta:
    """Return the delay before the next attempt.

    Args:
        attempts: The number of attempts so far, 1 to 9.
        jitter: A random number from 0 to below 1.
    """
    delay = RETRY_SCHEDULE[attempts] - RETRY_SCHEDULE[attempts - 1]
    return delay * (1 + JITTER * (2 * jitter - 1))
