"""Verification and parsing of received webhooks.

Deliveries are signed according to Standard Webhooks 1.0.0: HMAC-SHA256 of `id.timestamp.body`
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from attrs import field, frozen

from imagehost_client import _wire
from imagehost_client._retry import parse_timestamp
from imagehost_client.errors import ConfigurationError, ServerError, WebhookVerificationError
from imagehost_client.models import Album, EventKind, Image

TOLERANCE = timedelta(minutes=5)
"""The maximum difference between a delivery's timestamp and the current time, against replays."""

PREFIX = "whsec_"
ID, TIME, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@frozen(kw_only=True)
class DeletedImage:
    """What the event of a deletion says of the image."""

    id: str
    album_id: int | None = None
    deleted_at: datetime


@frozen(kw_only=True)
class Event:
    """The base class of events.

    Attributes:
        id: The event's id, equal in all delivery attempts; use it to discard duplicates.
        timestamp: The time of the event.
    """

    id: str
    kind: EventKind | str
    timestamp: datetime


@frozen(kw_only=True)
class ImageUploaded(Event):
    """An image was uploaded."""

    data: Image


@frozen(kw_only=True)
class ImageDeleted(Event):
    """An image was deleted."""

    data: DeletedImage


@frozen(kw_only=True)
class AlbumCreated(Event):
    """An album was created."""

    data: Album


@frozen(kw_only=True)
class AlbumUpdated(Event):
    """An album, or the set of its images, was changed."""

    data: Album


@frozen(kw_only=True)
class UnknownEvent(Event):
    """An event of a kind that is unknown to this version; respond with 2xx nevertheless."""

    data: Mapping[str, object] = field(factory=dict)


KINDS: dict[str, tuple[type[ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated], type[object]]] = {
    EventKind.IMAGE_UPLOADED: (ImageUploaded, Image),
    EventKind.IMAGE_DELETED: (ImageDeleted, DeletedImage),
    EventKind.ALBUM_CREATED: (AlbumCreated, Album),
    EventKind.ALBUM_UPDATED: (AlbumUpdated, Album),
}
"""The classes of events and of their data, by kind."""

AnyEvent = ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated | UnknownEvent


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> None:
    """Verify the signature and the timestamp of a delivery.

    Args:
        body: The raw body of the request.
        headers: The headers of the request; names are case-insensitive.
        secret: The webhook's secret (`whsec_…`), or several during a rotation.
        tolerance: The maximum difference between the timestamp and the current time.
        now: The current time.

    Raises:
        WebhookVerificationError: A header is missing, the timestamp is outside the tolerance, or no
            signature matches.
        ConfigurationError: The secret is malformed, or there is none: an error of the receiver, not of the
            delivery.
        TypeError: The secret is no string.
    """
    keys = _parse_secrets(secret)
    lowered = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIME, SIGNATURE) if not lowered.get(name)]
    if missing:
        raise WebhookVerificationError(f"expected a header {missing[0]} but received none")
    timestamp = parse_timestamp(lowered[TIME])
    if timestamp is None or abs(timestamp - (now or datetime.now(UTC))) > tolerance:
        raise WebhookVerificationError(
            f"expected a time at most {int(tolerance.total_seconds())} s from now for {TIME} "
            f"but received {lowered[TIME][:40]!r}"
        )
    content = body.encode() if isinstance(body, str) else body
    signed_content = f"{lowered[ID]}.{lowered[TIME].strip()}.".encode() + content
    expected = [_sign(signed_content, key) for key in keys]
    received = [text for text in lowered[SIGNATURE].split() if text.startswith("v1,")]
    matches = [hmac.compare_digest(a.encode(), b.encode()) for a in expected for b in received]
    if not any(matches):
        raise WebhookVerificationError("expected the signature of this body but received another")


def unwrap(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> AnyEvent:
    """Verify a delivery, and return its event.

    Args:
        body: The raw body of the request.
        headers: The headers of the request; names are case-insensitive.
        secret: The webhook's secret (`whsec_…`), or several during a rotation.
        tolerance: The maximum difference between the timestamp and the current time.
        now: The current time.

    Raises:
        WebhookVerificationError: The verification failed, or the body is not an event.
        ConfigurationError: The secret is malformed, or there is none.
        TypeError: The secret is no string.
    """
    verify(body, headers, secret, tolerance=tolerance, now=now)
    event_id = next(value for name, value in headers.items() if name.lower() == ID)
    try:
        event = _parse_event(event_id, json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, ServerError):
        event = None
    if event is None:
        raise WebhookVerificationError(
            "expected an object with type, timestamp and data but received other JSON"
        )
    return event


def sign(content: bytes, secret: str) -> str:
    """Return the signature of `content`: `v1,` and the HMAC in base64.

    Args:
        content: The signed content.
        secret: A secret: `whsec_` and base64.

    Raises:
        ConfigurationError: The secret is malformed.
        TypeError: The secret is no string.
    """
    return _sign(content, _parse_secret(secret))


def _sign(content: bytes, key: bytes) -> str:
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def _parse_secrets(secret: str | Iterable[str]) -> list[bytes]:
    """Return the keys of one or several secrets.

    Raises:
        ConfigurationError: There is no secret, or one is malformed.
        TypeError: A secret is no string.
    """
    keys = [_parse_secret(text) for text in ([secret] if isinstance(secret, str) else secret)]
    if not keys:
        raise ConfigurationError("expected a secret for secret but received none")
    return keys


def _parse_secret(secret: str) -> bytes:
    if not isinstance(secret, str):
        raise TypeError(f"expected a string for secret but received {type(secret).__name__}")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ConfigurationError("expected whsec_ and base64 for secret but received another string")
    return key


def _parse_event(event_id: str, body: Mapping[str, object]) -> AnyEvent:
    kind = str(body["type"])
    time = _wire.decode(datetime, body["timestamp"])
    data = body["data"]
    if kind in KINDS:
        event, record = KINDS[kind]
        return event(id=event_id, kind=EventKind(kind), timestamp=time, data=_wire.decode(record, data))  # type: ignore[arg-type]
    return UnknownEvent(id=event_id, kind=kind, timestamp=time, data=data if isinstance(data, dict) else {})
