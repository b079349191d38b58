"""Signatures of delivery URLs, which grant access to an image for a limited time.

The signature is an HMAC-SHA256 (RFC 2104) of the image's id, the canonical transform and the expiry time.
It covers the parsed transform, not its spelling, so it stays valid if query parameters are reordered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from imagehost_core.transform.parameters import Transform

DEFAULT_LIFETIME_SECONDS = 3_600
"""The lifetime of a signed URL, unless another is given."""
MAX_LIFETIME_SECONDS = 365 * 86_400
"""The longest lifetime of a signed URL, in seconds."""

_EXPIRY = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)


def signing_key(host_secret: bytes, account_secret: bytes) -> bytes:
    """Return the key that signs the URLs of an account's images, until its secret is renewed."""
    import hmac

    return hmac.digest(host_secret, account_secret, "sha256")


def sign_url(key: bytes, image_id: str, transform: Transform, expires: int) -> str:
    """Return the value of `sig` for a delivery URL.

    Args:
        key: The signing key of the image's account.
        image_id: The image's id.
        transform: The transform that the URL requests.
        expires: The value of `exp`, a Unix timestamp.
    """
    # Imported here: loading OpenSSL would be a tenth of the import time of the package.
    import hmac
    from base64 import urlsafe_b64encode

    fmt = transform.format.value if transform.format else ""
    payload = f"{image_id}\n{transform.to_query()}\n{fmt}\n{expires}"
    return urlsafe_b64encode(hmac.digest(key, payload.encode(), "sha256")).decode().rstrip("=")


def verify_signed_url(
    key: bytes, image_id: str, transform: Transform, query: Mapping[str, str], now: datetime
) -> bool:
    """Return whether a delivery URL has a valid signature that has not expired.

    Args:
        key: The signing key of the image's account.
        image_id: The image's id.
        transform: The transform that the URL requests.
        query: The URL's query parameters, including `exp` and `sig`.
        now: The current time.
    """
    from hmac import compare_digest

    expiry, signature = query.get("exp", ""), query.get("sig", "")
    if _EXPIRY.fullmatch(expiry) is None or int(expiry) <= now.timestamp():
        return False
    expected = sign_url(key, image_id, transform, int(expiry))
    return compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
