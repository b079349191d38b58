"""Request bodies: chunks, limits and timeouts."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from imagehost_core.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from imagehost_server.http import body
from imagehost_server.http.body import iter_body, read_body, require_json
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


@pytest.mark.anyio
async def test_a_body_above_the_limit_is_rejected_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "COUNT_SECONDS", 0.1)
    for sender, size in (
        (Sender(b"ab", b"cd"), "received 4 bytes"),
        (Sender(b"ab", b"cd", b"", b"efg"), "received 7 bytes"),
        (Sender(b"ab", b"cd", end="stall"), "received at least 4 bytes"),
        (Sender(b"ab", b"cd", b"e", end="disconnect"), "received at least 5 bytes"),
        (Sender(*[b"x"] * 1_000, pause=0.01), "received at least"),
    ):
        with pytest.raises(PayloadTooLargeError, match=f"at most 3 bytes for the body but {size}"):
            await read_body(sender, 3, SETTINGS)


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


@pytest.mark.anyio
async def test_a_stalled_body_exceeds_the_idle_timeout() -> None:
    with pytest.raises(BadRequestError, match=r"pauses above 0.05 s .* after 2 bytes"):
        await read_body(Sender(b"ab", end="stall"), 9, HttpSettings(body_idle_timeout_seconds=0.05))


@pytest.mark.anyio
async def test_a_slow_body_exceeds_the_total_timeout() -> None:
    timeouts = HttpSettings(body_idle_timeout_seconds=10, json_body_timeout_seconds=0.2)
    with pytest.raises(BadRequestError, match=r"the whole body within 0\.2 s"):
        await read_body(Sender(*[b"x"] * 1_000, pause=0.01), 9_999, timeouts)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_may_have_parameters(content_type: str) -> None:
    require_json(content_type)


@pytest.mark.parametrize("content_type", [None, "", "text/json", "application/jsonp"])
def test_other_content_types_are_unsupported(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        require_json(content_type)
