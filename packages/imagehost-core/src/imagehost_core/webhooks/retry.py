"""What is to be done with a webhook delivery after each attempt: decides, and sends nothing.

Contract 10: *attempts at 0, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h with jitter; only 2xx
is success; 410 disables; after the last attempt the endpoint is disabled with a reason*.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve, frozen

from imagehost_core.models import DeliveryState, WebhookDelivery

RETRY_SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
"""When each attempt is due, counted from the first."""
JITTER = 0.1
"""By what share of itself a wait is made longer or shorter, so that what failed together does not come
back together."""
RESPONSE_EXCERPT_BYTES = 500
"""How much of an answer is kept, in bytes."""
GONE = 410


@frozen(kw_only=True)
class Attempt:
    """What came of one attempt.

    Attributes:
        at: When it was begun.
        status: The HTTP status of the answer, or `None` where there was none.
        duration_ms: How long it took, in milliseconds.
        answer: The first bytes of the answer as text, or why there was none.
    """

    at: datetime
    status: int | None
    duration_ms: int
    response: str

    @property
    def succeeded(self) -> bool:
        """Whether the destination has taken the event."""
        return self.status is not None and 200 <= self.status < 300


@frozen
class NextStep:
    """What follows from an attempt.

    Attributes:
        delivery: As it stands now.
        disable: Why nothing more is to be sent to the destination, or `None`.
    """

    delivery: WebhookDelivery
    disable: str | None = None


def after_attempt(
    delivery: WebhookDelivery, attempt: Attempt, jitter: float, *, is_active: bool = True
) -> NextStep:
    """Return what follows from an attempt.

    Args:
        delivery: As it stood before.
        attempt: What came of it.
        jitter: A random number from 0 to below 1, for the jitter.
        is_active: Whether the destination is sent events; one that is not is tried by hand only.
    """
    count = delivery.attempts + 1
    tried = evolve(
        delivery,
        attempts=count,
        next_attempt_at=None,
        last_attempt_at=attempt.at,
        last_status=attempt.status,
        last_duration_ms=attempt.duration_ms,
        last_response=attempt.response[:RESPONSE_EXCERPT_BYTES],
    )
    if attempt.succeeded:
        return NextStep(evolve(tried, state=DeliveryState.DELIVERED))
    failed = evolve(tried, state=DeliveryState.FAILED)
    if not is_active:
        return NextStep(failed)
    if attempt.status == GONE:
        return NextStep(failed, "the destination answered 410 Gone")
    if count == len(RETRY_SCHEDULE):
        said = "did not answer" if attempt.status is None else f"answered {attempt.status}"
        return NextStep(failed, f"{count} attempts failed; at the last the destination {said}")
    if count > len(RETRY_SCHEDULE):
        return NextStep(failed)  # one that was retried by hand, after all attempts
    return NextStep(evolve(tried, next_attempt_at=attempt.at + retry_delay(count, jitter)))


def retry_delay(attempts: int, jitter: float) -> timedelta:
    """Return how long to wait after so many attempts.

    Args:
        attempts: How many were made, 1 to 9.
        jitter: A random number from 0 to below 1.
    """
    whole = RETRY_SCHEDULE[attempts] - RETRY_SCHEDULE[attempts - 1]
    return whole * (1 + JITTER * (2 * jitter - 1))
