"""Contract 10, in both houses: destinations and deliveries; from the server, deliveries that arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

import httpx2
import pytest
from anyio.to_thread import run_sync
from attrs import define, field
from tests.contract.conftest import Account, Connect, House, data_of, members, refused

from imagehost_client import AsyncClient, NotFoundError, ValidationError, webhooks
from imagehost_client.models import EventKind, Webhook, WebhookDelivery, WebhookWithSecret
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9/hook"
"""Where nothing listens."""


@define
class Receiver:
    """A destination on loopback that keeps what comes, and answers 204."""

    url: str = ""
    coming: SimpleQueue[tuple[dict[str, str], bytes]] = field(factory=SimpleQueue)
    came: list[tuple[dict[str, str], bytes]] = field(factory=list)

    async def wait_for(self, count: int) -> None:
        """Wait until so many deliveries have come."""
        while len(self.came) < count:
            self.came.append(await run_sync(partial(self.coming.get, timeout=30)))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A destination that is reachable from this machine alone."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.coming.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_destination_is_made_changed_and_deleted(client: AsyncClient) -> None:
    made = await client.webhooks.create(NOBODY, events=["image.uploaded"], description="Mine")
    assert made.secret.startswith("whsec_")
    assert (made.url, made.events, made.description) == (NOBODY, (EventKind.IMAGE_UPLOADED,), "Mine")
    assert (made.is_active, made.disabled_reason) == (True, None)
    changed = await client.webhooks.update(made, is_active=False, events=["image.deleted", "album.created"])
    assert (changed.is_active, set(changed.events)) == (False, {"image.deleted", "album.created"})
    assert (changed.url, changed.description) == (NOBODY, "Mine")
    changed = await client.webhooks.update(made, url="http://localhost:9/other", description="")
    assert (changed.url, changed.description, changed.is_active) == ("http://localhost:9/other", "", False)
    assert await client.webhooks.get(made) == changed
    deleted = await client.webhooks.delete(made)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    for call in (client.webhooks.get, client.webhooks.delete, client.webhooks.test):
        with pytest.raises(NotFoundError):
            await call(made)


async def test_without_events_a_destination_gets_all(client: AsyncClient) -> None:
    assert (await client.webhooks.create(NOBODY)).events == ()


async def test_destinations_are_listed_newest_first(client: AsyncClient) -> None:
    made = [await client.webhooks.create(f"{NOBODY}/{number}") for number in range(3)]
    listed = [webhook async for webhook in client.webhooks.list(per_page=2)]
    assert [webhook.id for webhook in listed] == [webhook.id for webhook in made[::-1]]


async def test_a_secret_is_shown_on_create_and_rotate_only(http: httpx2.AsyncClient) -> None:
    made = await data_of(http.post("/webhooks", json={"url": NOBODY}), 201)
    assert made.keys() == members(WebhookWithSecret)
    path = f"/webhooks/{made['id']}"
    rotated = await data_of(http.post(f"{path}/rotate-secret"))
    assert rotated.keys() == members(WebhookWithSecret)
    assert rotated["secret"] != made["secret"]
    shown = await data_of(http.get(path))
    assert shown.keys() == members(Webhook)
    for text in (f"{shown}", f"{await data_of(http.get('/webhooks'))}"):
        assert "whsec_" not in text


@pytest.mark.parametrize(
    ("body", "named"),
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
        ({"url": NOBODY, "events": ["image.renamed"]}, "events"),
        ({"url": NOBODY, "events": "image.uploaded"}, "events"),
        ({"url": NOBODY, "description": "x" * 2001}, "description"),
    ],
)
async def test_a_destination_that_is_not_allowed_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], named: str
) -> None:
    refused(await http.post("/webhooks", json=body), 422, "VALIDATION_ERROR", f"for {named} but received")
    assert (await data_of(http.get("/webhooks")))["webhooks"] == []
    if body:
        made = await data_of(http.post("/webhooks", json={"url": NOBODY}), 201)
        refused(await http.patch(f"/webhooks/{made['id']}", json=body), 422, "VALIDATION_ERROR", named)
        made.pop("secret")
        assert await data_of(http.get(f"/webhooks/{made['id']}")) == made


async def test_the_clients_error_names_the_address(client: AsyncClient) -> None:
    for url in ("http://example.com/", "https://10.0.0.1/", "https://[fc00::1]/", "https://intranet/"):
        with pytest.raises(ValidationError) as caught:
            await client.webhooks.create(url)
        assert caught.value.field == "url"


async def test_each_event_makes_a_delivery_to_each_destination_that_wants_it(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    everything = await client.webhooks.create(NOBODY)
    deletions = await client.webhooks.create(NOBODY, events=["image.deleted"])
    paused = await client.webhooks.create(NOBODY)
    await client.webhooks.update(paused, is_active=False)
    await connect(other.token).upload(make_png())

    image = await client.upload(make_png())
    album = await client.albums.create("A")
    await client.albums.update(album, name="B")
    await client.albums.add_images(album, image)
    await client.albums.add_images(album, image)
    await client.albums.delete(album)
    await client.images.delete(image)

    happened = ["image.uploaded", "album.created", "album.updated", "album.updated", "image.deleted"]
    found = [delivery async for delivery in client.webhooks.deliveries(everything, per_page=2)]
    assert [delivery.event for delivery in found] == happened[::-1]
    assert len({delivery.event_id for delivery in found}) == len(happened)
    assert [one.event async for one in client.webhooks.deliveries(deletions)] == ["image.deleted"]
    assert [one async for one in client.webhooks.deliveries(paused)] == []


async def test_a_test_event_and_another_attempt(client: AsyncClient) -> None:
    webhook = await client.webhooks.create(NOBODY, events=["image.deleted"])
    sent = await client.webhooks.test(webhook)
    (listed,) = [delivery async for delivery in client.webhooks.deliveries(webhook)]
    assert (listed.id, listed.event, listed.event_id) == (sent.id, "webhook.test", sent.event_id)
    again = await client.webhooks.retry(webhook, sent)
    assert (again.id, again.event_id) == (sent.id, sent.event_id)
    second = await client.webhooks.create(NOBODY)
    for other, delivery in ((webhook, "missing"), (second, sent.id)):
        with pytest.raises(NotFoundError):
            await client.webhooks.retry(other, delivery)


async def test_the_record_of_a_delivery_is_whole(http: httpx2.AsyncClient) -> None:
    webhook = await data_of(http.post("/webhooks", json={"url": NOBODY, "is_active": False}), 201)
    assert webhook["is_active"] is True  # a new destination is active; PATCH pauses it
    path = f"/webhooks/{webhook['id']}"
    sent = await data_of(http.post(f"{path}/test"), 201)
    assert sent.keys() == members(WebhookDelivery)
    assert sent["webhook_id"] == webhook["id"]
    (listed,) = (await data_of(http.get(f"{path}/deliveries")))["deliveries"]
    assert listed.keys() == members(WebhookDelivery)
    again = await data_of(http.post(f"{path}/deliveries/{sent['id']}/retry"))
    assert again.keys() == members(WebhookDelivery)


async def test_somebody_elses_destination_is_404(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    webhook, stranger = await client.webhooks.create(NOBODY), connect(other.token)
    sent = await client.webhooks.test(webhook)
    for call in (
        partial(stranger.webhooks.get, webhook),
        partial(stranger.webhooks.update, webhook, is_active=False),
        partial(stranger.webhooks.delete, webhook),
        partial(stranger.webhooks.test, webhook),
        partial(stranger.webhooks.rotate_secret, webhook),
        partial(stranger.webhooks.retry, webhook, sent),
        stranger.webhooks.deliveries(webhook).first_page,
    ):
        with pytest.raises(NotFoundError):
            await call()
    assert (await client.webhooks.get(webhook)).is_active


async def test_what_the_server_sends_is_what_the_client_unwraps(
    house: House, client: AsyncClient, receiver: Receiver
) -> None:
    made = await client.webhooks.create(receiver.url)
    image = await client.upload(make_png(7, 5), description="É")
    if house.transport:
        assert receiver.coming.empty()  # the double sends nothing
        return
    album = await client.albums.create("A")
    await receiver.wait_for(2)
    rotated = await client.webhooks.rotate_secret(made)
    changed = await client.albums.update(album, name="B")
    await client.images.delete(image)
    await receiver.wait_for(4)

    events = {}
    for headers, body in receiver.came:
        event = webhooks.unwrap(body, headers, made.secret)  # for a day both secrets sign
        events[event.kind] = event
        assert event.timestamp.tzinfo is not None
    uploaded, created = events[EventKind.IMAGE_UPLOADED], events[EventKind.ALBUM_CREATED]
    assert isinstance(uploaded, webhooks.ImageUploaded)
    assert uploaded.data == image
    assert isinstance(created, webhooks.AlbumCreated)
    assert created.data == album
    for headers, body in receiver.came[2:]:
        event = webhooks.unwrap(body, headers, rotated.secret)
        if isinstance(event, webhooks.ImageDeleted):
            assert (event.data.id, event.data.album_id) == (image.id, None)
        else:
            assert isinstance(event, webhooks.AlbumUpdated)
            assert event.data == changed
    by_event = {one.event_id: one async for one in client.webhooks.deliveries(made)}
    assert {event.id for event in events.values()} == set(by_event)
