"""The JSON shape of a page of a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from attrs import frozen
from msgspec import UNSET, UnsetType

from imagehost_core.models import Page
from imagehost_core.resources import AlbumRecord, ImageRecord, PublicAlbumRecord, PublicImageRecord
from imagehost_server.api.representations import (
    DeliveryRecord,
    KeyRecord,
    ManagedAccountRecord,
    SessionRecord,
    WebhookRecord,
)

T = TypeVar("T")

_POSITION = frozenset({"page", "per_page", "cursor"})
"""The query parameters that neither filter nor sort."""
_MAX_SHORT_PAGE_DIGITS = 2


@frozen(kw_only=True)
class Pagination:
    """The position of a page in its list, and the cursor of the next page.

    Attributes:
        page: The page number; null after a cursor.
        per_page: The maximum number of items of a page.
        total: The number of items of the whole list; null with `q`, `format` or dates.
        total_pages: The number of pages of the whole list; null if `total` is.
        next_cursor: The `cursor` of the next page; null on the last one.
    """

    page: int | None
    per_page: int
    total: int | None
    total_pages: int | None
    next_cursor: str | None


@frozen(kw_only=True)
class ImageList:
    """A page of an account's images.

    Attributes:
        images: The images of the page.
        pagination: The position of the page.
    """

    images: list[ImageRecord]
    pagination: Pagination


@frozen(kw_only=True)
class PublicImageList:
    """A page of public images, and the album that was named by `album_id`.

    Attributes:
        images: The images of the page.
        pagination: The position of the page.
        album: The album that `album_id` names; absent without one.
    """

    images: list[PublicImageRecord]
    pagination: Pagination
    album: PublicAlbumRecord | UnsetType = UNSET


@frozen(kw_only=True)
class AlbumList:
    """A page of an account's albums.

    Attributes:
        albums: The albums of the page.
        pagination: The position of the page.
    """

    albums: list[AlbumRecord]
    pagination: Pagination


@frozen(kw_only=True)
class KeyList:
    """A page of an account's API keys.

    Attributes:
        keys: The API keys of the page.
        pagination: The position of the page.
    """

    keys: list[KeyRecord]
    pagination: Pagination


@frozen(kw_only=True)
class SessionList:
    """A page of an account's sessions.

    Attributes:
        sessions: The sessions of the page.
        pagination: The position of the page.
    """

    sessions: list[SessionRecord]
    pagination: Pagination


@frozen(kw_only=True)
class AccountList:
    """A page of all accounts.

    Attributes:
        accounts: The accounts of the page.
        pagination: The position of the page.
    """

    accounts: list[ManagedAccountRecord]
    pagination: Pagination


@frozen(kw_only=True)
class WebhookList:
    """A page of an account's webhooks.

    Attributes:
        webhooks: The webhooks of the page.
        pagination: The position of the page.
    """

    webhooks: list[WebhookRecord]
    pagination: Pagination


@frozen(kw_only=True)
class DeliveryList:
    """A page of a webhook's deliveries.

    Attributes:
        deliveries: The deliveries of the page.
        pagination: The position of the page.
    """

    deliveries: list[DeliveryRecord]
    pagination: Pagination


def pagination(page: Page[T]) -> Pagination:
    """Return the position of a page."""
    return Pagination(
        page=page.page,
        per_page=page.per_page,
        total=page.total,
        total_pages=page.total_pages,
        next_cursor=page.next_cursor,
    )


def is_short_read(parameters: Iterable[tuple[str, str]]) -> bool:
    """Return whether the database reads a page in less than about a millisecond, however long the list is.

    That is a page after a cursor, or one of the first 99, of a list in its default order without filters.

    Args:
        parameters: The query parameters.
    """
    return all(
        name in _POSITION and (name != "page" or len(value) <= _MAX_SHORT_PAGE_DIGITS)
        for name, value in parameters
    )
