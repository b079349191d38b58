"""Errors: one class for each code, with everything that the answer said, and nothing secret."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from imagehost_client import errors
from imagehost_client.errors import BY_CODE, BY_STATUS, ImageHostError
from imagehost_client.models import RateLimit

KINDS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ImageHostError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling_with_all_that_it_says(kind: type[ImageHostError]) -> None:
    error = kind(
        "expected an integer from 1 to 100 for quality but received '0'",
        status=422,
        request_id="r1",
        rate_limit=RateLimit(60, 0, datetime(2026, 1, 1, tzinfo=UTC)),
        retry_after=2.0,
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert repr(again) == repr(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_says_what_it_means_and_stands_in_the_tree_of_the_module(
    kind: type[ImageHostError],
) -> None:
    assert kind.__doc__
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


def test_every_code_of_the_contract_has_a_class() -> None:
    assert set(BY_CODE) == {
        "BAD_REQUEST",
        "UNAUTHORIZED",
        "FORBIDDEN",
        "NOT_FOUND",
        "METHOD_NOT_ALLOWED",
        "CONFLICT",
        "PAYLOAD_TOO_LARGE",
        "UNSUPPORTED_MEDIA_TYPE",
        "VALIDATION_ERROR",
        "RATE_LIMIT_EXCEEDED",
        "INSUFFICIENT_STORAGE",
        "INTERNAL_ERROR",
        "SERVICE_UNAVAILABLE",
    }
    assert {BY_STATUS[status] for status in (400, 401, 403, 404, 413, 415, 422, 429, 507)} <= set(
        BY_CODE.values()
    )


@pytest.mark.parametrize(
    ("details", "field"),
    [
        ("expected an integer from 1 to 100 for quality but received '0'", "quality"),
        ("expected a file for files[] or image but received none", None),
        ("expected a file for files[] but received none", "files[]"),
        ("", None),
    ],
)
def test_an_error_names_the_field_that_its_details_name(details: str, field: str | None) -> None:
    assert ImageHostError(details).field == field


def test_the_text_of_an_error_gives_message_details_and_request() -> None:
    assert str(ImageHostError("why", message="What", request_id="r9")) == "What: why (request r9)"
    assert str(ImageHostError()) == "The call failed"


def test_a_time_out_is_a_failed_connection_and_a_wrong_setting_a_value_error() -> None:
    assert issubclass(errors.APITimeoutError, errors.APIConnectionError)
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.UnavailableError, errors.ServerError)
