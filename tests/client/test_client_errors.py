"""Errors: one class for each code, pickling, and texts."""

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
def test_an_error_can_be_pickled(kind: type[ImageHostError]) -> None:
    error = kind(
        "expected an integer from 1 to 100 for quality but received '0'",
        status=422,
        request_id="r1",
        rate_limit=RateLimit(60, 0, datetime(2026, 1, 1, tzinfo=UTC)),
        retry_after=2.0,
    )
    unpickled = pickle.loads(pickle.dumps(error))
    assert type(unpickled) is kind
    assert vars(unpickled) == vars(error)
    assert str(unpickled) == str(error)
    assert repr(unpickled) == repr(error)


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_has_a_docstring_and_is_in_the_tree_of_the_module(
    kind: type[ImageHostError],
) -> None:
    assert kind.__doc__
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


def test_every_error_code_has_a_class() -> None:
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
    ("details", "fields"),
    [
        ("expected an integer from 1 to 100 for quality but received '0'", ("quality",)),
        ("expected a file for files[] or image but received none", ()),
        ("expected a file for files[] but received none", ("files[]",)),
        ("expected x for w but received 0; expected y for items[3].h but received 1", ("w", "items[3].h")),
        ("expected x for w but received 0; expected y for w but received 1", ("w",)),
        ("", ()),
    ],
)
def test_the_fields_of_an_error_are_parsed_from_its_details(details: str, fields: tuple[str, ...]) -> None:
    assert ImageHostError(details).fields == fields


def test_the_text_of_an_error_has_message_details_and_request_id() -> None:
    assert str(ImageHostError("why", message="What", request_id="r9")) == "What: why (request r9)"
    assert str(ImageHostError()) == "The call failed"


def test_the_class_hierarchy_of_errors() -> None:
    assert issubclass(errors.APITimeoutError, errors.APIConnectionError)
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.UnavailableError, errors.ServerError)
