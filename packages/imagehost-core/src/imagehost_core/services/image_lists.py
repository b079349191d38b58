"""Lists of images: of an account, of an album, and the gallery of public images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Unpack

import attrs
from attrs import Factory, field, frozen

from imagehost_core.db.engines.database import ReadCache
from imagehost_core.db.lists.images import image_list_id
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import BadRequestError, ErrorCollector, NotFoundError, quote_value
from imagehost_core.ids import AccountId, AlbumId, album_not_found_text, parse_album_id
from imagehost_core.lists import (
    MAX_PER_PAGE,
    ImageListKeywords,
    ImageListRequest,
    PageKeywords,
    cursor_errors,
    new_image_list_request,
)
from imagehost_core.models import Account, Album, Image, Page, PublicAlbum
from imagehost_core.services.references import AlbumRef, Owner, get_account

IMAGES_IN_MEMORY = 2_000
"""Images of all pages in memory, per process. Most are in memory anyway, as rows of the database."""


PageCache = ReadCache[tuple[AccountId | None, ImageListRequest], Page[Image]]
"""Pages by account and request; those of the gallery have no account."""


@frozen
class ImageLists:
    """Lists the images of an account or of the gallery, filtered, ordered and in pages."""

    _records: Repositories = field(repr=False)
    _pages: PageCache = field(
        init=False,
        repr=False,
        default=Factory(
            lambda self: ReadCache(self._records.database, IMAGES_IN_MEMORY, lambda page: 1 + len(page)),
            takes_self=True,
        ),
    )

    def list(
        self, *, owner: Owner, album_id: AlbumRef | None = None, **keywords: Unpack[ImageListKeywords]
    ) -> Page[Image]:
        """Return a page of an account's images, by default the newest 20.

        Args:
            owner: The account.
            album_id: Only images in this album.
            keywords: Conditions, order and page, as in the HTTP interface: those of `ImageListKeywords`.

        Raises:
            BadRequestError: Values are not allowed, every one is listed in `errors`, or the cursor belongs to
                another list.
            NotFoundError: There is no such account, or it has no such album.
            UnavailableError: The database does not find the page in time.
        """
        account = get_account(self._records.accounts, owner)
        return self._list(
            _parse(album_id, keywords, lambda album: self._require_own_album(album, account)), account
        )

    def list_public(
        self, *, album_id: AlbumRef | None = None, q: str | None = None, **page: Unpack[PageKeywords]
    ) -> Page[Image]:
        """Return a page of the gallery, as `ImageHost.gallery` does."""
        request = _parse(album_id, {"q": q, **page}, self._get_public_album)
        lists, q = self._records.image_lists, request.filters.q
        if request.album_id is None:
            return self._pages.get((None, request), lambda: lists.list_gallery(request.page, q))
        public = self._get_public_album(request.album_id)
        listed = lists.list_public_in_album(public, request.page, q)
        return attrs.evolve(listed, album=public)

    def iter(
        self, *, owner: Owner, album_id: AlbumRef | None = None, **keywords: Unpack[ImageListKeywords]
    ) -> Iterator[Image]:
        """Yield all images of a list, from its first page or a given one on, by default 100 read at a time.

        Sorted by time, it has no gaps or repeats while others add, change or delete images.

        Args:
            owner: The account.
            album_id: Only images in this album.
            keywords: As for `list`.

        Raises:
            ImageHostError: As for `list`.
        """
        keywords.setdefault("per_page", MAX_PER_PAGE)
        while True:
            page = self.list(owner=owner, album_id=album_id, **keywords)
            yield from page
            if page.next_cursor is None:
                return
            keywords |= {"page": None, "cursor": page.next_cursor}

    def _list(self, request: ImageListRequest, account: Account) -> Page[Image]:
        errors = ErrorCollector()
        if request.album_id is not None:
            with errors.catch():
                self._require_own_album(request.album_id, account)
        wrong_cursor = cursor_errors(image_list_id(account.id, request), request.page)
        if wrong_cursor:
            errors.add(BadRequestError(errors=wrong_cursor))
        errors.raise_if_any()
        return self._pages.get(
            (account.id, request), lambda: self._records.image_lists.list_owned(account.id, request)
        )

    def _get_public_album(self, album_id: AlbumId) -> PublicAlbum:
        """Return an album as the gallery shows it; raise NotFoundError unless it is public."""
        public = self._records.albums.get_public(album_id)
        if public is None:
            raise NotFoundError(f"expected the id of a public album but received {quote_value(album_id)}")
        return public

    def _require_own_album(self, album_id: AlbumId, account: Account) -> None:
        """Raise NotFoundError unless an account has an album."""
        if self._records.albums.get(album_id, account.id) is None:
            raise NotFoundError(album_not_found_text(album_id))


def _parse(
    album: AlbumRef | None, keywords: Mapping[str, Any], require_album: Callable[[AlbumId], object]
) -> ImageListRequest:
    """Return the request of keywords.

    Raises:
        BadRequestError: Values are not allowed. If there is no such album either, the error says that too.
    """
    album_id = album.id if isinstance(album, Album) else album
    try:
        return new_image_list_request(album_id, **keywords)
    except BadRequestError as error:
        errors = ErrorCollector()
        errors.add(error)
        if album_id is not None and all(field.name != "album_id" for field in error.errors):
            with errors.catch():
                require_album(parse_album_id(album_id))
        errors.raise_if_any()
        raise
