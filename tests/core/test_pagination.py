"""Parsing of page requests and cursors."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError
from imagehost_core.lists import MAX_PAGE, CursorPosition, PageRequest, encode_cursor, parse_page_request

IDS = st.from_regex(r"[0-9A-Za-z]{16}|[1-9][0-9]{0,18}|msg_[0-9A-Za-z]{24}", fullmatch=True)
KEYS = st.one_of(
    st.integers(0, 10**18 - 1), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)
LIST_IDS = st.from_regex(r"[0-9a-f]{12}", fullmatch=True)
POSITIONS = st.builds(CursorPosition, list_id=LIST_IDS, key=KEYS, id=IDS)

NOT_CANONICAL = ["", "0", "-1", "+1", "01", "007", "1.0", "1e1", " 1", "1 ", "1\n", "1_0", "0x1", "abc"]
NOT_CANONICAL += ["１", "٣", "²", "1,2", "null", "true", "99999999999999999999", "9" * 5000]


def test_the_default_is_the_first_page_of_20_items() -> None:
    assert parse_page_request() == PageRequest(page=1, per_page=20, after=None)


@given(page=st.integers(1, MAX_PAGE), per_page=st.integers(1, 100))
def test_every_page_of_1_to_100_items_can_be_requested(page: int, per_page: int) -> None:
    request = parse_page_request(str(page), str(per_page))
    assert request == parse_page_request(page, per_page) == PageRequest(page, per_page)
    assert request.offset == (page - 1) * per_page


@given(page=st.integers(1, 10**6), per_page=st.integers(1, 100))
def test_pages_are_contiguous(page: int, per_page: int) -> None:
    assert PageRequest(page + 1, per_page).offset == PageRequest(page, per_page).offset + per_page


@pytest.mark.parametrize("text", NOT_CANONICAL)
@pytest.mark.parametrize("name", ["page", "per_page"])
def test_text_that_is_not_a_canonical_integer_is_rejected(name: str, text: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(**{name: text})
    assert [error.name for error in caught.value.errors] == [name]


@pytest.mark.parametrize(
    ("name", "value"), [("per_page", 101), ("per_page", 0), ("page", 0), ("page", 2**31)]
)
def test_an_integer_out_of_range_is_rejected_as_text_and_as_int(name: str, value: int) -> None:
    for parameter in (value, str(value)):
        with pytest.raises(BadRequestError) as caught:
            parse_page_request(**{name: parameter})  # type: ignore[arg-type]
        assert [error.name for error in caught.value.errors] == [name]
    with pytest.raises(BadRequestError):
        PageRequest(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, 1.0, None, "1", pytest.param(10**5000, id="too long for str()")])
def test_a_page_request_cannot_be_constructed_from_other_types(value: object) -> None:
    with pytest.raises(BadRequestError) as caught:
        PageRequest(page=value, per_page=value)  # type: ignore[arg-type]
    assert [error.name for error in caught.value.errors] == ["page", "per_page"]


@pytest.mark.parametrize("value", [True, pytest.param(10**5000, id="too long for str()")])
def test_bools_and_huge_integers_are_rejected(value: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(value, 101)
    assert [error.name for error in caught.value.errors] == ["page", "per_page"]


def test_all_errors_are_reported_together() -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request("x", "101", "!")
    assert caught.value.details == (
        "expected an integer from 1 to 2147483647 for page but received 'x'; "
        "expected an integer from 1 to 100 for per_page but received '101'; "
        "expected a next_cursor of this list for cursor but received '!'"
    )


@given(POSITIONS)
def test_a_cursor_encodes_its_position(position: CursorPosition) -> None:
    request = parse_page_request(cursor=encode_cursor(position))
    assert request.after == position
    assert request.offset == 0


@pytest.mark.parametrize("page", [1, "1", 2, "2"])
def test_a_page_number_together_with_a_cursor_is_rejected(page: str | int) -> None:
    position = CursorPosition("0123456789ab", 5, "abcd")
    with pytest.raises(BadRequestError, match="no page number together with a cursor for page"):
        parse_page_request(page, cursor=encode_cursor(position))
    with pytest.raises(BadRequestError, match="no page number together with a cursor for page"):
        PageRequest(page=2, after=position)


@given(POSITIONS)
def test_a_cursor_needs_no_escaping_in_a_url(position: CursorPosition) -> None:
    assert set(encode_cursor(position)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(POSITIONS, POSITIONS)
def test_different_positions_have_different_cursors(one: CursorPosition, other: CursorPosition) -> None:
    assert (encode_cursor(one) == encode_cursor(other)) is (one == other)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "!!!!",
        "=",
        "====",
        "é",
        "\udc80",
        "\0",
        "null",
        urlsafe_b64encode(b"0123456789ab.abc").decode(),
        urlsafe_b64encode(b"0123456789ab.abc.").decode(),
        urlsafe_b64encode(b"0123456789ab..5").decode(),
        urlsafe_b64encode(b"0123456789ab.abc.-0").decode().rstrip("="),
        urlsafe_b64encode(b"0123456789ab.a;DROP TABLE images.5").decode().rstrip("="),
        urlsafe_b64encode("0123456789ab.abc.٣".encode()).decode().rstrip("="),
        urlsafe_b64encode(b"0123456789ab.abc.5\n").decode().rstrip("="),
        urlsafe_b64encode(b'0123456789ab.abc."\xff').decode().rstrip("="),
        urlsafe_b64encode(b'0123456789ab.abc."\0').decode().rstrip("="),
        urlsafe_b64encode(b'0123456789ab.abc."\xed\xa0\x80').decode().rstrip("="),
        urlsafe_b64encode(b"0123456789ab.abc." + b"9" * 19).decode().rstrip("="),
        urlsafe_b64encode(b"0123456789ab.abc.05").decode().rstrip("="),
        urlsafe_b64encode(b"5.abcd").decode().rstrip("="),
        "A" * 100_000,
    ],
)
def test_an_invalid_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(cursor=cursor)
    assert [error.name for error in caught.value.errors] == ["cursor"]


@given(st.text())
@example("NS5hYmNk ")
@example("NS5hYmN k")
@example("NS5hYmNk!")
@example("NS5hYmM=")
@example("NS5hYmN")
def test_any_text_is_a_canonical_cursor_or_rejected(text: str) -> None:
    try:
        request = parse_page_request(cursor=text)
    except BadRequestError:
        return
    assert request.after is not None
    assert encode_cursor(request.after) == text
