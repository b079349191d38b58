"""Lists of images: of an account, of an album, and the gallery of public images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import attrs
from attrs import Factory, field, frozen

from imagehost_core.db import ReadCache
from imagehost_core.db.lists.images import image_list_id
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import BadRequestError, ErrorCollector, NotFoundError, ValidationError, quote_value
from imagehost_core.ids import AccountId, AlbumId, album_not_found_text
from imagehost_core.lists import (
    GALLERY_PARAMETERS,
    LIST_PARAMETERS,
    ImageFilter,
    ImageListRequest,
    ImageSort,
    PageRequest,
    cursor_errors,
    parse_image_list,
    parse_page_request,
)
from imagehost_core.models import Account, Album, GalleryPage, Image, Page, PublicAlbum
from imagehost_core.services.references import AlbumRef, Owner, album_id_of, get_account

IMAGES_IN_MEMORY = 2_000
"""Images of all pages in memory, per process. Most are in memory anyway, as rows of the database."""


PageCache = ReadCache[tuple[AccountId | None, ImageListRequest | PageRequest], Page[Image]]
"""Pages by account and request; those of the gallery have no account."""


@frozen
class ImageLists:
    """The lists of a host's images."""

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
        self,
        *,
        owner: Owner,
        album_id: AlbumRef | None = None,
        filters: ImageFilter | None = None,
        sort: ImageSort = ImageSort.NEWEST,
        page: PageRequest | None = None,
    ) -> Page[Image]:
        """Return a page of an account's images.

        Args:
            owner: The account.
            album_id: Only images in this album.
            filters: Only images that meet these conditions.
            sort: The order of the images.
            page: By default the first 20 images.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
            BadRequestError: The cursor belongs to another list.
            UnavailableError: The database does not find the page in time.
        """
        request = ImageListRequest(filters=filters or ImageFilter(), sort=sort, page=page or PageRequest())
        return self._list(request, album_id, get_account(self._records.accounts, owner))

    def list_by_parameters(self, parameters: Iterable[tuple[str, str]], *, owner: Owner) -> Page[Image]:
        """Return the page of an account's images that query parameters request, for servers.

        Args:
            parameters: Names and values as text, as for `parse_image_list`.
            owner: The account.

        Raises:
            BadRequestError: Values are malformed, not allowed or repeated; every one is listed in `errors`.
            NotFoundError: There is no such account, or it has no such album.
            UnavailableError: The database does not find the page in time.
        """
        account = get_account(self._records.accounts, owner)
        request = _parse(parameters, LIST_PARAMETERS, lambda album: self._require_own_album(album, account))
        return self._list(request, request.album_id, account)

    def list_public(
        self, page: PageRequest | None = None, *, album_id: AlbumRef | None = None
    ) -> GalleryPage:
        """Return a page of the gallery, as `ImageHost.gallery` does."""
        page = page or PageRequest()
        if album_id is None:
            return _gallery_page(
                self._pages.get((None, page), lambda: self._records.image_lists.list_gallery(page))
            )
        public = self._get_public_album(album_id)
        listed = self._records.image_lists.list_public_in_album(public, page)
        return attrs.evolve(_gallery_page(listed), album=public)

    def list_public_by_parameters(self, parameters: Iterable[tuple[str, str]]) -> GalleryPage:
        """Return the page of the gallery that query parameters request, for servers.

        Args:
            parameters: Names and values as text: `page`, `per_page`, `cursor` and `album_id`.

        Raises:
            BadRequestError: Values are malformed or repeated; every one is listed in `errors`.
            NotFoundError: There is no such public album.
            UnavailableError: The database does not find the page in time.
        """
        request = _parse(parameters, GALLERY_PARAMETERS, self._get_public_album)
        return self.list_public(request.page, album_id=request.album_id)

    def iter(
        self,
        *,
        owner: Owner,
        album_id: AlbumRef | None = None,
        filters: ImageFilter | None = None,
        sort: ImageSort = ImageSort.NEWEST,
        page_size: int = 100,
    ) -> Iterator[Image]:
        """Yield all images of a list.

        Sorted by time, it has no gaps or repeats while others add, change or delete images.

        Args:
            owner: The account.
            album_id: Only images in this album.
            filters: Only images that meet these conditions.
            sort: The order of the images.
            page_size: Images read at a time, 1 to 100.

        Raises:
            NotFoundError: There is no such account, or it has no such album.
            UnavailableError: The database does not find a page in time.
        """
        cursor: str | None = None
        while True:
            request = parse_page_request(per_page=page_size, cursor=cursor)
            page = self.list(owner=owner, album_id=album_id, filters=filters, sort=sort, page=request)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def _list(self, request: ImageListRequest, album: AlbumRef | None, account: Account) -> Page[Image]:
        errors = ErrorCollector()
        if album is not None:
            with errors.catch():
                request = attrs.evolve(request, album_id=_album_id(album))
                self._require_own_album(album, account)
        wrong_cursor = cursor_errors(image_list_id(account.id, request), request.page)
        if wrong_cursor:
            errors.add(BadRequestError(errors=wrong_cursor))
        errors.raise_if_any()
        return self._pages.get(
            (account.id, request), lambda: self._records.image_lists.list_owned(account.id, request)
        )

    def _get_public_album(self, album: AlbumRef) -> PublicAlbum:
        """Return an album as the gallery shows it.

        Raises:
            NotFoundError: There is no such public album.
        """
        public = None
        with suppress(ValidationError):
            public = self._records.albums.get_public(album_id_of(album))
        if public is None:
            received = quote_value(album.id if isinstance(album, Album) else album)
            raise NotFoundError(f"expected the id of a public album but received {received}")
        return public

    def _require_own_album(self, album: AlbumRef, account: Account) -> None:
        """Raise NotFoundError unless an account has an album."""
        if self._records.albums.get(_album_id(album), account.id) is None:
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
