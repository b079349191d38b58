"""Webhooks, and their deliveries."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

import httpx2
import pytest
from anyio.to_thread import run_sync
from attrs import define, field
from tests.contract.conftest import Account, Connect, assert_error, data_of, members
from tests.waiting import PATIENCE

from imagehost_client import AsyncClient, NotFoundError, ValidationError, webhooks
from imagehost_client.models import EventKind, Webhook, WebhookDelivery, WebhookWithSecret
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

UNREACHABLE_URL = "http://127.0.0.1:9/hook"
"""A URL without a listener."""


@define
class Receiver:
    """An endpoint on loopback that stores requests, and responds with 204."""

    url: str = ""
    queue: SimpleQueue[tuple[dict[str, str], bytes]] = field(factory=SimpleQueue)
    received: list[tuple[dict[str, str], bytes]] = field(factory=list)

    async def wait_for(self, count: int) -> None:
        """Wait for a number of deliveries in total."""
        while len(self.received) < count:
            self.received.append(await run_sync(partial(self.queue.get, timeout=PATIENCE)))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An endpoint on loopback."""
    endpoint = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.queue.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield endpoint
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_webhook_is_created_updated_and_deleted(client: AsyncClient) -> None:
    created = await client.webhooks.create(UNREACHABLE_URL, events=["image.uploaded"], description="Mine")
    assert created.secret.startswith("whsec_")
    assert (created.url, created.events, created.description) == (
        UNREACHABLE_URL,
        (EventKind.IMAGE_UPLOADED,),
        "Mine",
    )
    assert (created.is_active, created.disabled_reason) == (True, None)
    updated = await client.webhooks.update(
        created, is_active=False, events=["image.deleted", "album.created"]
    )
    assert (updated.is_active, set(updated.events)) == (False, {"image.deleted", "album.created"})
    assert (updated.url, updated.description) == (UNREACHABLE_URL, "Mine")
    updated = await client.webhooks.update(created, url="http://localhost:9/other", description="")
    assert (updated.url, updated.description, updated.is_active) == ("http://localhost:9/other", "", False)
    assert await client.webhooks.get(created) == updated
    deleted = await client.webhooks.delete(created)
    assert (deleted.id, deleted.deleted) == (created.id, True)
    for call in (client.webhooks.get, client.webhooks.delete, client.webhooks.test):
        with pytest.raises(NotFoundError):
            await call(created)


async def test_a_webhook_without_event_kinds_receives_all(client: AsyncClient) -> None:
    assert (await client.webhooks.create(UNREACHABLE_URL)).events == ()


async def test_webhooks_are_listed_newest_first(client: AsyncClient) -> None:
    created = [await client.webhooks.create(f"{UNREACHABLE_URL}/{number}") for number in range(3)]
    listed = [webhook async for webhook in client.webhooks.list(per_page=2)]
    assert [webhook.id for webhook in listed] == [webhook.id for webhook in created[::-1]]


async def test_a_secret_is_returned_on_creation_and_rotation_only(http: httpx2.AsyncClient) -> None:
    created = await data_of(http.post("/webhooks", json={"url": UNREACHABLE_URL}), 201)
    assert created.keys() == members(WebhookWithSecret)
    path = f"/webhooks/{created['id']}"
    rotated = await data_of(http.post(f"{path}/rotate-secret"))
    assert rotated.keys() == members(WebhookWithSecret)
    assert rotated["secret"] != created["secret"]
    fetched = await data_of(http.get(path))
    assert fetched.keys() == members(Webhook)
    for text in (f"{fetched}", f"{await data_of(http.get('/webhooks'))}"):
        assert "whsec_" not in text


@pytest.mark.parametrize(
    ("body", "field_name"),
    [
        ({}, "url"),
        ({"url": "http://example.com/"}, "url"),
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://user:secret@example.com/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": "https://169.254.169.254/latest"}, "url"),
        ({"url": "https://[fc00::1]/"}, "url"),
        ({"url": "https://intranet/"}, "url"),
        ({"url": "x"}, "url"),
        ({"url": 7}, "url"),
        ({"url": UNREACHABLE_URL, "events": ["image.renamed"]}, "events"),
        ({"url": UNREACHABLE_URL, "events": "image.uploaded"}, "events"),
        ({"url": UNREACHABLE_URL, "description": "x" * 2001}, "description"),
    ],
)
async def test_an_invalid_webhook_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], field_name: str
) -> None:
    assert_error(
        await http.post("/webhooks", json=body), 422, "VALIDATION_ERROR", f"for {field_name} but received"
    )
    assert (await data_of(http.get("/webhooks")))["webhooks"] == []
    if body:
        created = await data_of(http.post("/webhooks", json={"url": UNREACHABLE_URL}), 201)
        assert_error(
            await http.patch(f"/webhooks/{created['id']}", json=body), 422, "VALIDATION_ERROR", field_name
        )
        created.pop("secret")
        assert await data_of(http.get(f"/webhooks/{created['id']}")) == created


async def test_the_clients_error_has_the_field_url(client: AsyncClient) -> None:
    for url in ("http://example.com/", "https://10.0.0.1/", "https://[fc00::1]/", "https://intranet/"):
        with pytest.raises(ValidationError) as caught:
            await client.webhooks.create(url)
        assert caught.value.fields == ("url",)


async def test_each_event_is_delivered_to_each_subscribed_webhook(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    everything = await client.webhooks.create(UNREACHABLE_URL)
    deletions = await client.webhooks.create(UNREACHABLE_URL, events=["image.deleted"])
    paused = await client.webhooks.create(UNREACHABLE_URL)
    await client.webhooks.update(paused, is_active=False)
    await connect(other.token).upload(make_png())

    image = await client.upload(make_png())
    album = await client.albums.create("A")
    await client.albums.update(album, name="B")
    await client.albums.add_images(album, image)
    await client.albums.add_images(album, image)
    await client.albums.delete(album)
    await client.images.delete(image)

    expected = ["image.uploaded", "album.created", "album.updated", "album.updated", "image.deleted"]
    deliveries = [delivery async for delivery in client.webhooks.deliveries(everything, per_page=2)]
    assert [delivery.event for delivery in deliveries] == expected[::-1]
    assert len({delivery.event_id for delivery in deliveries}) == len(expected)
    assert [one.event async for one in client.webhooks.deliveries(deletions)] == ["image.deleted"]
    assert [one async for one in client.webhooks.deliveries(paused)] == []


async def test_each_album_that_a_request_changes_has_one_event(client: AsyncClient) -> None:
    webhook = await client.webhooks.create(UNREACHABLE_URL, events=["album.updated"])
    first, second = await client.albums.create("A"), await client.albums.create("B")
    image = await client.upload(make_png())

    async def deliveries_after(update: Awaitable[object]) -> int:
        before = len([one async for one in client.webhooks.deliveries(webhook)])
        await update
        return len([one async for one in client.webhooks.deliveries(webhook)]) - before

    assert await deliveries_after(client.images.update(image, album_id=first)) == 1
    assert await deliveries_after(client.images.update(image, album_id=first, is_public=True)) == 0
    assert await deliveries_after(client.images.update(image, album_id=second)) == 2
    assert await deliveries_after(client.images.update(image, description="x")) == 0
    assert await deliveries_after(client.images.update(image, album_id=None)) == 1
    assert await deliveries_after(client.albums.update(first, name="A", is_public=True)) == 0
    assert await deliveries_after(client.albums.add_images(first, image)) == 1
    assert await deliveries_after(client.albums.add_images(second, image)) == 2
    assert [album.image_count for album in [await client.albums.get(one) for one in (first, second)]] == [
        0,
        1,
    ]


async def test_a_test_event_is_delivered_and_can_be_retried(client: AsyncClient) -> None:
    webhook = await client.webhooks.create(UNREACHABLE_URL, events=["image.deleted"])
    sent = await client.webhooks.test(webhook)
    (listed,) = [delivery async for delivery in client.webhooks.deliveries(webhook)]
    assert (listed.id, listed.event, listed.event_id) == (sent.id, "webhook.test", sent.event_id)
    retried = await client.webhooks.retry(webhook, sent)
    assert (retried.id, retried.event_id) == (sent.id, sent.event_id)
    second = await client.webhooks.create(UNREACHABLE_URL)
    for other, delivery in ((webhook, "missing"), (second, sent.id)):
        with pytest.raises(NotFoundError):
            await client.webhooks.retry(other, delivery)


async def test_a_delivery_record_has_all_fields(http: httpx2.AsyncClient) -> None:
    webhook = await data_of(http.post("/webhooks", json={"url": UNREACHABLE_URL, "is_active": False}), 201)
    assert webhook["is_active"] is True  # a new webhook is active; PATCH deactivates it
    path = f"/webhooks/{webhook['id']}"
    sent = await data_of(http.post(f"{path}/test"), 201)
    assert sent.keys() == members(WebhookDelivery)
    assert sent["webhook_id"] == webhook["id"]
    (listed,) = (await data_of(http.get(f"{path}/deliveries")))["deliveries"]
    assert listed.keys() == members(WebhookDelivery)
    retried = await data_of(http.post(f"{path}/deliveries/{sent['id']}/retry"))
    assert retried.keys() == members(WebhookDelivery)


async def test_a_webhook_of_another_account_is_404(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    webhook, other_client = await client.webhooks.create(UNREACHABLE_URL), connect(other.token)
    sent = await client.webhooks.test(webhook)
    for call in (
        partial(other_client.webhooks.get, webhook),
        partial(other_client.webhooks.update, webhook, is_active=False),
        partial(other_client.webhooks.delete, webhook),
        partial(other_client.webhooks.test, webhook),
        partial(other_client.webhooks.rotate_secret, webhook),
        partial(other_client.webhooks.retry, webhook, sent),
        other_client.webhooks.deliveries(webhook).first_page,
    ):
        with pytest.raises(NotFoundError):
            await call()
    assert (await client.webhooks.get(webhook)).is_active


async def test_the_client_unwraps_what_the_server_sends(client: AsyncClient, receiver: Receiver) -> None:
    created = await client.webhooks.create(receiver.url)
    image = await client.upload(make_png(7, 5), description="É")
    album = await client.albums.create("A")
    await receiver.wait_for(2)
    rotated = await client.webhooks.rotate_secret(created)
    updated = await client.albums.update(album, name="B")
    await client.images.delete(image)
    await receiver.wait_for(4)

    events = {}
    for headers, body in receiver.received:
        event = webhooks.unwrap(body, headers, created.secret)  # both secrets sign for a day
        events[event.kind] = event
        assert event.timestamp.tzinfo is not None
    uploaded, album_created = events[EventKind.IMAGE_UPLOADED], events[EventKind.ALBUM_CREATED]
    assert isinstance(uploaded, webhooks.ImageUploaded)
    assert uploaded.data == image
    assert isinstance(album_created, webhooks.AlbumCreated)
    assert album_created.data == album
    for headers, body in receiver.received[2:]:
        event = webhooks.unwrap(body, headers, rotated.secret)
        if isinstance(event, webhooks.ImageDeleted):
            assert (event.data.id, event.data.album_id) == (image.id, None)
        else:
            assert isinstance(event, webhooks.AlbumUpdated)
            assert event.data == updated
    by_event = {one.event_id: one async for one in client.webhooks.deliveries(created)}
    assert {event.id for event in events.values()} == set(by_event)
