"""Lists of images: of an account, of an album, and the gallery of public images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import attrs
from attrs import field, frozen

from imagehost_core.db import AccountRepository, AlbumRepository, Database, ImageListRepository
from imagehost_core.db.lists.images import image_list_id
from imagehost_core.errors import BadRequestError, ErrorCollector, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import AccountId, AlbumId, album_not_found_text
from imagehost_core.lists import (
    GALLERY_PARAMETERS,
    PARAMETERS,
    ImageListRequest,
    PageRequest,
    cursor_errors,
    parse_image_list,
)
from imagehost_core.models import Account, Album, GalleryPage, Image, Page, PublicAlbum
from imagehost_core.services.read_cache import ReadCache
from imagehost_core.services.references import AlbumRef, Owner, album_id_of, get_account

IMAGES_IN_MEMORY = 2_000
"""Images of all pages in memory, per process. Most are in memory anyway, as rows of the database."""


PageCache = ReadCache[tuple[AccountId | None, ImageListRequest | PageRequest], Page[Image]]
"""Pages by account and request; those of the gallery have no account."""


def page_cache(database: Database) -> PageCache:
    """Return an empty cache of pages."""
    return ReadCache(database, IMAGES_IN_MEMORY, lambda page: 1 + len(page))


@frozen
class ImageLists:
    """The lists of a host's images."""

    _lists: ImageListRepository = field(repr=False)
    _albums: AlbumRepository = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _pages: PageCache = field(repr=False)

    def list(self, request: ImageListRequest, album: AlbumRef | None, owner: Owner) -> Page[Image]:
        """Return a page of an account's images, or of those in one of its albums.

        Args:
            request: Filters, order and page.
            album: The album.
            owner: The account.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
            BadRequestError: The cursor belongs to another list.
            UnavailableError: The database does not find the page in time.
        """
        account, errors = get_account(self._accounts, owner), ErrorCollector()
        if album is not None:
            with errors.catch():
                request = attrs.evolve(request, album_id=_album_id(album))
                self._require_own_album(album, account)
        wrong_cursor = cursor_errors(image_list_id(account.id, request), request.page)
        if wrong_cursor:
            errors.add(BadRequestError(errors=wrong_cursor))
        errors.raise_if_any()
        return self._pages.get((account.id, request), lambda: self._lists.list_owned(account.id, request))

    def list_by_parameters(self, parameters: Iterable[tuple[str, str]], owner: Owner) -> Page[Image]:
        """Return the page that query parameters request; all their errors are reported together."""
        account = get_account(self._accounts, owner)
        request = _parse(parameters, PARAMETERS, lambda album: self._require_own_album(album, account))
        return self.list(request, request.album_id, account)

    def list_public_by_parameters(self, parameters: Iterable[tuple[str, str]]) -> GalleryPage:
        """Return the page of the gallery that query parameters request, likewise."""
        request = _parse(parameters, GALLERY_PARAMETERS, self._get_public_album)
        return self.list_public(request.page, request.album_id)

    def list_public(self, page: PageRequest, album: AlbumRef | None) -> GalleryPage:
        """Return a page of the gallery, or of a public album.

        Raises:
            NotFoundError: There is no such public album.
            BadRequestError: The cursor belongs to another list.
            UnavailableError: The database does not find the page in time.
        """
        if album is None:
            return _gallery_page(self._pages.get((None, page), lambda: self._lists.list_gallery(page)))
        public = self._get_public_album(album)
        listed = self._lists.list_public_in_album(public, page)
        return attrs.evolve(_gallery_page(listed), album=public)

    def _get_public_album(self, album: AlbumRef) -> PublicAlbum:
        """Return an album as the gallery shows it.

        Raises:
            NotFoundError: There is no such public album.
        """
        public = None
        with suppress(ValidationError):
            public = self._albums.get_public(album_id_of(album))
        if public is None:
            received = quote_value(album.id if isinstance(album, Album) else album)
            raise NotFoundError(f"expected the id of a public album but received {received}")
        return public

    def _require_own_album(self, album: AlbumRef, account: Account) -> None:
        """Raise NotFoundError unless an account has an album."""
        if self._albums.get(_album_id(album), account.id) is None:
            raise _not_found(album)


def _parse(
    parameters: Iterable[tuple[str, str]], names: Iterable[str], require_album: Callable[[str], object]
) -> ImageListRequest:
    """Return the request of query parameters.

    Raises:
        BadRequestError: Values are malformed, not allowed or repeated. If there is no such album either, the
            error says that too.
    """
    parameters = tuple(parameters)
    try:
        return parse_image_list(parameters, names)
    except BadRequestError as error:
        errors = ErrorCollector()
        errors.add(error)
        albums = [value for name, value in parameters if name == "album_id"]
        if albums and all(field.name != "album_id" for field in error.errors):
            with errors.catch():
                require_album(albums[0])
        errors.raise_if_any()
        raise


def _album_id(album: AlbumRef) -> AlbumId:
    """Return the id of an album.

    Raises:
        NotFoundError: The value is not an album id.
    """
    try:
        return album_id_of(album)
    except ValidationError:
        raise _not_found(album) from None


def _not_found(album: AlbumRef) -> NotFoundError:
    return NotFoundError(album_not_found_text(album.id if isinstance(album, Album) else album))


def _gallery_page(page: Page[Image]) -> GalleryPage:
    return GalleryPage(page.items, page.page, page.per_page, page.total, page.next_cursor)
