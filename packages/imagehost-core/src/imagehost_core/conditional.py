"""Conditional requests and byte ranges (RFC 9110, sections 13 and 14): pure functions over header values.

Dates are compared in whole seconds, the resolution of HTTP dates.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache

from attrs import frozen

from imagehost_core.errors import ImageHostError

_ENTITY_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_BYTE_RANGE = re.compile(r"bytes[ \t]*=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)

MAX_DIGITS = 18
"""Digits of a byte position that are parsed: no file has 10¹⁸ bytes."""


@frozen
class ByteRange:
    """The bytes from `start` to before `stop`."""

    start: int
    stop: int


UNSATISFIABLE = ByteRange(0, 0)
"""The range of a request that gets 416."""


class PreconditionFailedError(ImageHostError):
    """The image is not the one that `If-Match` or `If-Unmodified-Since` names (RFC 9110, 15.5.13)."""

    code = "BAD_REQUEST"
    status = 412
    default_message = "The image has changed"


class RangeError(ImageHostError):
    """The requested range begins beyond the end (RFC 9110, 15.5.17).

    Args:
        size: The size of the image, in bytes.
    """

    code = "BAD_REQUEST"
    status = 416
    default_message = "The range cannot be had"

    def __init__(self, size: int) -> None:
        super().__init__(f"expected a range within {size} bytes for Range but received one beyond them")
        self.size = size


@lru_cache(1_000)
def http_date(timestamp: datetime) -> str:
    """Return a datetime in the format of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`."""
    return format_datetime(timestamp.astimezone(UTC), usegmt=True)


def is_precondition_failed(
    etag: str, last_modified: datetime, if_match: str | None, if_unmodified_since: str | None
) -> bool:
    """Return whether the client wants another representation than the current one, so that it gets 412.

    `If-Match` takes precedence and uses the strong comparison; `If-Unmodified-Since` counts only without it
    (RFC 9110, 13.2.2).

    Args:
        etag: The current entity tag, quoted; it is strong.
        last_modified: The current `Last-Modified`.
        if_match: The header, repeated ones joined by commas, or `None`.
        if_unmodified_since: The header, or `None`.
    """
    if if_match is not None:
        return if_match.strip() != "*" and etag not in (tag[0] for tag in _ENTITY_TAG.finditer(if_match))
    since = _parse_date(if_unmodified_since)
    return since is not None and last_modified.replace(microsecond=0) > since


def is_not_modified(
    etag: str, last_modified: datetime, if_none_match: str | None, if_modified_since: str | None
) -> bool:
    """Return whether the client has the current representation, so that the response is 304.

    `If-None-Match` takes precedence and uses the weak comparison; `If-Modified-Since` counts only without
    it (RFC 9110, 13.2.2).

    Args:
        etag: The current entity tag, quoted.
        last_modified: The current `Last-Modified`.
        if_none_match: The header, repeated ones joined by commas, or `None`.
        if_modified_since: The header, or `None`.
    """
    if if_none_match is not None:
        # Fast for the most frequent value: the current tag alone.
        if if_none_match == etag or if_none_match.strip() == "*":
            return True
        return etag in _ENTITY_TAG.findall(if_none_match)
    since = _parse_date(if_modified_since)
    return since is not None and last_modified.replace(microsecond=0) <= since


def parse_range(
    size: int, etag: str, last_modified: datetime, range_: str | None, if_range: str | None
) -> ByteRange | None:
    """Return the bytes to send.

    Args:
        size: The size of the representation, in bytes.
        etag: The current entity tag, quoted.
        last_modified: The current `Last-Modified`.
        range_: The `Range` header, or `None`.
        if_range: The `If-Range` header, or `None`; uses the strong comparison (RFC 9110, 13.1.5).

    Returns:
        `None` for the whole representation: without a range, with an invalid one, with several ranges, and
        where `If-Range` does not match. `UNSATISFIABLE` where the range begins beyond the end.
    """
    if range_ is None or (if_range is not None and not _if_range_matches(etag, last_modified, if_range)):
        return None
    match = _BYTE_RANGE.fullmatch(range_)
    if match is None or match[1] == match[2] == "" or max(map(len, match.groups())) > MAX_DIGITS:
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start = int(first)
        stop = min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    return ByteRange(start, stop) if start < stop else UNSATISFIABLE


def _if_range_matches(etag: str, last_modified: datetime, if_range: str) -> bool:
    condition = if_range.strip()
    if condition.startswith(('"', "W/")):
        return condition == etag
    return _parse_date(condition) == last_modified.replace(microsecond=0)


def _parse_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        timestamp = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
