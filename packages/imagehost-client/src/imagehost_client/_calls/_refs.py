"""How records are named in calls: by themselves, or by their ids."""

from __future__ import annotations

from imagehost_client.models import Album, ApiKey, Image, PublicImage, Webhook, WebhookDelivery

ImageRef = str | Image | PublicImage
"""An image, or its id."""
AlbumRef = int | str | Album
"""An album, or its id."""
KeyRef = str | ApiKey
WebhookRef = str | Webhook
DeliveryRef = str | WebhookDelivery


def image_id(image: ImageRef) -> str:
    """Return the id of an image that is given by itself or its id."""
    return image if isinstance(image, str) else image.id


def album_id_of(album: AlbumRef) -> str:
    """Return the digits of an album's id, given as the album, an integer or its decimal text.

    Raises:
        ValueError: It is no positive integer.
    """
    text = str(album.id if isinstance(album, Album) else album)
    if isinstance(album, bool) or not (text.isascii() and text.isdecimal()) or text[0] == "0":
        raise ValueError(f"expected a positive integer for album_id but received {text!r}")
    return text


def id_of(record: str | ApiKey | Webhook | WebhookDelivery) -> str:
    """Return the id of a key, a webhook or a delivery that is given by itself or its id."""
    return record if isinstance(record, str) else record.id
