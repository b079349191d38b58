"""Error classes: codes, statuses, texts and pickling."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import (
    BY_CODE,
    COMBINED,
    BadRequestError,
    ConflictError,
    ErrorCollector,
    FieldError,
    ImageHostError,
    NotFoundError,
    RateLimitError,
    UnavailableError,
    ValidationError,
    combine,
    quote_value,
)

STATUS_BY_CODE = {
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

FIELD_ERRORS = (FieldError("w", "an integer", "'x'"), FieldError("h", "an integer", "'y'"))


def make(kind: type[ImageHostError]) -> ImageHostError:
    if issubclass(kind, RateLimitError | UnavailableError):
        return kind("expected a but received b", retry_after=17)
    return kind("expected a but received b", errors=FIELD_ERRORS)


def test_every_code_has_one_class_with_its_status() -> None:
    assert {code: kind.status for code, kind in BY_CODE.items()} == STATUS_BY_CODE


def test_every_error_class_is_in_the_table_by_code() -> None:
    classes = {
        kind for kind in ImageHostError.__subclasses__() if kind.__module__ == ImageHostError.__module__
    }
    assert set(BY_CODE.values()) == classes


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_every_class_has_a_short_default_message(kind: type[ImageHostError]) -> None:
    assert 0 < len(kind.default_message) <= 40
    assert kind.default_message != ImageHostError.default_message


def test_the_default_messages_differ() -> None:
    assert len({kind.default_message for kind in BY_CODE.values()}) == len(BY_CODE)


@pytest.mark.parametrize(
    "copier", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("kind", [ImageHostError, *BY_CODE.values()])
def test_pickling_and_copying_preserve_all_fields(
    kind: type[ImageHostError], copier: Callable[[ImageHostError], ImageHostError]
) -> None:
    error = make(kind)
    error.add_note("worker 3")
    copied = copier(error)
    assert type(copied) is kind
    assert vars(copied) == vars(error)
    assert (str(copied), copied.args, copied.code) == (str(error), error.args, error.code)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_can_be_pickled_with_every_protocol(protocol: int) -> None:
    error = pickle.loads(pickle.dumps(RateLimitError("later", retry_after=3), protocol))
    assert (error.retry_after, error.details) == (3, "later")


def test_the_details_contain_all_field_errors() -> None:
    error = ValidationError(errors=iter(FIELD_ERRORS))
    assert error.errors == FIELD_ERRORS
    assert error.details == (
        "expected an integer for w but received 'x'; expected an integer for h but received 'y'"
    )


def test_explicit_details_replace_those_of_the_field_errors() -> None:
    assert BadRequestError("specific details", errors=FIELD_ERRORS).details == "specific details"


def test_an_explicit_message_replaces_the_default() -> None:
    assert BadRequestError("d", message="Short").message == "Short"
    assert BadRequestError("d", message="").message == BadRequestError.default_message


def test_str_is_message_and_details() -> None:
    assert str(BadRequestError("d", message="m")) == "m: d"
    assert str(BadRequestError()) == "The request parameters are wrong"


def test_retry_after_of_unavailable_error_is_one_second_by_default() -> None:
    assert UnavailableError().retry_after == 1


@pytest.mark.parametrize(
    ("value", "quoted"),
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
        pytest.param(-(10**5000), "an integer of 16,610 bits", id="too long for str()"),
    ],
)
def test_a_received_value_is_quoted_and_printable(value: object, quoted: str) -> None:
    assert quote_value(value) == quoted


def test_only_text_beyond_the_limit_is_shortened() -> None:
    assert quote_value("x" * 58) == "'" + "x" * 58 + "'"
    assert quote_value("x" * 59) == "'" + "x" * 58 + "…"
    assert quote_value("x" * 10_000_000) == quote_value("x" * 59)


@given(st.text() | st.integers() | st.binary() | st.floats(), st.integers(8, 100))
def test_a_quoted_value_is_printable_and_at_most_as_long_as_the_limit(value: object, limit: int) -> None:
    quoted = quote_value(value, limit)
    assert len(quoted) <= max(limit, len("an integer of 1,000 bits"))
    assert quoted.isprintable()


@given(st.lists(st.sampled_from(COMBINED), min_size=1, max_size=5))
def test_errors_found_together_have_the_first_of_400_404_and_422(kinds: list[type[ImageHostError]]) -> None:
    errors = [kind(errors=[FieldError(f"f{index}", "x", "y")]) for index, kind in enumerate(kinds)]
    combined = combine(errors)
    assert combined.status == min(kind.status for kind in kinds)
    assert [error.name for error in combined.errors] == [f"f{index}" for index in range(len(kinds))]
    assert combined.details == "; ".join(error.details for error in errors)


def test_combined_errors_name_equal_errors_once_and_keep_details_without_fields() -> None:
    missing, invalid = NotFoundError("no such image"), ValidationError(errors=FIELD_ERRORS)
    combined = combine([invalid, missing, invalid])
    assert type(combined) is NotFoundError
    assert combined.details == f"{invalid.details}; no such image"


def test_a_collector_raises_what_it_caught_and_added_together() -> None:
    def fail() -> None:
        raise ValidationError("first")

    errors = ErrorCollector()
    errors.raise_if_any()
    with errors.catch():
        fail()
    errors.add(BadRequestError("second"))
    with pytest.raises(BadRequestError, match="first; second"):
        errors.raise_if_any()


def test_a_collector_does_not_catch_errors_of_other_classes() -> None:
    with pytest.raises(ConflictError), ErrorCollector().catch():
        raise ConflictError("a conflict")


def test_an_error_names_each_of_its_fields_once() -> None:
    names = ["quality", "album_id", "quality"]
    assert ValidationError(errors=[FieldError(name, "1", "2") for name in names]).fields == (
        "quality",
        "album_id",
    )
    assert NotFoundError("expected one").fields == ()
