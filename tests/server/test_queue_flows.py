"""Whose share of the image workers a request uses: that of an account, or of a client's IP address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imagehost_core import Image, ImageHost
from imagehost_core.limits import account_key, ip_address_key
from imagehost_core.observer import Measurement, WorkerAcquired
from imagehost_core.testing import make_image
from imagehost_server._executors import Executors
from imagehost_server.delivery.route import DeliveryRoute


@contextmanager
def observed_host(data: Path) -> Iterator[tuple[ImageHost, list[str]]]:
    """Open a host; yield it and the flows of the tasks that have left the queue."""
    flows: list[str] = []

    def observe(measurement: Measurement) -> None:
        if isinstance(measurement, WorkerAcquired):
            flows.append(measurement.flow)

    with ImageHost.open(data, observe=observe) as host:
        yield host, flows


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """A private image."""
    with ImageHost.open(tmp_path / "data") as host:
        return host.upload(make_image(64, 48), owner="admin", is_public=False)


async def get(route: DeliveryRoute, image: Image, *headers: tuple[bytes, bytes], query: str) -> None:
    async def receive() -> Any:
        return await asyncio.Event().wait()

    async def send(_message: Any) -> None:
        pass

    scope: Any = {"type": "http", "method": "GET", "query_string": query.encode(), "headers": headers}
    scope["state"] = {"request_id": "1", "ip_address": "2001:db8::1:2:3"}
    await route(image.id, scope, receive, send)


def test_an_upload_is_of_its_account_and_a_render_of_the_owner_where_no_client_is_known(
    tmp_path: Path, image: Image
) -> None:
    with observed_host(tmp_path / "data") as (host, flows):
        account = host.accounts.create("ada")
        host.upload(make_image(64, 48), owner="ada")
        host.render(image.id, "w=9")
    assert flows == [account_key(account.id), account_key(image.account_id)]


@pytest.mark.anyio
async def test_a_render_is_of_the_client_address_or_of_the_account_of_the_token(
    tmp_path: Path, image: Image
) -> None:
    with observed_host(tmp_path / "data") as (host, flows):
        token = host.keys.create(owner="admin").token
        route = DeliveryRoute(host, Executors(host.settings.rendering))
        await get(route, image, (b"authorization", f"Bearer {token}".encode()), query="w=9")
        host.images.update(image.id, is_public=True)
        await get(route, image, query="w=8")
    assert flows == [account_key(image.account_id), ip_address_key("2001:db8::ffff")]
