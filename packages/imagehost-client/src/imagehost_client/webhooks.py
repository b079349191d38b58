"""Webhooks that arrive: is this delivery the host's, and what does it say?

Deliveries are signed as Standard Webhooks 1.0.0 say: HMAC-SHA256 over `id.timestamp.body`
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from attrs import field, frozen

from imagehost_client import _wire
from imagehost_client._retry import timestamp
from imagehost_client.errors import ServerError, WebhookVerificationError
from imagehost_client.models import Album, EventKind, Image

TOLERANCE = timedelta(minutes=5)
"""How far a delivery's time may be from now; an older one may be a replay."""

PREFIX = "whsec_"
ID, TIME, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@frozen(kw_only=True)
class DeletedImage:
    """What is left to say of an image that was deleted."""

    id: str
    album_id: int | None = None
    deleted_at: datetime


@frozen(kw_only=True)
class Event:
    """Something that happened; each kind has a class of its own.

    Attributes:
        id: The same in every attempt of the delivery: handle each id once.
        kind: What happened.
        timestamp: When.
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
    """An album was made."""

    data: Album


@frozen(kw_only=True)
class AlbumUpdated(Event):
    """An album, or what belongs to it, was changed."""

    data: Album


@frozen(kw_only=True)
class UnknownEvent(Event):
    """An event of a kind that this version does not know; answer it with 2xx all the same."""

    data: Mapping[str, object] = field(factory=dict)


KINDS: dict[str, tuple[type[ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated], type[object]]] = {
    EventKind.IMAGE_UPLOADED: (ImageUploaded, Image),
    EventKind.IMAGE_DELETED: (ImageDeleted, DeletedImage),
    EventKind.ALBUM_CREATED: (AlbumCreated, Album),
    EventKind.ALBUM_UPDATED: (AlbumUpdated, Album),
}
"""The class of each kind of event, and of its data."""

AnyEvent = ImageUploaded | ImageDeleted | AlbumCreated | AlbumUpdated | UnknownEvent


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> None:
    """Check that a delivery comes from the host, unchanged and just now.

    Args:
        body: The request's body as it came, not parsed and written again.
        headers: The request's headers; the case of names does not matter.
        secret: The destination's secret (`whsec_…`); several while one is being replaced.
        tolerance: How far the delivery's time may be from now.
        now: The present time.

    Raises:
        WebhookVerificationError: A header is missing, the time is off, or no signature fits.
    """
    known = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIME, SIGNATURE) if not known.get(name)]
    if missing:
        raise WebhookVerificationError(f"expected a header {missing[0]} but received none")
    moment = timestamp(known[TIME])
    if moment is None or abs(moment - (now or datetime.now(UTC))) > tolerance:
        raise WebhookVerificationError(
            f"expected a time at most {int(tolerance.total_seconds())} s from now for {TIME} "
            f"but received {known[TIME][:40]!r}"
        )
    secrets = [secret] if isinstance(secret, str) else list(secret)
    content = body.encode() if isinstance(body, str) else body
    signed = f"{known[ID]}.{known[TIME].strip()}.".encode() + content
    right = [sign(signed, one) for one in secrets]
    given = [text for text in known[SIGNATURE].split() if text.startswith("v1,")]
    matches = [hmac.compare_digest(ours.encode(), theirs.encode()) for ours in right for theirs in given]
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
    """Check a delivery, and return the event in it.

    Args:
        body: The request's body as it came.
        headers: The request's headers.
        secret: The destination's secret; several while one is being replaced.
        tolerance: How far the delivery's time may be from now.
        now: The present time.

    Raises:
        WebhookVerificationError: It is not the host's, or no event.
    """
    verify(body, headers, secret, tolerance=tolerance, now=now)
    number = next(value for name, value in headers.items() if name.lower() == ID)
    try:
        event = _event(number, json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, ServerError):
        event = None
    if event is None:
        raise WebhookVerificationError(
            "expected an object with type, timestamp and data but received other JSON"
        )
    return event


def sign(content: bytes, secret: str) -> str:
    """Return the signature of `content` under a secret: `v1,` and the HMAC in base64.

    Raises:
        WebhookVerificationError: The secret is not `whsec_` and base64.
    """
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise WebhookVerificationError("expected whsec_ and base64 for secret but received another text")
    return "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


def _event(number: str, body: Mapping[str, object]) -> AnyEvent:
    kind, moment, data = str(body["type"]), _wire.decode(datetime, body["timestamp"]), body["data"]
    if kind in KINDS:
        event, record = KINDS[kind]
        return event(id=number, kind=EventKind(kind), timestamp=moment, data=_wire.decode(record, data))  # type: ignore[arg-type]
    return UnknownEvent(id=number, kind=kind, timestamp=moment, data=data if isinstance(data, dict) else {})
