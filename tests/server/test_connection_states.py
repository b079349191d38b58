"""The states of a connection: every transition occurs, no other does, and each request gets one response."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest
from attrs import field, mutable
from hypothesis import given
from hypothesis import strategies as st
from tests.server.fake_server import TIMEOUT, AppDouble, FakeServer, FakeTransport, run_tasks

from imagehost_server.serve.protocol import MAX_PIPELINED, HttpProtocol
from imagehost_server.serve.states import TRANSITIONS, Event, State, next_state
from imagehost_server.settings import HttpSettings

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
BEGIN = b"POST /begin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
POST = BEGIN.replace(b"/begin", b"/")
END = b"0\r\n\r\n"
UPGRADE = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
LAST = GET.replace(b"/", b"/close", 1)
INVALID = b"invalid\r\n\r\n"


class RecordingProtocol(HttpProtocol):
    """A connection that records its transitions and counts its requests."""

    transitions: set[tuple[State, Event]]
    requests: int

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.transitions = set()
        self.requests = 0

    def advance(self, event: Event) -> None:
        self.transitions.add((self.state, event))
        self.requests += event is Event.MESSAGE_BEGIN
        self.requests -= event is Event.REPARSE
        super().advance(event)


@mutable
class Client:
    """The other side of one connection.

    Attributes:
        earlier_connections: Connections that the server has already.
    """

    app: AppDouble = field(factory=AppDouble)
    transport: FakeTransport = field(factory=FakeTransport)
    earlier_connections: int = 0
    connection: RecordingProtocol = field(init=False)

    def __attrs_post_init__(self) -> None:
        server = FakeServer(self.app, RecordingProtocol)
        for _ in range(self.earlier_connections):
            server.connect(FakeTransport())
        self.connection = cast("RecordingProtocol", server.connect(self.transport))

    @property
    def is_open(self) -> bool:
        return not self.transport.closed_by

    async def send(self, data: bytes) -> None:
        if self.is_open:
            self.connection.data_received(data)
            await run_tasks()

    async def respond(self) -> None:
        """Let the application respond to all requests, until `hold`."""
        self.app.go.set()
        await run_tasks()

    async def hold(self) -> None:
        self.app.go.clear()

    async def end_of_data(self) -> None:
        if self.is_open and not self.connection.eof_received():
            self.transport.close()
        await run_tasks()

    async def wait(self) -> None:
        """Let the header timeout pass."""
        cast("Any", self.connection.loop).advance(1.1 * TIMEOUT)

    async def stop_reading(self) -> None:
        """Read nothing of the responses until the connection is aborted."""
        self.transport.unread = 1
        await self.wait()
        await self.wait()

    async def disconnect(self) -> None:
        self.transport.closed_by = "reset"
        self.connection.connection_lost(ConnectionResetError())
        await run_tasks()


REACH: dict[State, list[bytes | str]] = {
    State.IDLE: [],
    State.READING_HEAD: [GET[:9]],
    State.READING_BODY: [POST],
    State.DISCARDING_BODY: [BEGIN, "respond", "hold"],
    State.RESPONDING: [GET],
    State.READING_NEXT_HEAD: [GET, GET[:9]],
    State.CLOSING: [GET, INVALID],
    State.LINGERING: [INVALID],
    State.CLOSED: [INVALID, "disconnect"],
}
"""How a connection gets into each state."""

CAUSES: dict[tuple[State, Event], list[bytes | str]] = {
    (State.IDLE, Event.MESSAGE_BEGIN): [GET],
    (State.IDLE, Event.FINAL_RESPONSE): [b"\r\n" * 200_000],
    (State.READING_HEAD, Event.HEAD_COMPLETE): [GET[9:]],
    (State.READING_HEAD, Event.REPARSE): [UPGRADE[9:]],
    (State.READING_HEAD, Event.FINAL_RESPONSE): [INVALID],
    (State.READING_BODY, Event.MESSAGE_COMPLETE): [END],
    (State.READING_BODY, Event.STOP_READING): [END, POST, "end_of_data"],
    (State.READING_BODY, Event.FINAL_RESPONSE): [INVALID],
    (State.DISCARDING_BODY, Event.MESSAGE_COMPLETE): [END],
    (State.RESPONDING, Event.RESPONSE_COMPLETE): ["respond"],
    (State.RESPONDING, Event.MESSAGE_BEGIN): [GET],
    (State.RESPONDING, Event.STOP_READING): ["end_of_data"],
    (State.CLOSING, Event.FINAL_RESPONSE): ["respond"],
    (State.READING_NEXT_HEAD, Event.RESPONSE_COMPLETE): ["respond"],
    (State.READING_NEXT_HEAD, Event.HEAD_COMPLETE): [GET[9:]],
    (State.READING_NEXT_HEAD, Event.REPARSE): [UPGRADE[9:]],
    (State.READING_NEXT_HEAD, Event.STOP_READING): [INVALID],
    **{(state, Event.CLOSE): ["disconnect"] for state in State},
}
"""How each transition happens once the connection is in its state, unless `CAUSES_FROM_START` has it."""

CAUSES_FROM_START: dict[tuple[State, Event], list[bytes | str]] = {
    (State.READING_BODY, Event.RESPONSE_COMPLETE): [BEGIN, "respond"],
    (State.RESPONDING, Event.FINAL_RESPONSE): [LAST + GET, "respond"],
    (State.READING_NEXT_HEAD, Event.FINAL_RESPONSE): [LAST, GET[:9], "respond"],
}


async def play(client: Client, steps: list[bytes | str]) -> None:
    for step in steps:
        if isinstance(step, bytes):
            await client.send(step)
        else:
            action: Callable[[], Awaitable[None]] = getattr(client, step)
            await action()


@pytest.mark.anyio
@pytest.mark.parametrize("state", State)
async def test_every_state_is_reachable(state: State) -> None:
    client = Client()
    await play(client, REACH[state])
    assert client.connection.state is state


@pytest.mark.anyio
@pytest.mark.parametrize(
    "transition", TRANSITIONS, ids=lambda transition: "-".join(x.name for x in transition)
)
async def test_every_transition_of_the_table_occurs(transition: tuple[State, Event]) -> None:
    client = Client()
    if transition in CAUSES_FROM_START:
        await play(client, CAUSES_FROM_START[transition])
    else:
        await play(client, [*REACH[transition[0]], *CAUSES[transition]])
    assert transition in client.connection.transitions


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_an_event_that_is_not_in_the_table_is_an_assertion_error(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert next_state(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match=f"no {event.name} in {state.name}"):
            next_state(state, event)


def test_a_closed_connection_stays_closed() -> None:
    assert {after for (before, _), after in TRANSITIONS.items() if before is State.CLOSED} == {State.CLOSED}


@pytest.mark.anyio
async def test_an_impossible_event_in_a_parser_callback_is_not_reported_as_a_bad_request() -> None:
    client = Client()
    client.connection.state = State.DISCARDING_BODY
    with pytest.raises(AssertionError, match="no MESSAGE_BEGIN in DISCARDING_BODY"):
        client.connection.data_received(GET)


@pytest.mark.anyio
@pytest.mark.parametrize("request_bytes", [GET, GET.replace(b"/", b"/begin", 1)])
async def test_an_ended_request_is_freed_without_the_garbage_collector(request_bytes: bytes) -> None:
    client = Client()
    gc.disable()
    try:
        await client.send(request_bytes)
        ended = weakref.ref(client.connection.cycle)
        await client.respond()
        await client.send(GET)
        assert ended() is None
    finally:
        gc.enable()


steps = st.lists(
    st.sampled_from(
        [
            GET, GET[:9], GET[9:], POST, BEGIN, END, b"2\r\nab\r\n", UPGRADE, INVALID, b"\r\n", b"\0",
            GET * (MAX_PIPELINED + 2), b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", GET.replace(b"1.1", b"1.0"),
            GET[:-2] + b"Connection: close\r\n\r\n", b"GET /fast HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", b"GET / HTTP/3\r\n\r\n",
            "respond", "hold", "end_of_data", "wait", "stop_reading", "disconnect",
        ]
    ),
    max_size=12,
)  # fmt: skip


@given(steps, st.booleans(), st.booleans())
def test_any_sequence_of_events_is_handled_with_at_most_one_response_per_request(
    sequence: list[bytes | str], tls: bool, over_capacity: bool
) -> None:
    async def run() -> None:
        http = HttpSettings(header_timeout_seconds=TIMEOUT, max_connections=1)
        client = Client(AppDouble(http=http), FakeTransport(tls=tls), int(over_capacity))
        await play(client, sequence)
        await client.respond()
        await run_tasks(500)
        responses = client.transport.sent.count(b"HTTP/1.1 ") - client.transport.sent.count(b"100 Continue")
        # Data that does not begin a request gets an error response too.
        assert responses <= client.connection.requests + 1
        due = client.connection.state in {State.RESPONDING, State.CLOSING}
        assert not due or client.transport.closed_by
        # A transport reports the loss of the connection also where the server has aborted it.
        if client.transport.closed_by != "reset":
            client.connection.connection_lost(None)
        await run_tasks()
        assert client.connection.transitions <= set(TRANSITIONS)
        assert not client.connection.tasks

    anyio.run(run)
