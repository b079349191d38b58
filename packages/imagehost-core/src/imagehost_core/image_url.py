"""The URL of an image after its prefix, and the signatures that grant access to one or permit to delete one.

A signature is an HMAC-SHA256 (RFC 2104) of the image's id, the canonical transform and the expiry time. It
covers the parsed transform, not its spelling, so it stays valid if query parameters are reordered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import parse_qsl

from attrs import evolve, frozen

from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text, parse_image_id
from imagehost_core.models import Image
from imagehost_core.transform import ACCESS_PARAMETERS, Transform, parse_extension, parse_transform

DEFAULT_LIFETIME_SECONDS = 3_600
"""The lifetime of a signed URL, unless another is given."""
MAX_LIFETIME_SECONDS = 365 * 86_400
"""The longest lifetime of a signed URL, in seconds."""

SIGNING_KEY_PREFIX = "ihsig_"
"""The beginning of signing keys as text, by which scanners for secrets find them."""

_EXPIRY = re.compile(r"[1-9][0-9]{0,11}", re.ASCII)


def signing_key(host_secret: bytes, account_secret: bytes) -> bytes:
    """Return the key that signs the URLs of an account's images, until its secret is renewed."""
    import hmac

    return hmac.digest(host_secret, account_secret, "sha256")


def url_signing_key(key: bytes) -> bytes:
    """Return the part of a signing key that its account may have: it signs URLs, but no deletion."""
    import hmac

    return hmac.digest(key, b"image URLs", "sha256")


def signing_key_text(key: bytes) -> str:
    """Return `url_signing_key` as text, from which programs sign URLs without the host."""
    from base64 import urlsafe_b64encode

    return SIGNING_KEY_PREFIX + urlsafe_b64encode(url_signing_key(key)).decode().rstrip("=")


def sign_url(key: bytes, image_id: str, transform: Transform, expires: int) -> str:
    """Return the value of `sig` for a delivery URL.

    Args:
        key: The signing key of the image's account.
        image_id: The image's id.
        transform: The transform that the URL requests.
        expires: The value of `exp`, a Unix timestamp.
    """
    fmt = transform.format.value if transform.format else ""
    return _sign(url_signing_key(key), f"{image_id}\n{transform.to_query()}\n{fmt}\n{expires}")


def sign_deletion(key: bytes, image_id: str, expires: int) -> str:
    """Return the value of `sig` for the URL that deletes an image; that of no delivery URL is the same.

    Args:
        key: The signing key of the image's account.
        image_id: The image's id.
        expires: The value of `exp`, a Unix timestamp.
    """
    return _sign(key, f"delete\n{image_id}\n{expires}")


def _sign(key: bytes, payload: str) -> str:
    # Imported here: loading OpenSSL would be a tenth of the import time of the package.
    import hmac
    from base64 import urlsafe_b64encode

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
    return _is_signed(query, now, lambda expires: sign_url(key, image_id, transform, expires))


def verify_signed_deletion(key: bytes, image_id: str, query: Mapping[str, str], now: datetime) -> bool:
    """Return whether a URL that deletes an image has a valid signature that has not expired, likewise."""
    return _is_signed(query, now, lambda expires: sign_deletion(key, image_id, expires))


def _is_signed(query: Mapping[str, str], now: datetime, sign: Callable[[int], str]) -> bool:
    from hmac import compare_digest

    expiry = query.get("exp", "")
    signature = query.get("sig", "")
    if _EXPIRY.fullmatch(expiry) is None or int(expiry) <= now.timestamp():
        return False
    expected = sign(int(expiry))
    return compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


@frozen
class ImageUrl:
    """What a URL requests, and the access that it claims.

    Attributes:
        image_id: The image.
        transform: The transform of the query, in the format of the extension if the query names none.
        is_bare: Whether the query has no transform, so that without an extension, or with that of the stored
            format, the URL is the master's.
        access: The values of `ACCESS_PARAMETERS` in the query, by name.
    """

    image_id: ImageId
    transform: Transform
    is_bare: bool
    access: Mapping[str, str]

    @property
    def has_signature(self) -> bool:
        """Whether the URL carries a signature, valid or not."""
        return "sig" in self.access

    def is_signed(self, image: Image, key: bytes | None, now: datetime) -> bool:
        """Return whether the URL carries a valid signature.

        The stored format is requested by a URL that names it, in its path or in `fm`, and by one that names
        none; a signature of either is valid for both.

        Args:
            image: The image of the URL.
            key: The signing key of its account; not needed without a signature.
            now: The current time.
        """
        if key is None or not self.has_signature:
            return False
        transforms = [self.transform]
        if self.transform.format is image.format:
            transforms.append(evolve(self.transform, format=None))
        return any(verify_signed_url(key, image.id, each, self.access, now) for each in transforms)


def parse_image_url(path: str, query: str) -> ImageUrl:
    """Return what a URL requests.

    Args:
        path: `<id>` or `<id>.<ext>`.
        query: The query string as received.

    Raises:
        NotFoundError: The path begins with no image id, or has an unknown extension.
        BadRequestError: A parameter is not allowed.
    """
    name, dot, extension = path.partition(".")
    try:
        image_id = parse_image_id(name)
    except NotFoundError:
        raise NotFoundError(delivery_not_found_text(path)) from None
    named = parse_extension(extension if dot else None)
    requested = parse_transform(query)
    return ImageUrl(
        image_id=image_id,
        transform=requested if requested.format else evolve(requested, format=named),
        is_bare=requested == Transform(),
        access={name: value for name, value in parse_qsl(query) if name in ACCESS_PARAMETERS},
    )
