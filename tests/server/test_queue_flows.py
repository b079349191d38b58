"""Whose share of the image workers a request uses: that of an account, or of a client's IP address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imagehost_core import Image, ImageHost, UnavailableError
from imagehost_core.limits import account_key, ip_address_key
from imagehost_core.testing import make_image
from imagehost_core.workers import WorkerRequest
from imagehost_core.workers.lanes import Lanes
from imagehost_server._executors import Executors
from imagehost_server.delivery.route import DeliveryRoute


@contextmanager
def refusing_queue(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ImageHost, list[str]]]:
    """Open a host whose queue is full; yield it and the flows of the requests."""
    flows: list[str] = []

    def refuse(_lanes: Lanes, request: WorkerRequest, _now: float, _free: int) -> None:
        flows.append(request.flow)
        raise UnavailableError("expected fewer requests")

    with ImageHost.open(data) as host:
        monkeypatch.setattr(Lanes, "add", refuse)
        yield host, flows


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
    tmp_path: Path, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing_queue(tmp_path / "data", monkeypatch) as (host, flows):
        account = host.accounts.create("ada")
        with pytest.raises(UnavailableError):
            host.upload(make_image(64, 48), owner="ada")
        with pytest.raises(UnavailableError):
            host.render(image.id, "w=9")
    assert flows == [account_key(account.id), account_key(image.account_id)]


@pytest.mark.anyio
async def test_a_render_is_of_the_client_address_or_of_the_account_of_the_token(
    tmp_path: Path, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing_queue(tmp_path / "data", monkeypatch) as (host, flows):
        token = host.keys.create(owner="admin").token
        route = DeliveryRoute(host, Executors(host.settings.rendering))
        await get(route, image, (b"authorization", f"Bearer {token}".encode()), query="w=9")
        host.images.update(image.id, is_public=True)
        await get(route, image, query="w=8")
    assert flows == [account_key(image.account_id), ip_address_key("2001:db8::ffff")]
