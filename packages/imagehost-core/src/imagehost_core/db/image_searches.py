"""Pages of images with all words of a search, found in the way that costs least.

1. The first images of the list are checked one by one, which fills a page if many match.
2. Few matches are found by the index of words, and sorted.
3. More images of the list are checked. The index with the order of the list also has the Bloom filters of
   `imagehost_core.db.word_bits`, so an image without the words costs one step in this index.
4. What remains are lists in which nearly all matches come late: up to `MANY_MATCHES` are sorted, and if there
   are more, the list is checked to its end.

In the order of time, step 4 comes before step 3 if the numbers of the matches that step 2 found are less than
`FIRST_CHECKED` apart on average, as those of one old event are: matches that are as frequent in the whole
list would have filled the page in step 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from attrs import frozen

from imagehost_core.db.columns import integer
from imagehost_core.db.database import Database, SqlRow, SqlValue
from imagehost_core.db.image_words import matches_image, matching_numbers
from imagehost_core.db.pagination import CheckedRows, ItemList, paginate
from imagehost_core.models import Image, Page
from imagehost_core.pagination import PageRequest

FIRST_CHECKED = 100
"""Images that are checked first, for each image of the page and of those before it."""
MORE_CHECKED = 1_000
"""Images that are checked in the third step, for each image of the page and of those before it."""
MIN_MORE_CHECKED = 50_000
"""Images that are checked in the third step at least."""
FEW_MATCHES = 1_000
"""The largest number of matches that are sorted before more than the first images are checked."""
MANY_MATCHES = 20_000
"""The largest number of matches that are sorted."""
_CHECKED_COLUMNS = ("id", "created_at", "is_public", "format", "word_bits")


@frozen
class _Matches:
    """Matches that the index of words has found, up to a number of them.

    Attributes:
        count: Their number.
        numbers: The numbers of the images as a JSON array.
        span: The difference of the largest and the smallest of these numbers.
    """

    count: int
    numbers: SqlValue
    span: int


def find_page(
    database: Database,
    images: ItemList[Image],
    search: SqlRow | None,
    conditions: Sequence[str],
    request: PageRequest,
) -> Page[Image]:
    """Return a page of the images of a list that match a search.

    Args:
        database: The database.
        images: The list, only with the conditions that select a range in its order.
        search: The parameters of the search; `None`: nothing matches.
        conditions: The other conditions, with parameters that `images` has.
        request: The page.

    Raises:
        BadRequestError: The cursor belongs to another list.
        UnavailableError: Finding the page takes longer than until the deadline of the list.
    """
    if search is None:
        return paginate(database, attrs.evolve(images, where="false"), request, None)
    is_match = " AND ".join((*conditions, matches_image(database.dialect, search)))
    values = {**images.values, **{name: value for name, value in search.items() if name != "words"}}

    def check_images(limit: int) -> Page[Image]:
        checked = CheckedRows(_CHECKED_COLUMNS, is_match, limit)
        return paginate(database, attrs.evolve(images, values=values, checked=checked), request, None)

    def find_matches(limit: int) -> _Matches:
        # One row with an array takes a fraction of the time of a row for each.
        (row,) = database.fetch_all(
            f"SELECT count(*) AS count, {database.dialect.json_array('rowid')} AS numbers, "  # noqa: S608
            "coalesce(max(rowid) - min(rowid), 0) AS span "
            f"FROM ({matching_numbers(database.dialect, search)} LIMIT :limit) AS matching",
            {**search, "limit": limit},
            deadline=images.deadline,
        )
        return _Matches(integer(row, "count"), row["numbers"], integer(row, "span"))

    def sort_matches(matches: _Matches) -> Page[Image]:
        # A unary plus keeps the column out of the choice of an index.
        where = " AND ".join((f"+{images.where}", "item.number = matching.value", *conditions))
        sorted_images = attrs.evolve(
            images,
            table=f"{database.dialect.integers('numbers')} AS matching CROSS JOIN images",
            select="SELECT * FROM images AS item",
            where=where,
            values={**images.values, "numbers": matches.numbers},
        )
        return paginate(database, sorted_images, request, None)

    needed = request.offset + request.per_page + 1
    if (page := check_images(FIRST_CHECKED * needed)).next_cursor is not None:
        return page
    matches = find_matches(FEW_MATCHES + 1)
    if matches.count <= FEW_MATCHES:
        return sort_matches(matches)
    is_by_time = images.order.column == "created_at"
    is_sorted_first = is_by_time and matches.span < FIRST_CHECKED * matches.count
    if is_sorted_first and (matches := find_matches(MANY_MATCHES + 1)).count <= MANY_MATCHES:
        return sort_matches(matches)
    if (page := check_images(max(MIN_MORE_CHECKED, MORE_CHECKED * needed))).next_cursor is not None:
        return page
    if not is_sorted_first and (matches := find_matches(MANY_MATCHES + 1)).count <= MANY_MATCHES:
        return sort_matches(matches)
    all_images = attrs.evolve(images, where=f"{images.where} AND {is_match}", values=values)
    return paginate(database, all_images, request, None)
