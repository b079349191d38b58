"""No form of endpoint URL reaches a listener on a private address: a real one gets no connection.

Each form is tried twice: when it is saved, while every name resolves to a public address, so that the form
itself must be rejected; and when it is sent to, as if it had been saved, while every name resolves to a
private address, so that the address must be rejected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import pytest
from attrs import define
from tests.core.test_webhook_endpoint import INTERNAL_HOSTS, INVALID_URLS, LOOPBACK_HOSTS
from tests.open_host import open_host
from tests.server.webhooks.async_receiver import LOOPBACK_TOO, post

from imagehost_core import ImageHost, Settings, ValidationError
from imagehost_core.endpoints import Endpoint, require_public_address
from imagehost_core.models import DeliveryStatus
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_server.background import WebhookSender
from imagehost_server.http.outgoing import UnreachableError

pytestmark = pytest.mark.anyio

FORMS = list(
    dict.fromkeys(
        [*(f"https://{host}:{{port}}/hook" for host in LOOPBACK_HOSTS + INTERNAL_HOSTS), *INVALID_URLS]
    )
)
PUBLIC_ADDRESS = "8.8.8.8"
INTERNAL_ADDRESSES = [
    "127.0.0.1",
    "127.255.0.1",
    "0.0.0.0",
    "::1",
    "::",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "fe80::1",
    "fe80::1%lo",
    "10.0.0.1",
    "169.254.169.254",
    "fd00:ec2::254",
]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@define
class Listener:
    """A TCP listener that counts connections."""

    port: int = 0
    connections: int = 0


@asynccontextmanager
async def listening(host: str | None = None, port: int = 0) -> AsyncIterator[Listener]:
    """Listen on one address, or on all of IPv4 and IPv6, on one port."""
    listener, servers = Listener(port), list[asyncio.Server]()

    async def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        writer.write(OK)
        writer.close()

    for address in [host] if host else ["0.0.0.0", "::"]:
        try:
            server = await asyncio.start_server(count, address, listener.port)
        except OSError:
            if ":" in address and not socket.has_dualstack_ipv6():
                pytest.skip("NOT TESTED: internal listeners, since this machine has no IPv6")
            raise
        listener.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield listener
        await asyncio.sleep(0.05)  # let the server count pending connections
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    settings = Settings(
        base_url="https://img.example/v1",
        webhooks=WebhookSettings(timeout_seconds=5.0),
        rendering=RenderingSettings(processes=1),
    )
    with open_host(":memory:", settings=settings) as host:
        yield host


async def resolve_internal(host: str, port: int) -> list[str]:
    """Resolve numeric forms like `127.1` and `0x7f000001` as the system does, and names to loopback."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ["127.0.0.1"]
    return [str(sockaddr[0]) for *_, sockaddr in infos]


def test_at_least_120_forms_are_tried() -> None:
    assert len(FORMS) >= 120


async def test_the_listener_counts_connections() -> None:
    """Prove that the other tests would notice a connection."""
    async with listening() as internal:
        for address in ("127.0.0.1", "::1", "127.255.0.1"):
            _, writer = await asyncio.open_connection(address, internal.port)
            writer.close()
    assert internal.connections == 3


@contextmanager
def every_name_is_public() -> Iterator[None]:
    """Make the system resolve every name to a public address."""

    def getaddrinfo(_host: object, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC_ADDRESS, port))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


async def test_no_form_can_be_saved_even_if_its_name_has_a_public_address(host: ImageHost) -> None:
    webhooks = host.webhooks
    with every_name_is_public():
        saved = webhooks.create(owner="admin", url="https://hooks.example.com/")
    async with listening() as internal:
        with every_name_is_public():
            for form in FORMS:
                url = form.replace("{port}", str(internal.port))
                with pytest.raises(ValidationError):
                    webhooks.create(owner="admin", url=url)
                with pytest.raises(ValidationError):
                    webhooks.update(saved.id, owner="admin", url=url)
    assert internal.connections == 0
    assert webhooks.get(saved.id, owner="admin").url == saved.url
    webhooks.delete(saved.id, owner="admin")


async def test_no_form_reaches_the_listener_even_if_it_had_been_saved() -> None:
    async with listening() as internal:
        for form in FORMS:
            url = form.replace("{port}", str(internal.port))
            try:
                name = urlsplit(url).hostname or ""
            except ValueError:
                name = url
            for secure in (True, False):
                endpoint = Endpoint(url, secure, name, internal.port, "/hook")
                with pytest.raises(UnreachableError, match="public IP address"):
                    await post(endpoint, require_public_address, resolve=resolve_internal)
    assert internal.connections == 0


@pytest.mark.parametrize("address", INTERNAL_ADDRESSES)
async def test_a_name_that_resolves_to_an_internal_address_after_saving_reaches_nothing(
    host: ImageHost, address: str
) -> None:
    async def rebound(_name: str, _port: int) -> list[str]:
        return [address]

    async with listening() as internal:
        with every_name_is_public():
            webhook = host.webhooks.create(
                owner="admin", url=f"https://rebinding.example.com:{internal.port}/"
            )
        host.webhooks.test(webhook.id, owner="admin")
        assert await WebhookSender(host, resolve=rebound).drain() == 1
    assert internal.connections == 0
    (delivery,) = host.webhooks.deliveries(webhook.id, owner="admin")
    assert (delivery.status, delivery.response_status) == (DeliveryStatus.PENDING, None)
    assert "public IP address" in (delivery.error or "")
    assert address not in (delivery.error or "")
    host.webhooks.delete(webhook.id, owner="admin")


async def test_one_internal_address_among_public_ones_is_rejected_at_any_position() -> None:
    async with listening() as internal:
        for addresses in (
            ["127.0.0.1", PUBLIC_ADDRESS],
            [PUBLIC_ADDRESS, "127.0.0.1"],
            [PUBLIC_ADDRESS, "::1", PUBLIC_ADDRESS],
        ):

            async def mixed(_name: str, _port: int, result: list[str] = addresses) -> list[str]:
                return result

            endpoint = Endpoint("", True, "mixed.example.com", internal.port, "/")
            with pytest.raises(UnreachableError, match="public IP address"):
                await post(endpoint, require_public_address, resolve=mixed)
    assert internal.connections == 0


async def test_the_name_is_resolved_only_once_between_check_and_connect() -> None:
    """The name resolves to the first listener once, and to the second from then on."""
    lookups: list[str] = []

    async def rebinding(_name: str, _port: int) -> list[str]:
        lookups.append("127.0.0.1" if not lookups else "::1")
        return lookups[-1:]

    async with listening("127.0.0.1") as first, listening("::1", first.port) as second:
        endpoint = Endpoint("", False, "rebinding.example.com", first.port, "/")
        response = await post(endpoint, LOOPBACK_TOO, resolve=rebinding)
    assert response.status == 200
    assert (lookups, first.connections, second.connections) == (["127.0.0.1"], 1, 0)


async def test_an_address_that_refuses_connections_is_skipped_for_the_next() -> None:
    async def both(_name: str, _port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    async with listening("127.0.0.1") as only:
        endpoint = Endpoint("", False, "both.example.com", only.port, "/")
        response = await post(endpoint, LOOPBACK_TOO, resolve=both)
    assert (response.status, only.connections) == (200, 1)
