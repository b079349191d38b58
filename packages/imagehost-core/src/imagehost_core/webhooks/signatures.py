"""Signatures of webhook events, and the secrets that they are made with."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from hmac import new as hmac

from imagehost_core.ids import Random

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
