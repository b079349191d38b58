"""References to records: arguments that accept a record or its id."""

from __future__ import annotations

from imagehost_client.models import (
    Album,
    ApiKey,
    Image,
    ManagedAccount,
    PublicImage,
    Session,
    Webhook,
    WebhookDelivery,
)
from imagehost_client.urls import parse_image_id

ImageRef = str | Image | PublicImage
"""An image, its id, or any of its URLs."""
AlbumRef = int | str | Album
"""An album, or its id."""
KeyRef = str | ApiKey
"""An API key, or its id."""
SessionRef = str | Session
"""A session, or its id."""
AccountRef = int | str | ManagedAccount
"""An account, or its id."""
WebhookRef = str | Webhook
"""A webhook, or its id."""
DeliveryRef = str | WebhookDelivery
"""A webhook delivery, or its id."""


def album_id_of(album: AlbumRef) -> str:
    """Return the id of an album in decimal, given as the album, an integer or a decimal string.

    Raises:
        ValueError: The id is not a positive integer.
    """
    return _decimal("album_id", album.id if isinstance(album, Album) else album)


def account_id_of(account: AccountRef) -> str:
    """Return the id of an account in decimal, given as the account, an integer or a decimal string.

    Raises:
        ValueError: The id is not a positive integer.
    """
    return _decimal("account", account.id if isinstance(account, ManagedAccount) else account)


def _decimal(name: str, number: int | str) -> str:
    if not isinstance(number, (int, str)):
        raise TypeError(f"expected a positive integer for {name} but received {number!r}")
    text = str(number)
    if isinstance(number, bool) or not (text.isascii() and text.isdecimal()) or text[0] == "0":
        raise ValueError(f"expected a positive integer for {name} but received {text!r}")
    return text


def image_id_of(image: ImageRef) -> str:
    """Return the id of an image, given as the image, its id, or any of its URLs.

    Raises:
        TypeError: The argument is neither an image nor a string.
        ValueError: The string is empty, or a URL without an image id in its path.
    """
    if isinstance(image, Image | PublicImage):
        return image.id
    if not isinstance(image, str):
        raise TypeError(f"expected an image, its id or its URL for image but received {image!r}")
    if not image:
        raise ValueError("expected an id or a URL for image but received an empty string")
    return parse_image_id(image)


def id_of(record: KeyRef | SessionRef | WebhookRef | DeliveryRef) -> str:
    """Return the id of a record, given as the record or its id.

    Raises:
        TypeError: The argument is neither a record nor a string.
    """
    if isinstance(record, ApiKey | Session | Webhook | WebhookDelivery):
        return record.id
    if not isinstance(record, str):
        raise TypeError(f"expected a record or its id but received {record!r}")
    return record
