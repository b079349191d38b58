"""Request bodies: chunks, limits and timeouts."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.virtual_time import run_in_virtual_time

from imagehost_core.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from imagehost_server.http import body
from imagehost_server.http.body import COUNT_SECONDS, iter_body, read_body, require_json
from imagehost_server.middleware.request_body import DRAIN_TIMEOUT, RequestBody
from imagehost_server.settings import HttpSettings


class Sender:
    """A `receive` callable that delivers chunks, with a pause before each.

    Args:
        chunks: The chunks.
        pause: Seconds before each chunk.
        end: `complete`, `disconnect` or `stall`.
    """

    def __init__(self, *chunks: bytes, pause: float = 0, end: str = "complete") -> None:
        self._messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
        ]
        if end == "complete" and self._messages:
            self._messages[-1]["more_body"] = False
        elif end == "disconnect":
            self._messages.append({"type": "http.disconnect"})
        self._pause = pause

    async def __call__(self) -> Any:
        await anyio.sleep(self._pause)
        if not self._messages:
            await anyio.sleep_forever()
        return self._messages.pop(0)


SETTINGS = HttpSettings()


@pytest.mark.anyio
async def test_a_body_is_read_to_its_end() -> None:
    assert await read_body(Sender(b"a", b"", b"bc", b""), 3, SETTINGS) == b"abc"
    assert [chunk async for chunk in iter_body(Sender(b"a", b"", b"b"), 9, 9)] == [b"a", b"b"]


async def error_of(awaitable: Awaitable[object]) -> str:
    """Return the details of the error that ends a coroutine."""
    with pytest.raises((BadRequestError, PayloadTooLargeError)) as caught:
        await awaitable
    return caught.value.details


@pytest.mark.parametrize(
    ("sender", "received", "expected"),
    [
        (Sender(b"ab", b"cd"), "received 4 bytes", 0.0),
        (Sender(b"ab", b"cd", b"", b"efg"), "received 7 bytes", 0.0),
        (Sender(b"ab", b"cd", end="stall"), "received at least 4 bytes", COUNT_SECONDS),
        (Sender(b"ab", b"cd", b"e", end="disconnect"), "received at least 5 bytes", 0.0),
        (Sender(*[b"x"] * 99, pause=0.5), "received at least", 2.0 + COUNT_SECONDS),
    ],
)
def test_a_body_above_the_limit_is_rejected_with_its_size(
    sender: Sender, received: str, expected: float
) -> None:
    details, seconds = run_in_virtual_time(error_of(read_body(sender, 3, SETTINGS)))
    assert f"at most 3 bytes for the body but {received}" in details
    assert seconds == pytest.approx(expected)


@pytest.mark.anyio
async def test_a_body_with_a_declared_length_above_the_limit_is_not_read() -> None:
    with pytest.raises(PayloadTooLargeError, match="but received 50000000 bytes"):
        await read_body(Sender(end="stall"), 3, SETTINGS, "50000000")
    assert await read_body(Sender(b"abc"), 3, SETTINGS, "3") == b"abc"


@pytest.mark.anyio
async def test_the_count_of_a_body_above_the_limit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MAX_COUNTED_BYTES", 20)
    with pytest.raises(PayloadTooLargeError, match="received at least 21 bytes"):
        await read_body(Sender(*[b"x"] * 100), 3, SETTINGS)


@pytest.mark.anyio
async def test_a_disconnect_before_the_end_is_an_error() -> None:
    with pytest.raises(BadRequestError, match="first 2 bytes and no more"):
        await read_body(Sender(b"ab", end="disconnect"), 9, SETTINGS)


async def read_chunks(sender: Sender, idle: float, total: float) -> None:
    async for _ in iter_body(sender, idle, total):
        pass


@given(st.floats(0.1, 100.0), st.floats(0.1, 100.0), st.floats(0.0, 10.0), st.integers(1, 5))
def test_a_stalled_body_ends_after_the_idle_timeout_or_the_total_one(
    idle: float, total: float, pause: float, chunks: int
) -> None:
    # Of two things at the same time, either may come first.
    assume(abs(pause - idle) > 0.001)
    sender = Sender(*[b"x"] * chunks, pause=pause, end="stall")
    details, seconds = run_in_virtual_time(error_of(read_chunks(sender, idle, total)))
    # Without a pause above the limit, the last chunk comes after this time.
    last = chunks * pause if pause <= idle else 0.0
    assert seconds == pytest.approx(min(last + idle, total), abs=1e-6)
    if abs(last + idle - total) > 1e-6:
        limit = f"pauses above {idle:g} s" if last + idle < total else f"the whole body within {total:g} s"
        assert limit in details


def test_the_timeouts_of_a_json_body_are_those_of_the_settings() -> None:
    stalled, slow = Sender(b"ab", end="stall"), Sender(*[b"x"] * 1_000, pause=1.0)
    settings = HttpSettings(body_idle_timeout_seconds=7.0, json_body_timeout_seconds=20.0)
    details, seconds = run_in_virtual_time(error_of(read_body(stalled, 9, settings)))
    assert (details.endswith("pauses above 7 s but received nothing more after 2 bytes"), seconds) == (
        True,
        7.0,
    )
    details, seconds = run_in_virtual_time(error_of(read_body(slow, 9_999, settings)))
    assert ("the whole body within 20 s" in details, seconds) == (True, 20.0)


def test_the_rest_of_an_unread_body_is_awaited_no_longer_than_the_drain_timeout() -> None:
    scope: Any = {"headers": [(b"content-length", b"9")], "http_version": "1.1"}
    must_close, seconds = run_in_virtual_time(RequestBody(scope, Sender(b"ab", end="stall")).drain(read=True))
    assert (must_close, seconds) == (True, DRAIN_TIMEOUT)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_may_have_parameters(content_type: str) -> None:
    require_json(content_type)


@pytest.mark.parametrize("content_type", [None, "", "text/json", "application/jsonp"])
def test_other_content_types_are_unsupported(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        require_json(content_type)
