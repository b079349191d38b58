"""kill -9 between any two statements: no change without its event, no event without its change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from imagehost_core import ImageHost
from imagehost_core.settings import RenderingSettings, Settings, WebhookSettings

SETTINGS = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=RenderingSettings(processes=1))
URL = "http://127.0.0.1:9/"

DIE = """
import os, signal, sys
from imagehost_core import ImageHost, Settings
from imagehost_core.settings import WebhookSettings, RenderingSettings
from imagehost_core.testing import make_image

folder, act = sys.argv[1:]
settings = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=RenderingSettings(processes=1))
left = 0

def die(_statement):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def run_forever():
    with ImageHost.open(folder, settings=settings) as host:
        album = next(iter(host.albums.list(owner="admin")))
        image = next(iter(host.images.list(owner="admin", album_id=album.id)), None)
        # Called when a statement begins, COMMIT among them, and so between any two.
        host._context.database._writer.conn.set_trace_callback(die)
        if act == "upload":
            host.upload(make_image(8, 8), owner="admin", album_id=album.id, convert_to_webp=False)
        elif act == "delete":
            host.images.delete(image.id)
        elif act == "create":
            host.albums.create(owner="admin", name="Dogs")
        elif act == "update":
            host.albums.update(album.id, owner="admin", name=album.name + "!")
        elif act == "members":
            host.albums.remove_images(album.id, [image.id], owner="admin")
        host._context.database._writer.conn.set_trace_callback(None)

number, died = 0, 1
while died:
    number += 1
    child = os.fork()
    if child == 0:
        left = number
        run_forever()
        os._exit(0)
    died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert died in (0, -signal.SIGKILL), died
print(number)
"""


def check_told(host: ImageHost) -> None:
    """What the events tell is what is there, and each went to the destination that listens."""
    catalog = host._context.database
    rows = catalog.fetch_all("SELECT id, type, body FROM events ORDER BY created_at, id", {})
    told = [(str(row["type"]), json.loads(bytes(row["body"]))["data"]) for row in rows]  # type: ignore[arg-type]

    def ids(kind: str) -> list[object]:
        return sorted(data["id"] for name, data in told if name == kind)

    images, albums = (
        catalog.fetch_all("SELECT * FROM images", {}),
        catalog.fetch_all("SELECT * FROM albums", {}),
    )
    assert len(set(ids("image.uploaded"))) == len(ids("image.uploaded"))
    assert len(set(ids("image.deleted"))) == len(ids("image.deleted"))
    assert set(ids("image.uploaded")) - set(ids("image.deleted")) == {row["id"] for row in images}
    assert ids("album.created") == sorted(row["id"] for row in albums)  # type: ignore[type-var]
    names = {data["id"]: data["name"] for name, data in told if name.startswith("album.")}
    assert names == {row["id"]: row["name"] for row in albums}
    membership = [data for name, data in told if name == "album.updated" and data["name"] == "Cats"]
    taken_out = sum(row["album_id"] is None for row in images)
    assert len(membership) == taken_out
    delivered = catalog.fetch_all("SELECT event_id FROM webhook_deliveries", {})
    assert sorted(str(row["event_id"]) for row in delivered) == sorted(str(row["id"]) for row in rows)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
@pytest.mark.parametrize(
    ("act", "images"), [("upload", 0), ("delete", 12), ("create", 0), ("update", 0), ("members", 12)]
)
def test_killed_between_any_two_statements_a_change_and_its_event_are_both_there_or_neither(
    tmp_path: Path, act: str, images: int
) -> None:
    from imagehost_core.testing import make_image

    with ImageHost.open(tmp_path, settings=SETTINGS) as host:
        host.webhooks.create(owner="admin", url=URL)
        album = host.albums.create(owner="admin", name="Cats")
        for _ in range(images):
            host.upload(make_image(8, 8), owner="admin", album_id=album.id, convert_to_webp=False)
        check_told(host)
    done = subprocess.run(
        [sys.executable, "-c", DIE, str(tmp_path), act], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 5
    with ImageHost.open(tmp_path, settings=SETTINGS) as host:
        check_told(host)
        host.maintenance.collect_garbage()
        check_told(host)
        left = {path.parent.name for path in (tmp_path / "images").rglob("master")}
        assert left == {image.id for image in host.images.list(owner="admin")}
