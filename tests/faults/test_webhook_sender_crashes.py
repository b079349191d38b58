"""Every event is delivered although the sender is killed repeatedly and the receiver often fails.

`IMAGEHOST_TEST_EVENTS` and `IMAGEHOST_TEST_KILLS` set the size, for example 2000 and 50. The retry schedule
takes more than a day, so `imagehost webhooks retry-now` makes pending deliveries due at once.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import standardwebhooks
from attrs import define, field
from tests.faults.webhook_server import run_webhook_server
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.models import DeliveryStatus
from imagehost_core.settings import RenderingSettings, Settings, WebhookSettings
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK, RETRY_SCHEDULE
from imagehost_server.testing import environment

EVENTS = int(os.environ.get("IMAGEHOST_TEST_EVENTS", "120"))
KILLS = int(os.environ.get("IMAGEHOST_TEST_KILLS", "4"))
FAILURE_RATE = 0.3
MAX_FAILURES = len(RETRY_SCHEDULE) - 2
"""The maximum number of failures per event, so that none reaches its last attempt."""
VARIABLES = {"IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}
SETTINGS = Settings(
    base_url="https://img.example/v1",
    webhooks=WebhookSettings(allow_loopback=True),
    rendering=RenderingSettings(processes=1),
)
IMAGEHOST = [sys.executable, "-m", "imagehost_server"]


@define
class FlakyReceiver:
    """A webhook receiver that often fails, with an error status or by closing the connection."""

    secret: str = ""
    accepted: Counter[str] = field(factory=Counter)
    failures: Counter[str] = field(factory=Counter)
    bodies: dict[str, set[bytes]] = field(factory=dict)
    unverified: list[str] = field(factory=list)
    arrivals: SimpleQueue[None] = field(factory=SimpleQueue)
    _random: random.Random = field(factory=lambda: random.Random(20_261_121))
    _lock: threading.Lock = field(factory=threading.Lock, repr=False)

    def receive(self, headers: Message, body: bytes) -> int | None:
        """Return the status of the response, or `None` to close the connection without one."""
        event = headers["webhook-id"]
        try:
            standardwebhooks.Webhook(self.secret).verify(body, dict(headers.items()))
        except standardwebhooks.WebhookVerificationError:
            self.unverified.append(event)
        with self._lock:
            self.arrivals.put(None)
            self.bodies.setdefault(event, set()).add(body)
            if self._random.random() < FAILURE_RATE and self.failures[event] < MAX_FAILURES:
                self.failures[event] += 1
                return self._random.choice([500, 503, 429, 302, None])
            self.accepted[event] += 1
            return 204


@contextmanager
def sender(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `imagehost webhook-sender`; it is killed at the end of the block."""
    command = [*IMAGEHOST, "webhook-sender", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment(VARIABLES)) as process:
        try:
            yield process
        finally:
            process.kill()


def query(data: Path, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of the database."""
    with closing(sqlite3.connect(data / "imagehost.sqlite3", timeout=PATIENCE)) as database:
        return database.execute(sql).fetchall()


def pending(data: Path) -> int:
    """Return the number of pending deliveries."""
    count: int = query(data, "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'")[0][0]
    return count


def retry_now(data: Path) -> None:
    """Run `imagehost webhooks retry-now`."""
    command = [*IMAGEHOST, "webhooks", "retry-now", "--data", str(data)]
    result = subprocess.run(command, check=False, capture_output=True, env=environment(VARIABLES), text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_every_event_is_delivered_although_receivers_fail_and_senders_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(7)
    receiver = FlakyReceiver()
    with run_webhook_server(receiver.receive) as url, ImageHost.open(tmp_path, settings=SETTINGS) as host:
        receiver.secret = host.webhooks.create(owner="admin", url=url).secret
        albums = [host.albums.create(owner="admin", name=f"Album {number}").id for number in range(EVENTS)]
        for _ in range(KILLS):
            with sender(tmp_path):
                for _ in range(rng.randint(1, max(2, EVENTS // KILLS))):
                    receiver.arrivals.get(timeout=PATIENCE)
            retry_now(tmp_path)
            assert pending(tmp_path), "the last sender was killed after the last delivery"
        with sender(tmp_path) as process:
            deadline = time.monotonic() + 240
            while pending(tmp_path) and time.monotonic() < deadline:
                retry_now(tmp_path)
                time.sleep(0.5)
            process.terminate()
            assert process.wait(30) == 0
    states = {state for (state,) in query(tmp_path, "SELECT state FROM webhook_deliveries")}
    events = dict(query(tmp_path, "SELECT id, body FROM events"))
    assert sorted(json.loads(zlib.decompress(body))["data"]["id"] for body in events.values()) == sorted(
        albums
    )
    assert states == {DeliveryStatus.DELIVERED.value}
    assert receiver.accepted.keys() == events.keys()  # at least once each
    assert receiver.unverified == []
    assert receiver.bodies.keys() == events.keys()
    assert all(len(bodies) == 1 for bodies in receiver.bodies.values())
    duplicates = sum(count - 1 for count in receiver.accepted.values())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(events):,} events, {KILLS} kills of the sender: all delivered; "
            f"{sum(receiver.failures.values()):,} failed attempts, {duplicates} duplicates\n"
        )
    # A kill repeats at most the attempts in flight to the endpoint.
    assert duplicates <= KILLS * MAX_IN_FLIGHT_PER_WEBHOOK
