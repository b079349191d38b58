"""Identifiers: how they are made, and how text becomes one.

An image id is 16 characters of base62: 62¹⁶ ≈ 2⁹⁵·²⁷, so at least 95 random bits. Being that
random it needs no coordination between processes or machines, and cannot be guessed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NewType

from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value

ImageId = NewType("ImageId", str)
"""16 characters of `0-9A-Za-z`."""
AlbumId = NewType("AlbumId", int)
"""A positive integer."""
AccountId = NewType("AccountId", int)
"""A positive integer; never shown outside."""
KeyId = NewType("KeyId", str)
"""16 characters of `0-9A-Za-z`."""
WebhookId = NewType("WebhookId", str)
"""16 characters of `0-9A-Za-z`."""
DeliveryId = NewType("DeliveryId", str)
"""16 characters of `0-9A-Za-z`."""
EventId = NewType("EventId", str)
"""`msg_` and 24 characters of `0-9A-Za-z`; the `webhook-id` of each delivery of the event."""

Random = Callable[[int], bytes]
"""A function that returns that many unpredictable bytes; `os.urandom`, but for tests."""

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The digits of base62, in ASCII order."""

ID_LENGTH = 16
MAX_ALBUM_ID = 2**63 - 1
"""The largest integer that both SQLite and PostgreSQL store in a column."""

_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}", re.ASCII)
_INTEGER = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)


def base62(length: int, random: Random = os.urandom) -> str:
    """Return `length` characters drawn evenly from `ALPHABET`.

    Bytes of 248 and above are thrown away (248 = 4 × 62), which keeps every character equally likely.

    Args:
        length: How many characters, each worth log2(62) ≈ 5.954 bits.
        random: The source of unpredictable bytes.
    """
    text = ""
    while len(text) < length:
        text += "".join(ALPHABET[byte % 62] for byte in random(length) if byte < 248)
    return text[:length]


def new_image_id(random: Random = os.urandom) -> ImageId:
    """Return an image id that nothing else has."""
    return ImageId(base62(ID_LENGTH, random))


def new_key_id(random: Random = os.urandom) -> KeyId:
    """Return a key id that nothing else has."""
    return KeyId(base62(ID_LENGTH, random))


def new_webhook_id(random: Random = os.urandom) -> WebhookId:
    """Return a webhook id that nothing else has."""
    return WebhookId(base62(ID_LENGTH, random))


def new_delivery_id(random: Random = os.urandom) -> DeliveryId:
    """Return a delivery id that nothing else has."""
    return DeliveryId(base62(ID_LENGTH, random))


def new_event_id(random: Random = os.urandom) -> EventId:
    """Return an event id that nothing else has."""
    return EventId("msg_" + base62(24, random))


def parse_image_id(text: str) -> ImageId:
    """Return `text` as an image id.

    Raises:
        NotFoundError: It has not the shape of one, so no image can have it. The answer is the same
            as for an id that nobody has: the shape of ids is nothing to learn from.
    """
    if _ID.fullmatch(text) is None:
        raise NotFoundError(image_not_found_text(text))
    return ImageId(text)


def parse_album_id(value: int | str) -> AlbumId:
    """Return `value`, an integer or its canonical decimal text, as an album id.

    Contract 3: *wherever an album id comes in, an integer or its decimal string is taken*.

    Raises:
        ValidationError: It is neither.
    """
    number = int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value
    if type(number) is int and 1 <= number <= MAX_ALBUM_ID:
        return AlbumId(number)
    raise ValidationError(errors=[FieldError("album_id", "a positive integer", quote_value(value))])


def image_not_found_text(image_id: str) -> str:
    """Return the details of a `NotFoundError` for an image, the same for missing and foreign ones."""
    return f"expected the id of an image of yours but received {quote_value(image_id)}"


def delivery_not_found_text(image_id: str) -> str:
    """Return the details of a `NotFoundError` for a delivery address, the same for missing and private ones.

    Args:
        image_id: Of the image. Whoever asks need be nobody, and own nothing.
    """
    return f"expected the address of an image that you may see but received {quote_value(image_id)}"


def album_not_found_text(album_id: int | str) -> str:
    """Return the details of a `NotFoundError` for an album, the same for missing and foreign ones."""
    return f"expected the id of an album of yours but received {quote_value(album_id)}"
