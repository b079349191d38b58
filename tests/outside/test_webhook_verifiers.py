"""Libraries that verify webhooks, with a webhook that the real server has sent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx2
import pytest
import standardwebhooks
import svix.webhooks
from tests.outside.conftest import NPM
from tests.server.webhooks.conftest import webhook_receiver

from imagehost_core.testing import make_image

Delivery = tuple[str, dict[str, str], bytes]
"""The secret of the endpoint, the headers, and the body."""

NODE = """
const { Webhook } = require(process.argv[1])
const { secret, headers, body } = JSON.parse(require('fs').readFileSync(0, 'utf8'))
new Webhook(secret).verify(body, headers)
"""


@pytest.fixture(scope="module")
def delivery(api: httpx2.Client) -> Delivery:
    """What the server sends for an upload."""
    with webhook_receiver(lambda _: (200, b"")) as receiver:
        endpoint = {"url": receiver.url, "events": ["image.uploaded"]}
        secret = api.post("/v1/webhooks", json=endpoint).raise_for_status().json()["data"]["secret"]
        form = {"description": "“É” 🐈"}
        api.post("/v1/upload", files={"image": ("cat.png", make_image())}, data=form).raise_for_status()
        receiver.wait_for(1)
    return (secret, *receiver.requests[0])


def test_standardwebhooks_of_pypi_verifies_a_delivered_webhook(delivery: Delivery) -> None:
    secret, headers, body = delivery
    event = standardwebhooks.Webhook(secret).verify(body, headers)
    assert event == json.loads(body)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret).verify(body + b" ", headers)


def test_svix_of_pypi_verifies_a_delivered_webhook(delivery: Delivery) -> None:
    secret, headers, body = delivery
    svix.webhooks.Webhook(secret).verify(body, headers)
    with pytest.raises(svix.webhooks.WebhookVerificationError):
        svix.webhooks.Webhook(secret).verify(body + b" ", headers)


@pytest.mark.parametrize("package", ["standardwebhooks", "svix"])
def test_a_library_of_npm_verifies_a_delivered_webhook(
    delivery: Delivery, node_modules: Path, package: str
) -> None:
    assert package in NPM
    secret, headers, body = delivery

    def verify(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["node", "-e", NODE, str(node_modules / package)],
            input=json.dumps({"secret": secret, "headers": headers, "body": text}),
            capture_output=True,
            text=True,
            check=False,
        )

    genuine, tampered = verify(body.decode()), verify(body.decode() + " ")
    assert genuine.returncode == 0, genuine.stderr
    assert tampered.returncode != 0
    assert "No matching signature found" in tampered.stderr
