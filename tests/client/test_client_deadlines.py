"""Every call ends at its deadline, whatever the host sends in small pieces."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from functools import partial

import httpx2
import pytest
from tests.stream_server import run_stream_server

from imagehost_client import APITimeoutError, AsyncClient, Client
from imagehost_client.testing import make_png

DEADLINE = 0.3
IMAGE_ID = "a" * 16

OK = b"HTTP/1.1 200 OK\r\n"
JSON = b"Content-Type: application/json\r\n"
DRIPS: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "the status line": (b"HTTP/1.1 200 O", b"K"),
    "a header": (OK + b"X-Header: ", b"x"),
    "headers": (OK, b"X-Header: x\r\n"),
    "interim responses": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "the size of a chunk": (OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunks": (OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a body": (OK + JSON + b"Content-Length: 99999\r\n\r\n", b" "),
    "an image": (OK + b"Content-Type: image/png\r\nContent-Length: 99999\r\n\r\n", b"x"),
}
"""What a host sends at once, and what it sends without end."""
TLS_RECORD = b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03"
"""The start of a handshake message of TLS 1.2 (RFC 5246, sections 6.2.1 and 7.4)."""


Dripping = Callable[[bytes, bytes], str]


@pytest.fixture
def dripping(request: pytest.FixtureRequest) -> Iterator[Dripping]:
    """Start a host that sends something at once, and something without end; return its authority."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)

        def start(first: bytes, rest: bytes) -> str:
            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.read(65_536)
                writer.write(first)
                while True:
                    writer.write(rest)
                    await writer.drain()
                    await asyncio.sleep(0.02)

            context = run_stream_server(handle)
            server = context.__enter__()
            request.addfinalizer(partial(context.__exit__, None, None, None))
            return f"127.0.0.1:{server.port}"

        yield start


Call = Callable[[Client], object]
CALLS: dict[str, Call] = {
    "JSON": lambda client: client.images.get(IMAGE_ID),
    "an upload": lambda client: client.upload(make_png()),
    "a variant": lambda client: client.render(IMAGE_ID, w=10),
}


def call_sync(url: str, call: Call, **options: object) -> None:
    http = httpx2.Client(**options) if options else None  # type: ignore[arg-type]
    with Client(url, "t", deadline=DEADLINE, http_client=http, allow_http=True) as client:
        call(client)


def call_async(url: str, call: Call, **options: object) -> None:
    async def main() -> None:
        http = httpx2.AsyncClient(**options) if options else None  # type: ignore[arg-type]
        async with AsyncClient(url, "t", deadline=DEADLINE, http_client=http, allow_http=True) as client:
            await call(client)  # type: ignore[arg-type, misc]

    asyncio.run(main())


both = pytest.mark.parametrize("caller", [call_sync, call_async])
pytestmark = pytest.mark.time_limit(60)


@both
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_a_call_ends_at_its_deadline_while_the_host_drips(
    dripping: Callable[[bytes, bytes], str],
    drip: tuple[bytes, bytes],
    call: Call,
    caller: Callable[..., None],
) -> None:
    with pytest.raises(APITimeoutError):
        caller(f"http://{dripping(*drip)}/v1", call)


@both
def test_a_call_ends_at_its_deadline_while_a_tls_handshake_drips(
    dripping: Dripping, caller: Callable[..., None]
) -> None:
    with pytest.raises(APITimeoutError):
        caller(f"https://{dripping(TLS_RECORD, b'x')}/v1", CALLS["JSON"])


@both
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_call_ends_at_its_deadline_while_a_proxy_drips(
    dripping: Dripping, caller: Callable[..., None]
) -> None:
    proxy = f"http://{dripping(b'HTTP/1.1 200 OK', b' ')}"
    with pytest.raises(APITimeoutError):
        caller("https://images.test/v1", CALLS["JSON"], proxy=proxy)
    gc.collect()  # httpcore2 leaves the socket open when a request is cancelled that waits for a tunnel
