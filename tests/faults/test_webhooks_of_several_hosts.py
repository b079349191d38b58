"""Webhook senders on two hosts: each delivery is attempted by one of them at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from time import sleep

import httpx2
import pytest
from attrs import define, field
from tests.faults.conftest import NO_LIMITS, kill
from tests.faults.service_load import new_client
from tests.faults.webhook_server import run_webhook_server
from tests.hosts import Engines, run_hosts
from tests.object_store import shared_s3_server
from tests.postgres import PostgresServer
from tests.waiting import wait_until

from imagehost_core.testing import make_image

pytestmark = pytest.mark.external

EVENTS = 60
TIMEOUT = 120.0
VARIABLES = {**NO_LIMITS, "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}


@define
class Receiver:
    """A receiver of webhooks that takes a while for each, and counts those at a time.

    Attributes:
        url: Its URL.
        attempts: The number of attempts by event id.
        overlapping: The ids of events that were received twice at a time.
        open: Set while it responds.
    """

    url: str = ""
    attempts: Counter[str] = field(factory=Counter)
    overlapping: set[str] = field(factory=set)
    open: threading.Event = field(factory=threading.Event)
    _running: set[str] = field(factory=set)
    _lock: threading.Lock = field(factory=threading.Lock)

    @contextmanager
    def receive(self, event_id: str) -> Iterator[None]:
        """Count an attempt while the block runs."""
        with self._lock:
            self.attempts[event_id] += 1
            if event_id in self._running:
                self.overlapping.add(event_id)
            self._running.add(event_id)
        yield
        with self._lock:
            self._running.discard(event_id)


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.open.set()

    def respond(headers: Message, _body: bytes) -> int:
        with receiver.receive(headers["webhook-id"]):
            sleep(0.1)
            receiver.open.wait(TIMEOUT)
        return 204

    with run_webhook_server(respond) as receiver.url:
        yield receiver


def upload(client: httpx2.Client, seed: int) -> None:
    files = {"image": ("a.png", make_image(16, 12, seed=seed))}
    client.post("/v1/upload", files=files).raise_for_status()


def wait_for(receiver: Receiver, count: int) -> None:
    wait_until(lambda: len(receiver.attempts) >= count)


def test_each_delivery_is_attempted_by_one_sender_at_a_time_and_a_killed_host_loses_none(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with shared_s3_server() as s3, run_receiver() as receiver:
        engines = Engines(postgres_url, s3.url())
        with run_hosts(tmp_path, engines, engines, variables=VARIABLES) as (one, other):
            token = one.token
            with new_client(one, token, TIMEOUT) as here, new_client(other, token, TIMEOUT) as there:
                webhook = {"url": receiver.url, "events": ["image.uploaded"]}
                here.post("/v1/webhooks", json=webhook).raise_for_status()
                with ThreadPoolExecutor(4) as pool:
                    clients = [here, there] * (EVENTS // 2)
                    list(pool.map(upload, clients, range(EVENTS)))
                wait_for(receiver, EVENTS)
                sleep(2)  # for attempts that would be too many
                assert receiver.attempts == dict.fromkeys(receiver.attempts, 1)
                # Attempts of the host that is killed are repeated by the other one.
                receiver.open.clear()
                upload(here, EVENTS)
                upload(there, EVENTS + 1)
                wait_for(receiver, EVENTS + 2)
                kill(one)
                receiver.open.set()
                upload(there, EVENTS + 2)
                wait_for(receiver, EVENTS + 3)
        assert not receiver.overlapping
