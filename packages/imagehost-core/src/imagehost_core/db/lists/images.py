"""Pages of images: of an account, of an album and of the gallery, in the order of an index."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import attrs
from attrs import frozen

from imagehost_core.db.counters import GALLERY_IMAGES, total
from imagehost_core.db.engines.database import Database, SqlRow, integer
from imagehost_core.db.engines.dialect import Dialect
from imagehost_core.db.image_rows import to_image
from imagehost_core.db.lists.pages import ItemList, Order, list_id, paginate
from imagehost_core.db.lists.searches import SHORT_LIST, find_page
from imagehost_core.db.lists.word_index import PUBLIC, parse_search
from imagehost_core.ids import AccountId
from imagehost_core.lists import FILTER_RULES, ImageListRequest, PageRequest
from imagehost_core.models import NO_URLS, Image, Page, PublicAlbum, UrlBuilder

_UPLOADED = (
    "item.number IN (SELECT number FROM images WHERE account_id = :account AND upload_sha256 = :sha256)"
)
_COUNTS = ("image_count", "public_image_count")


def image_list_id(account_id: AccountId, request: ImageListRequest) -> str:
    """Return the id of a list of an account's images, which its cursors contain."""
    filters = (value for filter_ in request.filters.given.items() for value in filter_)
    return list_id("images", account_id, request.album_id, request.sort, *filters)


@frozen
class ImageListRepository:
    """The lists of images in the database.

    Attributes:
        database: The database.
        timeout_seconds: The longest time for reading a page.
        urls: The builder of the images' URLs.
    """

    database: Database
    timeout_seconds: float
    urls: UrlBuilder = NO_URLS

    def list_owned(self, account_id: AccountId, request: ImageListRequest) -> Page[Image]:
        """Return one page of an account's images, or of those in one of its albums.

        Raises:
            BadRequestError: The cursor belongs to another list.
            UnavailableError: Reading the page takes longer than the timeout.
        """
        table, owner, owner_id = (
            ("accounts", "account_id", int(account_id))
            if request.album_id is None
            else ("albums", "album_id", int(request.album_id))
        )
        filters, sort, page = request.filters, request.sort, request.page
        counted = self.database.fetch_one(
            f"SELECT {', '.join(_COUNTS)} FROM {table} WHERE id = :id",  # noqa: S608 - constants
            {"id": owner_id},
        )
        images, public = (0 if counted is None else integer(counted, name) for name in _COUNTS)
        length = {None: images, True: public, False: images - public}[filters.is_public]
        is_rare = filters.is_public is not None and length <= SHORT_LIST
        ranges, conditions = [f"item.{owner} = :owner"], list[str]()
        if filters.sha256 is not None:
            # The few images of an upload are sorted: the unary plus keeps out the indexes of all images.
            ranges = [f"+{ranges[0]}", _UPLOADED]
        for is_range, condition in _conditions(request, is_rare, self.database.dialect):
            (ranges if is_range else conditions).append(condition)
        items = ItemList(
            id=image_list_id(account_id, request),
            table="images",
            where=" AND ".join(ranges),
            values={**filters.given, "owner": owner_id, "account": int(account_id)},
            order=Order(sort.column, sort.is_descending),
            to_item=self._to_image,
            deadline=self._deadline(),
        )
        if not length:
            # Otherwise all images, or all matches of a search, would be read.
            conditions.append("false")
        if filters.has_search:
            search = parse_search(self.database.dialect, account_id, filters.q)
            known = length if is_rare else images if len(ranges) == 1 else None
            return find_page(self.database, items, search, conditions, known, page)
        return paginate(
            self.database,
            attrs.evolve(items, where=" AND ".join((*ranges, *conditions))),
            page,
            length if filters.has_total else None,
        )

    def list_gallery(self, request: PageRequest, q: str = "") -> Page[Image]:
        """Return one page of the images that the gallery lists, or of those with all words of a text."""
        images = ItemList(
            id=list_id("gallery"),
            table="gallery_images",
            to_item=self._to_image,
            select="SELECT * FROM images AS item",
            deadline=self._deadline(),
        )
        return self._list_public(images, q, total(self.database, GALLERY_IMAGES), request)

    def list_public_in_album(self, album: PublicAlbum, request: PageRequest, q: str = "") -> Page[Image]:
        """Return one page of the public images of a public album, likewise."""
        images = ItemList(
            id=list_id("gallery", album.id),
            table="images",
            where="item.album_id = :album AND item.is_public = 1",
            values={"album": album.id},
            to_item=self._to_image,
            deadline=self._deadline(),
        )
        return self._list_public(images, q, album.image_count, request)

    def _list_public(self, images: ItemList[Image], q: str, length: int, request: PageRequest) -> Page[Image]:
        if not q.strip():
            return paginate(self.database, images, request, length)
        found = attrs.evolve(images, id=list_id(images.id, q))
        return find_page(
            self.database, found, parse_search(self.database.dialect, PUBLIC, q), (), length, request
        )

    def _to_image(self, row: SqlRow) -> Image:
        return to_image(row, self.urls)

    def _deadline(self) -> float:
        return monotonic() + self.timeout_seconds


def _conditions(request: ImageListRequest, is_rare: bool, dialect: Dialect) -> Iterator[tuple[bool, str]]:
    """Yield whether each filter selects a range of an index in the order of the list, and its condition.

    The search and the uploaded bytes are not among them.

    Args:
        request: The page, with its filters.
        is_rare: Whether few of the images are public or private, as the filter selects.
        dialect: The SQL of the engine.
    """
    has_others = request.filters.format is not None or request.filters.has_search
    indexed = "is_public" if is_rare or not has_others else "format"
    for name in request.filters.given:
        column, _, operator = FILTER_RULES[name].condition.partition(" ")
        if not column:
            continue
        is_range = operator != "=" and request.sort.column == column
        if is_range and request.page.after is not None:
            # The index is entered at the cursor, which is nearer than a bound on the same side.
            is_range = (operator == "<") != request.sort.is_descending
        # An index has the images of each format of an account in the order of time, and one the private ones.
        has_index = column == indexed and request.sort.column == "created_at" and request.album_id is None
        expression = f"item.{column}"
        if not is_range and not has_index:
            # A unary plus keeps the column out of the choice of an index.
            expression = dialect.unindexed(expression) if operator == "=" else f"+{expression}"
        yield is_range or has_index, f"{expression} {operator} :{name}"
