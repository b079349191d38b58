"""Identifiers of resources: generation and parsing.

An image id is 16 characters of base62: 62¹⁶ ≈ 2⁹⁵·²⁷, so at least 95 random bits. Such ids need no
coordination between processes or machines and cannot be guessed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NewType, TypeGuard, TypeVar

from imagehost_core._util.fields import parse_positive_int
from imagehost_core.errors import NotFoundError, ValidationError, quote_value

T = TypeVar("T")

ImageId = NewType("ImageId", str)
"""16 characters of `0-9A-Za-z`."""
AlbumId = NewType("AlbumId", int)
"""A positive integer."""
AccountId = NewType("AccountId", int)
"""A positive integer; only operators see it."""
KeyId = NewType("KeyId", str)
"""16 characters of `0-9A-Za-z`."""
SessionId = NewType("SessionId", str)
"""16 characters of `0-9A-Za-z`."""
WebhookId = NewType("WebhookId", str)
"""16 characters of `0-9A-Za-z`."""
ShareId = NewType("ShareId", str)
"""16 characters of `0-9A-Za-z`; image URLs of a shared album have it, so it cannot be guessed."""
DeliveryId = NewType("DeliveryId", str)
"""16 characters of `0-9A-Za-z`."""
EventId = NewType("EventId", str)
"""`msg_` and 24 characters of `0-9A-Za-z`; the `webhook-id` of each delivery of the event."""

Random = Callable[[int], bytes]
"""A function that returns a number of unpredictable bytes; `os.urandom` outside of tests."""

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of base62, in ASCII order."""

ID_LENGTH = 16
MAX_ALBUM_ID = MAX_ACCOUNT_ID = 2**63 - 1
"""The largest integer that both SQLite and PostgreSQL store in a column."""

_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)


def base62(length: int, random: Random = os.urandom) -> str:
    """Return uniformly distributed characters of `ALPHABET`.

    Bytes of 248 and above are rejected (248 = 4 × 62), so that every character is equally likely.

    Args:
        length: The number of characters, each worth log2(62) ≈ 5.954 bits.
        random: The source of unpredictable bytes.
    """
    text = ""
    while len(text) < length:
        text += "".join(ALPHABET[byte % 62] for byte in random(length) if byte < 248)
    return text[:length]


def new_image_id(random: Random = os.urandom) -> ImageId:
    """Return a random image id."""
    return ImageId(base62(ID_LENGTH, random))


def new_id(kind: Callable[[str], T], random: Random = os.urandom) -> T:
    """Return a random id of a key, a session, a webhook or another kind that is named by its type."""
    return kind(base62(ID_LENGTH, random))


def new_event_id(random: Random = os.urandom) -> EventId:
    """Return a random event id."""
    return EventId("msg_" + base62(24, random))


def is_image_id(value: object) -> TypeGuard[ImageId]:
    """Return whether a value has the form of an image id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def parse_image_id(text: str) -> ImageId:
    """Return a text as an image id.

    Raises:
        NotFoundError: The text does not have the form of an id. The error is that of an unknown id, so
            that the form of ids is not disclosed.
    """
    if not is_image_id(text):
        raise NotFoundError(image_not_found_text(text))
    return text


def parse_album_id(value: int | str) -> AlbumId:
    """Return an integer or its canonical decimal text as an album id.

    Raises:
        ValidationError: The value is neither, or not from 1 to `MAX_ALBUM_ID`.
    """
    number = parse_positive_int(value, MAX_ALBUM_ID)
    if number is None:
        raise ValidationError.of("album_id", "a positive integer", quote_value(value))
    return AlbumId(number)


def parse_account_id(text: str) -> AccountId:
    """Return canonical decimal text as an account id.

    Raises:
        NotFoundError: It is no integer from 1 to `MAX_ACCOUNT_ID`.
    """
    number = parse_positive_int(text, MAX_ACCOUNT_ID)
    if number is None:
        raise NotFoundError(f"expected the id of an account but received {quote_value(text)}")
    return AccountId(number)


def image_not_found_text(image_id: str) -> str:
    """Return the details of a `NotFoundError` for an image, the same for a missing and a foreign one."""
    return f"expected the id of one of your images but received {quote_value(image_id)}"


def delivery_not_found_text(image_id: str) -> str:
    """Return the details of a `NotFoundError` for a delivery URL, for a missing and a private image alike."""
    return f"expected the URL of an image that you may see but received {quote_value(image_id)}"


def album_not_found_text(album_id: int | str) -> str:
    """Return the details of a `NotFoundError` for an album, the same for a missing and a foreign one."""
    return f"expected the id of one of your albums but received {quote_value(album_id)}"
