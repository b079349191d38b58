"""Buckets of long lists of images: the page of any number is found without reading the pages before it.

A bucket is a range of a list in the order of `created_at`, then `id`, with the number of its images; the sums
of these numbers lead to the bucket of a page. Page 5,000 of a million images took 6 ms from the index alone,
and the last one 64; now 0.3.

Newer images than those of the last bucket are in none, so an upload changes no bucket. An image that leaves
the list, or joins it at an older position, changes the number of one bucket in the same transaction. A range
that has grown to twice `BUCKET_IMAGES` is split, so short lists have no buckets.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import accumulate

from attrs import frozen

from imagehost_core.db.columns import integer, text
from imagehost_core.db.database import Queryable, SqlValue, Transaction

BUCKET_IMAGES = 2_048
"""Images of a new bucket. With more, skipping images takes longer; with fewer, summing up buckets."""
_CHECKED_ENDING = "0"
"""The end of the ids of images, one in 62, whose upload checks the range after the last bucket."""

Position = tuple[int, str]
"""The `created_at` and the id of an image."""
_BEGINNING: Position = (-(2**63), "")
_END: Position = (2**63 - 1, "")


class ListKind(StrEnum):
    """The lists that have buckets."""

    ACCOUNT = "account"
    ALBUM = "album"
    PUBLIC_ALBUM = "public_album"
    GALLERY = "gallery"


ENTRIES = {
    ListKind.ACCOUNT: "images AS item WHERE item.account_id = {owner}",
    ListKind.ALBUM: "images AS item WHERE item.album_id = {owner}",
    ListKind.PUBLIC_ALBUM: "images AS item WHERE item.album_id = {owner} AND item.is_public = 1",
    ListKind.GALLERY: "gallery_images AS item WHERE 0 = {owner}",
}
"""The images of a list, as the rest of a query, with a placeholder for its `owner_id`."""

_OWNERS = {
    ListKind.ACCOUNT: ("accounts", "image_count"),
    ListKind.ALBUM: ("albums", "image_count"),
    ListKind.PUBLIC_ALBUM: ("albums", "public_image_count"),
}
"""The table and the counter of the owners of lists."""


@frozen
class CountedList:
    """A list that has buckets.

    Attributes:
        kind: The kind of list.
        owner_id: The id of the account or album; 0 for the gallery.
    """

    kind: ListKind
    owner_id: int = 0

    @property
    def entries(self) -> str:
        """The images of the list, as the rest of a query with the parameter `owner`."""
        return ENTRIES[self.kind].format(owner=":owner")

    @property
    def key(self) -> dict[str, SqlValue]:
        """The parameters of queries for the list."""
        return {"list": self.kind.value, "owner": self.owner_id}


@frozen
class PageStart:
    """Where a page begins.

    Attributes:
        bound: The last position of the page's bucket; in ascending order, that of the bucket before.
        skipped: The number of images between the bound and the page.
    """

    bound: Position
    skipped: int


_OF_LIST = "list = :list AND owner_id = :owner"
_ANY_FROM = "SELECT 1 AS found FROM list_buckets WHERE last_created_at >= :created_at LIMIT 1"
_BUCKET_OF = f"""
SELECT last_created_at, last_id, image_count FROM list_buckets WHERE {_OF_LIST}
    AND (last_created_at, last_id) >= (:created_at, :id)
ORDER BY last_created_at, last_id LIMIT 1
"""  # noqa: S608 - constants only
_COUNTS = f"""
SELECT json_group_array(image_count) AS counts FROM (
    SELECT image_count FROM list_buckets WHERE {_OF_LIST} ORDER BY last_created_at, last_id
)
"""  # noqa: S608 - constants only
_IS_BUCKET = f"{_OF_LIST} AND (last_created_at, last_id) = (:created_at, :id)"
_DELETE_ALL = f"DELETE FROM list_buckets WHERE {_OF_LIST}"  # noqa: S608 - constants only
_DELETE = f"DELETE FROM list_buckets WHERE {_IS_BUCKET}"  # noqa: S608 - constants only
_SET_COUNT = f"UPDATE list_buckets SET image_count = :count WHERE {_IS_BUCKET}"  # noqa: S608 - constants only


def count_entries(
    transaction: Transaction, lists: Collection[CountedList], entries: Collection[Position], more: int
) -> None:
    """Update the buckets of lists after images have joined them, or because images leave them.

    Args:
        transaction: The transaction that changes the lists.
        lists: The lists.
        entries: The positions of the images.
        more: 1 if they have joined the lists, -1 if they leave them.
    """
    if not entries or not lists:
        return
    positions = sorted(entries)
    # The images of uploads are newer than all buckets: one query for all lists.
    if transaction.fetch_one(_ANY_FROM, {"created_at": positions[0][0]}) is not None:
        for counted in lists:
            _count_in_buckets(transaction, counted, positions, more)
    if more > 0 and (len(positions) > 1 or positions[0][1].endswith(_CHECKED_ENDING)):
        for counted in lists:
            split_newest(transaction, counted)


def split_newest(transaction: Transaction, counted: CountedList) -> None:
    """Put the images that are newer than the last bucket into buckets, if there are enough of them."""
    last = _last_bucket_before(transaction, counted, _END)
    while _entry_after(transaction, counted, last, 2 * BUCKET_IMAGES) is not None:
        last = _insert_bucket(transaction, counted, last)


def find_start(
    queryable: Queryable, counted: CountedList, offset: int, total: int, *, is_descending: bool
) -> PageStart | None:
    """Return where a page of a list begins; `None` if that is best found from the beginning of the list.

    Args:
        queryable: The database or a transaction.
        counted: The list.
        offset: The number of images before the page.
        total: The number of images in the list.
        is_descending: Whether the newest image comes first.
    """
    if offset < BUCKET_IMAGES:
        return None
    (row,) = queryable.fetch_all(_COUNTS, counted.key)
    through = _sums(text(row, "counts"))
    number = total - 1 - offset if is_descending else offset
    index = bisect_right(through, number)
    before = through[index - 1] if index else 0
    if is_descending and index < len(through):
        return PageStart(_bucket(queryable, counted, index), through[index] - 1 - number)
    if not is_descending and index:
        return PageStart(_bucket(queryable, counted, index - 1), number - before)
    return None


def long_lists(transaction: Transaction) -> Iterator[CountedList]:
    """Yield the lists that have so many images that they may need buckets."""
    values: dict[str, SqlValue] = {"images": 2 * BUCKET_IMAGES}
    for kind, (table, column) in _OWNERS.items():
        sql = f"SELECT id FROM {table} WHERE {column} >= :images"  # noqa: S608 - constants only
        for row in transaction.fetch_all(sql, values):
            yield CountedList(kind, integer(row, "id"))
    yield CountedList(ListKind.GALLERY)


@lru_cache(16)
def _sums(counts: str) -> tuple[int, ...]:
    """Return the sums of a JSON array up to each of its numbers, in memory for the same numbers."""
    return tuple(accumulate(json.loads(counts)))


def delete_buckets(transaction: Transaction, *lists: CountedList) -> None:
    """Delete the buckets of lists that are deleted."""
    for counted in lists:
        transaction.execute(_DELETE_ALL, counted.key)


def _count_in_buckets(
    transaction: Transaction, counted: CountedList, positions: Sequence[Position], more: int
) -> None:
    """Update the buckets of sorted positions."""
    done = 0
    while done < len(positions):
        row = transaction.fetch_one(_BUCKET_OF, _values(counted, positions[done]))
        if row is None:
            return
        last = integer(row, "last_created_at"), text(row, "last_id")
        following = bisect_right(positions, last, done)
        count = integer(row, "image_count") + more * (following - done)
        done = following
        if count == 0:
            transaction.execute(_DELETE, _values(counted, last))
        else:
            _set_count(transaction, counted, last, count)


def _set_count(transaction: Transaction, counted: CountedList, position: Position, count: int) -> None:
    """Set the number of images of the bucket that ends at a position, and split it if it has too many."""
    if count >= 2 * BUCKET_IMAGES:
        last = _last_bucket_before(transaction, counted, position)
        while count >= 2 * BUCKET_IMAGES:
            last = _insert_bucket(transaction, counted, last)
            count -= BUCKET_IMAGES
    transaction.execute(_SET_COUNT, {**_values(counted, position), "count": count})


def _insert_bucket(transaction: Transaction, counted: CountedList, last: Position) -> Position:
    """Insert the bucket of the images after a position, and return its last position."""
    position = _entry_after(transaction, counted, last, BUCKET_IMAGES)
    assert position is not None, counted
    row = {
        "list": counted.kind.value,
        "owner_id": counted.owner_id,
        "last_created_at": position[0],
        "last_id": position[1],
        "image_count": BUCKET_IMAGES,
    }
    transaction.insert("list_buckets", row)
    return position


def _entry_after(
    transaction: Transaction, counted: CountedList, position: Position, number: int
) -> Position | None:
    """Return the position of an image of a list, counted from 1 after another position."""
    row = transaction.fetch_one(
        f"SELECT item.created_at, item.id FROM {counted.entries} "  # noqa: S608 - constants only
        "AND (item.created_at, item.id) > (:created_at, :id) "
        "ORDER BY item.created_at, item.id LIMIT 1 OFFSET :skipped",
        {**_values(counted, position), "skipped": number - 1},
    )
    return None if row is None else (integer(row, "created_at"), text(row, "id"))


def _last_bucket_before(transaction: Transaction, counted: CountedList, position: Position) -> Position:
    """Return the last position of the bucket before that of a position."""
    row = transaction.fetch_one(
        f"SELECT last_created_at, last_id FROM list_buckets WHERE {_OF_LIST} "  # noqa: S608 - constants only
        "AND (last_created_at, last_id) < (:created_at, :id) "
        "ORDER BY last_created_at DESC, last_id DESC LIMIT 1",
        _values(counted, position),
    )
    return _BEGINNING if row is None else (integer(row, "last_created_at"), text(row, "last_id"))


def _bucket(queryable: Queryable, counted: CountedList, index: int) -> Position:
    """Return the last position of a list's bucket, by its index from 0."""
    (row,) = queryable.fetch_all(
        f"SELECT last_created_at, last_id FROM list_buckets WHERE {_OF_LIST} "  # noqa: S608 - constants only
        "ORDER BY last_created_at, last_id LIMIT 1 OFFSET :index",
        {**counted.key, "index": index},
    )
    return integer(row, "last_created_at"), text(row, "last_id")


def _values(counted: CountedList, position: Position) -> dict[str, SqlValue]:
    return {**counted.key, "created_at": position[0], "id": position[1]}
