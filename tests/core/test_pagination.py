"""Pages are asked for by canonical numbers, and cursors come back as they went out or not at all."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.errors import BadRequestError
from imagehost_core.pagination import MAX_PAGE, CursorPosition, PageRequest, encode_cursor, parse_page_request

IDS = st.from_regex(r"[0-9A-Za-z]{16}|[1-9][0-9]{0,18}|msg_[0-9A-Za-z]{24}", fullmatch=True)
PLACES = st.builds(CursorPosition, micros=st.integers(0, 10**18 - 1), id=IDS)

NOT_CANONICAL = ["", "0", "-1", "+1", "01", "007", "1.0", "1e1", " 1", "1 ", "1\n", "1_0", "0x1", "abc"]
NOT_CANONICAL += ["１", "٣", "²", "1,2", "null", "true", "99999999999999999999", "9" * 5000]


def test_without_parameters_it_is_the_first_page_of_20() -> None:
    assert parse_page_request() == PageRequest(page=1, per_page=20, after=None)


@given(page=st.integers(1, MAX_PAGE), per_page=st.integers(1, 100))
def test_every_page_of_1_to_100_items_can_be_asked_for(page: int, per_page: int) -> None:
    asked = parse_page_request(str(page), str(per_page))
    assert asked == parse_page_request(page, per_page) == PageRequest(page, per_page)
    assert asked.offset == (page - 1) * per_page


@given(page=st.integers(1, 10**6), per_page=st.integers(1, 100))
def test_pages_stand_side_by_side_without_a_gap(page: int, per_page: int) -> None:
    assert PageRequest(page + 1, per_page).offset == PageRequest(page, per_page).offset + per_page


@pytest.mark.parametrize("text", NOT_CANONICAL)
@pytest.mark.parametrize("name", ["page", "per_page"])
def test_what_is_no_canonical_integer_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(**{name: text})
    assert [fault.name for fault in caught.value.errors] == [name]


@pytest.mark.parametrize(
    ("name", "value"), [("per_page", 101), ("per_page", 0), ("page", 0), ("page", 2**31)]
)
def test_what_is_out_of_range_is_refused_as_text_and_as_a_number(name: str, value: int) -> None:
    for given_value in (value, str(value)):
        with pytest.raises(BadRequestError) as caught:
            parse_page_request(**{name: given_value})  # type: ignore[arg-type]
        assert [fault.name for fault in caught.value.errors] == [name]
    with pytest.raises(BadRequestError):
        PageRequest(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, 1.0, None, "1", pytest.param(10**5000, id="without a text")])
def test_a_page_request_cannot_be_built_of_anything_but_integers(value: object) -> None:
    with pytest.raises(BadRequestError) as caught:
        PageRequest(page=value, per_page=value)  # type: ignore[arg-type]
    assert [fault.name for fault in caught.value.errors] == ["page", "per_page"]


@pytest.mark.parametrize("value", [True, pytest.param(10**5000, id="without a text")])
def test_odd_numbers_of_an_embedding_program_are_refused(value: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(value, 101)
    assert [fault.name for fault in caught.value.errors] == ["page", "per_page"]


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request("x", "101", "!")
    assert caught.value.details == (
        "expected an integer from 1 to 2147483647 for page but received 'x'; "
        "expected an integer from 1 to 100 for per_page but received '101'; "
        "expected a next_cursor of this list for cursor but received '!'"
    )


@given(PLACES, st.integers(1, 100))
def test_a_cursor_leads_back_to_its_place(place: CursorPosition, page: int) -> None:
    asked = parse_page_request(page, cursor=encode_cursor(place))
    assert asked.after == place
    assert asked.offset == 0


@given(PLACES)
def test_a_cursor_needs_no_escaping_in_an_address(place: CursorPosition) -> None:
    assert set(encode_cursor(place)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(PLACES, PLACES)
def test_different_places_have_different_cursors(one: CursorPosition, other: CursorPosition) -> None:
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
        urlsafe_b64encode(b"5").decode(),
        urlsafe_b64encode(b"5.").decode(),
        urlsafe_b64encode(b".abc").decode(),
        urlsafe_b64encode(b"-5.abc").decode(),
        urlsafe_b64encode(b"5.a;DROP TABLE images").decode(),
        urlsafe_b64encode("٣.abc".encode()).decode(),
        urlsafe_b64encode(b"5.abc\n").decode(),
        urlsafe_b64encode(b"5.\xff").decode(),
        urlsafe_b64encode(b"9" * 19 + b".abc").decode(),
        urlsafe_b64encode(b"05.abcd").decode().rstrip("="),
        "A" * 100_000,
    ],
)
def test_rubbish_is_no_cursor(cursor: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_page_request(cursor=cursor)
    assert [fault.name for fault in caught.value.errors] == ["cursor"]


@given(st.text())
@example("NS5hYmNk ")
@example("NS5hYmN k")
@example("NS5hYmNk!")
@example("NS5hYmM=")
@example("NS5hYmN")
def test_any_text_is_the_one_spelling_of_a_place_or_refused(text: str) -> None:
    try:
        asked = parse_page_request(cursor=text)
    except BadRequestError:
        return
    assert asked.after is not None
    assert encode_cursor(asked.after) == text
