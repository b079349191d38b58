"""Errors keep what they know, show what is public, and match the contract's table."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import (
    BY_CODE,
    BadRequestError,
    FieldError,
    ImageHostError,
    RateLimitError,
    UnavailableError,
    ValidationError,
    quote_value,
)

CONTRACT = {
    "BAD_REQUEST": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CONFLICT": 409,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "VALIDATION_ERROR": 422,
    "RATE_LIMIT_EXCEEDED": 429,
    "INTERNAL_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
    "INSUFFICIENT_STORAGE": 507,
}
"""SPEC 7 and contract 2."""

FAULTS = (FieldError("w", "an integer", "'x'"), FieldError("h", "an integer", "'y'"))


def make(kind: type[ImageHostError]) -> ImageHostError:
    if issubclass(kind, RateLimitError | UnavailableError):
        return kind("expected a but received b", retry_after=17)
    return kind("expected a but received b", errors=FAULTS)


def test_every_row_of_the_contract_has_one_class_with_its_status() -> None:
    assert {code: kind.status for code, kind in BY_CODE.items()} == CONTRACT


def test_the_table_by_code_names_every_class_of_the_core() -> None:
    ours = {kind for kind in ImageHostError.__subclasses__() if kind.__module__ == ImageHostError.__module__}
    assert set(BY_CODE.values()) == ours


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_every_class_has_a_short_message_of_its_own(kind: type[ImageHostError]) -> None:
    assert 0 < len(kind.default_message) <= 40
    assert kind.default_message != ImageHostError.default_message


def test_the_default_messages_differ() -> None:
    assert len({kind.default_message for kind in BY_CODE.values()}) == len(BY_CODE)


@pytest.mark.parametrize(
    "copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("kind", [ImageHostError, *BY_CODE.values()])
def test_an_error_survives_pickling_and_copying_with_all_its_fields(
    kind: type[ImageHostError], copied: Callable[[ImageHostError], ImageHostError]
) -> None:
    error = make(kind)
    error.add_note("seen by worker 3")
    twin = copied(error)
    assert type(twin) is kind
    assert vars(twin) == vars(error)
    assert (str(twin), twin.args, twin.code) == (str(error), error.args, error.code)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_can_be_pickled_under_every_protocol(protocol: int) -> None:
    error = pickle.loads(pickle.dumps(RateLimitError("later", retry_after=3), protocol))
    assert (error.retry_after, error.details) == (3, "later")


def test_all_faults_are_named_in_the_details() -> None:
    error = ValidationError(errors=iter(FAULTS))
    assert error.errors == FAULTS
    assert error.details == (
        "expected an integer for w but received 'x'; expected an integer for h but received 'y'"
    )


def test_given_details_are_shown_instead_of_the_faults() -> None:
    assert BadRequestError("more to the point", errors=FAULTS).details == "more to the point"


def test_a_message_can_be_given_in_place_of_the_classs_own() -> None:
    assert BadRequestError("d", message="Short").message == "Short"
    assert BadRequestError("d", message="").message == BadRequestError.default_message


def test_the_text_of_an_error_is_its_message_and_details() -> None:
    assert str(BadRequestError("d", message="m")) == "m: d"
    assert str(BadRequestError()) == "The request parameters are wrong"


def test_a_busy_service_may_be_asked_again_after_a_second_unless_it_says_otherwise() -> None:
    assert UnavailableError().retry_after == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("w", "'w'"),
        ("", "''"),
        ("a\nb", r"'a\nb'"),
        ("\u202egnp", r"'\u202egnp'"),
        ("\ud800", r"'\ud800'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        (5, "5"),
        (None, "None"),
        (True, "True"),
        (b"a", "b'a'"),
        (10**59, "1" + "0" * 59),
        pytest.param(-(10**5000), "an integer of 16,610 bits", id="an integer that has no text"),
    ],
)
def test_what_was_received_is_shown_quoted_and_printable(value: object, shown: str) -> None:
    assert quote_value(value) == shown


def test_a_text_that_just_fits_is_shown_whole_and_a_longer_one_is_cut() -> None:
    assert quote_value("x" * 58) == "'" + "x" * 58 + "'"
    assert quote_value("x" * 59) == "'" + "x" * 58 + "…"
    assert quote_value("x" * 10_000_000) == quote_value("x" * 59)


@given(st.text() | st.integers() | st.binary() | st.floats(), st.integers(8, 100))
def test_what_is_shown_is_never_longer_than_its_limit_and_always_printable(value: object, limit: int) -> None:
    shown = quote_value(value, limit)
    assert len(shown) <= max(limit, len("an integer of 1,000 bits"))
    assert shown.isprintable()
