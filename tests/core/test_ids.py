"""Generation and parsing of identifiers."""

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
    DeliveryId,
    KeyId,
    WebhookId,
    album_not_found_text,
    base62,
    delivery_not_found_text,
    image_not_found_text,
    new_event_id,
    new_id,
    new_image_id,
    parse_album_id,
    parse_image_id,
)


def bytes_of(values: Iterator[int]) -> Callable[[int], bytes]:
    """Return a random source that returns the given values in order."""
    return lambda count: bytes(next(values) for _ in range(count))


def test_the_alphabet_is_the_62_letters_and_digits_in_ascii_order() -> None:
    assert sorted(ALPHABET) == list(ALPHABET)
    assert set(ALPHABET) == set(string.ascii_letters + string.digits)


def test_an_image_id_has_at_least_95_random_bits() -> None:
    assert ID_LENGTH * math.log2(62) >= 95


def test_characters_are_uniformly_distributed() -> None:
    text = base62(248, bytes_of(chain(range(256), cycle(range(248)))))
    assert set(Counter(text).values()) == {4}


def test_bytes_that_would_bias_the_distribution_are_rejected() -> None:
    assert base62(3, bytes_of(cycle([248, 255, 0, 61, 62, 247, 250]))) == "0z0"
    assert set(base62(100, bytes_of(cycle([248, 251, 255, 5])))) == {"5"}


@given(st.integers(0, 200), st.randoms(use_true_random=False))
def test_base62_has_the_requested_length(length: int, random: Random) -> None:
    text = base62(length, random.randbytes)
    assert len(text) == length
    assert set(text) <= set(ALPHABET)


def test_ten_thousand_ids_are_unique_and_valid() -> None:
    ids = {new_image_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    assert {parse_image_id(text) for text in ids} == ids


def test_ids_depend_on_the_random_source_only() -> None:
    zeros = bytes_of(cycle([0]))
    assert new_image_id(zeros) == "0" * 16
    assert {new_id(kind, zeros) for kind in (KeyId, WebhookId, DeliveryId)} == {"0" * 16}
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
def test_text_of_another_form_is_not_found_as_an_image(text: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        parse_image_id(text)
    assert caught.value.details == image_not_found_text(text)


@given(st.text(ALPHABET, min_size=16, max_size=16))
def test_any_16_characters_of_base62_are_an_image_id(text: str) -> None:
    assert parse_image_id(text) == text


@given(st.integers(1, MAX_ALBUM_ID))
def test_an_album_id_is_parsed_from_an_integer_or_its_decimal_text(number: int) -> None:
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
        pytest.param(10**5000, id="too long for str()"),
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
def test_any_other_value_is_rejected_as_an_album_id(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_album_id(value)  # type: ignore[arg-type]
    (error,) = caught.value.errors
    assert (error.name, error.expected) == ("album_id", "a positive integer")


def test_the_details_for_a_missing_resource_quote_the_requested_id() -> None:
    assert image_not_found_text("x") == "expected the id of one of your images but received 'x'"
    assert album_not_found_text(5) == "expected the id of one of your albums but received 5"
    assert delivery_not_found_text("x") == "expected the URL of an image that you may see but received 'x'"
