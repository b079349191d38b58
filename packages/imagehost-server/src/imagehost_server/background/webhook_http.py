"""One POST to one destination, over a connection whose address was checked.

Contract 10: destinations are *checked when saved and again on the address really connected to*. So the
name is resolved here, each of its addresses is checked, and the connection goes to one that passed:
between check and connect nobody asks the resolver again. TLS is still verified for the name. Redirects
are not followed; an answer that is not 2xx is simply none of success.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

import h11
from attrs import frozen

from imagehost_core.errors import ValidationError
from imagehost_core.webhooks.endpoint import Endpoint, is_ip_address, require_public_address
from imagehost_core.webhooks.retry import RESPONSE_EXCERPT_BYTES

READ_BYTES = 4_096
"""How much is read at a time. An answer's head may be 16 KiB at most, which is h11's own limit."""

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""A coroutine function that returns the addresses of a name."""


class UnreachableError(Exception):
    """There was no answer; the text says why, and is shown to the destination's owner."""


@frozen
class WebhookResponse:
    """An answer.

    Attributes:
        status: Its HTTP status.
        excerpt: The first bytes of its body, as text.
    """

    status: int
    excerpt: str


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system resolves it.

    Each name has a thread of its own: one whose servers do not answer holds up nothing else, and not even
    the end of the program.

    Raises:
        OSError: It has none.
    """
    if is_ip_address(host):
        return [host]
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], error: OSError | None) -> None:
        if answer.done():
            return  # nobody waits for it any more
        if error is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(error)

    def look_up() -> None:
        addresses, fault = list[str](), None
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in found]
        except OSError as error:
            fault = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, addresses, fault)

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    return await answer


async def post(
    destination: Endpoint,
    headers: dict[str, str],
    body: bytes,
    *,
    timeout: float,  # noqa: ASYNC109 - it bounds the whole exchange, of which the caller sees nothing
    allow_loopback: bool = False,
    tls: ssl.SSLContext | None = None,
    resolve: Resolve = resolve,
) -> WebhookResponse:
    """Send a body and return the answer.

    Args:
        destination: Where to, parsed.
        headers: Beside those that HTTP itself needs.
        body: What is sent.
        timeout: Seconds for all of it: resolving, connecting, sending, and reading the answer.
        allow_loopback: Whether loopback may be connected to.
        tls: How certificates are verified; the system's authorities, unless given.
        resolve: Returns the addresses of a name.

    Raises:
        UnreachableError: There was no answer, or the address may not be connected to.
    """
    try:
        async with asyncio.timeout(timeout):
            addresses = await _addresses(destination, allow_loopback, resolve)
            async with _connect(destination, addresses, tls) as (reader, writer):
                return await _exchange(destination, headers, body, reader, writer)
    except TimeoutError:
        raise UnreachableError(f"no answer within {timeout:g} seconds") from None
    except ValidationError as error:
        # Whose webhook it is does not learn which address that is: it may be one of the operator's network.
        raise UnreachableError(_NOT_PUBLIC) from error
    except ssl.SSLError as error:
        raise UnreachableError(f"TLS failed: {error.reason or error}") from error
    except h11.RemoteProtocolError as error:
        raise UnreachableError(f"the answer was no HTTP: {error}") from error
    except OSError as error:
        raise UnreachableError(f"no connection: {error.strerror or error}") from error


_NOT_PUBLIC = "expected a destination that is reachable from everywhere but received one that is not"


async def _addresses(destination: Endpoint, allow_loopback: bool, resolve: Resolve) -> list[str]:
    """Return the addresses of a destination, if every one of them may be connected to."""
    addresses = list(dict.fromkeys(await resolve(destination.host, destination.port)))
    if not addresses:
        raise OSError("the name has no address")
    for address in addresses:
        require_public_address(address, allow_loopback=allow_loopback)
    return addresses


@asynccontextmanager
async def _connect(
    destination: Endpoint, addresses: list[str], tls: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to the first address that answers; each is one that was checked, and no name."""
    context = (tls or ssl.create_default_context()) if destination.secure else None
    name = destination.host if destination.secure else None
    *others, last = addresses
    for address in others:
        with suppress(OSError):
            streams = await asyncio.open_connection(
                address, destination.port, ssl=context, server_hostname=name
            )
            break
    else:
        streams = await asyncio.open_connection(last, destination.port, ssl=context, server_hostname=name)
    reader, writer = streams
    try:
        yield reader, writer
    finally:
        # Nothing is asked of the connection any more: it is cut, not talked to.
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _exchange(
    destination: Endpoint,
    headers: dict[str, str],
    body: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> WebhookResponse:
    connection = h11.Connection(our_role=h11.CLIENT)
    request = h11.Request(
        method="POST",
        target=destination.target,
        headers=[
            ("Host", destination.authority),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *headers.items(),
        ],
    )
    for part in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    await writer.drain()
    status, excerpt = 0, b""
    while len(excerpt) < RESPONSE_EXCERPT_BYTES:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            excerpt += bytes(event.data)
        elif not isinstance(event, h11.InformationalResponse):
            break
    return WebhookResponse(
        status, excerpt[:RESPONSE_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "")
    )
