"""The rows of the table `images`, and the images that they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

from imagehost_core.db.engines.database import SqlRow, SqlValue, text
from imagehost_core.db.rows import to_record, to_row
from imagehost_core.models import NO_URLS, Image, UrlBuilder

COLUMNS = (
    "id",
    "account_id",
    "album_id",
    "filename",
    "original_filename",
    "description",
    "is_public",
    "format",
    "size",
    "width",
    "height",
    "frames",
    "has_alpha",
    "sha256",
    "placeholder",
    "derivatives",
    "created_at",
    "updated_at",
    "taken_ascending",
)
"""The columns of `images` that are attributes of an image, of some in another form."""
_NOT_TAKEN = 900_000_000_000_000_000
"""`taken_ascending` of an image without this time: later than any. `taken_descending` is the negative."""
INVALID_ROW = (ArithmeticError, AssertionError, TypeError, ValueError)
"""The errors of `to_image`, and of the use of its result, for a row that no image was stored as."""
ROWS_IN_MEMORY = 2_000
"""Rows whose images are kept in memory, per process; each takes about 3 KB."""
_BITS_IN_SECOND = 28
_MAX_SECOND = (1 << 35) - 1
_values_of: Callable[[SqlRow], tuple[SqlValue, ...]] = itemgetter(*COLUMNS)


def first_number(micros: int) -> int:
    """Return the smallest number that an image of the second of a time, in microseconds, can have.

    Numbers are in the order of these seconds, also of images that are imported with an earlier time: FTS5
    returns matches in the order of the numbers.
    """
    return min(max(micros // 1_000_000, -_MAX_SECOND - 1), _MAX_SECOND) << _BITS_IN_SECOND


def last_number(micros: int) -> int:
    """Return the largest number of the second of a time, likewise."""
    return first_number(micros) + (1 << _BITS_IN_SECOND) - 1


def to_image(row: SqlRow, urls: UrlBuilder = NO_URLS) -> Image:
    """Convert a row of `images`; equal rows return the same object.

    A row is compared in a twelfth of the time that it takes to convert it, and lists have the same rows again
    and again. Callers can cache what they derive from an image, such as its JSON, by the image.
    """
    return _to_image(_values_of(row), urls)


@lru_cache(ROWS_IN_MEMORY)
def _to_image(values: tuple[SqlValue, ...], urls: UrlBuilder) -> Image:
    row = dict(zip(COLUMNS, values, strict=True))
    taken = row.pop("taken_ascending")
    # Of each: width, height, and the checksum if it was recorded.
    derivatives = json.loads(text(row, "derivatives"))
    sizes = [(width, height) for width, height, *_ in derivatives]
    checksums = [checksum for _, _, *checksums in derivatives for checksum in checksums]
    others = {"derivatives": sizes, "derivative_checksums": checksums, "urls": urls}
    return to_record(Image, {**row, **others, "taken_at": None if taken == _NOT_TAKEN else taken})


def to_image_row(image: Image) -> SqlRow:
    """Convert an image to a row of `images`."""
    row = to_row(image)
    taken = row["taken_at"]
    times = (_NOT_TAKEN, -_NOT_TAKEN) if taken is None else (taken, taken)
    row |= dict(zip(("taken_ascending", "taken_descending"), times, strict=True))
    row["derivatives"] = json.dumps(_derivatives(image))
    return {name: row[name] for name in (*COLUMNS, "taken_descending")}


def _derivatives(image: Image) -> list[tuple[int, ...]]:
    """Return the width, the height and, if it is known, the checksum of each derivative."""
    checksums = image.derivative_checksums
    return [(*size, *checksums[index : index + 1]) for index, size in enumerate(image.derivatives)]
