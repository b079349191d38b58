"""Parsers of field values: canonical integers and named choices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core._util.fields import parse_choice, parse_int_field, parse_positive_int
from imagehost_core.errors import FieldError

MAXIMUM = 2**63 - 1
SIZES = {"small": 1, "large": 2}


@given(st.integers(1, MAXIMUM), st.integers(1, MAXIMUM))
def test_an_integer_and_its_canonical_text_are_accepted_up_to_the_maximum(number: int, maximum: int) -> None:
    expected = number if number <= maximum else None
    assert parse_positive_int(number, maximum) == parse_positive_int(str(number), maximum) == expected


@given(st.text() | st.integers(max_value=0) | st.booleans() | st.floats() | st.none() | st.binary())
def test_any_other_value_is_rejected(value: object) -> None:
    number = parse_positive_int(value, MAXIMUM)
    assert number is None or value == str(number)


def test_an_invalid_integer_appends_an_error_and_a_valid_one_does_not() -> None:
    errors: list[FieldError] = []
    assert parse_int_field("w", "300", 8192, errors) == 300
    assert errors == []
    assert parse_int_field("w", "0300", 8192, errors) is None
    assert errors == [FieldError("w", "an integer from 1 to 8192", "'0300'")]


@pytest.mark.parametrize("value", ["", "Small", "medium", None, 1, ["small"]])
def test_an_unknown_choice_appends_an_error(value: object) -> None:
    errors: list[FieldError] = []
    assert parse_choice("size", value, SIZES, errors) is None
    assert [(error.name, error.expected) for error in errors] == [("size", "one of small, large")]


def test_case_is_ignored_only_on_request() -> None:
    errors: list[FieldError] = []
    assert parse_choice("size", "LARGE", SIZES, errors, ignore_case=True) == 2
    assert errors == []
    assert parse_choice("size", "LARGE", SIZES, errors) is None
    assert len(errors) == 1
