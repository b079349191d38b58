"""The transport of a response: head and body are sent together, and a head without a body is sent soon."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from attrs import mutable
from tests.server.fake_server import FakeTransport

from imagehost_server.serve.transport import ResponseTransport


@mutable
class Cycle:
    """What the transport reads of a request's cycle."""

    scope: dict[str, str]
    response_started: bool = True


class CountingTransport(FakeTransport):
    """A transport that counts what it is asked to send, and keeps the cycle alive, as uvicorn does."""

    writes = 0
    cycle: Cycle

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        super().write(data)
        self.writes += 1


def response_of(transport: CountingTransport, cycle: Cycle) -> ResponseTransport:
    transport.cycle = cycle

    def close(_: object) -> None:
        transport.close()

    loop = asyncio.get_running_loop()
    return ResponseTransport(transport, loop, cast("Any", cycle), close, disconnect=close)


@pytest.mark.anyio
async def test_head_and_body_are_sent_together_and_in_order() -> None:
    transport = CountingTransport()
    response = response_of(transport, Cycle({"method": "GET"}))
    for data in (b"head ", b"body ", b"more"):
        response.write(data)
    assert (transport.sent, transport.writes) == (b"head body more", 2)


@pytest.mark.anyio
async def test_a_head_whose_body_is_not_ready_is_sent_before_the_loop_waits() -> None:
    transport = CountingTransport()
    response = response_of(transport, Cycle({"method": "GET"}))
    response.write(b"head ")
    assert transport.sent == b""
    await asyncio.sleep(0)
    assert transport.sent == b"head "
    response.write(b"body")
    assert (transport.sent, transport.writes) == (b"head body", 2)


@pytest.mark.anyio
@pytest.mark.parametrize("cycle", [Cycle({"method": "HEAD"}), Cycle({"method": "GET"}, False)])
async def test_a_head_without_a_body_and_an_interim_response_are_sent_at_once(cycle: Cycle) -> None:
    transport = CountingTransport()
    response_of(transport, cycle).write(b"head")
    assert transport.sent == b"head"


@pytest.mark.anyio
async def test_a_waiting_head_is_sent_before_the_connection_is_closed_and_never_after() -> None:
    closed, aborted = CountingTransport(), CountingTransport()
    for transport in (closed, aborted):
        response = response_of(transport, Cycle({"method": "GET"}))
        response.write(b"head")
        if transport is closed:
            response.close()
        else:
            transport.abort()
    await asyncio.sleep(0)
    assert (closed.sent, aborted.sent) == (b"head", b"")
