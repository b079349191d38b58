"""One request to a URL that a user has given, over a connection to a verified IP address.

URLs are validated when they are received, and again here, against DNS rebinding: the name is resolved once,
every address is checked, and the connection goes to a checked address without another DNS lookup. TLS
certificates are verified for the name. Redirects are not followed: any status but 2xx is a failed request.
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

from imagehost_core.endpoints import AddressPolicy, Endpoint, is_ip_address
from imagehost_core.errors import ValidationError
from imagehost_core.limits import require_file_size
from imagehost_core.webhooks import RESPONSE_EXCERPT_BYTES

READ_BYTES = 4_096
"""Bytes per read. h11 limits the response's headers to 16 KiB."""
REDIRECTS = frozenset((301, 302, 303, 307, 308))
"""The statuses of RFC 9110, 15.4, with another URL."""
EXCERPT_SECONDS = 1.0
"""Seconds to wait for the excerpt: the status alone says whether the endpoint has accepted the request."""

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""A coroutine function that returns the IP addresses of a host name and port."""


class UnreachableError(Exception):
    """A request without a response. The text is the reason, which the endpoint's owner can read."""


@frozen
class OutgoingResponse:
    """The response of an endpoint.

    Attributes:
        status: The HTTP status.
        excerpt: The first `RESPONSE_EXCERPT_BYTES` bytes of the body, as text.
    """

    status: int
    excerpt: str


async def resolve(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host name, from the system's resolver.

    Each lookup runs in a daemon thread: a name server that does not respond delays neither other lookups nor
    the end of the process.

    Raises:
        OSError: The name cannot be resolved.
    """
    if is_ip_address(host):
        return [host]
    loop = asyncio.get_running_loop()
    result: asyncio.Future[list[str]] = loop.create_future()

    def set_result(addresses: list[str], error: OSError | None) -> None:
        if result.done():
            return  # cancelled: the timeout has expired
        if error is None:
            result.set_result(addresses)
        else:
            result.set_exception(error)

    def look_up() -> None:
        addresses, failure = list[str](), None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(sockaddr[0]) for *_, sockaddr in infos]
        except OSError as error:
            failure = error
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(set_result, addresses, failure)

    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    return await result


@frozen
class OpenResponse:
    """A response whose headers were received.

    Attributes:
        status: The HTTP status.
        length: The bytes of its body; `None` if its headers do not say.
        limit: The deadline.
    """

    status: int
    length: int | None
    limit: asyncio.Timeout
    _connection: h11.Connection
    _reader: asyncio.StreamReader

    async def next_event(self) -> object:
        """Return the next event of h11."""
        return await _next_event(self._connection, self._reader)


@frozen
class Outgoing:
    """Outgoing requests of one purpose.

    Attributes:
        policy: Which IP addresses are allowed; each is checked before the connection is made.
        tls: The TLS context; by default one with the system's certificate authorities.
        resolve: Resolves host names.
    """

    policy: AddressPolicy
    tls: ssl.SSLContext | None = None
    resolve: Resolve = resolve

    async def request(
        self,
        method: str,
        endpoint: Endpoint,
        headers: dict[str, str],
        body: bytes,
        *,
        timeout: float,  # noqa: ASYNC109 - covers the request, of which the caller sees no part
    ) -> OutgoingResponse:
        """Send a request and return the response.

        Args:
            method: The request's method.
            endpoint: The parsed URL.
            headers: Headers in addition to Host, Content-Length and Connection.
            body: The request body.
            timeout: Seconds to resolve, connect, send, and read the response's headers.

        Raises:
            UnreachableError: There was no response, or the endpoint's address is not allowed.
        """
        async with self._open(method, endpoint, headers, body, timeout) as response:
            response.limit.reschedule(None)
            return OutgoingResponse(response.status, await _read_excerpt(response))

    async def download(
        self,
        endpoint: Endpoint,
        write: Callable[[bytes], Awaitable[object]],
        *,
        timeout: float,  # noqa: ASYNC109 - covers the request, of which the caller sees no part
        max_bytes: int,
    ) -> None:
        """Write the body of a GET request's response in pieces, as it arrives.

        Args:
            endpoint: The parsed URL.
            write: Receives each piece.
            timeout: Seconds for all of it.
            max_bytes: The download ends when more have arrived.

        Raises:
            UnreachableError: There was no complete response with a status of 2xx in time, or the address is
                not allowed.
            PayloadTooLargeError: The response says that it is larger; nothing is written.
        """
        headers = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "imagehost"}
        async with self._open("GET", endpoint, headers, b"", timeout) as response:
            if not 200 <= response.status < 300:
                is_redirect = response.status in REDIRECTS
                text = "redirects are not followed: " if is_redirect else ""
                raise UnreachableError(f"{text}the status {response.status}")
            require_file_size("the image", response.length or 0, max_bytes)
            received = 0
            while received <= max_bytes and isinstance(event := await response.next_event(), h11.Data):
                received += len(event.data)
                await write(bytes(event.data))

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        endpoint: Endpoint,
        headers: dict[str, str],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - covers the request, of which the caller sees no part
    ) -> AsyncIterator[OpenResponse]:
        """Send a request, and yield its response; arguments and errors are those of `request`."""
        try:
            async with asyncio.timeout(timeout) as limit:
                addresses = await self._resolve_allowed(endpoint)
                async with _connect(endpoint, addresses, self.tls) as (reader, writer):
                    connection = h11.Connection(our_role=h11.CLIENT)
                    await _send(connection, method, endpoint, headers, body, writer)
                    status, length = await _read_head(connection, reader)
                    yield OpenResponse(status, length, limit, connection, reader)
        except TimeoutError:
            raise UnreachableError(f"no response within {timeout:g} seconds") from None
        except ValidationError as error:
            # The message omits the IP address, which may be of the operator's internal network.
            raise UnreachableError(_NOT_PUBLIC) from error
        except ssl.SSLError as error:
            raise UnreachableError(f"TLS failed: {error.reason or error}") from error
        except h11.RemoteProtocolError as error:
            raise UnreachableError(f"the response was not HTTP: {error}") from error
        except OSError as error:
            raise UnreachableError(f"no connection: {error.strerror or error}") from error

    async def _resolve_allowed(self, endpoint: Endpoint) -> list[str]:
        """Return the IP addresses of an endpoint; raise ValidationError unless all of them are allowed."""
        addresses = list(dict.fromkeys(await self.resolve(endpoint.host, endpoint.port)))
        if not addresses:
            raise OSError("the name has no IP address")
        for address in addresses:
            self.policy(address)
        return addresses


_NOT_PUBLIC = "expected an endpoint with a public IP address but received one that is not public"


@asynccontextmanager
async def _connect(
    endpoint: Endpoint, addresses: list[str], tls: ssl.SSLContext | None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to the first of the checked IP addresses that accepts; never to the name."""
    context = (tls or ssl.create_default_context()) if endpoint.secure else None
    server_hostname = endpoint.host if endpoint.secure else None
    *others, last = addresses
    for address in others:
        with suppress(OSError):
            streams = await asyncio.open_connection(
                address, endpoint.port, ssl=context, server_hostname=server_hostname
            )
            break
    else:
        streams = await asyncio.open_connection(
            last, endpoint.port, ssl=context, server_hostname=server_hostname
        )
    reader, writer = streams
    try:
        yield reader, writer
    finally:
        # Abort instead of closing: a TLS shutdown would wait for the peer.
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _send(
    connection: h11.Connection,
    method: str,
    endpoint: Endpoint,
    headers: dict[str, str],
    body: bytes,
    writer: asyncio.StreamWriter,
) -> None:
    request = h11.Request(
        method=method,
        target=endpoint.target,
        headers=[
            ("Host", endpoint.authority),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            *headers.items(),
        ],
    )
    for event in (request, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    await writer.drain()


async def _read_head(connection: h11.Connection, reader: asyncio.StreamReader) -> tuple[int, int | None]:
    """Return the status and the length of the body."""
    while True:
        event = await _next_event(connection, reader)
        if isinstance(event, h11.Response):
            lengths = [int(value) for name, value in event.headers if name == b"content-length"]
            return event.status_code, lengths[0] if lengths else None


async def _read_excerpt(response: OpenResponse) -> str:
    """Return what arrives of the body within `EXCERPT_SECONDS`; a failure ends it."""
    excerpt = b""
    with suppress(TimeoutError, OSError, h11.RemoteProtocolError):
        async with asyncio.timeout(EXCERPT_SECONDS):
            while len(excerpt) < RESPONSE_EXCERPT_BYTES:
                event = await response.next_event()
                if not isinstance(event, h11.Data):
                    break
                excerpt += bytes(event.data)
    return excerpt[:RESPONSE_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "")


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(READ_BYTES))
    return event
