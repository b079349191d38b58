"""Conditional and partial requests: what their headers mean for one answer (RFC 9110, sections 13 and 14).

Pure functions over header texts; dates are compared in whole seconds, which is all that HTTP can say.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache

from attrs import frozen

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_RANGE = re.compile(r"bytes[ \t]*=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)

MAX_DIGITS = 18
"""Digits of a range's ends that are read: 10¹⁸ bytes are more than any file has."""


@frozen
class ByteRange:
    """The bytes of an answer, from `start` to before `stop`."""

    start: int
    stop: int


UNSATISFIABLE = ByteRange(0, 0)
"""What no answer can have: a range without a byte in it."""


@lru_cache(1_000)
def http_date(moment: datetime) -> str:
    """Return a moment as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def is_not_modified(
    etag: str, modified: datetime, if_none_match: str | None, if_modified_since: str | None
) -> bool:
    """Return whether the sender has the current bytes already, so that 304 is the answer.

    `If-None-Match` goes first, and is compared weakly; only without it `If-Modified-Since` counts
    (RFC 9110, 13.2.2).

    Args:
        etag: The current entity tag, quoted.
        modified: Since when the bytes are what they are.
        if_none_match: The header, several joined by commas, or `None`.
        if_modified_since: The header, or `None`.
    """
    if if_none_match is not None:
        # Most have one tag, and it is the current one.
        if if_none_match == etag or if_none_match.strip() == "*":
            return True
        return etag in _TAG.findall(if_none_match)
    since = _date(if_modified_since)
    return since is not None and modified.replace(microsecond=0) <= since


def parse_range(
    size: int, etag: str, modified: datetime, range_: str | None, if_range: str | None
) -> ByteRange | None:
    """Return which bytes are asked for.

    Args:
        size: How many there are.
        etag: The current entity tag, quoted.
        modified: Since when the bytes are what they are.
        range_: The `Range` header, or `None`.
        if_range: The `If-Range` header, or `None`; compared strongly (RFC 9110, 13.1.5).

    Returns:
        `None` for all of them: no range, one that is not understood, several, or one that is asked for
        of other bytes than these. `UNSATISFIABLE` where it begins beyond the end.
    """
    if range_ is None or (if_range is not None and not _if_range_matches(etag, modified, if_range)):
        return None
    match = _RANGE.fullmatch(range_)
    if match is None or match[1] == match[2] == "" or max(map(len, match.groups())) > MAX_DIGITS:
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    return ByteRange(start, stop) if start < stop else UNSATISFIABLE


def _if_range_matches(etag: str, modified: datetime, if_range: str) -> bool:
    condition = if_range.strip()
    if condition.startswith(('"', "W/")):
        return condition == etag
    return _date(condition) == modified.replace(microsecond=0)


def _date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
