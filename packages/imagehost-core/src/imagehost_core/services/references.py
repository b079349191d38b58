"""References: an id, or a record that carries it, wherever a method names an image, album, key or so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.errors import FieldError, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import (
    ID_LENGTH,
    AlbumId,
    ImageId,
    KeyId,
    SessionId,
    WebhookId,
    parse_album_id,
    parse_image_id,
)
from imagehost_core.models import (
    Account,
    Album,
    ApiKey,
    Image,
    Session,
    SessionWithToken,
    Webhook,
    WebhookDelivery,
)

Owner = Account | str
"""An account, or its name."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,63}", re.ASCII)


def account_name_errors(name: object) -> tuple[FieldError, ...]:
    """Return an error unless `name` can be the name of an account.

    A name has 1 to 64 ASCII letters, digits and characters of `._@+-`; names that differ in their case only
    are one.
    """
    if isinstance(name, str) and _NAME.fullmatch(name) is not None:
        return ()
    expected = "1 to 64 letters, digits or ._@+-, beginning with a letter or digit,"
    return (FieldError("name", expected, quote_value(name)),)


def get_account(accounts: AccountRepository, owner: Owner) -> Account:
    """Return the account of an owner.

    Raises:
        NotFoundError: There is no account of that name.
    """
    account = owner if isinstance(owner, Account) else accounts.get_by_name(owner)
    if account is None:
        raise NotFoundError(f"expected the name of an account but received {quote_value(owner)}")
    return account


AccountRef = Account | int | str
"""An account, its id (an integer) or its name (text)."""
ImageRef = Image | str
"""An image, its id, its file name such as `<id>.webp` in URLs, or any of its URLs."""
AlbumRef = Album | int | str
"""An album, or its id: a positive integer or its decimal string."""
KeyRef = ApiKey | str
"""An API key, or its id."""
SessionRef = Session | SessionWithToken | str
"""A session, or its id."""
WebhookRef = Webhook | str
"""A webhook, or its id."""
DeliveryRef = WebhookDelivery | str
"""A webhook delivery, or its id."""


def image_id_of(image: ImageRef) -> ImageId:
    """Return the id of an image.

    Raises:
        NotFoundError: The text is not an image id.
    """
    return ImageId(image.id) if isinstance(image, Image) else parse_image_id(id_in(image))


_FILE_NAME = re.compile(r"([0-9A-Za-z]{16})\.[0-9A-Za-z]+", re.ASCII)
_SEGMENT = re.compile(r"/([0-9A-Za-z]{16})(?:\.[0-9A-Za-z]+)?(?=/|$)", re.ASCII)


def id_in(text: str) -> str:
    """Return the image id in a URL or a file name; any other value is returned as it is."""
    value: object = text
    if not isinstance(value, str) or len(text) == ID_LENGTH:
        return text
    if text.lower().startswith(("http://", "https://")):
        ids = _SEGMENT.findall(urlsplit(text).path)
        return str(ids[-1]) if ids else text
    name = _FILE_NAME.fullmatch(text)
    return name[1] if name else text


def album_id_of(album: AlbumRef) -> AlbumId:
    """Return the id of an album.

    Raises:
        ValidationError: The value is not an album id.
    """
    return album.id if isinstance(album, Album) else parse_album_id(album)


def key_id_of(key: KeyRef) -> KeyId:
    """Return the id of an API key."""
    return key.id if isinstance(key, ApiKey) else KeyId(key)


def session_id_of(session: SessionRef) -> SessionId:
    """Return the id of a session."""
    return session.id if isinstance(session, Session | SessionWithToken) else SessionId(session)


def webhook_id_of(webhook: WebhookRef) -> WebhookId:
    """Return the id of a webhook."""
    return webhook.id if isinstance(webhook, Webhook) else WebhookId(webhook)


def parse_image_ids(images: Iterable[ImageRef], maximum: int) -> tuple[str, ...]:
    """Return the distinct ids of images, in order; an id need not be that of an image.

    Args:
        images: From 1 to `maximum` images.
        maximum: The largest number, duplicates included.

    Raises:
        ValidationError: There are none or too many, or one is no image and no text; every one is named.
    """
    if isinstance(images, str | Mapping) or not isinstance(images, Iterable):
        raise ValidationError.of("image_ids", "a list of image ids", quote_value(images))
    ids: list[object] = [image.id if isinstance(image, Image) else id_in(image) for image in images]
    if not 1 <= len(ids) <= maximum:
        raise ValidationError.of("image_ids", f"1 to {maximum} ids", f"{len(ids)}")
    errors = [
        FieldError(f"image_ids[{index}]", "an image id", quote_value(image_id))
        for index, image_id in enumerate(ids)
        if not isinstance(image_id, str)
    ]
    if errors:
        raise ValidationError(errors=errors)
    return tuple(dict.fromkeys(map(str, ids)))
