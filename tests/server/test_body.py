"""Bodies have deadlines and ends."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from imagehost_core.errors import BadRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from imagehost_server.http.body import is_json, iter_body, read_body
from imagehost_server.settings import HttpSettings


class Sender:
    """Sends pieces of a body, with a pause before each, and hangs up or falls silent after them."""

    def __init__(self, *sent: bytes, pause: float = 0, ends: str = "whole") -> None:
        self._messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": True} for piece in sent
        ]
        if ends == "whole" and self._messages:
            self._messages[-1]["more_body"] = False
        elif ends == "gone":
            self._messages.append({"type": "http.disconnect"})
        self._pause = pause

    async def __call__(self) -> Any:
        await anyio.sleep(self._pause)
        if not self._messages:
            await anyio.sleep_forever()
        return self._messages.pop(0)


PATIENT = HttpSettings()


@pytest.mark.anyio
async def test_a_body_is_read_to_its_end() -> None:
    assert await read_body(Sender(b"a", b"", b"bc", b""), 3, PATIENT) == b"abc"
    assert [piece async for piece in iter_body(Sender(b"a", b"", b"b"), 9, 9)] == [b"a", b"b"]


@pytest.mark.anyio
async def test_a_body_above_the_limit_is_refused_before_it_has_ended() -> None:
    with pytest.raises(PayloadTooLargeError, match="at most 3 bytes for the body"):
        await read_body(Sender(b"ab", b"cd", ends="silent"), 3, PATIENT)


@pytest.mark.anyio
async def test_a_sender_who_goes_away_has_cut_the_body_short() -> None:
    with pytest.raises(BadRequestError, match="first 2 bytes and no more"):
        await read_body(Sender(b"ab", ends="gone"), 9, PATIENT)


@pytest.mark.anyio
async def test_a_sender_who_falls_silent_is_cut_off() -> None:
    with pytest.raises(BadRequestError, match=r"pauses above 0.05 s .* after 2 bytes"):
        await read_body(Sender(b"ab", ends="silent"), 9, HttpSettings(body_idle_timeout_seconds=0.05))


@pytest.mark.anyio
async def test_a_sender_who_drips_is_cut_off_by_the_deadline_for_all() -> None:
    deadlines = HttpSettings(body_idle_timeout_seconds=10, json_body_timeout_seconds=0.2)
    with pytest.raises(BadRequestError, match=r"the whole body within 0\.2 s"):
        await read_body(Sender(*[b"x"] * 1_000, pause=0.01), 9_999, deadlines)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_is_json_whatever_its_parameters(content_type: str) -> None:
    is_json(content_type)


@pytest.mark.parametrize("content_type", [None, "", "text/json", "application/jsonp"])
def test_anything_else_is_not(content_type: str | None) -> None:
    with pytest.raises(UnsupportedMediaTypeError):
        is_json(content_type)
