"""Conditional requests and byte ranges as in RFC 9110."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.conditional import (
    UNSATISFIABLE,
    ByteRange,
    http_date,
    is_not_modified,
    is_precondition_failed,
    parse_range,
)

MODIFIED = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
DATE = "Fri, 02 Jan 2026 03:04:05 GMT"

tags = st.text(st.characters(min_codepoint=0x23, max_codepoint=0x7E), max_size=12).map('"{}"'.format)
junk = st.text(st.characters(max_codepoint=0xFF), max_size=30)


def test_http_date_has_the_format_of_rfc_9110() -> None:
    assert http_date(MODIFIED) == DATE


@given(tags, st.lists(tags), st.lists(tags), st.booleans())
def test_an_entity_tag_matches_anywhere_in_a_list_and_as_a_weak_tag(
    etag: str, before: list[str], after: list[str], weak: bool
) -> None:
    listed = ", ".join([*before, f"W/{etag}" if weak else etag, *after])
    assert is_not_modified(etag, MODIFIED, listed, None)


@given(tags, st.lists(tags))
def test_an_entity_tag_matches_only_itself(etag: str, others: list[str]) -> None:
    assert is_not_modified(etag, MODIFIED, ",".join(others), None) == (etag in others)


@given(tags)
def test_a_star_matches_every_entity_tag(etag: str) -> None:
    assert is_not_modified(etag, MODIFIED, " * ", None)


@given(st.integers(-(10**6), 10**6))
def test_if_modified_since_compares_seconds_and_counts_only_without_if_none_match(seconds: int) -> None:
    since = http_date(MODIFIED + timedelta(seconds=seconds))
    assert is_not_modified('"a"', MODIFIED, None, since) == (seconds >= 0)
    for other in ('"b"', ""):
        assert not is_not_modified('"a"', MODIFIED, other, since)


@given(tags, st.lists(st.tuples(tags, st.booleans())))
def test_if_match_uses_the_strong_comparison(etag: str, listed: list[tuple[str, bool]]) -> None:
    header = ", ".join(f"W/{tag}" if weak else tag for tag, weak in listed)
    assert is_precondition_failed(etag, MODIFIED, header, None) == ((etag, False) not in listed)
    assert not is_precondition_failed(etag, MODIFIED, " * ", None)


MATCHING = {"if-match": ['"a"', '"b", "a"', "*"], "if-none-match": ['"b"', 'W/"b"']}
DIFFERENT = {"if-match": ['"b"', 'W/"a"', "", "a"], "if-none-match": ['"a"', 'W/"a"', "*"]}
OUTCOMES = st.sampled_from([None, True, False])
"""A header that is missing, whose condition is true, or whose condition is false."""


@given(OUTCOMES, OUTCOMES, OUTCOMES, OUTCOMES, st.integers(0, 10**6), st.data())
def test_the_conditions_are_evaluated_in_the_order_of_rfc_9110(
    match: bool | None,
    unmodified: bool | None,
    none_match: bool | None,
    modified: bool | None,
    seconds: int,
    data: st.DataObject,
) -> None:
    """RFC 9110, 13.2.2: each entity tag takes precedence over its date, and 412 over 304."""

    def listed(name: str, outcome: bool | None) -> str | None:
        values = MATCHING if outcome else DIFFERENT
        return None if outcome is None else data.draw(st.sampled_from(values[name]))

    def date(outcome: bool | None, true: int, false: int) -> str | None:
        delta = timedelta(seconds=true if outcome else false)
        return None if outcome is None else http_date(MODIFIED + delta)

    failed = is_precondition_failed(
        '"a"', MODIFIED, listed("if-match", match), date(unmodified, seconds, -1 - seconds)
    )
    not_modified = is_not_modified(
        '"a"', MODIFIED, listed("if-none-match", none_match), date(modified, -1 - seconds, seconds)
    )
    assert failed == ((unmodified if match is None else match) is False)
    assert not_modified == ((modified if none_match is None else none_match) is False)


@given(junk, junk, junk, junk)
def test_no_header_value_raises_an_exception(match: str, since: str, range_: str, if_range: str) -> None:
    is_not_modified('"a"', MODIFIED, match, since)
    is_precondition_failed('"a"', MODIFIED, match, since)
    byte_range = parse_range(100, '"a"', MODIFIED, range_, if_range)
    assert byte_range in (None, UNSATISFIABLE) or 0 <= byte_range.start < byte_range.stop <= 100


@pytest.mark.parametrize("since", ["", "yesterday", "Fri, 99 Jan 2026 03:04:05 GMT", "2026-01-02"])
def test_an_invalid_date_is_ignored(since: str) -> None:
    assert not is_not_modified('"a"', MODIFIED, None, since)
    assert not is_precondition_failed('"a"', MODIFIED, None, since)


@given(st.integers(1, 10**9), st.data())
def test_a_range_is_from_its_first_to_its_last_byte(size: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 2 * size))
    last = data.draw(st.integers(first, 3 * size))
    expected = ByteRange(first, min(size, last + 1)) if first < size else UNSATISFIABLE
    assert parse_range(size, '"a"', MODIFIED, f"bytes={first}-{last}", None) == expected


@given(st.integers(1, 10**9), st.integers(0, 2 * 10**9))
def test_open_ranges_extend_to_the_end(size: int, number: int) -> None:
    rest = ByteRange(number, size) if number < size else UNSATISFIABLE
    assert parse_range(size, '"a"', MODIFIED, f"bytes={number}-", None) == rest
    tail = ByteRange(max(0, size - number), size) if number else UNSATISFIABLE
    assert parse_range(size, '"a"', MODIFIED, f"bytes=-{number}", None) == tail


@pytest.mark.parametrize(
    "range_",
    ["bytes=0-1,2-3", "bytes=2-1", "bytes=-", "bytes", "0-1", "items=0-1", f"bytes={'9' * 40}-", "bytes=٣-"],
)
def test_invalid_and_multiple_ranges_are_ignored(range_: str) -> None:
    assert parse_range(9, '"a"', MODIFIED, range_, None) is None


@pytest.mark.parametrize(
    ("if_range", "counts"),
    [
        ('"a"', True),
        ('W/"a"', False),
        ('"b"', False),
        (DATE, True),
        (http_date(MODIFIED + timedelta(1)), False),
    ],
)
def test_if_range_uses_the_strong_comparison(if_range: str, counts: bool) -> None:
    byte_range = parse_range(9, '"a"', MODIFIED, "bytes=1-2", if_range)
    assert byte_range == (ByteRange(1, 3) if counts else None)


@given(st.text(max_size=60))
@example("Mon, 01 Jan 99999999999999 00:00:00 GMT")
@example("1 Jan 2020 99999999999999999999:0:0")
@example("Mon, 01 Jan 2020 00:00:00 +99999999999999999999")
def test_no_date_value_raises_an_exception(text: str) -> None:
    modified = datetime(2026, 1, 1, tzinfo=UTC)
    assert is_not_modified('"a"', modified, None, text) in (True, False)
    is_precondition_failed('"a"', modified, None, text)
    parse_range(100, '"a"', modified, "bytes=0-1", text)
