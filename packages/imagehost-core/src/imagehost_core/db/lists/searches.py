"""Pages of images with all words of a search.

The first images of the list are read one by one, which fills the page if the words are frequent; and a short
list, also that of a rare format, is read to its end, however many matches others have. Then the index of
words is read.

FTS5 returns matches in the order of their numbers, which is that of the seconds of `created_at`: the newest
matches first are read without the others. But it merges the matches of every word with the searched beginning
before it returns the first one: 26 ms for 500,000. In any other order, and in PostgreSQL, all matches are
sorted, until the deadline. PostgreSQL cannot choose by itself: it takes every beginning of a word for
frequent, and then reads the whole list for a word that no image has, 1.4 s for 300,000.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs

from imagehost_core.db.engines.database import Database, SqlRow, integer, text
from imagehost_core.db.image_rows import first_number, last_number
from imagehost_core.db.lists.pages import (
    CheckedRows,
    ItemList,
    after_cursor,
    count_items,
    paginate,
    read_items,
    to_page,
)
from imagehost_core.db.lists.word_index import WordSearch
from imagehost_core.lists import FILTER_RULES, PageRequest
from imagehost_core.models import Image, Page

SHORT_LIST = 5_000
"""Images of the longest list that is read to its end."""
READ_FIRST = 10
"""Images of a longer list that are read first, for each image of the page and of those before it."""
MAX_READ_FIRST = 1_000
"""The most images that are read first in SQLite."""
MIN_READ_FIRST = 2_000
"""The fewest images that are read first in PostgreSQL."""
_COLUMNS = tuple(
    {"id", "number"} | {rule.condition.partition(" ")[0] for rule in FILTER_RULES.values()} - {""}
)


def find_page(
    database: Database,
    images: ItemList[Image],
    search: WordSearch | None,
    conditions: Sequence[str],
    length: int | None,
    request: PageRequest,
) -> Page[Image]:
    """Return a page of the images of a list that match a search.

    Args:
        database: The database.
        images: The list, only with the conditions that select a range in its order.
        search: The search; `None`: nothing matches.
        conditions: The other conditions, with parameters that `images` has.
        length: The number of images of the list, or of a longer one with it; `None`: unknown.
        request: The page.

    Raises:
        BadRequestError: The cursor belongs to another list.
        UnavailableError: Finding the page takes longer than until the deadline of the list.
    """
    if search is None:
        return paginate(database, attrs.evolve(images, where="false"), request, None)
    images = attrs.evolve(images, values={**images.values, **search.values})
    needed = request.offset + request.per_page + 1
    has_fts5, is_gallery = database.dialect.has_fts5, images.table == "gallery_images"
    image = "image" if is_gallery else "item"
    table, where = "image_words CROSS JOIN images", search.indexed
    if not has_fts5:
        # OFFSET 0 lets PostgreSQL begin with the index of words, and read no image that does not match.
        table = (
            f"(SELECT rowid FROM image_words WHERE {search.indexed} OFFSET 0) AS image_words CROSS JOIN "  # noqa: S608
            "LATERAL (SELECT * FROM images WHERE number = image_words.rowid OFFSET 0)"
        )
        where = "true"
    number, columns = "item.number", _COLUMNS
    if is_gallery:
        table += " AS image CROSS JOIN gallery_images"
        where += " AND (item.created_at, item.id) = (image.created_at, image.id)"
        number, columns = "(SELECT number FROM images WHERE id = item.id)", ("created_at", "id")
    matches = attrs.evolve(
        images,
        table=table,
        select="SELECT * FROM images AS item",
        where=" AND ".join((f"{image}.number = image_words.rowid", where, images.where, *conditions)),
    )
    has_words = f"(SELECT {search.by_text} FROM image_words WHERE rowid = {number})"  # noqa: S608
    if length is None:
        length = count_items(database, images, SHORT_LIST + 1)
    is_short = length <= SHORT_LIST
    # A short list may have grown since it was counted.
    first = READ_FIRST * needed
    first = min(first, MAX_READ_FIRST) if has_fts5 else max(first, MIN_READ_FIRST)
    limit = 2 * SHORT_LIST if is_short else first
    checked = CheckedRows(columns, " AND ".join((*conditions, has_words)), limit)
    page = paginate(database, attrs.evolve(images, checked=checked), request, None)
    if is_short or page.next_cursor is not None:
        return page
    if images.order.column == "created_at" and has_fts5:
        return _find_by_number(database, matches, request, needed)
    return paginate(database, matches, request, None)


def _find_by_number(
    database: Database, matches: ItemList[Image], request: PageRequest, needed: int
) -> Page[Image]:
    """Return a page of matches in the order of time, which are read by their numbers.

    The numbers of one second have no order, so the matches of each second are read completely, and sorted.
    """
    after, values = after_cursor(matches, request)
    is_descending = matches.order.descending
    cursor = [integer(values, "after_key")] if "after_key" in values else []
    after_times = [integer(values, name) for name in ("created_after",) if name in values]
    before_times = [integer(values, name) for name in ("created_before",) if name in values]
    (before_times if is_descending else after_times).extend(cursor)
    values["first"] = first_number(max(after_times, default=-(2**63)))
    values["last"] = last_number(min(before_times, default=2**63))
    sql = (
        f"SELECT item.id, item.created_at FROM {matches.table} AS item WHERE {matches.where}{after} "  # noqa: S608
        "AND image_words.rowid BETWEEN :first AND :last "
        f"ORDER BY image_words.rowid {'DESC' if is_descending else 'ASC'} LIMIT :limit"
    )
    limit = needed + needed // 8 + 20
    while True:
        found = database.fetch_all(sql, {**values, "limit": limit}, deadline=matches.deadline)
        is_end = len(found) < limit
        complete = found if is_end else [row for row in found if _second(row) != _second(found[-1])]
        if is_end or len(complete) >= needed:
            break
        limit *= 4
    complete.sort(key=lambda row: (integer(row, "created_at"), text(row, "id")), reverse=is_descending)
    chosen = complete[request.offset : request.offset + request.per_page]
    ids = {"ids": json.dumps([row["id"] for row in chosen])}
    rows = read_items(database, matches, database.dialect.texts("ids"), ids)
    return to_page(matches, request, rows, None, chosen[-1] if len(complete) >= needed else None)


def _second(row: SqlRow) -> int:
    return first_number(integer(row, "created_at"))
