"""JSON responses: the mapping of exceptions to errors, and the encoding of records."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from litestar.exceptions import (
    ClientException,
    HTTPException,
    InternalServerException,
    MethodNotAllowedException,
    NotFoundException,
)

from imagehost_core.error_responses import method_not_allowed
from imagehost_core.errors import BY_CODE, ImageHostError, InternalError, RateLimitError, UnavailableError
from imagehost_core.events import DeletedImage
from imagehost_core.ids import ImageId
from imagehost_server.http.responses import (
    error_response,
    routing_error,
    success_response,
)


def error_of(kind: type[ImageHostError]) -> ImageHostError:
    return RateLimitError("why", retry_after=7) if kind is RateLimitError else kind("why")


@pytest.mark.parametrize("kind", [kind for kind in BY_CODE.values() if kind is not InternalError])
def test_every_error_has_its_status_and_three_members(kind: type[ImageHostError]) -> None:
    response = error_response(error_of(kind), {"request_id": "id"})
    assert response.status == kind.status
    assert msgspec.json.decode(response.body) == {
        "success": False,
        "error": {"code": kind.code, "message": kind.default_message, "details": "why"},
    }


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (error_of(BY_CODE["UNAUTHORIZED"]), ("www-authenticate", "Bearer")),
        (RateLimitError(retry_after=7), ("retry-after", "7")),
        (UnavailableError(retry_after=3), ("retry-after", "3")),
        (method_not_allowed("GET, POST", "PUT"), ("allow", "GET, POST")),
    ],
)
def test_some_errors_have_a_header(error: Exception, header: tuple[str, str]) -> None:
    assert header in error_response(error, {"request_id": "id"}).headers


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (routing_error(NotFoundException(), "GET", "/x"), "NOT_FOUND"),
        (
            routing_error(MethodNotAllowedException(headers={"allow": "GET"}), "PUT", "/"),
            "METHOD_NOT_ALLOWED",
        ),
        (ClientException("Invalid host header"), "BAD_REQUEST"),
        (HTTPException(status_code=413, detail="big"), "PAYLOAD_TOO_LARGE"),
        (HTTPException(status_code=418, detail="tea"), "BAD_REQUEST"),
        (InternalServerException("secret"), "INTERNAL_ERROR"),
        (ValueError("secret"), "INTERNAL_ERROR"),
        (InternalError("secret"), "INTERNAL_ERROR"),
        (KeyError("secret"), "INTERNAL_ERROR"),
    ],
)
def test_errors_of_the_framework_and_internal_errors_are_mapped(error: Exception, code: str) -> None:
    response = error_response(error, {"request_id": "id"})
    assert response.status == BY_CODE[code].status
    assert msgspec.json.decode(response.body)["error"]["code"] == code
    assert b"secret" not in response.body


def test_the_cause_of_an_unavailable_database_is_logged_once_without_traceback_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = UnavailableError("expected a response of a database but received none")
    error.__cause__ = OSError("secret")
    for _ in range(3):
        assert b"secret" not in error_response(error, {"request_id": "the-id"}).body
    (record,) = caplog.records
    assert record.exc_info is None
    assert vars(record)["fields"]["cause"] == "OSError: secret"


def test_client_errors_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    error_response(error_of(BY_CODE["NOT_FOUND"]), {"request_id": "id"})
    assert caplog.records == []


def test_datetimes_have_six_digits_of_microseconds() -> None:
    deleted = DeletedImage(
        id=ImageId("0" * 16), album_id=None, deleted_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    data = msgspec.json.decode(success_response({"deleted": [deleted]}).body)["data"]
    assert data == {
        "deleted": [{"id": "0" * 16, "album_id": None, "deleted_at": "2026-01-02T03:04:05.000000Z"}]
    }
