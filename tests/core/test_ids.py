"""Ids are random enough, evenly drawn, and read from text in one spelling only."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, cycle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import NotFoundError, ValidationError
from imagehost_core.ids import (
    ALPHABET,
    ID_LENGTH,
    MAX_ALBUM_ID,
    album_not_found_text,
    base62,
    delivery_not_found_text,
    image_not_found_text,
    new_delivery_id,
    new_event_id,
    new_image_id,
    new_key_id,
    new_webhook_id,
    parse_album_id,
    parse_image_id,
)


def bytes_of(values: Iterator[int]) -> Callable[[int], bytes]:
    """Return a source of bytes that gives these, one after the other."""
    return lambda count: bytes(next(values) for _ in range(count))


def test_the_alphabet_is_the_62_letters_and_digits_in_ascii_order() -> None:
    assert sorted(ALPHABET) == list(ALPHABET)
    assert set(ALPHABET) == set(string.ascii_letters + string.digits)


def test_an_image_id_has_at_least_95_random_bits() -> None:
    assert ID_LENGTH * math.log2(62) >= 95


def test_every_character_is_drawn_equally_often() -> None:
    drawn = base62(248, bytes_of(chain(range(256), cycle(range(248)))))
    assert set(Counter(drawn).values()) == {4}


def test_bytes_that_would_favour_some_characters_are_thrown_away() -> None:
    assert base62(3, bytes_of(cycle([248, 255, 0, 61, 62, 247, 250]))) == "0z0"
    assert set(base62(100, bytes_of(cycle([248, 251, 255, 5])))) == {"5"}


@given(st.integers(0, 200), st.randoms(use_true_random=False))
def test_base62_has_the_length_that_was_asked_for(length: int, random: Random) -> None:
    text = base62(length, random.randbytes)
    assert len(text) == length
    assert set(text) <= set(ALPHABET)


def test_ten_thousand_ids_are_all_different_and_all_valid() -> None:
    ids = {new_image_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert {parse_image_id(text) for text in ids} == ids


def test_ids_come_from_the_given_source_alone() -> None:
    zeros = bytes_of(cycle([0]))
    assert new_image_id(zeros) == "0" * 16
    assert {make(zeros) for make in (new_key_id, new_webhook_id, new_delivery_id)} == {"0" * 16}
    assert new_event_id(zeros) == "msg_" + "0" * 24


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 15,
        "0" * 17,
        "0" * 15 + "-",
        "0" * 15 + "_",
        "0" * 16 + "\n",
        "\n" + "0" * 15,
        "0" * 15 + "é",
        "０" * 16,
        "٣" * 16,
        "../../etc/passwd",
        "0" * 15 + "\0",
        " " + "0" * 15,
        "%30" * 5 + "0",
    ],
)
def test_text_of_another_shape_is_nobodys_image(text: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        parse_image_id(text)
    assert caught.value.details == image_not_found_text(text)


@given(st.text(ALPHABET, min_size=16, max_size=16))
def test_any_16_characters_of_base62_may_be_an_image(text: str) -> None:
    assert parse_image_id(text) == text


@given(st.integers(1, MAX_ALBUM_ID))
def test_an_album_id_is_taken_as_an_integer_or_its_decimal_text(number: int) -> None:
    assert parse_album_id(number) == number
    assert parse_album_id(str(number)) == number


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        True,
        False,
        MAX_ALBUM_ID + 1,
        pytest.param(10**5000, id="an integer that has no text"),
        1.0,
        None,
        [1],
        b"1",
        "",
        "0",
        "-1",
        "+1",
        "007",
        "1.0",
        "1e3",
        "1_0",
        " 1",
        "1 ",
        "1\n",
        "0x1",
        "１",
        "٣",
        "²",
        str(MAX_ALBUM_ID + 1),
        "9" * 5000,
        "None",
        "1,2",
    ],
)
def test_anything_else_is_no_album_id(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_album_id(value)  # type: ignore[arg-type]
    (fault,) = caught.value.errors
    assert (fault.name, fault.expected) == ("album_id", "a positive integer")


def test_a_missing_thing_is_named_as_it_was_asked_for() -> None:
    assert image_not_found_text("x") == "expected the id of an image of yours but received 'x'"
    assert album_not_found_text(5) == "expected the id of an album of yours but received 5"
    assert delivery_not_found_text("x") == "expected the URL of an image that you may see but received 'x'"
