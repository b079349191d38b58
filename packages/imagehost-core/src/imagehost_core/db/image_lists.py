"""Pages of images: of an account, of an album and of the gallery, in the order of an index."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer
from imagehost_core.db.counters import GALLERY_IMAGES, TOTAL
from imagehost_core.db.database import Database, SqlRow, SqlValue
from imagehost_core.db.gallery import GALLERY
from imagehost_core.db.image_searches import find_page
from imagehost_core.db.image_words import search_values
from imagehost_core.db.images import to_image
from imagehost_core.db.list_buckets import (
    VERSION,
    BucketCache,
    Buckets,
    CountedList,
    ListKind,
    needs_buckets,
)
from imagehost_core.db.pagination import ItemList, Order, list_id, paginate
from imagehost_core.gallery import PublicAlbum
from imagehost_core.ids import AccountId
from imagehost_core.image_lists import ImageFilter, ImageListRequest, ImageSort
from imagehost_core.models import Image, Page
from imagehost_core.pagination import PageRequest


def image_list_id(account_id: AccountId, request: ImageListRequest) -> str:
    """Return the id of a list of an account's images, which its cursors contain."""
    filters = request.filters
    times = (filters.created_after, filters.created_before)
    return list_id(
        "images",
        account_id,
        request.album_id,
        filters.q,
        filters.is_public,
        filters.format,
        *(None if time is None else to_micros(time) for time in times),
        request.sort,
    )


@frozen
class ImageListRepository:
    """The lists of images in the database.

    Attributes:
        database: The database.
        timeout_seconds: The longest time for reading a page.
    """

    database: Database
    timeout_seconds: float
    _buckets: BucketCache = field(factory=BucketCache, repr=False, eq=False)

    def list_owned(self, account_id: AccountId, request: ImageListRequest) -> Page[Image]:
        """Return one page of an account's images, or of those in one of its albums.

        Raises:
            BadRequestError: The cursor belongs to another list.
            UnavailableError: Reading the page takes longer than the timeout.
        """
        filters, sort, page = request.filters, request.sort, request.page
        table, owner, owner_id = (
            ("accounts", "account_id", int(account_id))
            if request.album_id is None
            else ("albums", "album_id", int(request.album_id))
        )
        values = dict[str, SqlValue](owner=owner_id)
        ranges, conditions = [f"item.{owner} = :owner"], list[str]()
        for is_range, condition, name, value in _conditions(filters, sort, has_cursor=page.after is not None):
            (ranges if is_range else conditions).append(condition)
            values[name] = value
        total, buckets = None, None
        if filters.has_total:
            counted = _counted_list(account_id, request)
            count = {None: "image_count", True: "public_image_count"}.get(
                filters.is_public, "image_count - public_image_count"
            )
            total, buckets = self._total(
                f"SELECT {count} AS total{{version}} FROM {table} WHERE id = :id",  # noqa: S608
                {"id": owner_id},
                counted,
                page,
            )
        images = ItemList(
            id=image_list_id(account_id, request),
            table="images",
            where=" AND ".join(ranges),
            values=values,
            order=Order(sort.column, sort.is_descending),
            to_item=to_image,
            deadline=self._deadline(),
            buckets=buckets,
        )
        if filters.has_search:
            search = search_values(self.database.dialect, account_id, filters.q)
            return find_page(self.database, images, search, conditions, page)
        return paginate(
            self.database, attrs.evolve(images, where=" AND ".join((*ranges, *conditions))), page, total
        )

    def list_gallery(self, request: PageRequest) -> Page[Image]:
        """Return one page of the images that the gallery lists."""
        total, buckets = self._total(TOTAL, {"name": GALLERY_IMAGES}, GALLERY, request)
        images = ItemList(
            id=list_id("gallery"),
            table="gallery_images",
            to_item=to_image,
            select="SELECT * FROM images AS item",
            deadline=self._deadline(),
            buckets=buckets,
        )
        return paginate(self.database, images, request, total)

    def list_public_in_album(self, album: PublicAlbum, request: PageRequest) -> Page[Image]:
        """Return one page of the public images of a public album."""
        buckets = None
        if needs_buckets(request.offset):
            counted = CountedList(ListKind.PUBLIC_ALBUM, album.id)
            _, buckets = self._total("SELECT 0 AS total{version}", {}, counted, request)
        images = ItemList(
            id=list_id("gallery", album.id),
            table="images",
            where="item.album_id = :album AND item.is_public = 1",
            values={"album": album.id},
            to_item=to_image,
            deadline=self._deadline(),
            buckets=buckets,
        )
        return paginate(self.database, images, request, album.image_count)

    def _deadline(self) -> float:
        return monotonic() + self.timeout_seconds

    def _total(
        self, sql: str, values: SqlRow, counted: CountedList | None, request: PageRequest
    ) -> tuple[int, Buckets | None]:
        """Return the number of images of a list, and its buckets if a page needs and the list has them.

        Args:
            sql: The query for the column `total`, with a place for more columns.
            values: Its parameters.
            counted: The list, if it can have buckets.
            request: The page.
        """
        version = ""
        if counted is not None and needs_buckets(request.offset):
            version, values = f", {VERSION} AS version", values | counted.key
        row = self.database.fetch_one(sql.format(version=version), values)
        if row is None:
            return 0, None
        if counted is None or row.get("version") is None:
            return integer(row, "total"), None
        return integer(row, "total"), self._buckets.get(self.database, counted, integer(row, "version"))


def _counted_list(account_id: AccountId, request: ImageListRequest) -> CountedList | None:
    """Return the list with buckets of a request without filters in the order of time, or `None`."""
    if request.filters != ImageFilter() or request.sort.column != "created_at":
        return None
    if request.album_id is None:
        return CountedList(ListKind.ACCOUNT, account_id)
    return CountedList(ListKind.ALBUM, request.album_id)


def _conditions(
    filters: ImageFilter, sort: ImageSort, *, has_cursor: bool
) -> Iterator[tuple[bool, str, str, SqlValue]]:
    """Yield whether each filter is a range of the list's order, its condition, and its parameter and value.

    The search is not among them.
    """
    if filters.is_public is not None:
        yield False, "item.is_public = :is_public", "is_public", int(filters.is_public)
    if filters.format is not None:
        yield False, "item.format = :format", "format", filters.format.value
    bounds = (
        ("created_after", ">", filters.created_after, sort is ImageSort.OLDEST),
        ("created_before", "<", filters.created_before, sort is ImageSort.NEWEST),
    )
    for name, operator, bound, is_cursors_side in bounds:
        if bound is not None:
            # The index is entered at the cursor, which is nearer; in another order at no time at all.
            is_range = sort.column == "created_at" and not (has_cursor and is_cursors_side)
            plus = "" if is_range else "+"
            yield is_range, f"{plus}item.created_at {operator} :{name}", name, to_micros(bound)
