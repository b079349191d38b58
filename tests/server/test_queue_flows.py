"""Whose share of the image workers a request uses: that of an account, or of a client's IP address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imagehost_core import Image, ImageHost, UnavailableError
from imagehost_core.limits import account_key, ip_address_key
from imagehost_core.testing import make_image
from imagehost_core.workers import messages
from imagehost_core.workers.broker_messages import MAX_MESSAGE_BYTES, BorrowRequest
from imagehost_server._executors import Executors
from imagehost_server.delivery.route import DeliveryRoute

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="needs SCM_RIGHTS")


@contextmanager
def refusing_broker(data: Path) -> Iterator[tuple[ImageHost, list[str]]]:
    """Open a host whose broker closes every request; yield it and the flows of the requests."""
    near, far = socket.socketpair(type=socket.SOCK_DGRAM)
    flows: list[str] = []

    def refuse() -> None:
        while True:
            data, descriptors, _, _ = socket.recv_fds(far, MAX_MESSAGE_BYTES, 1)
            if not descriptors:
                return
            flows.append(messages.decode(data, BorrowRequest).flow)
            socket.socket(fileno=descriptors[0]).close()

    stop = near.dup()
    thread = threading.Thread(target=refuse)
    thread.start()
    try:
        with ImageHost.open(data, broker=near) as host:
            yield host, flows
    finally:
        stop.send(b"end")
        thread.join()
        stop.close()
        far.close()


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """A private image."""
    with ImageHost.open(tmp_path / "data") as host:
        return host.upload(make_image(64, 48), owner="admin", is_public=False)


async def get(route: DeliveryRoute, image: Image, *headers: tuple[bytes, bytes], query: str) -> None:
    async def receive() -> Any:
        raise AssertionError("expected no body")

    async def send(_message: Any) -> None:
        pass

    scope: Any = {"type": "http", "method": "GET", "query_string": query.encode(), "headers": headers}
    scope["state"] = {"request_id": "1", "ip_address": "2001:db8::1:2:3"}
    await route(image.id, scope, receive, send)


def test_an_upload_is_of_its_account_and_a_render_of_the_owner_where_no_client_is_known(
    tmp_path: Path, image: Image
) -> None:
    with refusing_broker(tmp_path / "data") as (host, flows):
        account = host.accounts.create("ada")
        with pytest.raises(UnavailableError):
            host.upload(make_image(64, 48), owner="ada")
        with pytest.raises(UnavailableError):
            host.render(image.id, "w=9")
    assert flows == [account_key(account.id), account_key(image.account_id)]


@pytest.mark.anyio
async def test_a_render_is_of_the_client_address_or_of_the_account_of_the_token(
    tmp_path: Path, image: Image
) -> None:
    with refusing_broker(tmp_path / "data") as (host, flows):
        token = host.keys.create(owner="admin").token
        route = DeliveryRoute(host, Executors(host.settings.rendering))
        await get(route, image, (b"authorization", f"Bearer {token}".encode()), query="w=9")
        host.images.update(image.id, is_public=True)
        await get(route, image, query="w=8")
    assert flows == [account_key(image.account_id), ip_address_key("2001:db8::ffff")]
