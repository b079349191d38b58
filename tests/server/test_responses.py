"""The envelope: one map from errors to answers, and records as the contract writes them."""

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

from imagehost_core.errors import BY_CODE, ImageHostError, InternalError, RateLimitError, UnavailableError
from imagehost_core.events import DeletedImage
from imagehost_core.ids import ImageId
from imagehost_server.http.responses import failure, success


def made(kind: type[ImageHostError]) -> ImageHostError:
    return RateLimitError("why", retry_after=7) if kind is RateLimitError else kind("why")


@pytest.mark.parametrize("kind", [kind for kind in BY_CODE.values() if kind is not InternalError])
def test_every_error_of_the_contract_has_its_status_and_its_three_members(kind: type[ImageHostError]) -> None:
    reply = failure(made(kind), "id")
    assert reply.status == kind.status
    assert msgspec.json.decode(reply.body) == {
        "success": False,
        "error": {"code": kind.code, "message": kind.default_message, "details": "why"},
    }


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (made(BY_CODE["UNAUTHORIZED"]), ("www-authenticate", "Bearer")),
        (RateLimitError(retry_after=7), ("retry-after", "7")),
        (UnavailableError(retry_after=3), ("retry-after", "3")),
        (MethodNotAllowedException(headers={"allow": "POST, GET"}), ("allow", "GET, POST")),
    ],
)
def test_an_error_carries_the_header_that_goes_with_it(error: Exception, header: tuple[str, str]) -> None:
    assert header in failure(error, "id").headers


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundException(), "NOT_FOUND"),
        (MethodNotAllowedException(headers={"allow": "GET"}), "METHOD_NOT_ALLOWED"),
        (ClientException("Invalid host header"), "BAD_REQUEST"),
        (HTTPException(status_code=413, detail="big"), "PAYLOAD_TOO_LARGE"),
        (HTTPException(status_code=418, detail="tea"), "BAD_REQUEST"),
        (InternalServerException("secret"), "INTERNAL_ERROR"),
        (ValueError("secret"), "INTERNAL_ERROR"),
        (InternalError("secret"), "INTERNAL_ERROR"),
        (KeyError("secret"), "INTERNAL_ERROR"),
    ],
)
def test_the_frameworks_errors_and_faults_of_ours_are_errors_of_the_contract(
    error: Exception, code: str
) -> None:
    reply = failure(error, "id")
    assert reply.status == BY_CODE[code].status
    assert msgspec.json.decode(reply.body)["error"]["code"] == code
    assert b"secret" not in reply.body


def test_the_cause_of_a_busy_store_is_in_the_log_and_not_in_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = UnavailableError("busy")
    error.__cause__ = OSError("secret")
    assert b"secret" not in failure(error, "the-id").body
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error.__cause__


def test_what_is_not_our_fault_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    failure(made(BY_CODE["NOT_FOUND"]), "id")
    assert caplog.records == []


def test_times_have_six_digits_of_microseconds_also_where_there_are_none() -> None:
    gone = DeletedImage(
        id=ImageId("0" * 16), album_id=None, deleted_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    data = msgspec.json.decode(success({"gone": [gone]}).body)["data"]
    assert data == {"gone": [{"id": "0" * 16, "album_id": None, "deleted_at": "2026-01-02T03:04:05.000000Z"}]}
