"""Verification and parsing of webhooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import Client, ConfigurationError, WebhookVerificationError, webhooks
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


def test_the_test_vector_of_standard_webhooks_is_valid() -> None:
    webhooks.verify(BODY, HEADERS, SECRET, now=NOW)
    webhooks.verify(BODY.decode(), {name.lower(): value for name, value in HEADERS.items()}, SECRET, now=NOW)


@pytest.mark.parametrize("name", list(HEADERS))
def test_a_missing_header_is_rejected(name: str) -> None:
    headers = {header: value for header, value in HEADERS.items() if header != name}
    with pytest.raises(WebhookVerificationError, match=name.lower()):
        webhooks.verify(BODY, headers, SECRET, now=NOW)


@given(st.binary())
def test_a_changed_body_is_rejected(body: bytes) -> None:
    if body == BODY:
        return
    with pytest.raises(WebhookVerificationError, match="signature"):
        webhooks.verify(body, HEADERS, SECRET, now=NOW)


@given(st.integers(-10_000, 10_000))
def test_a_delivery_is_valid_within_five_minutes_of_its_timestamp(seconds: int) -> None:
    now = NOW + timedelta(seconds=seconds)
    if abs(seconds) <= 300:
        webhooks.verify(BODY, HEADERS, SECRET, now=now)
    else:
        with pytest.raises(WebhookVerificationError, match="time"):
            webhooks.verify(BODY, HEADERS, SECRET, now=now)


def test_the_default_time_is_now() -> None:
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
def test_a_changed_header_is_rejected(name: str, value: str) -> None:
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(BODY, {**HEADERS, name: value}, SECRET, now=NOW)


def test_several_secrets_and_signatures_are_accepted() -> None:
    other = "whsec_" + "A" * 32
    webhooks.verify(BODY, HEADERS, [other, SECRET], now=NOW)
    signatures = f"v1,AAAA v2,x {HEADERS['Webhook-Signature']}"
    webhooks.verify(BODY, {**HEADERS, "Webhook-Signature": signatures}, SECRET, now=NOW)
    with pytest.raises(WebhookVerificationError):
        webhooks.verify(BODY, HEADERS, other, now=NOW)


MALFORMED_SECRETS = ["", "whsec_", "whsec_!", "no base64", "whsec_ü", []]


@pytest.mark.parametrize("verify", [webhooks.verify, webhooks.unwrap])
@pytest.mark.parametrize("headers", [HEADERS, {}])
@pytest.mark.parametrize("secret", [*MALFORMED_SECRETS, [SECRET, "whsec_!"], ["no base64", SECRET]])
def test_a_malformed_secret_is_a_configuration_error_whatever_was_delivered(
    verify: Callable[..., object], headers: dict[str, str], secret: Any
) -> None:
    with pytest.raises(ConfigurationError, match="for secret") as caught:
        verify(BODY, headers, secret, now=NOW)
    assert not isinstance(caught.value, WebhookVerificationError)
    assert "whsec_!" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("secret", [None, 7, b"whsec_AAAA", [None], [SECRET, b"whsec_AAAA"]])
def test_a_secret_of_another_type_is_a_type_error(secret: Any) -> None:
    with pytest.raises(TypeError):
        webhooks.verify(BODY, HEADERS, secret, now=NOW)


def test_a_malformed_secret_signs_nothing() -> None:
    with pytest.raises(ConfigurationError, match="for secret"):
        webhooks.sign(b"", "whsec_!")


def signed(event: object) -> tuple[bytes, dict[str, str]]:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    time = str(int(datetime.now(UTC).timestamp()))
    signature = webhooks.sign(f"msg_1.{time}.".encode() + body, SECRET)
    return body, {"webhook-id": "msg_1", "webhook-timestamp": time, "webhook-signature": signature}


def test_every_kind_of_event_has_its_class(client: Client, host: FakeImageHost) -> None:
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


def test_an_unknown_kind_is_an_unknown_event() -> None:
    event = {"type": "album.deleted", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": 7}}
    event_read = webhooks.unwrap(*signed(event), SECRET)
    assert isinstance(event_read, webhooks.UnknownEvent)
    assert (event_read.kind, event_read.data) == ("album.deleted", {"id": 7})
    without_data = webhooks.unwrap(*signed({**event, "data": None}), SECRET)
    assert isinstance(without_data, webhooks.UnknownEvent)
    assert without_data.data == {}


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
        {"type": "future", "timestamp": "0001-01-01T00:00:00+01:00", "data": {}},
        b'{"type": ' + b"[" * 2_000,
        {"type": "image.uploaded", "timestamp": "2026-01-01T00:00:00Z", "data": {}},
    ],
)
def test_a_signed_body_that_is_not_an_event_is_rejected(event: Any) -> None:
    with pytest.raises(WebhookVerificationError, match="type, timestamp and data"):
        webhooks.unwrap(*signed(event), SECRET)
