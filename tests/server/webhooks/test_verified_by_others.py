"""What we send is genuine to other people's libraries, and what they would sign is genuine to our client.

Where there is node, npm installs its one, unless it is found already (`NODE_PATH`); else that test is skipped
with the reason.
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
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.node import environment
from tests.server.webhooks.conftest import destination

from imagehost_client import WebhookVerificationError
from imagehost_client import webhooks as ours
from imagehost_core import ImageHost, Settings
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image
from imagehost_core.webhooks.signing import new_webhook_secret, sign_webhook
from imagehost_server.background import WebhookSender

VECTOR_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VECTOR_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
VECTOR_TIME = 1614265330
VECTOR_BODY = b'{"test": 2432232314}'
VECTOR_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
"""The vector that the libraries of Standard Webhooks publish in their tests."""

NODE = """
const { Webhook } = require('standardwebhooks')
const verdicts = JSON.parse(require('fs').readFileSync(0, 'utf8')).map(({ secret, headers, body }) => {
  try { new Webhook(secret).verify(body, headers); return true } catch (error) { return false }
})
console.log(JSON.stringify(verdicts))
"""


@frozen
class Sent:
    """A request that came, the secret it was signed with, and whether it should be found genuine."""

    secret: str
    headers: dict[str, str]
    body: bytes
    genuine: bool = True


Verifier = Callable[[list[Sent]], list[bool]]


def by_standardwebhooks(requests: list[Sent]) -> list[bool]:
    def is_genuine(sent: Sent) -> bool:
        try:
            read = standardwebhooks.Webhook(sent.secret).verify(sent.body, sent.headers)
        except standardwebhooks.WebhookVerificationError:
            return False
        return bool(read == json.loads(sent.body))

    return list(map(is_genuine, requests))


def by_svix(requests: list[Sent]) -> list[bool]:
    def is_genuine(sent: Sent) -> bool:
        try:
            svix.webhooks.Webhook(sent.secret).verify(sent.body, sent.headers)
        except svix.webhooks.WebhookVerificationError:
            return False
        return True

    return list(map(is_genuine, requests))


def by_npm(requests: list[Sent]) -> list[bool]:
    asked = [
        {"secret": sent.secret, "headers": sent.headers, "body": sent.body.decode()} for sent in requests
    ]
    command, found = ["node", "-e", NODE], environment("standardwebhooks")
    done = subprocess.run(
        command, input=json.dumps(asked).encode(), capture_output=True, check=True, env=found
    )
    verdicts: list[bool] = json.loads(done.stdout)
    return verdicts


def by_our_client(requests: list[Sent]) -> list[bool]:
    def is_genuine(sent: Sent) -> bool:
        try:
            event = ours.unwrap(sent.body, sent.headers, sent.secret)
        except WebhookVerificationError:
            return False
        return event.id == sent.headers["webhook-id"]

    return list(map(is_genuine, requests))


VERIFIERS = [by_standardwebhooks, by_svix, by_npm, by_our_client]


@pytest.fixture(scope="module")
def sent() -> list[Sent]:
    """One request of each kind of event, some after a rotation, and each of them spoiled in each part."""
    webhooks = WebhookSettings(allow_loopback=True)
    options = Settings(webhooks=webhooks, rendering=RenderingSettings(processes=1))
    with (
        ImageHost.open(":memory:", settings=options) as host,
        destination(lambda _: (200, b"")) as receiver,
    ):
        made = host.webhooks.create(owner="admin", url=receiver.url)
        album = host.albums.create(owner="admin", name="Katzen 🐈 été 描述")
        image = host.upload(make_image(), owner="admin", description="“É”\u2028\n<&>")
        rotated = host.webhooks.rotate_secret(made.webhook.id, owner="admin")
        # What happened before is signed with both as well: it is the attempt that is signed.
        host.albums.add_images(album.id, [image.id], owner="admin")
        host.images.delete(image.id)
        host.webhooks.test(made.webhook.id, owner="admin")
        anyio.run(WebhookSender(host).drain)
    good = [
        Sent(secret, headers, body)
        for headers, body in receiver.came
        for secret in (made.secret, rotated.secret)
    ]
    assert len(good) == 2 * 5
    return [*good, *(bad for one in good for bad in spoiled(one))]


def spoiled(sent: Sent) -> Iterator[Sent]:
    """Yield a request in which one thing is other than it was."""
    other = "whsec_" + "A" * 43 + "="
    yield Sent(other, sent.headers, sent.body, genuine=False)
    yield Sent(sent.secret, sent.headers, sent.body + b" ", genuine=False)
    yield Sent(sent.secret, {**sent.headers, "webhook-id": "msg_other"}, sent.body, genuine=False)
    late = str(int(sent.headers["webhook-timestamp"]) + 1)
    yield Sent(sent.secret, {**sent.headers, "webhook-timestamp": late}, sent.body, genuine=False)
    yield Sent(sent.secret, {**sent.headers, "webhook-signature": "v1,AAAA"}, sent.body, genuine=False)


@pytest.mark.parametrize("verify", VERIFIERS)
def test_what_is_sent_is_genuine_and_what_was_changed_is_not(sent: list[Sent], verify: Verifier) -> None:
    assert verify(sent) == [one.genuine for one in sent]


def test_the_published_vector_is_signed_as_published_and_genuine_to_our_client() -> None:
    assert sign_webhook(VECTOR_SECRET, VECTOR_ID, VECTOR_TIME, VECTOR_BODY) == VECTOR_SIGNATURE
    headers = {
        "webhook-id": VECTOR_ID,
        "webhook-timestamp": str(VECTOR_TIME),
        "webhook-signature": VECTOR_SIGNATURE,
    }
    ours.verify(VECTOR_BODY, headers, VECTOR_SECRET, now=datetime.fromtimestamp(VECTOR_TIME, UTC))


@settings(max_examples=200)
@given(st.binary(min_size=32, max_size=32), st.text(st.characters(codec="utf-8")), st.integers(1, 2**33))
def test_any_body_is_signed_as_standardwebhooks_signs_it(key: bytes, text: str, moment: int) -> None:
    secret = new_webhook_secret(lambda count: key[:count])
    theirs = standardwebhooks.Webhook(secret).sign(VECTOR_ID, datetime.fromtimestamp(moment, UTC), text)
    signature = sign_webhook(secret, VECTOR_ID, moment, text.encode())
    assert signature == theirs
    assert ours.sign(f"{VECTOR_ID}.{moment}.{text}".encode(), secret) == theirs
