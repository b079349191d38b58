"""Webhooks: what is genuine, what is not, and what events say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import Client, WebhookVerificationError, webhooks
from imagehost_client.models import EventKind
from imagehost_client.testing import FakeImageHost, make_png

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'
NOW = datetime.fromtimestamp(1614265330, UTC)
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": "1614265330",
    "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def test_the_published_vector_of_standard_webhooks_is_genuine() -> None:
    webhooks.verify(BODY, HEADERS, SECRET, now=NOW)
    webhooks.verify(BODY.decode(), {name.lower(): value for name, value in HEADERS.items()}, SECRET, now=NOW)


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_delivery_without_one_of_its_headers_is_refused(name: str) -> None:
    headers = {known: value for known, value in HEADERS.items() if known != name}
    with pytest.raises(WebhookVerificationError, match=name.lower()):
        webhooks.verify(BODY, headers, SECRET, now=NOW)


@given(st.binary())
def test_a_changed_body_is_refused(body: bytes) -> None:
    if body == BODY:
        return
    with pytest.raises(WebhookVerificationError, match="signature"):
        webhooks.verify(body, HEADERS, SECRET, now=NOW)


@given(st.integers(-10_000, 10_000))
def test_a_delivery_is_taken_within_five_minutes_of_its_time_and_never_outside(seconds: int) -> None:
    now = NOW + timedelta(seconds=seconds)
    if abs(seconds) <= 300:
        webhooks.verify(BODY, HEADERS, SECRET, now=now)
    else:
        with pytest.raises(WebhookVerificationError, match="time"):
            webhooks.verify(BODY, HEADERS, SECRET, now=now)


def test_without_a_time_given_it_is_now() -> None:
    with pytest.raises(WebhookVerificationError, match="time"):
        webhooks.verify(BODY, HEADERS, SECRET)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Webhook-Id", "msg_other"),
        ("Webhook-Timestamp", "1614265331"),
        ("Webhook-Timestamp", "soon"),
        ("Webhook-Signature", "v1,AAAA"),
        ("Webhook-Signature", "v1,ü"),
        ("Webhook-Signature", "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ],
)
def test_a_changed_header_is_refused(name: str, value: str) -> None:
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(BODY, {**HEADERS, name: value}, SECRET, now=NOW)


def test_while_a_secret_is_replaced_old_and_new_signatures_are_taken() -> None:
    other = "whsec_" + "A" * 32
    webhooks.verify(BODY, HEADERS, [other, SECRET], now=NOW)
    signatures = f"v1,AAAA v2,x {HEADERS['Webhook-Signature']}"
    webhooks.verify(BODY, {**HEADERS, "Webhook-Signature": signatures}, SECRET, now=NOW)
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(BODY, HEADERS, other, now=NOW)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!", "no base64"])
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(WebhookVerificationError, match="for secret") as caught:
        webhooks.verify(BODY, HEADERS, secret, now=NOW)
    assert not secret or repr(secret) not in str(caught.value)


def signed(event: object) -> tuple[bytes, dict[str, str]]:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    time = str(int(datetime.now(UTC).timestamp()))
    signature = webhooks.sign(f"msg_1.{time}.".encode() + body, SECRET)
    return body, {"webhook-id": "msg_1", "webhook-timestamp": time, "webhook-signature": signature}


def test_every_kind_of_event_comes_out_as_its_class(client: Client, host: FakeImageHost) -> None:
    album = client.albums.create("A")
    image = client.upload(make_png(), album_id=album)
    client.albums.update(album, name="B")
    client.images.delete(image)
    events = [webhooks.unwrap(*signed(event), SECRET) for event in host.events]
    assert [type(event) for event in events] == [
        webhooks.AlbumCreated,
        webhooks.ImageUploaded,
        webhooks.AlbumUpdated,
        webhooks.ImageDeleted,
    ]
    created, uploaded, updated, deleted = events
    assert isinstance(created, webhooks.AlbumCreated)
    assert isinstance(uploaded, webhooks.ImageUploaded)
    assert isinstance(updated, webhooks.AlbumUpdated)
    assert isinstance(deleted, webhooks.ImageDeleted)
    assert created.data == album
    assert uploaded.data == image
    assert updated.data.name == "B"
    assert (deleted.data.id, deleted.data.album_id) == (image.id, album.id)
    assert {event.id for event in events} == {"msg_1"}
    assert uploaded.kind is EventKind.IMAGE_UPLOADED


def test_a_kind_that_is_not_known_yet_is_an_event_all_the_same() -> None:
    event = {"type": "album.deleted", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": 7}}
    read = webhooks.unwrap(*signed(event), SECRET)
    assert isinstance(read, webhooks.UnknownEvent)
    assert (read.kind, read.data) == ("album.deleted", {"id": 7})
    bare = webhooks.unwrap(*signed({**event, "data": None}), SECRET)
    assert isinstance(bare, webhooks.UnknownEvent)
    assert bare.data == {}


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b"{",
        [],
        None,
        {},
        {"type": "image.uploaded", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "image.uploaded", "timestamp": "now", "data": {}},
        {"type": "image.uploaded", "timestamp": "2026-01-01T00:00:00Z", "data": {}},
    ],
)
def test_a_genuine_delivery_that_is_no_event_is_refused(event: Any) -> None:
    with pytest.raises(WebhookVerificationError, match="type, timestamp and data"):
        webhooks.unwrap(*signed(event), SECRET)
