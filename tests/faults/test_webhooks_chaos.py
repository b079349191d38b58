"""Every event arrives, whatever dies: a sender that is killed over and over, and a receiver that often fails.

`IMAGEHOST_TEST_EVENTS` and `IMAGEHOST_TEST_KILLS` make it larger: 2000 and 50 are the full show. Waiting
for the schedule would take a day, so the operator's command `imagehost webhooks hasten` makes due what
waits for its next attempt, as it would after an outage of the network; nothing else is touched.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

import pytest
import standardwebhooks
from attrs import define, field

from imagehost_core import ImageHost
from imagehost_core.models import DeliveryState
from imagehost_core.services.webhooks import MAX_IN_FLIGHT_PER_ENDPOINT
from imagehost_core.settings import RenderingSettings, Settings, WebhookSettings
from imagehost_core.webhooks import RETRY_SCHEDULE
from imagehost_server.testing import environment

EVENTS = int(os.environ.get("IMAGEHOST_TEST_EVENTS", "300"))
KILLS = int(os.environ.get("IMAGEHOST_TEST_KILLS", "10"))
FAILING = 0.3
MOST_FAILURES = len(RETRY_SCHEDULE) - 2
"""How often one event is refused at most, so that none gets to its last attempt."""
VARIABLES = {"IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}
SETTINGS = Settings(webhooks=WebhookSettings(allow_loopback=True), rendering=RenderingSettings(processes=1))


@define
class Flaky:
    """A receiver that fails often: by a status, by hanging up unanswered, or by answering too late for a
    sender that has been killed meanwhile."""

    secret: str = ""
    taken: Counter[str] = field(factory=Counter)
    refused: Counter[str] = field(factory=Counter)
    bodies: dict[str, set[bytes]] = field(factory=dict)
    forged: list[str] = field(factory=list)
    coming: SimpleQueue[None] = field(factory=SimpleQueue)
    url: str = ""
    _chance: random.Random = field(factory=lambda: random.Random(20_261_121))
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def take(self, headers: dict[str, str], body: bytes) -> int | None:
        """Return the status of the answer; `None` stands for no answer."""
        event = headers["webhook-id"]
        try:
            standardwebhooks.Webhook(self.secret).verify(body, headers)
        except standardwebhooks.WebhookVerificationError:
            self.forged.append(event)
        with self._lock:
            self.coming.put(None)
            self.bodies.setdefault(event, set()).add(body)
            fails = self._chance.random() < FAILING and self.refused[event] < MOST_FAILURES
            if fails:
                self.refused[event] += 1
                return self._chance.choice([500, 503, 429, 302, None])
            self.taken[event] += 1
            return 204


@contextmanager
def listening() -> Iterator[Flaky]:
    flaky = Flaky()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if len(body) < int(headers["content-length"]):
                return  # the sender died in the middle of its request
            status = flaky.take(headers, body)
            if status is None:
                return
            with suppress(OSError):  # the sender is dead
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

        def handle(self) -> None:
            with suppress(OSError):  # the sender died in the middle of its request
                super().handle()

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    flaky.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield flaky
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def start(data: Path) -> subprocess.Popen[bytes]:
    """Start `imagehost worker`."""
    command = [sys.executable, "-m", "imagehost_server", "worker", "--data", str(data)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment(VARIABLES))


def pending(host: ImageHost) -> int:
    rows = host._context.database.fetch_all(
        "SELECT count(*) AS n FROM webhook_deliveries WHERE state = 'pending'", {}
    )
    return int(str(rows[0]["n"]))


def hasten(data: Path) -> None:
    command = [sys.executable, "-m", "imagehost_server", "webhooks", "hasten", "--data", str(data)]
    done = subprocess.run(command, check=False, capture_output=True, env=environment(VARIABLES), text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_every_event_arrives_though_receivers_fail_and_senders_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(7)
    with listening() as receiver, ImageHost.open(tmp_path, settings=SETTINGS) as host:
        receiver.secret = host.webhooks.create(owner="admin", url=receiver.url).secret
        told = [host.albums.create(owner="admin", name=f"Album {number}").id for number in range(EVENTS)]
        for _ in range(KILLS):
            worker = start(tmp_path)
            for _ in range(chance.randint(1, max(2, EVENTS // KILLS))):
                receiver.coming.get(timeout=60)
            worker.kill()
            worker.wait()
            hasten(tmp_path)
            assert pending(host)  # or there would be nothing to be killed over
        worker = start(tmp_path)
        ends = time.monotonic() + 240
        while pending(host) and time.monotonic() < ends:
            hasten(tmp_path)
            time.sleep(0.5)
        worker.terminate()
        assert worker.wait(30) == 0
        assert pending(host) == 0
        left = host._context.database.fetch_all("SELECT state, attempts FROM webhook_deliveries", {})
        events = host._context.database.fetch_all("SELECT id, body FROM events", {})
    ids = {str(row["id"]) for row in events}
    assert sorted(json.loads(bytes(row["body"]))["data"]["id"] for row in events) == sorted(told)  # type: ignore[arg-type]
    assert receiver.taken.keys() == ids  # each arrived at least once
    assert receiver.forged == []
    assert {row["state"] for row in left} == {DeliveryState.DELIVERED.value}
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values())
    assert receiver.bodies.keys() == ids
    duplicates = sum(count - 1 for count in receiver.taken.values())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(ids):,} events, {KILLS} kills of the sender: all arrived; "
            f"{sum(receiver.refused.values()):,} refused, {duplicates} duplicates\n"
        )
    # Each kill costs at most those that were under way to the destination.
    assert duplicates <= KILLS * MAX_IN_FLIGHT_PER_ENDPOINT
