"""Variants in memory on the slow path: cached responses stay correct."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

import pytest
from PIL import Image as PILImage
from tests.open_host import open_host

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.settings import DeliverySettings, PrivateDelivery, Settings
from imagehost_core.storage.cache.variant_cache import LARGE_VARIANT_BYTES
from imagehost_core.testing import make_image
from imagehost_server._executors import Executors
from imagehost_server.app import DELIVERY_PREFIXES, Dispatcher
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.middleware.cors import CorsPolicy
from imagehost_server.middleware.requests import RequestMiddleware


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with open_host() as opened:
        yield opened


@pytest.fixture
def image(host: ImageHost) -> Image:
    return host.upload(make_image(64, 48), owner="admin")


@pytest.fixture(scope="module")
def app(host: ImageHost) -> RequestMiddleware:
    return application(host)


def application(host: ImageHost, trusted_proxies: Iterable[str] = ()) -> RequestMiddleware:
    async def api(_scope: Any, _receive: Any, _send: Any) -> None:
        raise AssertionError("expected requests for images only")

    route = DeliveryRoute(host, Executors(host.settings.rendering))
    dispatcher = Dispatcher(api, route, DELIVERY_PREFIXES, CorsPolicy(()))
    return RequestMiddleware(
        dispatcher, max_concurrent_requests_per_client=9, trusted_proxies=trusted_proxies
    )


async def request(
    app: RequestMiddleware,
    image: Image,
    *headers: tuple[bytes, bytes],
    method: str = "GET",
    query: bytes = b"w=20",
) -> tuple[int, Any, bytes]:
    """Return the status, the headers and the body of the response."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope: Any = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/img/{image.id}.webp",
        "raw_path": b"",
        "query_string": query,
        "headers": [(b"host", b"127.0.0.1"), *headers],
        "client": ("127.0.0.1", 9),
        "state": {},
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[0]["headers"], b"".join(message["body"] for message in sent[1:])


@pytest.mark.anyio
async def test_repeated_responses_differ_in_their_request_id_only(
    app: RequestMiddleware, image: Image
) -> None:
    first, *others = [await request(app, image) for _ in range(4)]
    ids = {dict(headers)[b"x-request-id"] for _, headers, _ in (first, *others)}
    assert len(ids) == 4
    for status, headers, body in others:
        assert (status, body) == (200, first[2])
        assert [name for name, _ in headers] == [name for name, _ in first[1]]
        assert dict(headers) | {b"x-request-id": b""} == dict(first[1]) | {b"x-request-id": b""}


@pytest.mark.anyio
async def test_conditions_and_ranges_apply_to_a_cached_variant(app: RequestMiddleware, image: Image) -> None:
    _, headers, whole = await request(app, image)
    tag = dict(headers)[b"etag"]
    for _ in range(2):
        status, fields, body = await request(app, image, (b"if-none-match", tag))
        assert (status, body, dict(fields)[b"etag"]) == (304, b"", tag)
        status, fields, body = await request(app, image, (b"range", b"bytes=3-9"))
        assert (status, body, dict(fields)[b"content-length"]) == (206, whole[3:10], b"7")
        status, fields, body = await request(app, image)
        assert (status, body, dict(fields)[b"content-length"]) == (200, whole, b"%d" % len(whole))


@pytest.mark.anyio
async def test_repeated_conditional_headers_are_joined(app: RequestMiddleware, image: Image) -> None:
    tag = dict((await request(app, image))[1])[b"etag"]
    assert (await request(app, image, (b"if-none-match", b'"other"'), (b"if-none-match", tag)))[0] == 304


@pytest.mark.anyio
async def test_a_changed_image_is_not_sent_from_the_cache(
    app: RequestMiddleware, host: ImageHost, image: Image
) -> None:
    assert dict((await request(app, image))[1])[b"cache-control"].startswith(b"public")
    host.images.update(image.id, is_public=False)
    assert (await request(app, image))[0] == 404
    host.images.update(image.id, is_public=True)
    assert (await request(app, image))[0] == 200
    host.images.delete(image.id)
    assert (await request(app, image))[0] == 404


def test_a_url_resolves_to_the_same_object_until_the_image_changes(host: ImageHost, image: Image) -> None:
    host.delivery.resolve(f"{image.id}.webp", "w=20")

    def resolved() -> object:
        return host.delivery.resolve_cached(f"{image.id}.webp", "w=20")

    first = resolved()
    assert first is not None
    assert resolved() is first
    host.images.update(image.id, description="new")
    host.delivery.resolve(f"{image.id}.webp", "w=20")
    assert resolved() not in (None, first)


@pytest.mark.anyio
async def test_a_large_variant_is_sent_from_its_file_with_all_its_headers(
    app: RequestMiddleware, host: ImageHost
) -> None:
    file = BytesIO()
    PILImage.effect_noise((800, 600), 90).save(file, "PNG")
    image = host.upload(file.getvalue(), owner="admin")
    query = "fm=png&w=799"
    resolved = host.delivery.resolve(image.id, query)
    with host.delivery.open(resolved) as rendered, host.delivery.open(resolved) as cached:
        assert rendered.data is None
        assert cached.data is None
        data = cached.read()
        assert rendered.read() == data
        assert len(data) == cached.size > LARGE_VARIANT_BYTES
        assert data.startswith(b"\x89PNG")
    assert host.delivery.read_nowait(resolved) is None, "it is not in memory"

    async def get(
        *headers: tuple[bytes, bytes], method: str = "GET"
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        status, sent, body = await request(app, image, *headers, method=method, query=query.encode())
        return status, dict(sent), body

    status, sent, body = await get()
    assert (status, body) == (200, data)
    etag, length = sent[b"etag"], b"%d" % len(data)
    assert sent[b"content-length"] == length
    status, sent, body = await get(method="HEAD")
    assert (status, sent[b"content-length"], body) == (200, length, b"")
    assert (await get((b"if-none-match", etag)))[0] == 304
    part = (b"range", b"bytes=9-100000")
    for headers in ((part,), (part, (b"if-range", etag))):
        status, sent, body = await get(*headers)
        assert (status, sent[b"content-range"], body) == (206, b"bytes 9-100000/" + length, data[9:100_001])
    assert (await get((b"range", b"bytes=-7")))[2] == data[-7:]
    assert (await get(part, (b"if-range", b'"other"')))[::2] == (200, data)
    status, sent, _ = await get((b"range", b"bytes=%b-" % length))
    assert (status, sent[b"content-range"]) == (416, b"bytes */" + length)
    host.images.delete(image.id)
    assert (await get())[0] == 404


NGINX = (b"x-forwarded-proto", b"https")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("is_left", "headers", "options"),
    [
        (True, [NGINX], {}),
        (True, [NGINX, (b"if-none-match", b'"x"')], {}),
        (False, [], {}),
        (False, [NGINX], {"query": b"w=20"}),
        (False, [NGINX], {"method": "HEAD"}),
        (False, [NGINX, (b"range", b"bytes=0-")], {}),
        (False, [NGINX, (b"if-match", b"*")], {}),
    ],
)
async def test_a_whole_master_is_left_to_nginx(
    is_left: bool, headers: list[tuple[bytes, bytes]], options: dict[str, Any]
) -> None:
    settings = Settings(delivery=DeliverySettings(accel_redirect="/files/"))
    with open_host(settings=settings) as host:
        image = host.upload(make_image(64, 48), owner="admin")
        app = application(host, trusted_proxies=["127.0.0.1"])
        _, received, body = await request(app, image, *headers, **{"query": b""} | options)
    location = f"/files/{image.id[:2]}/{image.id}/master".encode()
    assert dict(received).get(b"x-accel-redirect") == (location if is_left else None)
    assert dict(received)[b"content-length"] == b"%d" % len(body) or options.get("method") == "HEAD"
    assert (body == b"") is (is_left or options.get("method") == "HEAD")


@pytest.mark.anyio
async def test_head_has_the_size_of_a_master_that_was_left_to_nginx() -> None:
    settings = Settings(delivery=DeliverySettings(accel_redirect="/files/"))
    with open_host(settings=settings) as host:
        image = host.upload(make_image(64, 48), owner="admin")
        app = application(host, trusted_proxies=["127.0.0.1"])
        for _ in range(2):
            left = dict((await request(app, image, NGINX, query=b""))[1])
            assert (left[b"content-length"], b"x-accel-redirect" in left) == (b"0", True)
            head = dict((await request(app, image, NGINX, method="HEAD", query=b""))[1])
            assert head[b"content-length"] == b"%d" % image.size


@pytest.mark.anyio
async def test_a_private_master_is_not_left_to_nginx() -> None:
    settings = Settings(delivery=DeliverySettings(accel_redirect="/files/", private=PrivateDelivery.UNLISTED))
    with open_host(settings=settings) as host:
        image = host.upload(make_image(64, 48), owner="admin", is_public=False)
        app = application(host, trusted_proxies=["127.0.0.1"])
        status, headers, body = await request(app, image, NGINX, query=b"")
    assert (status, b"x-accel-redirect" in dict(headers), len(body)) == (200, False, image.size)


@pytest.mark.anyio
async def test_a_master_that_browsers_would_show_sideways_is_not_left_to_nginx() -> None:
    settings = Settings(delivery=DeliverySettings(accel_redirect="/files/"))
    with open_host(settings=settings) as host:
        image = host.upload(make_image(64, 48), owner="admin", format="webp")
        file = BytesIO()
        exif = PILImage.Exif()
        exif[0x0112] = 6
        PILImage.new("RGB", (48, 64)).save(file, "WEBP", exif=exif)
        (host.path / "images" / image.id[:2] / image.id / "master").write_bytes(file.getvalue())
        app = application(host, trusted_proxies=["127.0.0.1"])
        status, headers, body = await request(app, image, NGINX, query=b"")
        head = await request(app, image, method="HEAD", query=b"")
        etag = dict(headers)[b"etag"]
        part = await request(app, image, (b"range", b"bytes=0-3"), (b"if-range", etag), query=b"")
    assert (status, PILImage.open(BytesIO(body)).size) == (200, (64, 48))
    assert b"x-accel-redirect" not in dict(headers)
    assert dict(head[1])[b"content-length"] == b"%d" % len(body)
    assert dict(head[1])[b"etag"] == etag
    assert (part[0], part[2]) == (206, body[:4])
