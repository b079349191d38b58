"""The pages about webhooks and events match the code, and their example receiver works."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import httpx2
import jsonschema
import pytest
from tests.open_host import open_host
from tests.waiting import wait_until

from imagehost_client import webhooks
from imagehost_core import Settings
from imagehost_core.events import EVENT_TYPES, event_schemas
from imagehost_core.models import DeliveryStatus
from imagehost_core.services.webhooks import LEASE_MARGIN, MAX_WEBHOOKS
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK, RETRY_SCHEDULE
from imagehost_server.background import WebhookSender
from imagehost_server.background.webhook_sender import SHUTDOWN_GRACE_SECONDS


@pytest.fixture(scope="module")
def pages(workspace: Path) -> dict[str, str]:
    names = ("webhooks.md", "events.md")
    return {name: (workspace / "docs" / name).read_text(encoding="utf-8") for name in names}


def test_the_published_schemas_match_the_code(workspace: Path) -> None:
    published = {path.stem: json.loads(path.read_text()) for path in (workspace / "docs/schemas").iterdir()}
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert published == {name: dialect | schema for name, schema in event_schemas().items()}


def test_every_event_type_is_documented_with_its_schema(pages: dict[str, str]) -> None:
    assert set(re.findall(r"^\| `(\w+\.\w+)` \|", pages["events.md"], re.MULTILINE)) == set(EVENT_TYPES)
    assert re.findall(r"\]\(schemas/(.*)\.json\)", pages["events.md"]) == list(EVENT_TYPES)


def test_the_example_event_matches_its_schema(pages: dict[str, str]) -> None:
    example = json.loads(pages["events.md"].split("```json\n")[1].split("```")[0])
    jsonschema.validate(example, event_schemas()[example["type"]])


def test_the_figures_on_the_page_match_the_code(pages: dict[str, str]) -> None:
    text = " ".join(pages["webhooks.md"].split())
    words = {5: "5 s", 300: "5 min", 1_800: "30 min"}
    waits = [words.get(s := int(offset.total_seconds()), f"{s // 3_600} h") for offset in RETRY_SCHEDULE[1:]]
    assert f"{', '.join(waits[:-1])} and {waits[-1]}" in text
    defaults = WebhookSettings()
    assert f"Up to {MAX_IN_FLIGHT_PER_WEBHOOK} attempts" in text
    assert f"and {defaults.concurrency} in all" in text
    assert f"within {defaults.timeout_seconds:g} seconds" in text
    assert f"for {SHUTDOWN_GRACE_SECONDS:g} seconds" in text
    assert f"{defaults.timeout_seconds + LEASE_MARGIN.total_seconds():g} seconds later" in text
    assert f"at most {MAX_WEBHOOKS} webhooks" in text


@contextmanager
def example(workspace: Path, directory: Path, secrets: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the example receiver; yield its URL and its process."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(workspace / "docs/examples/webhook_receiver.py")],
        cwd=directory,
        env={**os.environ, "WEBHOOK_SECRET": secrets, "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        _, errors = process.communicate()
        assert errors == ""


def read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until_done(directory: Path, count: int) -> None:
    def is_done() -> bool:
        with closing(sqlite3.connect(directory / "inbox.sqlite3")) as inbox:
            done = inbox.execute("SELECT count(*) FROM events WHERE done = 1").fetchone()
        return bool(done == (count,))

    wait_until(is_done)


def test_the_example_receiver_handles_each_event_once(workspace: Path, tmp_path: Path) -> None:
    options = Settings(
        base_url="https://img.example/v1",
        webhooks=WebhookSettings(allow_loopback=True),
        rendering=RenderingSettings(processes=1),
    )
    with open_host(":memory:", settings=options) as host:
        created = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
        rotated = host.webhooks.rotate_secret(created.id, owner="admin")
        with example(workspace, tmp_path, f"{created.secret} {rotated.secret}") as (url, process):
            host.webhooks.update(created.id, owner="admin", url=url)
            image = host.upload(make_image(), owner="admin")
            album = host.albums.create(owner="admin", name="Katzen 🐈")
            host.images.delete(image.id)
            anyio.run(WebhookSender(host).drain)
            assert {read(process) for _ in range(3)} == {
                f"image.uploaded {image.id}",
                f"album.created {album.id}",
                f"image.deleted {image.id}",
            }
            wait_until_done(tmp_path, 3)
            deliveries = list(host.webhooks.deliveries(created.id, owner="admin"))
            assert {(delivery.status, delivery.response_status) for delivery in deliveries} == {
                (DeliveryStatus.DELIVERED, 204)
            }
            # Each of them again: accepted, and not handled a second time.
            for delivery in deliveries:
                host.webhooks.retry(created.id, delivery.id, owner="admin")
            anyio.run(WebhookSender(host).drain)
            retried = list(host.webhooks.deliveries(created.id, owner="admin"))
            assert {(delivery.attempts, delivery.response_status) for delivery in retried} == {(2, 204)}
            host.webhooks.test(created.id, owner="admin")
            anyio.run(WebhookSender(host).drain)
            assert read(process) == "webhook.test None"


def test_the_example_receiver_rejects_invalid_signatures(workspace: Path, tmp_path: Path) -> None:
    secret = "whsec_" + "A" * 43 + "="
    body = b'{"type": "webhook.test", "timestamp": "2026-11-21T07:26:05Z", "data": {"id": "x"}}'
    now = str(int(time.time()))
    old = str(int(time.time()) - 600)

    def headers(timestamp: str, content: bytes = body) -> dict[str, str]:
        signature = webhooks.sign(f"msg_1.{timestamp}.".encode() + content, secret)
        return {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}

    with example(workspace, tmp_path, secret) as (url, process):
        for content, request_headers, status in (
            (body, {}, 401),
            (body + b" ", headers(now), 401),
            (body, headers(old), 401),
            (b"x" * (2**20 + 1), headers(now), 413),
            (body, headers(now), 204),
            (body, headers(now), 204),
        ):
            assert httpx2.post(url, content=content, headers=request_headers).status_code == status
        assert read(process) == "webhook.test x"


def test_the_example_receiver_handles_stored_events_after_a_crash(workspace: Path, tmp_path: Path) -> None:
    secret = "whsec_" + "A" * 43 + "="
    with example(workspace, tmp_path, secret):
        pass
    with closing(sqlite3.connect(tmp_path / "inbox.sqlite3")) as inbox, inbox:
        inbox.execute('INSERT INTO events (id, body) VALUES (\'msg_1\', \'{"type": "stored", "data": {}}\')')
    with example(workspace, tmp_path, secret) as (_, process):
        assert read(process) == "stored None"
