"""Nothing that a destination can say reaches a listener inside: a real one hears no connection at all.

Each form is tried twice. When it is saved, while every name resolves to a good address, so that the form
itself must be refused. And on the way out, as if it had been saved, while every name resolves to an
inside address, so that the address must be refused.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from attrs import define
from tests.core.test_webhook_endpoint import LOOPBACKS, PRIVATE, WHOLE

from imagehost_core import ImageHost, Settings, ValidationError
from imagehost_core.models import DeliveryState
from imagehost_core.services.webhooks import WebhookService
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.webhooks.endpoint import Endpoint
from imagehost_server.background import WebhookSender, post
from imagehost_server.background.webhook_http import UnreachableError

pytestmark = pytest.mark.anyio

FORMS = list(dict.fromkeys([*(f"https://{host}:{{port}}/hook" for host in LOOPBACKS + PRIVATE), *WHOLE]))
GOOD = "8.8.8.8"
INSIDE = [
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
    """A listener on every address of the machine, of IPv4 and IPv6."""

    port: int = 0
    connections: int = 0


@asynccontextmanager
async def listening(host: str | None = None, port: int = 0) -> AsyncIterator[Listener]:
    """Listen on one address, or on all of them, under one port."""
    kept, servers = Listener(port), list[asyncio.Server]()

    async def count(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.connections += 1
        writer.write(OK)
        writer.close()

    for address in [host] if host else ["0.0.0.0", "::"]:
        try:
            server = await asyncio.start_server(count, address, kept.port)
        except OSError:
            if ":" in address and not socket.has_dualstack_ipv6():
                pytest.skip("NOT TESTED: listeners inside, for want of IPv6 on this machine")
            raise
        kept.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield kept
        await asyncio.sleep(0.05)  # whoever connected has been counted
    finally:
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    settings = Settings(
        webhooks=WebhookSettings(timeout_seconds=5.0), rendering=RenderingSettings(processes=1)
    )
    with ImageHost.open(":memory:", settings=settings) as host:
        yield host


async def resolve_inside(host: str, port: int) -> list[str]:
    """Resolve like the system where it needs no network: `127.1`, `0x7f000001`. All else is inside."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ["127.0.0.1"]
    return [str(address[0]) for *_, address in found]


def test_at_least_120_forms_are_tried() -> None:
    assert len(FORMS) >= 120


async def test_the_listener_would_hear_a_connection() -> None:
    """Without this, the silence of the other tests would mean nothing."""
    async with listening() as inside:
        for address in ("127.0.0.1", "::1", "127.255.0.1"):
            _, writer = await asyncio.open_connection(address, inside.port)
            writer.close()
    assert inside.connections == 3


async def test_no_form_is_saved_even_where_its_name_has_a_good_address(host: ImageHost) -> None:
    hooks = WebhookService(host._context, lambda _name, _port: [GOOD])
    known = hooks.create(owner="admin", url="https://hooks.example.com/").webhook
    async with listening() as inside:
        for form in FORMS:
            url = form.replace("{port}", str(inside.port))
            with pytest.raises(ValidationError):
                hooks.create(owner="admin", url=url)
            with pytest.raises(ValidationError):
                hooks.update(known.id, owner="admin", url=url)
    assert inside.connections == 0
    assert hooks.get(known.id, owner="admin") == known
    hooks.delete(known.id, owner="admin")


async def test_no_form_reaches_the_listener_even_as_if_it_had_been_saved() -> None:
    async with listening() as inside:
        for form in FORMS:
            url = form.replace("{port}", str(inside.port))
            try:
                name = urlsplit(url).hostname or ""
            except ValueError:
                name = url
            for secure in (True, False):
                destination = Endpoint(url, secure, name, inside.port, "/hook")
                with pytest.raises(UnreachableError, match="public IP address"):
                    await post(destination, {}, b"{}", timeout=5, resolve=resolve_inside)
    assert inside.connections == 0


@pytest.mark.parametrize("address", INSIDE)
async def test_a_name_that_was_good_when_it_was_saved_and_leads_inside_now_reaches_nothing(
    host: ImageHost, address: str
) -> None:
    async def rebound(_name: str, _port: int) -> list[str]:
        return [address]

    hooks = WebhookService(host._context, lambda _name, _port: [GOOD])
    async with listening() as inside:
        made = hooks.create(owner="admin", url=f"https://rebinding.example.com:{inside.port}/").webhook
        hooks.test(made.id, owner="admin")
        assert await WebhookSender(host, resolve=rebound).drain() == 1
    assert inside.connections == 0
    (delivery,) = host.webhooks.deliveries(made.id, owner="admin")
    assert (delivery.state, delivery.last_status) == (DeliveryState.PENDING, None)
    assert "public IP address" in delivery.last_response
    assert address not in delivery.last_response
    hooks.delete(made.id, owner="admin")


async def test_one_inside_address_among_good_ones_is_refused_wherever_it_stands() -> None:
    async with listening() as inside:
        for addresses in (["127.0.0.1", GOOD], [GOOD, "127.0.0.1"], [GOOD, "::1", GOOD]):

            async def mixed(_name: str, _port: int, found: list[str] = addresses) -> list[str]:
                return found

            destination = Endpoint("", True, "mixed.example.com", inside.port, "/")
            with pytest.raises(UnreachableError, match="public IP address"):
                await post(destination, {}, b"{}", timeout=5, resolve=mixed)
    assert inside.connections == 0


async def test_between_check_and_connect_nobody_asks_the_resolver_again() -> None:
    """The name leads to the first listener once, and to the second from then on."""
    asked: list[str] = []

    async def rebinding(_name: str, _port: int) -> list[str]:
        asked.append("127.0.0.1" if not asked else "::1")
        return asked[-1:]

    async with listening("127.0.0.1") as first, listening("::1", first.port) as second:
        destination = Endpoint("", False, "rebinding.example.com", first.port, "/")
        posted = await post(destination, {}, b"{}", timeout=5, allow_loopback=True, resolve=rebinding)
    assert posted.status == 200
    assert (asked, first.connections, second.connections) == (["127.0.0.1"], 1, 0)


async def test_an_address_that_does_not_answer_is_passed_over_for_the_next() -> None:
    async def both(_name: str, _port: int) -> list[str]:
        return ["::1", "127.0.0.1"]

    async with listening("127.0.0.1") as only:
        destination = Endpoint("", False, "both.example.com", only.port, "/")
        posted = await post(destination, {}, b"{}", timeout=5, allow_loopback=True, resolve=both)
    assert (posted.status, only.connections) == (200, 1)
