"""The I/O-free exchange: requests, delays and results, with scripted outcomes."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from imagehost_client import errors
from imagehost_client._calls import accounts, albums, downloads, images, uploads, webhooks
from imagehost_client._calls.call import Call
from imagehost_client._config import Config, resolve
from imagehost_client._exchange import Environment, Failure, Open, Reply, Send, Sleep, Step, exchange
from imagehost_client._multipart import Multipart
from imagehost_client._retry import FailureKind
from imagehost_client.files import open_file

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALBUM = {
    "id": 1,
    "name": "A",
    "description": "",
    "is_public": True,
    "image_count": 0,
    "public_image_count": 0,
    "cover_image_id": None,
    "cover_url": None,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}
CONNECTION_LOST = Failure(FailureKind.UNKNOWN, False, "ReadError")
NOT_SENT = Failure(FailureKind.NOT_SENT, False, "ConnectError")
TIMED_OUT = Failure(FailureKind.UNKNOWN, True, "ReadTimeout")


class ScriptedCall:
    """A call with scripted outcomes, which records requests and delays, on a simulated clock."""

    def __init__(self, call: Call[Any], *outcomes: Reply | Failure, **options: Any) -> None:
        self.sent: list[Send] = []
        self.slept: list[float] = []
        self.result: Any = None
        self.elapsed = 0.0
        self._durations = iter(options.pop("durations", ()))
        self.environment = options.pop("environment", None) or Environment()
        self.environment.now = lambda: NOW + timedelta(seconds=self.elapsed)
        self.environment.monotonic = lambda: self.elapsed
        self.environment.random = lambda: 0.5
        config: Config = evolve(resolve("https://h/v1", "t", environ={}), **options)
        self._outcomes = list(outcomes)
        steps = exchange(call, config, self.environment)
        outcome: object = None
        try:
            while True:
                outcome = self._execute(steps.send(outcome))
        except StopIteration as end:
            self.result = end.value

    def _execute(self, step: Step) -> object:
        if isinstance(step, Open):
            return open_file(step.part.source, step.part.filename)
        if isinstance(step, Sleep):
            self.slept.append(step.seconds)
            self.elapsed += step.seconds
            return None
        self.sent.append(step)
        self.elapsed += next(self._durations, 1)
        return self._outcomes.pop(0)


def reply(data: object, status: int = 200, **headers: str) -> Reply:
    wire_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, wire_headers, json.dumps({"success": True, "data": data}).encode())


def error_reply(code: str, status: int, **headers: str) -> Reply:
    wire_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"code": code, "message": "M", "details": "D"}
    return Reply(status, wire_headers, json.dumps({"success": False, "error": error}).encode())


BUSY = error_reply("SERVICE_UNAVAILABLE", 503)


def test_all_attempts_of_a_call_have_one_idempotency_key() -> None:
    environment = Environment()
    keys = iter("abc")
    environment.new_key = lambda: next(keys)
    scripted = ScriptedCall(
        albums.create_album("A"), BUSY, CONNECTION_LOST, reply(ALBUM), environment=environment
    )
    assert [send.headers["Idempotency-Key"] for send in scripted.sent] == ["a", "a", "a"]
    second = ScriptedCall(albums.create_album("A"), reply(ALBUM), environment=environment)
    assert second.sent[0].headers["Idempotency-Key"] == "b"
    explicit = ScriptedCall(
        albums.create_album("A", idempotency_key="mine"), reply(ALBUM), environment=environment
    )
    assert explicit.sent[0].headers["Idempotency-Key"] == "mine"


def test_calls_without_idempotency_support_send_no_key() -> None:
    assert "Idempotency-Key" not in ScriptedCall(albums.get_album(1), reply(ALBUM)).sent[0].headers


def test_no_step_contains_the_token() -> None:
    scripted = ScriptedCall(albums.get_album(1), reply(ALBUM))
    assert "authorization" not in {name.lower() for name in scripted.sent[0].headers}


def test_delays_double_up_to_the_cap() -> None:
    scripted = ScriptedCall(
        albums.get_album(1),
        *[BUSY] * 7,
        reply(ALBUM),
        retry=evolve(Config(base_url="", cdn_url="").retry, max_retries=7),
    )
    assert scripted.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert scripted.result.meta.attempts == 8


def test_retry_after_is_honoured() -> None:
    scripted = ScriptedCall(
        albums.get_album(1), error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="60"), reply(ALBUM)
    )
    assert scripted.slept == [60.25]


def test_a_retry_after_of_more_than_a_minute_raises_at_once() -> None:
    with pytest.raises(errors.RateLimitError) as caught:
        ScriptedCall(
            albums.get_album(1), error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="61", x_request_id="r")
        )
    assert (caught.value.retry_after, caught.value.request_id) == (61, "r")


def test_after_the_last_retry_the_last_error_is_raised() -> None:
    with pytest.raises(errors.UnavailableError):
        ScriptedCall(albums.get_album(1), CONNECTION_LOST, CONNECTION_LOST, CONNECTION_LOST, BUSY)
    with pytest.raises(errors.APIConnectionError, match="attempts: 4") as caught:
        ScriptedCall(albums.get_album(1), BUSY, BUSY, BUSY, CONNECTION_LOST)
    assert "https://h/v1" in caught.value.details
    assert "GET /albums/1" in caught.value.details
    with pytest.raises(errors.APITimeoutError):
        ScriptedCall(albums.get_album(1), TIMED_OUT, TIMED_OUT, TIMED_OUT, TIMED_OUT)


@pytest.mark.parametrize(
    "outcome", [CONNECTION_LOST, TIMED_OUT, error_reply("X", 502), error_reply("X", 504)]
)
@pytest.mark.parametrize(
    "call",
    [
        accounts.create_key("k"),
        accounts.change_password("a", "b"),
        accounts.create_account("a", "b"),
        accounts.create_session("a", "b"),
        webhooks.create_webhook("https://h"),
        webhooks.test_webhook("w"),
        webhooks.rotate_webhook_secret("w"),
        webhooks.retry_delivery("w", "d"),
    ],
    ids=lambda call: call.path,
)
def test_a_call_that_is_not_idempotent_is_not_retried_if_it_may_have_been_processed(
    call: Call[Any], outcome: Reply | Failure
) -> None:
    with pytest.raises(errors.ImageHostError):
        ScriptedCall(call, outcome)


@pytest.mark.parametrize("outcome", [NOT_SENT, BUSY, error_reply("RATE_LIMIT_EXCEEDED", 429)])
def test_every_call_is_retried_if_it_was_not_processed(outcome: Reply | Failure) -> None:
    key = {
        "id": "1",
        "name": "k",
        "prefix": "p",
        "scopes": [],
        "created_at": "2026-01-01T00:00:00Z",
        "token": "t",
    }
    assert ScriptedCall(accounts.create_key("k"), outcome, reply(key, 201)).result.token == "t"


def test_a_conflict_with_retry_after_is_retried() -> None:
    scripted = ScriptedCall(
        albums.create_album("A"), error_reply("CONFLICT", 409, retry_after="1"), reply(ALBUM, 201)
    )
    assert scripted.slept == [1.25]
    with pytest.raises(errors.ConflictError):
        ScriptedCall(albums.create_album("A"), error_reply("CONFLICT", 409))


def test_not_found_in_a_retry_of_a_delete_is_success() -> None:
    not_found = error_reply("NOT_FOUND", 404, x_request_id="r2")
    scripted = ScriptedCall(images.delete_image("a"), CONNECTION_LOST, not_found)
    assert (scripted.result.id, scripted.result.deleted) == ("a", True)
    assert (scripted.result.meta.request_id, scripted.result.meta.attempts) == ("r2", 2)
    assert ScriptedCall(albums.delete_album(3), BUSY, not_found).result.id == 3
    for unprocessed in (NOT_SENT, error_reply("RATE_LIMIT_EXCEEDED", 429)):
        with pytest.raises(errors.NotFoundError):
            ScriptedCall(images.delete_image("a"), unprocessed, not_found)
    with pytest.raises(errors.NotFoundError):
        ScriptedCall(images.delete_image("a"), not_found)
    with pytest.raises(errors.NotFoundError):
        ScriptedCall(images.get_image("a"), CONNECTION_LOST, not_found)


def test_an_image_that_a_retry_of_a_bulk_delete_does_not_find_counts_as_deleted() -> None:
    error = {"code": "NOT_FOUND", "message": "m", "details": "d"}
    results = [
        {"id": "a", "status": "not_found", "error": error},
        {"id": "b", "status": "failed", "error": error},
    ]
    (call,) = images.delete_images(["a", "b"])

    def statuses(*outcomes: Reply | Failure) -> list[tuple[str, bool]]:
        items = ScriptedCall(call, *outcomes, reply({"results": results})).result.items
        return [(str(item.status), item.error is None) for item in items]

    unchanged = [("not_found", False), ("failed", False)]
    assert statuses() == statuses(NOT_SENT) == statuses(error_reply("RATE_LIMIT_EXCEEDED", 429)) == unchanged
    assert (
        statuses(CONNECTION_LOST) == statuses(CONNECTION_LOST, NOT_SENT) == [("deleted", True), unchanged[1]]
    )


def test_a_deadline_limits_attempts_and_delays_together() -> None:
    scripted = ScriptedCall(albums.get_album(1), BUSY, reply(ALBUM), deadline=10.0, timeout=30.0)
    assert [send.timeout for send in scripted.sent] == [10.0, 10.0 - 1.25]
    with pytest.raises(errors.RateLimitError):
        ScriptedCall(
            albums.get_album(1), error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="10"), deadline=10.0
        )
    scripted = ScriptedCall(albums.get_album(1), reply(ALBUM), deadline=100.0, timeout=30.0)
    assert scripted.sent[0].timeout == 30.0
    assert ScriptedCall(albums.get_album(1), reply(ALBUM), timeout=None).sent[0].timeout is None
    assert ScriptedCall(albums.get_album(1), reply(ALBUM), timeout=None, deadline=5.0).sent[0].timeout == 5.0


def test_a_call_with_json_ends_within_a_minute_on_a_mute_host() -> None:
    with pytest.raises(errors.APITimeoutError, match=r"attempts: 1$"):
        ScriptedCall(albums.get_album(1), TIMED_OUT, durations=[60])
    scripted = ScriptedCall(albums.get_album(1), TIMED_OUT, TIMED_OUT, reply(ALBUM), durations=[20, 20, 5])
    assert [send.timeout for send in scripted.sent] == [60, 39.75, 19.25]
    longer = ScriptedCall(albums.get_album(1), TIMED_OUT, reply(ALBUM), durations=[60], timeout=90.0)
    assert [send.timeout for send in longer.sent] == [90, 29.75]
    unlimited = [{"deadline": None}, {"timeout": None}]
    for options in unlimited:
        patient = ScriptedCall(albums.get_album(1), TIMED_OUT, reply(ALBUM), durations=[99], **options)
        assert patient.result.meta.attempts == 2


def test_the_default_time_of_a_call_has_no_waits_that_the_host_asks_for() -> None:
    busy = [error_reply("SERVICE_UNAVAILABLE", 503, retry_after="60")] * 3
    scripted = ScriptedCall(albums.get_album(1), *busy, reply(ALBUM), durations=[10] * 4)
    assert [send.time_left for send in scripted.sent] == [60, 50, 40, 30]
    environment = Environment()
    ScriptedCall(albums.get_album(1), limited(0, 59), environment=environment, pace=True)
    paced = ScriptedCall(albums.get_album(1), BUSY, reply(ALBUM), environment=environment, pace=True)
    assert [send.time_left for send in paced.sent] == [60, 58.75]


def test_a_transfer_of_a_file_has_no_time_by_default() -> None:
    for call in (uploads.upload(b"a"), downloads.render_image("a")):
        with pytest.raises(errors.ValidationError):
            ScriptedCall(call, CONNECTION_LOST, error_reply("VALIDATION_ERROR", 422), durations=[900])


def test_a_call_during_which_the_system_has_slept_is_tried_again() -> None:
    scripted = ScriptedCall(albums.get_album(1), TIMED_OUT, reply(ALBUM), durations=[3 * 3_600])
    assert [send.time_left for send in scripted.sent] == [60, 59.75]
    with pytest.raises(errors.APITimeoutError):
        ScriptedCall(albums.get_album(1), TIMED_OUT, deadline=60.0, durations=[3 * 3_600])


def limited(remaining: int, seconds: float) -> Reply:
    reset = str(int((NOW + timedelta(seconds=seconds)).timestamp()))
    return reply(ALBUM, x_ratelimit_limit="60", x_ratelimit_remaining=str(remaining), x_ratelimit_reset=reset)


@pytest.mark.parametrize(
    ("remaining", "seconds", "pace", "slept"),
    [(0, 30, True, [30.0]), (0, 30, False, []), (1, 30, True, []), (0, 61, True, []), (0, -5, True, [])],
)
def test_a_paced_client_waits_for_the_end_of_an_exhausted_window(
    remaining: int, seconds: float, pace: bool, slept: list[float]
) -> None:
    environment, other = Environment(), Environment()
    for other_environment in (environment, other):
        ScriptedCall(
            albums.get_album(1), limited(remaining, seconds), environment=other_environment, pace=pace
        )
    assert ScriptedCall(albums.get_album(1), reply(ALBUM), environment=environment, pace=pace).slept == slept
    bounded = ScriptedCall(albums.get_album(1), reply(ALBUM), environment=other, pace=pace, deadline=9.0)
    assert bounded.slept == [min(seconds, 9.0) for seconds in slept]


def test_a_program_is_told_of_long_waits_and_the_log_of_the_first_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit = {"x_ratelimit_limit": "60", "x_ratelimit_remaining": "0", "x_ratelimit_reset": "1"}
    refused = error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="30", **limit)
    environment = Environment()
    for _ in range(2):
        ScriptedCall(albums.get_album(1), refused, limited(0, 0), environment=environment)
    expected = (
        "waiting 30 s for the account's rate limit; an operator raises it: "
        "imagehost users update NAME --limit api_per_minute=N"
    )
    assert [record.getMessage() for record in caplog.records] == [expected]
    told: list[str] = []
    environment.on_wait = told.append
    ScriptedCall(albums.get_album(1), refused, limited(0, 20), environment=environment)
    ScriptedCall(albums.get_album(1), reply(ALBUM), environment=environment, pace=True)
    busy = error_reply("SERVICE_UNAVAILABLE", 503, retry_after="9")
    ScriptedCall(albums.get_album(1), BUSY, busy, reply(ALBUM), environment=environment)
    assert told == [expected, expected.replace("30", "20"), "waiting 9 s for the host (status 503)"]


def test_uploads_and_other_requests_have_separate_windows() -> None:
    environment = Environment()
    ScriptedCall(albums.get_album(1), limited(0, 30), environment=environment, pace=True)
    wrong = error_reply("VALIDATION_ERROR", 422)
    with pytest.raises(errors.ValidationError):
        ScriptedCall(uploads.upload(b"a"), wrong, environment=environment, pace=True)
    assert environment.pacer.acquire(NOW, upload=True, max_wait=60.0) == 0.0
    assert environment.pacer.acquire(NOW, upload=False, max_wait=60.0) == 30.0
    with pytest.raises(errors.ServerError):  # an invalid record: its rate limit headers count nevertheless
        ScriptedCall(uploads.upload(b"a"), limited(0, 20), environment=environment, pace=True)
    assert environment.pacer.acquire(NOW, upload=True, max_wait=60.0) == 20.0
    assert environment.pacer.acquire(NOW, upload=False, max_wait=60.0) == 30.0


def test_each_attempt_has_its_resend_count() -> None:
    scripted = ScriptedCall(albums.get_album(1), BUSY, NOT_SENT, reply(ALBUM))
    assert [send.resend_count for send in scripted.sent] == [0, 1, 2]


def test_the_items_of_a_page_have_its_metadata() -> None:
    page = {"page": 1, "per_page": 20, "total": 1, "total_pages": 1, "next_cursor": None}
    scripted = ScriptedCall(
        albums.list_albums(), reply({"albums": [ALBUM], "pagination": page}, x_request_id="r9")
    )
    assert [scripted.result.meta.request_id, *(album.meta.request_id for album in scripted.result)] == [
        "r9"
    ] * 2


def image_reply(status: int = 200, **headers: str) -> Reply:
    wire_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"content-type": "image/webp", "etag": '"e"', **wire_headers}, b"RIFF")


def test_render_accepts_any_content_type() -> None:
    scripted = ScriptedCall(
        downloads.render_image("a b", w=3, fit="inside"), BUSY, image_reply(x_request_id="r1")
    )
    assert scripted.sent[1].url == "https://h/v1/img/a%20b?w=3&fit=inside"
    assert scripted.sent[1].headers["Accept"] == "*/*"
    rendered = scripted.result
    assert (rendered.data, rendered.media_type, rendered.etag) == (b"RIFF", "image/webp", '"e"')
    assert (rendered.meta.request_id, rendered.meta.attempts) == ("r1", 2)


def test_a_response_that_is_not_an_image_is_an_error() -> None:
    for response, kind in (
        (reply(ALBUM), errors.ServerError),
        (Reply(200, {"content-type": "text/html"}, b"<html>"), errors.ServerError),
        (Reply(200, {}, b""), errors.ServerError),
        (error_reply("NOT_FOUND", 404), errors.NotFoundError),
        (image_reply(206), errors.ServerError),
    ):
        with pytest.raises(kind) as caught:
            ScriptedCall(downloads.render_image("a"), response)
        assert type(caught.value) is kind
        assert caught.value.status == response.status


def test_results_and_errors_have_the_rate_limit() -> None:
    scripted = ScriptedCall(albums.get_album(1), limited(7, 30))
    assert scripted.result.meta.rate_limit.remaining == 7
    headers = {"x_ratelimit_limit": "60", "x_ratelimit_remaining": "0", "x_ratelimit_reset": "1795262400"}
    with pytest.raises(errors.RateLimitError) as caught:
        ScriptedCall(
            albums.get_album(1), error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="99", **headers)
        )
    assert caught.value.rate_limit is not None
    assert caught.value.rate_limit.remaining == 0


def test_an_invalid_response_is_an_error_with_its_request_id_and_is_not_retried() -> None:
    with pytest.raises(errors.ServerError, match="name") as caught:
        ScriptedCall(albums.get_album(1), reply({**ALBUM, "name": 7.5}, x_request_id="r7"))
    assert (caught.value.request_id, caught.value.status) == ("r7", 200)
    assert caught.value.__context__ is None


def test_a_json_body_has_its_content_type_and_length() -> None:
    send = ScriptedCall(albums.create_album("Ä", is_public=False), reply(ALBUM)).sent[0]
    assert isinstance(send.content, bytes)
    assert json.loads(send.content) == {"name": "Ä", "is_public": False}
    assert send.headers["Content-Type"] == "application/json"
    assert send.headers["Content-Length"] == str(len(send.content))
    assert send.headers["User-Agent"].startswith("imagehost-client/")


def test_all_attempts_of_an_upload_have_the_same_bytes() -> None:
    sent: list[bytes] = []
    with pytest.raises(errors.ValidationError):
        recorded(uploads.upload(b"abc", quality=5, is_public=False, album_id="7"), sent)
    assert sent[0] == sent[1]


def recorded(call: Call[Any], sent: list[bytes]) -> None:
    """Run an upload with two attempts, and record the bytes of both."""

    class Recording(ScriptedCall):
        def _execute(self, step: Step) -> object:
            if isinstance(step, Send):
                assert isinstance(step.content, Multipart)
                sent.append(b"".join(step.content.chunks()))
                assert step.headers["Content-Length"] == str(len(sent[-1]))
            return super()._execute(step)

    Recording(call, BUSY, error_reply("VALIDATION_ERROR", 422))


def test_queries_are_escaped() -> None:
    listing = images.list_images(album_id=7, page=2, per_page=5)
    empty = {"images": [], "pagination": {"page": 2, "per_page": 5, "total": 0, "total_pages": 0}}
    assert (
        ScriptedCall(listing, reply(empty)).sent[0].url == "https://h/v1/images?album_id=7&page=2&per_page=5"
    )
    assert images.get_image("a/../b?c").path == "/images/a%2F..%2Fb%3Fc"


@pytest.mark.parametrize(
    ("call", "outcomes", "options", "reason"),
    [
        (accounts.create_key("k"), [CONNECTION_LOST], {}, "outcome unknown is not retryable"),
        (albums.get_album(1), [error_reply("NOT_FOUND", 404)], {}, "status 404 is not retryable"),
        (albums.get_album(1), [NOT_SENT] * 4, {}, "request not sent, max_retries reached"),
        (
            albums.get_album(1),
            [error_reply("RATE_LIMIT_EXCEEDED", 429, retry_after="61")],
            {},
            "status 429, Retry-After exceeds 60 s",
        ),
        (albums.get_album(1), [BUSY], {"deadline": 1.1}, "status 503, deadline reached"),
    ],
)
def test_each_decision_against_a_retry_is_logged_with_its_reason(
    call: Call[Any],
    outcomes: list[Reply | Failure],
    options: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "imagehost_client"), pytest.raises(errors.ImageHostError):
        ScriptedCall(call, *outcomes, **options)
    assert caplog.messages[-1].startswith(f"not retrying: method={call.method} path={call.path} ")
    assert caplog.messages[-1].endswith(f" delay=none reason={reason}")
