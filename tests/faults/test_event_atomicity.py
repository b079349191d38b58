"""A process killed between any two SQL statements leaves a change with its event, or neither of them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.faults.conftest import stored_ids

from imagehost_core import ImageHost
from imagehost_core.db.event_bodies import decompress_body
from imagehost_core.settings import RenderingSettings, Settings, WebhookSettings
from imagehost_core.testing import make_image

SETTINGS = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=RenderingSettings(processes=1))
URL = "http://127.0.0.1:9/"

KILLED_AT_EACH_STATEMENT = """
import os, signal, sqlite3, sys
from imagehost_core import ImageHost, Settings
from imagehost_core.settings import WebhookSettings, RenderingSettings
from imagehost_core.testing import make_image

folder, operation = sys.argv[1:]
settings = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=RenderingSettings(processes=1))
remaining = 0
connect = sqlite3.connect

def on_statement(_statement):
    # SQLite calls this when a statement begins, COMMIT included: between any two statements.
    global remaining
    remaining -= 1
    if remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def traced_connect(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(on_statement)
    return connection

def run(number):
    global remaining
    sqlite3.connect = traced_connect
    with ImageHost.open(folder, settings=settings) as host:
        album = next(iter(host.albums.list(owner="admin")))
        image = next(iter(host.images.list(owner="admin", album_id=album.id)), None)
        remaining = number
        if operation == "upload":
            host.upload(make_image(8, 8), owner="admin", album_id=album.id, convert_to_webp=False)
        elif operation == "delete":
            host.images.delete(image.id)
        elif operation == "create":
            host.albums.create(owner="admin", name="Dogs")
        elif operation == "update":
            host.albums.update(album.id, owner="admin", name=album.name + "!")
        elif operation == "members":
            host.albums.remove_images(album.id, [image.id], owner="admin")
        remaining = 0

number, exit_code = 0, 1
while exit_code:
    number += 1
    child = os.fork()
    if child == 0:
        run(number)
        os._exit(0)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert exit_code in (0, -signal.SIGKILL), exit_code
print(number)
"""


def query(data: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of the database."""
    with closing(sqlite3.connect(data / "imagehost.sqlite3", timeout=30)) as database:
        return database.execute(sql).fetchall()


def assert_events_match_the_data(data: Path) -> None:
    """Assert that the events describe the images and albums, and that each has a delivery."""
    rows = query(data, "SELECT number, type, body FROM events ORDER BY created_at, id")
    events = [(kind, json.loads(decompress_body(body))["data"]) for _, kind, body in rows]

    def ids(event_type: str) -> list[str]:
        return sorted(payload["id"] for kind, payload in events if kind == event_type)

    images = dict(query(data, "SELECT id, album_id FROM images"))
    albums = dict(query(data, "SELECT id, name FROM albums"))
    assert len(set(ids("image.uploaded"))) == len(ids("image.uploaded"))
    assert len(set(ids("image.deleted"))) == len(ids("image.deleted"))
    assert set(ids("image.uploaded")) - set(ids("image.deleted")) == images.keys()
    assert ids("album.created") == sorted(albums)
    assert {payload["id"]: payload["name"] for kind, payload in events if kind.startswith("album.")} == albums
    removals = [payload for kind, payload in events if kind == "album.updated" and payload["name"] == "Cats"]
    assert len(removals) == sum(album_id is None for album_id in images.values())
    deliveries = query(data, "SELECT event_number FROM webhook_deliveries")
    assert sorted(event for (event,) in deliveries) == sorted(event for event, _, _ in rows)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("operation", "images"), [("upload", 0), ("delete", 12), ("create", 0), ("update", 0), ("members", 12)]
)
def test_a_kill_between_any_two_statements_leaves_a_change_with_its_event_or_neither(
    tmp_path: Path, operation: str, images: int
) -> None:
    with ImageHost.open(tmp_path, settings=SETTINGS) as host:
        host.webhooks.create(owner="admin", url=URL)
        album = host.albums.create(owner="admin", name="Cats")
        for _ in range(images):
            host.upload(make_image(8, 8), owner="admin", album_id=album.id, convert_to_webp=False)
    assert_events_match_the_data(tmp_path)
    program = [sys.executable, "-c", KILLED_AT_EACH_STATEMENT, str(tmp_path), operation]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout) > 5
    with ImageHost.open(tmp_path, settings=SETTINGS) as host:
        assert_events_match_the_data(tmp_path)
        host.maintenance.collect_garbage()
        assert_events_match_the_data(tmp_path)
        assert stored_ids(tmp_path) == sorted(image.id for image in host.images.list(owner="admin"))
