"""Buckets of long lists of images: the page of any number is found without reading the pages before it.

A bucket is a range of a list in the order of `created_at`, then `id`, with the number of its images; the sums
of these numbers lead to the bucket of a page. Page 5,000 of a million images took 6 ms from the index alone,
and the last one 64. The sums stay in memory until a bucket of the list changes, which its version in
`bucket_versions` tells: it is read with the list's total, so that such a page costs no query more than the
first one. Versions are random, because a counter would repeat the numbers of changes that are lost: when a
standby without them is promoted, or a backup is restored.

Newer images than those of the last bucket are in none, so an upload changes no bucket. An image that leaves
the list, or joins it at an older position, changes the number of one bucket in the same transaction. A range
that has grown to twice its first size is split, so short lists have no buckets.

Transactions of one account do not run at the same time, so those that change or split the buckets of its
lists do not either. For the gallery, `imagehost_core.db.gallery` excludes others while buckets are split.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from secrets import randbits

from attrs import field, frozen

from imagehost_core._util.lru import LRUCache
from imagehost_core.db.columns import integer, text
from imagehost_core.db.database import Queryable, SqlValue, Transaction

BUCKET_IMAGES = 512
"""Images of a new bucket. With more, skipping images takes longer; with fewer, reading buckets does."""
GALLERY_FACTOR = 4
"""How many times as many images a bucket of the gallery has, which is the longest list by far."""
_VERSION_BITS = 62
MAX_BUCKETS_IN_MEMORY = 32_768
"""Buckets in memory, per process; each takes about 200 bytes."""
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
    def bucket_images(self) -> int:
        """The images of a new bucket; a bucket with twice as many is split."""
        return BUCKET_IMAGES * (GALLERY_FACTOR if self.kind is ListKind.GALLERY else 1)

    @property
    def key(self) -> dict[str, SqlValue]:
        """The parameters of queries for the list."""
        return {"list": self.kind.value, "owner": self.owner_id}


@frozen
class PageRange:
    """The images of a page, as counted from the end of a bucket that is the nearest to them.

    Attributes:
        bound: The last position of a bucket.
        is_descending: Whether the images up to the bound are counted, from the newest on; otherwise those
            after it, from the oldest on.
        skipped: The number of images between the bound and the page.
        count: The number of images to read.
    """

    bound: Position
    is_descending: bool
    skipped: int
    count: int


_OF_LIST = "list = :list AND owner_id = :owner"
_ANY_FROM = "SELECT 1 AS found FROM list_buckets WHERE last_created_at >= :created_at LIMIT 1"
_BUCKET_OF = f"""
SELECT last_created_at, last_id, image_count FROM list_buckets WHERE {_OF_LIST}
    AND (last_created_at, last_id) >= (:created_at, :id)
ORDER BY last_created_at, last_id LIMIT 1
"""  # noqa: S608 - constants only
VERSION = f"(SELECT version FROM bucket_versions WHERE {_OF_LIST})"  # noqa: S608 - constants only
"""The version of the buckets of a list, as an expression with the parameters of `CountedList.key`; null if it
never had any."""
_BUCKETS = f"""
SELECT {{counts}} AS counts, {{times}} AS times, {{ids}} AS ids, {VERSION} AS version FROM (
    SELECT image_count, last_created_at, last_id FROM list_buckets WHERE {_OF_LIST}
    ORDER BY last_created_at, last_id
) AS bucket
"""  # noqa: S608 - constants only
_IS_BUCKET = f"{_OF_LIST} AND (last_created_at, last_id) = (:created_at, :id)"
_DELETE_ALL = f"DELETE FROM list_buckets WHERE {_OF_LIST}"  # noqa: S608 - constants only
_DELETE_VERSION = f"DELETE FROM bucket_versions WHERE {_OF_LIST}"  # noqa: S608 - constants only
_DELETE = f"DELETE FROM list_buckets WHERE {_IS_BUCKET}"  # noqa: S608 - constants only
_ADD = f"UPDATE list_buckets SET image_count = image_count + :more WHERE {_IS_BUCKET}"  # noqa: S608 - constants only
_CHANGE_VERSION = """
INSERT INTO bucket_versions (list, owner_id, version) VALUES (:list, :owner, :version)
ON CONFLICT (list, owner_id) DO UPDATE SET version = :version
"""


def needs_buckets(offset: int) -> bool:
    """Return whether a page with so many images before it is found by buckets."""
    return offset >= BUCKET_IMAGES


@frozen
class Buckets:
    """The buckets of a list.

    Attributes:
        through: The number of images of the list up to the end of each bucket, oldest first.
        last: The last position of each bucket.
    """

    through: tuple[int, ...] = field(repr=False)
    last: tuple[Position, ...] = field(repr=False)

    def find_range(self, offset: int, count: int, total: int, *, is_descending: bool) -> PageRange | None:
        """Return where the images of a page are; `None` if they are best counted from the list's beginning.

        Args:
            offset: The number of images before the page.
            count: The number of images to read, if the list has so many.
            total: The number of images in the list.
            is_descending: Whether the newest image comes first.
        """
        count = min(count, total - offset)
        if count <= 0:
            # Nothing is before the beginning, so that a page after the end reads no image.
            return PageRange(_BEGINNING, True, 0, 1)
        oldest = total - offset - count if is_descending else offset
        newest = oldest + count - 1
        index = bisect_right(self.through, oldest)
        bound, before = (self.last[index - 1], self.through[index - 1]) if index else (_BEGINNING, 0)
        nearest = PageRange(bound, False, oldest - before, count)
        index = bisect_right(self.through, newest)
        if index < len(self.through) and self.through[index] - 1 - newest < nearest.skipped:
            nearest = PageRange(self.last[index], True, self.through[index] - 1 - newest, count)
        return nearest if nearest.skipped < offset else None


@frozen
class BucketCache:
    """The buckets of the lists of one database in memory, each until it changes."""

    _cache: LRUCache[tuple[CountedList, int], Buckets] = field(
        factory=lambda: LRUCache(MAX_BUCKETS_IN_MEMORY, weigh=lambda buckets: 1 + len(buckets.last)),
        repr=False,
    )

    def get(self, queryable: Queryable, counted: CountedList, version: int) -> Buckets:
        """Return the buckets of a list; `version` is a value of `VERSION` that was read just before."""
        key = (counted, version)
        buckets = self._cache.get(key)
        if buckets is None:
            version_read, buckets = _read_buckets(queryable, counted)
            if version_read == version:
                self._cache.put(key, buckets)
        return buckets


def count_entries(
    transaction: Transaction,
    lists: Collection[CountedList],
    entries: Collection[Position],
    more: int,
    *,
    may_split: bool = True,
) -> None:
    """Update the buckets of lists after images have joined them, or because images leave them.

    Args:
        transaction: The transaction that changes the lists.
        lists: The lists.
        entries: The positions of the images.
        more: 1 if they have joined the lists, -1 if they leave them.
        may_split: Whether buckets may be split; no transaction may do so while others add to the same list.
    """
    if not entries or not lists:
        return
    positions = sorted(entries)
    # The images of uploads are newer than all buckets: one query for all lists.
    if transaction.fetch_one(_ANY_FROM, {"created_at": positions[0][0]}) is not None:
        for counted in lists:
            _count_in_buckets(transaction, counted, positions, more, may_split=may_split)
    if may_split and more > 0 and _checks_newest(positions):
        for counted in lists:
            split_newest(transaction, counted)


def splits_newest(transaction: Transaction, counted: CountedList, entries: Collection[Position]) -> bool:
    """Return whether adding images to a list splits the range after its last bucket, as it is now."""
    if not _checks_newest(entries):
        return False
    last = _last_bucket_before(transaction, counted, _END)
    return _entry_after(transaction, counted, last, 2 * counted.bucket_images) is not None


def _checks_newest(entries: Collection[Position]) -> bool:
    return len(entries) > 1 or any(image_id.endswith(_CHECKED_ENDING) for _, image_id in entries)


def split_newest(transaction: Transaction, counted: CountedList) -> None:
    """Put the images that are newer than the last bucket into buckets, if there are enough of them."""
    last = before = _last_bucket_before(transaction, counted, _END)
    while _entry_after(transaction, counted, last, 2 * counted.bucket_images) is not None:
        last = _insert_bucket(transaction, counted, last)
    if last != before:
        transaction.execute(_CHANGE_VERSION, {**counted.key, "version": _new_version()})


def long_lists(transaction: Transaction) -> Iterator[CountedList]:
    """Yield the lists that have so many images that they may need buckets."""
    values: dict[str, SqlValue] = {"images": 2 * BUCKET_IMAGES}
    for kind, (table, column) in _OWNERS.items():
        sql = f"SELECT id FROM {table} WHERE {column} >= :images"  # noqa: S608 - constants only
        for row in transaction.fetch_all(sql, values):
            yield CountedList(kind, integer(row, "id"))
    yield CountedList(ListKind.GALLERY)


def change_all_versions(transaction: Transaction) -> None:
    """Let no process use the buckets of any list that it has in memory."""
    transaction.execute("UPDATE bucket_versions SET version = :version", {"version": _new_version()})


def delete_buckets(transaction: Transaction, *lists: CountedList) -> None:
    """Delete the buckets of lists that are deleted."""
    for counted in lists:
        transaction.execute(_DELETE_ALL, counted.key)
        transaction.execute(_DELETE_VERSION, counted.key)


def _count_in_buckets(
    transaction: Transaction,
    counted: CountedList,
    positions: Sequence[Position],
    more: int,
    *,
    may_split: bool,
) -> None:
    """Update the buckets of sorted positions."""
    done = 0
    while done < len(positions):
        row = transaction.fetch_one(_BUCKET_OF, _values(counted, positions[done]))
        if row is None:
            break
        last = integer(row, "last_created_at"), text(row, "last_id")
        following = bisect_right(positions, last, done)
        change = more * (following - done)
        count = integer(row, "image_count") + change
        done = following
        if count == 0:
            transaction.execute(_DELETE, _values(counted, last))
            continue
        if may_split and count >= 2 * counted.bucket_images:
            change -= _split(transaction, counted, last, count)
        transaction.execute(_ADD, {**_values(counted, last), "more": change})
    if done:
        transaction.execute(_CHANGE_VERSION, {**counted.key, "version": _new_version()})


def _split(transaction: Transaction, counted: CountedList, position: Position, count: int) -> int:
    """Put images of a bucket into new ones before it, and return their number.

    Args:
        transaction: The transaction that changes the list.
        counted: The list.
        position: The last position of the bucket.
        count: The number of its images.
    """
    last, moved = _last_bucket_before(transaction, counted, position), 0
    while count - moved >= 2 * counted.bucket_images:
        last = _insert_bucket(transaction, counted, last)
        moved += counted.bucket_images
    return moved


def _insert_bucket(transaction: Transaction, counted: CountedList, last: Position) -> Position:
    """Insert the bucket of the images after a position, and return its last position."""
    position = _entry_after(transaction, counted, last, counted.bucket_images)
    assert position is not None, counted
    row = {
        "list": counted.kind.value,
        "owner_id": counted.owner_id,
        "last_created_at": position[0],
        "last_id": position[1],
        "image_count": counted.bucket_images,
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


def _new_version() -> int:
    return randbits(_VERSION_BITS)


def _read_buckets(queryable: Queryable, counted: CountedList) -> tuple[SqlValue, Buckets]:
    """Read the version and the buckets of a list as of the same moment.

    One row with arrays takes a fraction of the time of a row for each.
    """
    columns = {"counts": "image_count", "times": "last_created_at", "ids": "last_id"}
    arrays = {name: queryable.dialect.json_array(column) for name, column in columns.items()}
    (row,) = queryable.fetch_all(_BUCKETS.format(**arrays), counted.key)
    counts, times, ids = (json.loads(text(row, name)) for name in columns)
    buckets = Buckets(tuple(accumulate(counts)), tuple(zip(times, ids, strict=True)))
    return row["version"], buckets


def _values(counted: CountedList, position: Position) -> dict[str, SqlValue]:
    return {**counted.key, "created_at": position[0], "id": position[1]}
