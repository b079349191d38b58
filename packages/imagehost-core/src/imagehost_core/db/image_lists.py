"""Pages of images: of an account, of an album and of the gallery, in the order of an index.

A search with few matches reads and sorts them. One with many matches goes through the images in the order of
the list, of which then a large part matches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic

from attrs import frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.columns import integer
from imagehost_core.db.database import Database, SqlValue
from imagehost_core.db.gallery import GALLERY, gallery_count
from imagehost_core.db.image_words import match_expression
from imagehost_core.db.images import to_image
from imagehost_core.db.list_buckets import CountedList, ListKind
from imagehost_core.db.pagination import ItemList, Order, list_id, paginate
from imagehost_core.gallery import PublicAlbum
from imagehost_core.ids import AccountId
from imagehost_core.image_lists import ImageFilter, ImageListRequest, ImageSort
from imagehost_core.models import Image, Page
from imagehost_core.pagination import PageRequest

FEW_MATCHES = 1_000
"""The largest number of matches of a search that are sorted."""
_MATCHES = "SELECT rowid FROM image_words WHERE image_words MATCH :words"


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

    def list_owned(self, account_id: AccountId, request: ImageListRequest) -> Page[Image]:
        """Return one page of an account's images, or of those in one of its albums.

        Raises:
            BadRequestError: The cursor belongs to another list.
            UnavailableError: Reading the page takes longer than the timeout.
        """
        filters, sort, page = request.filters, request.sort, request.page
        deadline = self._deadline()
        table, owner, owner_id = (
            ("accounts", "account_id", int(account_id))
            if request.album_id is None
            else ("albums", "album_id", int(request.album_id))
        )
        where, values = [f"item.{owner} = :owner"], dict[str, SqlValue](owner=owner_id)
        if filters.has_search:
            expression = match_expression(account_id, filters.q)
            matches = self._few_matches(expression, deadline)
            # A unary plus keeps a column out of the choice of an index.
            if matches is None:
                where.append(f"+item.number IN ({_MATCHES})")
                values["words"] = expression
            else:
                where = [f"+{where[0]}", "item.number IN (SELECT value FROM json_each(:numbers))"]
                values["numbers"] = json.dumps(matches)
        for condition, name, value in _conditions(filters, sort, has_cursor=page.after is not None):
            where.append(condition)
            values[name] = value
        images = ItemList(
            id=image_list_id(account_id, request),
            table="images",
            where=" AND ".join(where),
            values=values,
            order=Order(sort.column, sort.is_descending),
            to_item=to_image,
            deadline=deadline,
            counted=_counted_list(account_id, request),
        )
        total = self._total(table, owner_id, filters.is_public) if filters.has_total else None
        return paginate(self.database, images, page, total)

    def list_gallery(self, request: PageRequest) -> Page[Image]:
        """Return one page of the images that the gallery lists."""
        images = ItemList(
            id=list_id("gallery"),
            table="gallery_images",
            to_item=to_image,
            select="SELECT * FROM images AS item",
            deadline=self._deadline(),
            counted=GALLERY,
        )
        return paginate(self.database, images, request, gallery_count(self.database))

    def list_public_in_album(self, album: PublicAlbum, request: PageRequest) -> Page[Image]:
        """Return one page of the public images of a public album."""
        images = ItemList(
            id=list_id("gallery", album.id),
            table="images",
            where="item.album_id = :album AND item.is_public = 1",
            values={"album": album.id},
            to_item=to_image,
            deadline=self._deadline(),
            counted=CountedList(ListKind.PUBLIC_ALBUM, album.id),
        )
        return paginate(self.database, images, request, album.image_count)

    def _deadline(self) -> float:
        return monotonic() + self.timeout_seconds

    def _few_matches(self, expression: str | None, deadline: float) -> list[int] | None:
        """Return the matches of a search, or `None` if there are more than `FEW_MATCHES`."""
        if expression is None:
            return []
        rows = self.database.fetch_all(
            f"{_MATCHES} LIMIT :count",
            {"words": expression, "count": FEW_MATCHES + 1},
            deadline=deadline,
        )
        return None if len(rows) > FEW_MATCHES else [integer(row, "rowid") for row in rows]

    def _total(self, table: str, row_id: int, is_public: bool | None) -> int:
        """Return the number of images of an account or album, by its counters."""
        row = self.database.fetch_one(
            f"SELECT image_count, public_image_count FROM {table} WHERE id = :id",  # noqa: S608
            {"id": row_id},
        )
        if row is None:
            return 0
        images, public = integer(row, "image_count"), integer(row, "public_image_count")
        return {None: images, True: public, False: images - public}[is_public]


def _counted_list(account_id: AccountId, request: ImageListRequest) -> CountedList | None:
    """Return the list with buckets of a request without filters in the order of time, or `None`."""
    if request.filters != ImageFilter() or request.sort.column != "created_at":
        return None
    if request.album_id is None:
        return CountedList(ListKind.ACCOUNT, account_id)
    return CountedList(ListKind.ALBUM, request.album_id)


def _conditions(
    filters: ImageFilter, sort: ImageSort, *, has_cursor: bool
) -> Iterator[tuple[str, str, SqlValue]]:
    """Yield the condition of each filter, except for the search, with the name and value of its parameter."""
    if filters.is_public is not None:
        yield "item.is_public = :is_public", "is_public", int(filters.is_public)
    if filters.format is not None:
        yield "item.format = :format", "format", filters.format.value
    bounds = (
        ("created_after", ">", filters.created_after, sort is ImageSort.OLDEST),
        ("created_before", "<", filters.created_before, sort is ImageSort.NEWEST),
    )
    for name, operator, bound, is_cursors_side in bounds:
        if bound is not None:
            # The index is entered at the cursor, which is nearer; in another order at no time at all.
            is_entry = sort.column == "created_at" and not (has_cursor and is_cursors_side)
            plus = "" if is_entry else "+"
            yield f"{plus}item.created_at {operator} :{name}", name, to_micros(bound)
