"""The rows of the table `images`, and the images that they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter

from imagehost_core._util.clock import to_micros
from imagehost_core.db.engines.database import SqlRow, SqlValue, integer, text, timestamp
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
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
)
"""The columns of `images` that are attributes of an image."""
INVALID_ROW = (AssertionError, TypeError, ValueError)
"""The errors of `to_image` for a row that no image was stored as."""
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
    # Of each: width, height, and the checksum if it was recorded.
    derivatives = json.loads(text(row, "derivatives"))
    return Image(
        id=ImageId(text(row, "id")),
        account_id=AccountId(integer(row, "account_id")),
        album_id=optional_album_id(row),
        filename=text(row, "filename"),
        original_filename=text(row, "original_filename"),
        description=text(row, "description"),
        is_public=bool(row["is_public"]),
        format=Format(text(row, "format")),
        size=integer(row, "size"),
        width=integer(row, "width"),
        height=integer(row, "height"),
        frames=integer(row, "frames"),
        has_alpha=bool(row["has_alpha"]),
        sha256=text(row, "sha256"),
        placeholder=text(row, "placeholder"),
        derivatives=tuple((width, height) for width, height, *_ in derivatives),
        derivative_checksums=tuple(checksum for _, _, *checksums in derivatives for checksum in checksums),
        created_at=timestamp(row, "created_at"),
        updated_at=timestamp(row, "updated_at"),
        urls=urls,
    )


def to_row(image: Image) -> SqlRow:
    """Convert an image to a row of `images`."""
    return {
        "id": image.id,
        "account_id": image.account_id,
        "album_id": image.album_id,
        "filename": image.filename,
        "original_filename": image.original_filename,
        "description": image.description,
        "is_public": int(image.is_public),
        "format": image.format.value,
        "size": image.size,
        "width": image.width,
        "height": image.height,
        "frames": image.frames,
        "has_alpha": int(image.has_alpha),
        "sha256": image.sha256,
        "placeholder": image.placeholder,
        "derivatives": json.dumps(_derivatives(image)),
        "created_at": to_micros(image.created_at),
        "updated_at": to_micros(image.updated_at),
    }


def _derivatives(image: Image) -> list[tuple[int, ...]]:
    """Return the width, the height and, if it is known, the checksum of each derivative."""
    checksums = image.derivative_checksums
    return [(*size, *checksums[index : index + 1]) for index, size in enumerate(image.derivatives)]


def optional_album_id(row: SqlRow) -> AlbumId | None:
    """Return the album of a row, or `None`."""
    return None if row["album_id"] is None else AlbumId(integer(row, "album_id"))
