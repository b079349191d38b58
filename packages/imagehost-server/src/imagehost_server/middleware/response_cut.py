"""The end of a response before its last byte, and how the layers around it learn of it."""

from __future__ import annotations

from asyncio import Transport
from typing import TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from litestar.types import HTTPScope

CUT = "cut"
"""The member of `scope["state"]` of a request whose response has ended before its last byte: a `Cut`."""

TRANSPORT = "transport"
"""The member of `scope["state"]` with the transport of the response, in the server's own protocol."""


class Cut(NamedTuple):
    """How a response has ended before its last byte.

    Attributes:
        reason: `slow` if the client read it too slowly, `disconnected` if it closed the connection, `revoked`
            if its right to it has ended.
        unsent_bytes: Bytes that the application had sent and the kernel had not taken.
    """

    reason: str
    unsent_bytes: int


class ResponseCutError(OSError):
    """The connection was closed before the end of the response: the application need not go on."""


def cut_response(scope: HTTPScope) -> NoReturn:
    """Close the connection of a response that has begun, since the client's right to it has ended.

    Raises:
        ResponseCutError: Always.
    """
    state = scope["state"]
    transport = state.get(TRANSPORT)
    # Another server closes the connection of a response without an end by itself.
    unsent = transport.get_write_buffer_size() if isinstance(transport, Transport) else 0
    state[CUT] = Cut("revoked", unsent)
    if isinstance(transport, Transport):
        transport.abort()
    raise ResponseCutError
