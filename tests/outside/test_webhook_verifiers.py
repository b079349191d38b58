"""Libraries that verify webhooks, and receivers in web frameworks, with what the real server sends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
import standardwebhooks
import svix.webhooks
from tests.outside.conftest import NPM
from tests.outside.packages import install_npm
from tests.outside.reverse_proxies import started
from tests.ports import free_port
from tests.server.webhooks.conftest import webhook_receiver
from tests.shipped_files import shipped
from tests.waiting import wait_until

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


FRAMEWORKS = {
    "express": "5.3.0",
    "hono": "4.13.19",
    "@hono/node-server": "2.1.9",
    "standardwebhooks": "1.1.1",
}
"""The npm packages of the receivers; `@hono/node-server` passes the requests of Fetch to two of them."""

FETCH = """
import { serve } from "@hono/node-server";
const receiver = await import(process.argv[2]);
const fetch = receiver.POST ?? ((request) => receiver.default.fetch(request, process.env));
serve({ fetch, hostname: "127.0.0.1", port: Number(process.env.PORT) });
"""

RECEIVERS = {
    "webhook_express.mjs": ("node", "webhook_express.mjs"),
    "webhook_hono.mjs": ("node", "fetch.mjs", "./webhook_hono.mjs"),
    "webhook_next.mjs": ("node", "fetch.mjs", "./webhook_next.mjs"),
    "webhook_fastapi.py": (sys.executable, "-m", "uvicorn", "webhook_fastapi:app", "--port={port}"),
    "webhook_django.py": (sys.executable, "webhook_django.py"),
}
"""The command of each documented receiver."""


@pytest.fixture(scope="module")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages of `FRAMEWORKS`."""
    return install_npm(tmp_path_factory.mktemp("frameworks"), FRAMEWORKS).parent


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_documented_receiver_accepts_what_is_delivered_and_nothing_else(
    api: httpx2.Client, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    directory = request.getfixturevalue("frameworks") if name.endswith(".mjs") else tmp_path
    (directory / name).write_text(shipped(f"docs/examples/{name}"), encoding="utf-8")
    (directory / "fetch.mjs").write_text(FETCH, encoding="utf-8")
    port = free_port()
    url, output = f"http://127.0.0.1:{port}/hook", tmp_path / "output"
    endpoint = {"url": url, "events": ["image.uploaded"], "is_active": True}
    webhook = api.post("/v1/webhooks", json=endpoint).raise_for_status().json()["data"]
    variables = {"WEBHOOK_SECRET": webhook["secret"], "PORT": str(port)}
    command = [part.format(port=port) for part in RECEIVERS[name]]
    with started(command, port, output, variables, directory):
        image = api.post(
            "/v1/upload", files={"image": ("cat.png", make_image())}, data={"description": "“É”"}
        )
        image_id = image.raise_for_status().json()["data"]["id"]
        deliveries = f"/v1/webhooks/{webhook['id']}/deliveries"
        wait_until(lambda: api.get(deliveries).json()["data"]["deliveries"][0]["status"] == "delivered")
        assert f"image.uploaded {image_id}" in output.read_text(encoding="utf-8")
        body = b'{"type":"image.deleted","timestamp":"2026-01-01T00:00:00Z","data":{"id":"x"}}'
        headers = {
            "content-type": "application/json",
            "webhook-id": "msg_1",
            "webhook-timestamp": str(int(time.time())),
        }
        for signature in ("v1,AAAA", "v1", "", "malformed"):
            forged = httpx2.post(url, content=body, headers={**headers, "webhook-signature": signature})
            assert forged.status_code == 401, signature
        assert httpx2.post(url, content=body).status_code in (401, 415)
    api.delete(f"/v1/webhooks/{webhook['id']}")
