"""The way of a variant that is in memory: what is prepared once and sent often stays true and whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.testing import make_image
from imagehost_server._executors import Executors
from imagehost_server.app import DELIVERY_PREFIXES, Dispatcher
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.middleware.security import SecurityMiddleware


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open() as opened:
        yield opened


@pytest.fixture
def image(host: ImageHost) -> Image:
    return host.upload(make_image(64, 48), owner="admin")


@pytest.fixture(scope="module")
def app(host: ImageHost) -> SecurityMiddleware:
    async def nowhere(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("expected that only pictures are asked for")

    route = DeliveryRoute(host, Executors(host.settings.rendering))
    return SecurityMiddleware(Dispatcher(nowhere, route, DELIVERY_PREFIXES), requests_per_address=9)


async def ask(app: SecurityMiddleware, image: Image, *headers: tuple[bytes, bytes]) -> tuple[int, Any, bytes]:
    """Return the status, the headers and the body of an answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("expected that no body is read")

    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"/img/{image.id}.webp",
        "raw_path": b"",
        "query_string": b"w=20",
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 9),
        "state": {},
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[0]["headers"], b"".join(message["body"] for message in sent[1:])


@pytest.mark.anyio
async def test_an_answer_that_is_sent_again_is_the_same_but_for_its_id(
    app: SecurityMiddleware, image: Image
) -> None:
    first, *others = [await ask(app, image) for _ in range(4)]
    ids = {dict(headers)[b"x-request-id"] for _, headers, _ in (first, *others)}
    assert len(ids) == 4
    for status, headers, body in others:
        assert (status, body) == (200, first[2])
        assert [name for name, _ in headers] == [name for name, _ in first[1]]
        assert dict(headers) | {b"x-request-id": b""} == dict(first[1]) | {b"x-request-id": b""}


@pytest.mark.anyio
async def test_conditions_and_ranges_are_seen_on_a_warm_answer(app: SecurityMiddleware, image: Image) -> None:
    _, headers, whole = await ask(app, image)
    tag = dict(headers)[b"etag"]
    for _ in range(2):
        status, fields, body = await ask(app, image, (b"if-none-match", tag))
        assert (status, body, dict(fields)[b"etag"]) == (304, b"", tag)
        status, fields, body = await ask(app, image, (b"range", b"bytes=3-9"))
        assert (status, body, dict(fields)[b"content-length"]) == (206, whole[3:10], b"7")
        status, fields, body = await ask(app, image)
        assert (status, body, dict(fields)[b"content-length"]) == (200, whole, b"%d" % len(whole))


@pytest.mark.anyio
async def test_repeated_conditions_are_one_list(app: SecurityMiddleware, image: Image) -> None:
    tag = dict((await ask(app, image))[1])[b"etag"]
    assert (await ask(app, image, (b"if-none-match", b'"other"'), (b"if-none-match", tag)))[0] == 304


@pytest.mark.anyio
async def test_what_was_prepared_is_not_sent_after_a_change(
    app: SecurityMiddleware, host: ImageHost, image: Image
) -> None:
    assert dict((await ask(app, image))[1])[b"cache-control"].startswith(b"public")
    host.images.update(image.id, is_public=False)
    assert (await ask(app, image))[0] == 404
    host.images.update(image.id, is_public=True)
    assert (await ask(app, image))[0] == 200
    host.images.delete(image.id)
    assert (await ask(app, image))[0] == 404


def test_an_address_means_the_same_object_until_something_changes(host: ImageHost, image: Image) -> None:
    host.delivery.resolve(f"{image.id}.webp", "w=20")

    def meant() -> object:
        found = host.delivery.resolve_cached(f"{image.id}.webp", "w=20")
        return found and found[0]

    first = meant()
    assert first is not None
    assert meant() is first
    host.images.update(image.id, description="new")
    host.delivery.resolve(f"{image.id}.webp", "w=20")
    assert meant() not in (None, first)
