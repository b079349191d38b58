"""`Range`, `If-Range`, `If-None-Match` and `If-Modified-Since`: no value fails.

A range is within the file. An input is the values, divided by line feeds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from imagehost_core.conditional import UNSATISFIABLE, http_date, is_not_modified, parse_range

SIZE = 1_000
ETAG = '"0123456789abcdef"'
MODIFIED = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
DATE = http_date(MODIFIED)
DICTIONARY = (
    *(
        b"bytes=",
        b"bytes=0-0",
        b"-",
        b",",
        b"999",
        b"1000",
        b"9" * 19,
        b"W/",
        b"*",
        b'"',
        ETAG.encode(),
        b"\n",
    ),
    *(DATE.encode(), b"GMT", b"+0000", b"-9999", b"Sun, ", b"1994", b"99999", b"\xb2", b"\t", b"(", b":"),
)
FINDINGS = ()
_RANGE = re.compile(r"bytes[ \t]*=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.ASCII | re.IGNORECASE)


def seeds() -> list[bytes]:
    return [
        b"bytes=0-99\n\n\n",
        b"bytes=-500\n" + ETAG.encode() + b"\n\n",
        b"bytes=900-\n" + DATE.encode(),
        b'\n\nW/"a", ' + ETAG.encode(),
        b"\n\n\n" + DATE.encode(),
        b"\n\n\nSunday, 06-Nov-94 08:49:37 GMT",
        b"\n\n*\nSun Nov  6 08:49:37 1994",
    ]


def check(data: bytes) -> None:
    values = [line or None for line in data.decode("latin-1").split("\n")]
    range_, if_range, if_none_match, if_modified_since = (*values, None, None, None, None)[:4]
    found = parse_range(SIZE, ETAG, MODIFIED, range_, if_range)
    if found is not None and found is not UNSATISFIABLE:
        assert 0 <= found.start < found.stop <= SIZE
    if if_range is None:
        assert (None if found is None else (found.start, found.stop)) == expected_range(range_)
    assert parse_range(SIZE, ETAG, MODIFIED, None, if_range) is None
    is_current = is_not_modified(ETAG, MODIFIED, if_none_match, if_modified_since)
    if if_none_match is not None:
        assert is_current == is_not_modified(ETAG, MODIFIED, if_none_match, None)
        assert not is_current or ETAG in if_none_match or if_none_match.strip() == "*"
    elif if_modified_since is None:
        assert not is_current


def expected_range(value: str | None) -> tuple[int, int] | None:
    """Return the first byte and the end of a range by RFC 9110, 14.1.2; (0, 0) for an unsatisfiable one."""
    match = _RANGE.fullmatch(value or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    positions = range(SIZE)
    if not first:
        wanted = positions[-int(last) :] if int(last) else positions[:0]
    elif last and int(last) < int(first):
        return None
    else:
        wanted = positions[int(first) : int(last) + 1 if last else None]
    return (wanted.start, wanted.stop) if wanted else (0, 0)
