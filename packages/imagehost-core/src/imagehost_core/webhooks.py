"""Webhook rules: fields, signatures and the retry schedule.

The rules are pure functions: the caller sends requests. `imagehost_core.endpoints` has those of their URLs.

```python
>>> from imagehost_core.webhooks import sign_webhook
>>> sign_webhook("whsec_c2VjcmV0", "msg_1", 1767225600, b"{}")
'v1,QGxpGbjRoL8txXelFWC4IEtME42gS+j6BV6K56kn8oo='

```
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import new as hmac

from attrs import evolve, frozen

from imagehost_core._util.fields import require_known
from imagehost_core.endpoints import HostResolver, parse_endpoint_url, require_public_addresses
from imagehost_core.errors import FieldError, ValidationError, quote_value
from imagehost_core.events import EVENT_TYPES
from imagehost_core.ids import AccountId, DeliveryId, Random, WebhookId
from imagehost_core.models import DeliveryState, WebhookDelivery
from imagehost_core.uploads import description_errors

# The retry schedule of webhook deliveries.
#
# A 2xx response is success, 410 disables the webhook, anything else is retried. After the last attempt
# the webhook is disabled. These functions decide and send nothing.

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
    updated = evolve(
        delivery,
        attempts=count,
        next_attempt_at=None,
        last_attempt_at=attempt.at,
        last_status=attempt.status,
        last_duration_ms=attempt.duration_ms,
        last_response=attempt.response[:RESPONSE_EXCERPT_BYTES],
    )
    if attempt.succeeded:
        return NextStep(evolve(updated, state=DeliveryState.DELIVERED))
    failed = evolve(updated, state=DeliveryState.FAILED)
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


WEBHOOK_SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
WEBHOOK_SECRET_BYTES = 32


def new_webhook_secret(random: Random) -> str:
    """Return a random signing secret: `whsec_` and the base64 of 32 random bytes."""
    return WEBHOOK_SECRET_PREFIX + b64encode(random(WEBHOOK_SECRET_BYTES)).decode()


def sign_webhook(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return a signature for the header `webhook-signature`.

    It is `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`.

    Args:
        secret: The webhook's signing secret, with its prefix.
        event_id: The value of `webhook-id`.
        timestamp: The value of `webhook-timestamp`: the time of the attempt, as a Unix timestamp.
        body: The request body.
    """
    key = b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX))
    payload = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac(key, payload, sha256).digest()).decode()


# Which due deliveries a sender attempts next: its attempts in progress are shared between accounts.
#
# An account with fewer attempts in progress comes first, and within it a webhook with fewer. One account
# has at most a quarter of a sender's attempts, two have a fifth each, and so on: an account starts
# another only while three times its attempts are fewer than those that are free (a dynamic threshold,
# Choudhury and Hahne, 1998). So another account's event finds a free one, however long the endpoints of
# these take to respond.

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
        return FREE_SHARE * self.count_of(account_id) < self.free

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


def validate_webhook(
    changes: Mapping[str, object], resolve: HostResolver, *, allow_loopback: bool
) -> dict[str, object]:
    """Return a webhook's fields in their stored form.

    Args:
        changes: The fields that are set.
        resolve: The resolver of host names.
        allow_loopback: Whether the endpoint may be on loopback.

    Raises:
        ValidationError: Values are not allowed; every one is listed in `errors`.
        TypeError: There is no such field.
    """
    require_known(changes, _VALIDATORS)
    values = dict(changes)
    errors = list[FieldError]()
    for name, validate in _VALIDATORS.items():
        if name in values:
            errors.extend(validate(values[name]))
    url = values.get("url")
    if isinstance(url, str):
        errors.extend(_endpoint_errors(url, resolve, allow_loopback))
    if errors:
        raise ValidationError(errors=errors)
    if "events" in values:
        values["events"] = tuple(dict.fromkeys(values["events"]))  # type: ignore[call-overload]
    return values


def _endpoint_errors(url: str, resolve: HostResolver, allow_loopback: bool) -> Iterable[FieldError]:
    try:
        endpoint = parse_endpoint_url(url, allow_loopback=allow_loopback)
    except ValidationError as error:
        return error.errors
    try:
        # A name that does not resolve yet is accepted; its IP addresses are checked at each attempt.
        require_public_addresses(resolve(endpoint.host, endpoint.port), allow_loopback=allow_loopback)
    except ValidationError:
        # The error does not disclose the IP addresses of names in the host's own network.
        expected = "an https URL whose host name resolves to public IP addresses only"
        return [FieldError("url", expected, quote_value(url))]
    return ()


def _url_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, str):
        yield FieldError("url", "an https URL", quote_value(value))


def _events_errors(value: object) -> Iterable[FieldError]:
    allowed = ", ".join(EVENT_TYPES)
    if not isinstance(value, tuple | list):
        yield FieldError("events", f"a list of some of {allowed}", quote_value(value))
        return
    unknown = [event_type for event_type in value if event_type not in EVENT_TYPES]
    if unknown:
        yield FieldError("events", f"some of {allowed}", ", ".join(map(quote_value, unknown)))


def _active_errors(value: object) -> Iterable[FieldError]:
    if not isinstance(value, bool):
        yield FieldError("is_active", "true or false", quote_value(value))


_VALIDATORS: dict[str, Callable[[object], Iterable[FieldError]]] = {
    "url": _url_errors,
    "events": _events_errors,
    "description": description_errors,
    "is_active": _active_errors,
}
