"""Signatures: of delivery addresses, and of what is sent to webhook destinations.

A signed address lets whoever holds it see a picture for a while.
The signature is HMAC-SHA256 (RFC 2104) over the image's id, the canonical request and the expiry.
Because it covers what is *meant* and not how it was spelled, it survives a reordered query.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac

from imagehost_core.ids import Random
from imagehost_core.transform import Transform

MAX_LIFETIME_SECONDS = 365 * 86_400
"""The longest life of a signed address, in seconds."""

_EXPIRY = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)


def sign_url(secret: bytes, image_id: str, transform: Transform, expires: int) -> str:
    """Return the value of `sig` for a delivery address.

    Args:
        secret: The host's signing secret.
        image_id: Whose image.
        transform: What the address asks for.
        expires: The value of `exp`: a Unix timestamp.
    """
    named = transform.format.value if transform.format else ""
    meant = f"{image_id}\n{transform.to_query()}\n{named}\n{expires}"
    return urlsafe_b64encode(hmac(secret, meant.encode(), sha256).digest()).decode().rstrip("=")


def verify_signed_url(
    secret: bytes, image_id: str, transform: Transform, query: Mapping[str, str], now: datetime
) -> bool:
    """Return whether a delivery address carries a signature that holds at this moment.

    Args:
        secret: The host's signing secret.
        image_id: Whose image.
        transform: What the address asks for.
        query: The parameters of the address, of which `exp` and `sig` matter.
        now: The present moment.
    """
    expiry, given = query.get("exp", ""), query.get("sig", "")
    if _EXPIRY.fullmatch(expiry) is None or int(expiry) <= now.timestamp():
        return False
    right = sign_url(secret, image_id, transform, int(expiry))
    return compare_digest(right.encode(), given.encode("utf-8", "replace"))


WEBHOOK_SECRET_PREFIX = "whsec_"  # noqa: S105 - it marks a secret and is none
WEBHOOK_SECRET_BYTES = 32


def new_webhook_secret(random: Random) -> str:
    """Return a new secret: `whsec_` and the base64 of 32 random bytes (contract 10)."""
    return WEBHOOK_SECRET_PREFIX + b64encode(random(WEBHOOK_SECRET_BYTES)).decode()


def sign_webhook(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return one value of `webhook-signature`, after Standard Webhooks 1.0.0.

    It is `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.

    Args:
        secret: As it was shown, with its prefix.
        event_id: The value of `webhook-id`.
        timestamp: The value of `webhook-timestamp`: when the attempt is made, as a Unix timestamp.
        body: What is sent.
    """
    key = b64decode(secret.removeprefix(WEBHOOK_SECRET_PREFIX))
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac(key, signed, sha256).digest()).decode()
