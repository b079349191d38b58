"""Signatures are valid for the libraries of Standard Webhooks and Svix, and theirs for our client.

The library for node is installed by npm unless `NODE_PATH` has it; without node its test is skipped.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import anyio
import pytest
import standardwebhooks
import svix.webhooks
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from tests.node import environment
from tests.open_host import open_host
from tests.server.webhooks.conftest import webhook_receiver

from imagehost_client import WebhookVerificationError
from imagehost_client import webhooks as ours
from imagehost_core import Settings
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image
from imagehost_core.webhooks import new_webhook_secret, sign_webhook
from imagehost_server.background import WebhookSender

VECTOR_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VECTOR_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
VECTOR_TIME = 1614265330
VECTOR_BODY = b'{"test": 2432232314}'
VECTOR_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
"""The test vector of the Standard Webhooks libraries."""

NODE = """
const { Webhook } = require('standardwebhooks')
const results = JSON.parse(require('fs').readFileSync(0, 'utf8')).map(({ secret, headers, body }) => {
  try { new Webhook(secret).verify(body, headers); return true } catch (error) { return false }
})
console.log(JSON.stringify(results))
"""


@frozen
class SignedRequest:
    """A request, the secret to verify it with, and whether it is genuine."""

    secret: str
    headers: dict[str, str]
    body: bytes
    genuine: bool = True


Verifier = Callable[[list[SignedRequest]], list[bool]]


def by_standardwebhooks(requests: list[SignedRequest]) -> list[bool]:
    def is_genuine(request: SignedRequest) -> bool:
        try:
            payload = standardwebhooks.Webhook(request.secret).verify(request.body, request.headers)
        except standardwebhooks.WebhookVerificationError:
            return False
        return bool(payload == json.loads(request.body))

    return list(map(is_genuine, requests))


def by_svix(requests: list[SignedRequest]) -> list[bool]:
    def is_genuine(request: SignedRequest) -> bool:
        try:
            svix.webhooks.Webhook(request.secret).verify(request.body, request.headers)
        except svix.webhooks.WebhookVerificationError:
            return False
        return True

    return list(map(is_genuine, requests))


def by_npm(requests: list[SignedRequest]) -> list[bool]:
    inputs = [
        {"secret": request.secret, "headers": request.headers, "body": request.body.decode()}
        for request in requests
    ]
    command, variables = ["node", "-e", NODE], environment("standardwebhooks")
    process = subprocess.run(
        command, input=json.dumps(inputs).encode(), capture_output=True, check=True, env=variables
    )
    results: list[bool] = json.loads(process.stdout)
    return results


def by_our_client(requests: list[SignedRequest]) -> list[bool]:
    def is_genuine(request: SignedRequest) -> bool:
        try:
            event = ours.unwrap(request.body, request.headers, request.secret)
        except WebhookVerificationError:
            return False
        return event.id == request.headers["webhook-id"]

    return list(map(is_genuine, requests))


VERIFIERS = [by_standardwebhooks, by_svix, pytest.param(by_npm, marks=pytest.mark.external), by_our_client]


@pytest.fixture(scope="module")
def signed_requests() -> list[SignedRequest]:
    """One request of each event type, with both secrets of a rotation; and each of them tampered with."""
    webhooks = WebhookSettings(allow_loopback=True)
    options = Settings(
        base_url="https://img.example/v1", webhooks=webhooks, rendering=RenderingSettings(processes=1)
    )
    with (
        open_host(":memory:", settings=options) as host,
        webhook_receiver(lambda _: (200, b"")) as receiver,
    ):
        created = host.webhooks.create(owner="admin", url=receiver.url)
        album = host.albums.create(owner="admin", name="Katzen 🐈 été 描述")
        image = host.upload(make_image(), owner="admin", description="“É”\u2028\n<&>")
        rotated = host.webhooks.rotate_secret(created.id, owner="admin")
        # Earlier events are signed with both secrets too: signatures are made per attempt.
        host.albums.add_images(album.id, [image.id], owner="admin")
        host.images.delete(image.id)
        host.webhooks.test(created.id, owner="admin")
        anyio.run(WebhookSender(host).drain)
    genuine = [
        SignedRequest(secret, headers, body)
        for headers, body in receiver.requests
        for secret in (created.secret, rotated.secret)
    ]
    assert len(genuine) == 2 * 5
    return [*genuine, *(variant for request in genuine for variant in tampered(request))]


def tampered(request: SignedRequest) -> Iterator[SignedRequest]:
    """Yield copies of a request with one part changed."""
    headers = request.headers
    changed_headers = {
        "webhook-id": "msg_other",
        "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1),
        "webhook-signature": "v1,AAAA",
    }
    yield SignedRequest("whsec_" + "A" * 43 + "=", headers, request.body, genuine=False)
    yield SignedRequest(request.secret, headers, request.body + b" ", genuine=False)
    for name, value in changed_headers.items():
        yield SignedRequest(request.secret, {**headers, name: value}, request.body, genuine=False)


@pytest.mark.parametrize("verify", VERIFIERS)
def test_genuine_requests_are_accepted_and_tampered_ones_rejected(
    signed_requests: list[SignedRequest], verify: Verifier
) -> None:
    assert verify(signed_requests) == [request.genuine for request in signed_requests]


def test_the_published_test_vector_is_signed_and_verified_as_published() -> None:
    assert sign_webhook(VECTOR_SECRET, VECTOR_ID, VECTOR_TIME, VECTOR_BODY) == VECTOR_SIGNATURE
    headers = {
        "webhook-id": VECTOR_ID,
        "webhook-timestamp": str(VECTOR_TIME),
        "webhook-signature": VECTOR_SIGNATURE,
    }
    ours.verify(VECTOR_BODY, headers, VECTOR_SECRET, now=datetime.fromtimestamp(VECTOR_TIME, UTC))


@given(st.binary(min_size=32, max_size=32), st.text(st.characters(codec="utf-8")), st.integers(1, 2**33))
def test_any_body_is_signed_as_by_standardwebhooks(key: bytes, text: str, timestamp: int) -> None:
    secret = new_webhook_secret(lambda count: key[:count])
    theirs = standardwebhooks.Webhook(secret).sign(VECTOR_ID, datetime.fromtimestamp(timestamp, UTC), text)
    signature = sign_webhook(secret, VECTOR_ID, timestamp, text.encode())
    assert signature == theirs
    assert ours.sign(f"{VECTOR_ID}.{timestamp}.{text}".encode(), secret) == theirs
