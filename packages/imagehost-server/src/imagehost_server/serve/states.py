"""The states of an HTTP/1.1 connection, and the transitions between them.

Requests may be pipelined: the next head can be read while a response is due. The responses are sent in order,
so one state describes both directions: which part of a request is read next, and whether a response is due.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """What a connection does next."""

    # That of Enum is a Python function, which a request would call 17 times.
    __hash__ = object.__hash__

    IDLE = auto()
    """No request has begun, and no response is due."""
    READING_HEAD = auto()
    """A request has begun, and no response is due."""
    READING_BODY = auto()
    """A body is read whose response is due: the application runs, or waits behind earlier requests."""
    DISCARDING_BODY = auto()
    """The rest of a body is read whose response was sent."""
    RESPONDING = auto()
    """All requests were read, and a response is due."""
    READING_NEXT_HEAD = auto()
    """Another request has begun, and the response to an earlier one is due."""
    CLOSING = auto()
    """No more requests are read; due responses are sent, the last one closes the connection."""
    LINGERING = auto()
    """The final response was sent; what arrives is discarded until the client closes (RFC 9112, 9.6)."""
    CLOSED = auto()
    """The connection is closed."""


class Event(Enum):
    """What changes the state."""

    # That of Enum is a Python function, which a request would call 17 times.
    __hash__ = object.__hash__

    MESSAGE_BEGIN = auto()
    """The parser read the first byte of a request."""
    HEAD_COMPLETE = auto()
    """The parser read a whole head, and the request was passed to the application."""
    MESSAGE_COMPLETE = auto()
    """The parser read a whole request."""
    REPARSE = auto()
    """The head is parsed again by a new parser, without `Upgrade`."""
    RESPONSE_COMPLETE = auto()
    """The last due response was sent."""
    STOP_READING = auto()
    """No more requests are accepted, because of an error or the end of the client's data."""
    FINAL_RESPONSE = auto()
    """The final response was sent, and the client may still be sending."""
    CLOSE = auto()
    """The connection is closed, by either side."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.IDLE, Event.MESSAGE_BEGIN): State.READING_HEAD,
    (State.IDLE, Event.FINAL_RESPONSE): State.LINGERING,
    (State.READING_HEAD, Event.HEAD_COMPLETE): State.READING_BODY,
    (State.READING_HEAD, Event.REPARSE): State.IDLE,
    (State.READING_HEAD, Event.FINAL_RESPONSE): State.LINGERING,
    (State.READING_BODY, Event.MESSAGE_COMPLETE): State.RESPONDING,
    (State.READING_BODY, Event.RESPONSE_COMPLETE): State.DISCARDING_BODY,
    (State.READING_BODY, Event.STOP_READING): State.CLOSING,
    (State.READING_BODY, Event.FINAL_RESPONSE): State.LINGERING,
    (State.DISCARDING_BODY, Event.MESSAGE_COMPLETE): State.IDLE,
    (State.RESPONDING, Event.RESPONSE_COMPLETE): State.IDLE,
    (State.RESPONDING, Event.MESSAGE_BEGIN): State.READING_NEXT_HEAD,
    (State.RESPONDING, Event.STOP_READING): State.CLOSING,
    (State.RESPONDING, Event.FINAL_RESPONSE): State.LINGERING,
    (State.READING_NEXT_HEAD, Event.RESPONSE_COMPLETE): State.READING_HEAD,
    (State.READING_NEXT_HEAD, Event.HEAD_COMPLETE): State.READING_BODY,
    (State.READING_NEXT_HEAD, Event.REPARSE): State.RESPONDING,
    (State.READING_NEXT_HEAD, Event.STOP_READING): State.CLOSING,
    (State.READING_NEXT_HEAD, Event.FINAL_RESPONSE): State.LINGERING,
    (State.CLOSING, Event.FINAL_RESPONSE): State.LINGERING,
    **{(state, Event.CLOSE): State.CLOSED for state in State},
}
"""The next state, for each event that is possible in a state."""

AWAITING_CLIENT = frozenset({State.IDLE, State.READING_HEAD, State.DISCARDING_BODY})
"""States in which the client must send something before the header timeout."""

EVICTABLE = AWAITING_CLIENT | {State.LINGERING}
"""States without a request in progress: the connection may be closed for another."""

IN_HEAD = frozenset({State.READING_HEAD, State.READING_NEXT_HEAD})
"""States in which the parser's headers are those of a request, not trailers after a chunked body."""

MAY_RECEIVE_MORE = frozenset({State.READING_BODY, State.READING_NEXT_HEAD, State.CLOSING})
"""States in which the client may be sending when the last response is complete."""

READING_STOPPED = frozenset({State.CLOSING, State.LINGERING, State.CLOSED})
"""States in which received data is discarded."""


def next_state(state: State, event: Event) -> State:
    """Return the state after an event.

    Raises:
        AssertionError: The event is impossible in the state, which is a defect of this package.
    """
    following = TRANSITIONS.get((state, event))
    assert following is not None, f"expected no {event.name} in {state.name}"
    return following
