"""Webhooks and their deliveries."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.waiting import PATIENCE

from imagehost_core import Event, ImageHost, NotFoundError, ValidationError
from imagehost_core.endpoints import resolve_host
from imagehost_core.models import DeliveryStatus
from imagehost_core.services.webhooks import MAX_WEBHOOKS
from imagehost_core.settings import Settings, WebhookSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_core.webhooks import Attempt

EACH_ENGINE = True

URL = "http://127.0.0.1:9/"


def test_a_webhook_is_stored_as_created(host: ImageHost) -> None:
    created = host.webhooks.create(
        owner="admin", url=URL, events=["image.uploaded", "image.uploaded"], description="mine"
    )
    assert created.secret.startswith("whsec_")
    assert created.secret not in repr(created)
    stored = host.webhooks.get(created.id, owner="admin")
    assert attrs.asdict(created) == {**attrs.asdict(stored), "secret": created.secret}
    assert created.events == ("image.uploaded",)
    assert [hook.id for hook in host.webhooks.list(owner="admin")] == [created.id]


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "http://example.com/"},
        {"url": "https://10.0.0.1/"},
        {"url": 5},
        {"events": ["image.everything"]},
        {"events": "image.uploaded"},
        {"description": "x" * 2_001},
        {"description": None},
        {"is_active": "yes"},
    ],
)
def test_an_invalid_webhook_is_422(host: ImageHost, fields: dict[str, Any]) -> None:
    created = host.webhooks.create(owner="admin", url=URL)
    before = host.webhooks.get(created, owner="admin")
    with pytest.raises(ValidationError):
        host.webhooks.update(created.id, owner="admin", **fields)
    assert host.webhooks.get(created, owner="admin") == before


def test_a_host_with_a_private_ip_address_is_422(host: ImageHost) -> None:
    private = ["10.0.0.1"]
    with (
        open_host(host.path, settings=host.settings, resolve=lambda _name, _port: private) as inside,
        pytest.raises(ValidationError) as caught,
    ):
        inside.webhooks.create(owner="admin", url="https://hooks.example.com/")
    (fault,) = caught.value.errors
    assert (fault.name, fault.received) == ("url", "'https://hooks.example.com/'")
    assert "10.0.0.1" not in caught.value.details, "what a name leads to in here is nothing to learn from"
    with open_host(host.path, settings=host.settings, resolve=lambda _name, _port: []) as unresolved:
        unresolved.webhooks.create(owner="admin", url="https://hooks.example.com/")


def test_the_system_resolver_returns_ip_addresses_or_none() -> None:
    assert "127.0.0.1" in resolve_host("127.0.0.1", 80)
    assert resolve_host("no such name", 80) == []


def test_a_name_server_that_does_not_respond_delays_no_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its addresses are checked at each attempt."""
    responds = threading.Event()

    def look_up(*_arguments: object, **_options: object) -> list[object]:
        responds.wait(PATIENCE)
        return [(0, 0, 0, "", ("192.0.2.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert resolve_host("hooks.example", 443, timeout=0.1) == []
    responds.set()


def test_another_accounts_webhook_is_404(host: ImageHost) -> None:
    host.accounts.create("ann")
    created = host.webhooks.create(owner="admin", url=URL)
    delivery = host.webhooks.test(created.id, owner="admin")
    for call in (
        host.webhooks.get,
        host.webhooks.update,
        host.webhooks.delete,
        host.webhooks.test,
        host.webhooks.rotate_secret,
        host.webhooks.deliveries,
    ):
        with pytest.raises(NotFoundError):
            call(created.id, owner="ann")
    for ids in ((created.id, "x"), ("x", delivery.id)):
        with pytest.raises(NotFoundError):
            host.webhooks.retry(*ids, owner="admin")


def test_an_account_has_at_most_100_webhooks(host: ImageHost) -> None:
    for _ in range(MAX_WEBHOOKS):
        host.webhooks.create(owner="admin", url=URL)
    with pytest.raises(ValidationError, match="100"):
        host.webhooks.create(owner="admin", url=URL)


def test_an_inactive_webhook_is_sent_nothing(host: ImageHost) -> None:
    created = host.webhooks.create(owner="admin", url=URL)
    host.albums.create(owner="admin", name="Cats")
    host.webhooks.update(created.id, owner="admin", is_active=False)
    host.albums.create(owner="admin", name="Dogs")
    assert host.webhooks.lease(10) == ()
    assert host.webhooks.next_due() is None
    host.webhooks.update(created.id, owner="admin", is_active=True)
    host.albums.create(owner="admin", name="Birds")
    assert len(host.webhooks.lease(10)) == 1


def stored_events(host: ImageHost) -> list[str]:
    """Return the types of the events in the database."""
    rows = host._context.records.database.fetch_all("SELECT type FROM events ORDER BY number", {})
    return [str(row["type"]) for row in rows]


def test_events_are_stored_only_where_a_webhook_is_subscribed_at_that_moment(host: ImageHost) -> None:
    host.accounts.create("ann")
    host.albums.create(owner="admin", name="before")
    created = host.webhooks.create(owner="admin", url=URL, events=["image.deleted"])
    image = host.upload(make_image(), owner="admin")
    host.webhooks.create(owner="ann", url=URL)
    assert stored_events(host) == []
    host.images.delete(image.id)
    assert stored_events(host) == ["image.deleted"]
    host.webhooks.update(created.id, owner="admin", is_active=False)
    host.images.delete(host.upload(make_image(), owner="admin").id)
    assert stored_events(host) == ["image.deleted"]


def test_deleting_a_webhook_deletes_its_deliveries_and_events_but_not_those_of_others(
    host: ImageHost,
) -> None:
    first = host.webhooks.create(owner="admin", url=URL)
    host.albums.create(owner="admin", name="Cats")
    second = host.webhooks.create(owner="admin", url=URL)
    host.albums.create(owner="admin", name="Dogs")
    host.webhooks.delete(first.id, owner="admin")
    assert stored_events(host) == ["album.created"]
    (left,) = host.webhooks.lease(10)
    assert json.loads(left.body)["data"]["name"] == "Dogs"
    host.webhooks.delete(second.id, owner="admin")
    assert (stored_events(host), host.webhooks.lease(10)) == ([], ())


def test_deleting_an_account_deletes_its_events(host: ImageHost) -> None:
    for name in ("ann", "bob"):
        host.accounts.create(name)
        host.webhooks.create(owner=name, url=URL)
        host.albums.create(owner=name, name="Cats")
    host.accounts.delete("ann")
    assert stored_events(host) == ["album.created"]
    (left,) = host.webhooks.lease(10)
    assert left.webhook.account_id == host.accounts.get("bob").id


def test_each_delivery_is_leased_to_one_sender_at_a_time(host: ImageHost, clock: FrozenClock) -> None:
    created = host.webhooks.create(owner="admin", url=URL)
    host.albums.create(owner="admin", name="Cats")
    (due,) = host.webhooks.lease(10)
    assert host.webhooks.lease(10) == ()
    host.webhooks.release(due)
    assert len(host.webhooks.lease(10)) == 1
    clock.advance(seconds=46)
    (again,) = host.webhooks.lease(10)
    assert again.delivery.event_id == due.delivery.event_id
    assert again.body == due.body
    host.webhooks.report([(again, Attempt(at=clock(), status=204, duration_ms=1, response=""))])
    clock.advance(days=1)
    assert host.webhooks.lease(10) == ()
    (delivery,) = host.webhooks.deliveries(created.id, owner="admin")
    assert delivery.status is DeliveryStatus.DELIVERED


def test_old_events_are_deleted_except_those_with_pending_deliveries(
    host: ImageHost, clock: FrozenClock
) -> None:
    created = host.webhooks.create(owner="admin", url=URL)
    for name in ("Cats", "Dogs"):
        host.albums.create(owner="admin", name=name)
    due, _ = host.webhooks.lease(10)
    host.webhooks.report([(due, Attempt(at=clock(), status=200, duration_ms=1, response=""))])
    clock.advance(days=31)
    host.webhooks.delete_expired()
    page = host.webhooks.deliveries(created.id, owner="admin")
    assert [delivery.status for delivery in page] == [DeliveryStatus.PENDING]
    assert page.total == 1
    assert list(host.check(quick=True)) == []


def test_subscribers_are_called_for_every_change_after_its_commit(host: ImageHost) -> None:
    heard: list[Event] = []

    def callback(event: Event) -> None:
        heard.append(event)
        host.images.list(owner="admin")
        if event.type == "image.uploaded":
            raise RuntimeError("a subscriber's own fault")

    end = host.subscribe(callback)
    album = host.albums.create(owner="admin", name="Cats")
    image = host.upload(make_image(), owner="admin", album_id=album.id)
    host.images.update(image.id, description="sits")
    host.albums.update(album.id, owner="admin", name="Dogs")
    host.albums.remove_images(album.id, [image.id], owner="admin")
    host.albums.remove_images(album.id, [image.id], owner="admin")
    host.albums.add_images(album.id, [image.id], owner="admin")
    host.albums.delete(album.id, owner="admin", delete_images=True)
    end()
    host.albums.create(owner="admin", name="Birds")
    end()
    assert [event.type for event in heard] == [
        "album.created",
        "image.uploaded",
        "album.updated",
        "album.updated",
        "album.updated",
        "image.deleted",
    ]


def test_a_change_that_fails_leaves_no_event(host: ImageHost) -> None:
    host.webhooks.create(owner="admin", url=URL)
    heard: list[Event] = []
    host.subscribe(heard.append)
    with pytest.raises(ValidationError):
        host.upload(b"\x89PNG\r\n\x1a\n" + b"damaged", owner="admin")
    with pytest.raises(ValidationError):
        host.albums.create(owner="admin", name=" ")
    assert (heard, host.webhooks.lease(10)) == ([], ())


@given(st.lists(st.sampled_from(["add", "remove", "delete", "upload"]), max_size=8))
def test_counts_and_covers_are_always_consistent(host_once: ImageHost, steps: list[str]) -> None:
    host = host_once
    album = host.albums.create(owner="admin", name="Cats")
    members: list[str] = []
    for step in steps:
        image = host.upload(make_image(8, 8), owner="admin")
        if step == "upload":
            host.images.update(image.id, album_id=album.id)
            members.append(image.id)
        elif step == "add":
            host.albums.add_images(album.id, [image.id], owner="admin")
            members.append(image.id)
        elif members and step == "remove":
            host.albums.remove_images(album.id, [members.pop()], owner="admin")
        elif members:
            host.images.delete(members.pop(0))
    now = host.albums.get(album.id, owner="admin")
    assert now.image_count == len(members)
    assert (now.cover.id if now.cover else None) == (members[-1] if members else None)


@pytest.fixture(scope="module")
def host_once() -> object:

    with open_host() as host:
        yield host


_CHANGES = """
import sys
from imagehost_core import ImageHost
from imagehost_core.settings import Settings, WebhookSettings, RenderingSettings

webhooks, rendering = WebhookSettings(allow_loopback=True), RenderingSettings(processes=1)
settings = Settings(base_url="https://img.example/v1", webhooks=webhooks, rendering=rendering)
with ImageHost.open(sys.argv[1], settings=settings) as host:
    for number in range(10_000):
        print(host.albums.create(owner="admin", name=f"Album {number}").id, flush=True)
"""


@pytest.mark.slow
def test_a_kill_at_any_time_leaves_no_change_without_its_event_and_no_event_without_its_change(
    tmp_path: Path,
) -> None:
    allow_loopback = Settings(
        base_url="https://img.example/v1", webhooks=WebhookSettings(allow_loopback=True)
    )
    with open_host(tmp_path, settings=allow_loopback) as host:
        owner = host.accounts.get("admin")
        host.webhooks.create(owner=owner, url=URL)
    for round_ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", _CHANGES, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(3 + 7 * round_):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with (
        open_host(tmp_path) as host,
        closing(sqlite3.connect(host.path / "imagehost.sqlite3")) as catalog,
    ):
        albums = [album_id for (album_id,) in catalog.execute("SELECT id FROM albums ORDER BY id")]
        bodies = [zlib.decompress(body) for (body,) in catalog.execute("SELECT body FROM events")]
        assert sorted(json.loads(body)["data"]["id"] for body in bodies) == albums
        assert len(albums) >= 5 * 3
        assert owner.name == "admin"


def test_a_webhook_field_that_does_not_exist_is_a_type_error(host: ImageHost) -> None:
    webhook = host.webhooks.get(host.webhooks.create(owner="admin", url=URL), owner="admin")
    changes: dict[str, Any] = {"disabled_reason": "none"}
    with pytest.raises(TypeError, match="disabled_reason"):
        host.webhooks.update(webhook, owner="admin", **changes)
    assert host.webhooks.get(webhook, owner="admin") == webhook
