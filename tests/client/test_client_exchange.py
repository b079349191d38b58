"""The exchange, step by step: what is sent, how long is waited, and what comes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from imagehost_client import errors
from imagehost_client._calls import Call, access, albums, images, webhooks
from imagehost_client._config import Config, resolve
from imagehost_client._exchange import Environment, Failure, Open, Reply, Send, Sleep, Step, exchange
from imagehost_client._multipart import MultipartBody
from imagehost_client._retry import FailureKind
from imagehost_client.files import open_file

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ALBUM = {
    "id": 1,
    "name": "A",
    "description": "",
    "is_public": True,
    "image_count": 0,
    "cover_image_id": None,
    "cover_url": None,
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
}
BROKEN = Failure(FailureKind.UNKNOWN, False, "ReadError")
UNREACHED = Failure(FailureKind.NOT_SENT, False, "ConnectError")
LATE = Failure(FailureKind.UNKNOWN, True, "ReadTimeout")


class Played:
    """A call made by hand: outcomes go in, steps come out, and the clock runs as steps sleep."""

    def __init__(self, call: Call[Any], *outcomes: Reply | Failure, **options: Any) -> None:
        self.sent: list[Send] = []
        self.slept: list[float] = []
        self.result: Any = None
        self.elapsed = 0.0
        self.world = options.pop("world", None) or Environment()
        self.world.now = lambda: NOW + timedelta(seconds=self.elapsed)
        self.world.monotonic = lambda: self.elapsed
        self.world.random = lambda: 0.5
        config: Config = evolve(resolve("https://h/v1", "t", environ={}), **options)
        self._left = list(outcomes)
        steps = exchange(call, config, self.world)
        answer: object = None
        try:
            while True:
                answer = self._done(steps.send(answer))
        except StopIteration as end:
            self.result = end.value

    def _done(self, step: Step) -> object:
        if isinstance(step, Open):
            return open_file(step.part.source, step.part.filename)
        if isinstance(step, Sleep):
            self.slept.append(step.seconds)
            self.elapsed += step.seconds
            return None
        self.sent.append(step)
        self.elapsed += 1
        return self._left.pop(0)


def reply(data: object, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, json.dumps({"success": True, "data": data}).encode())


def refusal(code: str, status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"code": code, "message": "M", "details": "D"}
    return Reply(status, named, json.dumps({"success": False, "error": error}).encode())


BUSY = refusal("SERVICE_UNAVAILABLE", 503)


def test_one_key_goes_with_all_tries_of_a_call_and_another_with_the_next_call() -> None:
    world = Environment()
    keys = iter("abc")
    world.new_key = lambda: next(keys)
    played = Played(albums.create_album("A"), BUSY, BROKEN, reply(ALBUM), world=world)
    assert [send.headers["Idempotency-Key"] for send in played.sent] == ["a", "a", "a"]
    again = Played(albums.create_album("A"), reply(ALBUM), world=world)
    assert again.sent[0].headers["Idempotency-Key"] == "b"
    own = Played(albums.create_album("A", idempotency_key="mine"), reply(ALBUM), world=world)
    assert own.sent[0].headers["Idempotency-Key"] == "mine"


def test_calls_that_take_no_key_send_none() -> None:
    assert "Idempotency-Key" not in Played(albums.get_album(1), reply(ALBUM)).sent[0].headers


def test_no_step_holds_the_token() -> None:
    played = Played(albums.get_album(1), reply(ALBUM))
    assert "authorization" not in {name.lower() for name in played.sent[0].headers}


def test_waits_double_and_stay_below_their_cap() -> None:
    played = Played(
        albums.get_album(1),
        *[BUSY] * 7,
        reply(ALBUM),
        retry=evolve(Config(base_url="", cdn_url="").retry, max_retries=7),
    )
    assert played.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert played.result.meta.attempts == 8


def test_what_the_host_names_as_waiting_time_is_obeyed() -> None:
    played = Played(albums.get_album(1), refusal("RATE_LIMIT_EXCEEDED", 429, retry_after="60"), reply(ALBUM))
    assert played.slept == [60.25]


def test_a_named_time_beyond_a_minute_raises_at_once() -> None:
    with pytest.raises(errors.RateLimitError) as caught:
        Played(albums.get_album(1), refusal("RATE_LIMIT_EXCEEDED", 429, retry_after="61", x_request_id="r"))
    assert (caught.value.retry_after, caught.value.request_id) == (61, "r")


def test_after_the_last_retry_the_last_error_is_raised() -> None:
    with pytest.raises(errors.UnavailableError):
        Played(albums.get_album(1), BROKEN, BROKEN, BROKEN, BUSY)
    with pytest.raises(errors.APIConnectionError, match="attempts: 4") as caught:
        Played(albums.get_album(1), BUSY, BUSY, BUSY, BROKEN)
    assert "https://h/v1" in caught.value.details
    assert "GET /albums/1" in caught.value.details
    with pytest.raises(errors.APITimeoutError):
        Played(albums.get_album(1), LATE, LATE, LATE, LATE)


@pytest.mark.parametrize("outcome", [BROKEN, LATE, refusal("X", 502), refusal("X", 504)])
@pytest.mark.parametrize(
    "call",
    [
        access.create_key("k"),
        access.create_account("a", "b"),
        access.create_session("a", "b"),
        webhooks.create_webhook("https://h"),
        webhooks.test_webhook("w"),
        webhooks.rotate_webhook_secret("w"),
        webhooks.retry_delivery("w", "d"),
    ],
    ids=lambda call: call.path,
)
def test_what_must_not_happen_twice_is_not_repeated_when_it_may_have_happened(
    call: Call[Any], outcome: Reply | Failure
) -> None:
    with pytest.raises(errors.ImageHostError):
        Played(call, outcome)


@pytest.mark.parametrize("outcome", [UNREACHED, BUSY, refusal("RATE_LIMIT_EXCEEDED", 429)])
def test_what_was_surely_not_done_is_repeated_whatever_it_is(outcome: Reply | Failure) -> None:
    key = {
        "id": "1",
        "name": "k",
        "prefix": "p",
        "scopes": [],
        "created_at": "2026-01-01T00:00:00Z",
        "token": "t",
    }
    assert Played(access.create_key("k"), outcome, reply(key, 201)).result.token == "t"


def test_a_key_that_is_still_at_work_is_waited_for() -> None:
    played = Played(albums.create_album("A"), refusal("CONFLICT", 409, retry_after="1"), reply(ALBUM, 201))
    assert played.slept == [1.25]
    with pytest.raises(errors.ConflictError):
        Played(albums.create_album("A"), refusal("CONFLICT", 409))


def test_a_delete_that_finds_nothing_after_a_lost_answer_has_succeeded() -> None:
    gone = refusal("NOT_FOUND", 404, x_request_id="r2")
    played = Played(images.delete_image("a"), BROKEN, gone)
    assert (played.result.id, played.result.deleted) == ("a", True)
    assert (played.result.meta.request_id, played.result.meta.attempts) == ("r2", 2)
    assert Played(albums.delete_album(3), BUSY, gone).result.id == 3
    with pytest.raises(errors.NotFoundError):
        Played(images.delete_image("a"), gone)
    with pytest.raises(errors.NotFoundError):
        Played(images.get_image("a"), BROKEN, gone)


def test_a_deadline_bounds_tries_and_waits_together() -> None:
    played = Played(albums.get_album(1), BUSY, reply(ALBUM), deadline=10.0, timeout=30.0)
    assert [send.timeout for send in played.sent] == [10.0, 10.0 - 1.25]
    with pytest.raises(errors.RateLimitError):
        Played(albums.get_album(1), refusal("RATE_LIMIT_EXCEEDED", 429, retry_after="10"), deadline=10.0)
    played = Played(albums.get_album(1), reply(ALBUM), deadline=100.0, timeout=30.0)
    assert played.sent[0].timeout == 30.0
    assert Played(albums.get_album(1), reply(ALBUM), timeout=None).sent[0].timeout is None
    assert Played(albums.get_album(1), reply(ALBUM), timeout=None, deadline=5.0).sent[0].timeout == 5.0


def limited(remaining: int, seconds: float) -> Reply:
    reset = str(int((NOW + timedelta(seconds=seconds)).timestamp()))
    return reply(ALBUM, x_ratelimit_limit="60", x_ratelimit_remaining=str(remaining), x_ratelimit_reset=reset)


@pytest.mark.parametrize(
    ("remaining", "seconds", "pace", "slept"),
    [(0, 30, True, [30.0]), (0, 30, False, []), (1, 30, True, []), (0, 61, True, []), (0, -5, True, [])],
)
def test_a_paced_client_waits_for_a_used_up_window_to_end(
    remaining: int, seconds: float, pace: bool, slept: list[float]
) -> None:
    world, other = Environment(), Environment()
    for met in (world, other):
        Played(albums.get_album(1), limited(remaining, seconds), world=met, pace=pace)
    assert Played(albums.get_album(1), reply(ALBUM), world=world, pace=pace).slept == slept
    bounded = Played(albums.get_album(1), reply(ALBUM), world=other, pace=pace, deadline=9.0)
    assert bounded.slept == [min(seconds, 9.0) for seconds in slept]


def test_the_window_of_uploads_is_not_that_of_other_requests() -> None:
    world = Environment()
    Played(albums.get_album(1), limited(0, 30), world=world, pace=True)
    wrong = refusal("VALIDATION_ERROR", 422)
    with pytest.raises(errors.ValidationError):
        Played(images.upload(b"a"), wrong, world=world, pace=True)
    assert world.pacer.acquire(NOW, upload=True, max_wait=60.0) == 0.0
    assert world.pacer.acquire(NOW, upload=False, max_wait=60.0) == 30.0
    with pytest.raises(errors.ServerError):  # it is no image's record, and its headers count all the same
        Played(images.upload(b"a"), limited(0, 20), world=world, pace=True)
    assert world.pacer.acquire(NOW, upload=True, max_wait=60.0) == 20.0
    assert world.pacer.acquire(NOW, upload=False, max_wait=60.0) == 30.0


def test_each_try_says_how_often_the_request_was_sent_before() -> None:
    played = Played(albums.get_album(1), BUSY, UNREACHED, reply(ALBUM))
    assert [send.resend_count for send in played.sent] == [0, 1, 2]


def test_the_records_of_a_page_say_what_their_answer_said() -> None:
    page = {"page": 1, "per_page": 20, "total": 1, "total_pages": 1, "next_cursor": None}
    played = Played(albums.list_albums(), reply({"albums": [ALBUM], "pagination": page}, x_request_id="r9"))
    assert [played.result.meta.request_id, *(album.meta.request_id for album in played.result)] == ["r9"] * 2


def picture(status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"content-type": "image/webp", "etag": '"e"', **named}, b"RIFF")


def test_a_picture_is_fetched_from_the_interface_with_any_type_welcome() -> None:
    played = Played(images.render_image("a b", w=3, fit="inside"), BUSY, picture(x_request_id="r1"))
    assert played.sent[1].url == "https://h/v1/img/a%20b?w=3&fit=inside"
    assert played.sent[1].headers["Accept"] == "*/*"
    rendered = played.result
    assert (rendered.data, rendered.media_type, rendered.etag) == (b"RIFF", "image/webp", '"e"')
    assert (rendered.meta.request_id, rendered.meta.attempts) == ("r1", 2)


def test_what_is_no_picture_is_never_taken_for_one() -> None:
    for answer, kind in (
        (reply(ALBUM), errors.ServerError),
        (Reply(200, {"content-type": "text/html"}, b"<html>"), errors.ServerError),
        (Reply(200, {}, b""), errors.ServerError),
        (refusal("NOT_FOUND", 404), errors.NotFoundError),
        (picture(206), errors.ServerError),
    ):
        with pytest.raises(kind) as caught:
            Played(images.render_image("a"), answer)
        assert type(caught.value) is kind
        assert caught.value.status == answer.status


def test_the_state_of_the_rate_limit_is_on_results_and_errors() -> None:
    played = Played(albums.get_album(1), limited(7, 30))
    assert played.result.meta.rate_limit.remaining == 7
    headers = {"x_ratelimit_limit": "60", "x_ratelimit_remaining": "0", "x_ratelimit_reset": "1795262400"}
    with pytest.raises(errors.RateLimitError) as caught:
        Played(albums.get_album(1), refusal("RATE_LIMIT_EXCEEDED", 429, retry_after="99", **headers))
    assert caught.value.rate_limit is not None
    assert caught.value.rate_limit.remaining == 0


def test_an_answer_that_cannot_be_read_names_its_request_and_is_not_repeated() -> None:
    with pytest.raises(errors.ServerError, match="name") as caught:
        Played(albums.get_album(1), reply({**ALBUM, "name": 7.5}, x_request_id="r7"))
    assert (caught.value.request_id, caught.value.status) == ("r7", 200)
    assert caught.value.__context__ is None


def test_a_body_has_its_type_and_its_exact_length() -> None:
    send = Played(albums.create_album("Ä", is_public=False), reply(ALBUM)).sent[0]
    assert isinstance(send.content, bytes)
    assert json.loads(send.content) == {"name": "Ä", "is_public": False}
    assert send.headers["Content-Type"] == "application/json"
    assert send.headers["Content-Length"] == str(len(send.content))
    assert send.headers["User-Agent"].startswith("imagehost-client/")


def test_every_try_of_an_upload_is_the_same_request() -> None:
    sent: list[bytes] = []
    with pytest.raises(errors.ValidationError):
        recorded(images.upload(b"abc", quality=5, is_public=False, album_id="7"), sent)
    assert sent[0] == sent[1]


def recorded(call: Call[Any], sent: list[bytes]) -> None:
    """Make an upload twice, and keep the bytes of both tries."""

    class Recording(Played):
        def _done(self, step: Step) -> object:
            if isinstance(step, Send):
                assert isinstance(step.content, MultipartBody)
                sent.append(b"".join(step.content.chunks()))
                assert step.headers["Content-Length"] == str(len(sent[-1]))
            return super()._done(step)

    Recording(call, BUSY, refusal("VALIDATION_ERROR", 422))


def test_queries_are_escaped() -> None:
    listing = images.list_images(album_id=7, page=2, per_page=5)
    empty = {"images": [], "pagination": {"page": 2, "per_page": 5, "total": 0, "total_pages": 0}}
    assert Played(listing, reply(empty)).sent[0].url == "https://h/v1/images?album_id=7&page=2&per_page=5"
    assert images.get_image("a/../b?c").path == "/images/a%2F..%2Fb%3Fc"
