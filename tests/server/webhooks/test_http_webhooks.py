"""Webhooks as their owners see them: the server sends, and shows what came of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.server.webhooks.conftest import (
    LOOPBACK,
    client_of,
    destination,
    settled,
    worker,
)

from imagehost_client import webhooks
from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment, running


def test_the_server_sends_by_itself_and_shows_attempt_status_duration_and_answer(
    sending: RunningServer,
) -> None:
    with client_of(sending) as client, destination(lambda _: (202, b"thank you" * 100)) as receiver:
        made = client.webhooks.create(receiver.url, events=["image.uploaded"])
        image = client.upload(make_image())
        receiver.wait_for(1)
        ((headers, body),) = receiver.came
        event = webhooks.unwrap(body, headers, made.secret)
        assert isinstance(event, webhooks.ImageUploaded)
        assert event.data == image
        delivery = settled(client, made)
    assert (delivery.event_id, delivery.webhook_id, delivery.event) == (event.id, made.id, "image.uploaded")
    assert (delivery.status, delivery.attempts, delivery.response_status) == ("delivered", 1, 202)
    assert delivery.response_excerpt == ("thank you" * 100)[:500]
    assert delivery.duration_ms is not None
    assert delivery.duration_ms >= 0
    assert (delivery.error, delivery.next_attempt_at) == (None, None)


def test_a_destination_that_fails_is_tried_again_five_seconds_later(sending: RunningServer) -> None:
    with (
        client_of(sending) as client,
        destination(lambda count: (500, b"broken") if count == 1 else (200, b"")) as receiver,
    ):
        made = client.webhooks.create(receiver.url, events=["album.created"])
        client.albums.create("Cats")
        first = settled(client, made)
        assert (first.status, first.response_status, first.response_excerpt) == ("pending", 500, "broken")
        assert first.next_attempt_at is not None
        assert first.last_attempt_at is not None
        assert 4.5 <= (first.next_attempt_at - first.last_attempt_at).total_seconds() <= 5.5
        second = settled(client, made, attempts=2)
        assert (second.status, second.id, len(receiver.came)) == ("delivered", first.id, 2)
    ids = {headers["webhook-id"] for headers, _ in receiver.came}
    assert ids == {first.event_id}


def test_a_failed_delivery_is_sent_again_by_hand(sending: RunningServer) -> None:
    with (
        client_of(sending) as client,
        destination(lambda count: (503, b"") if count == 1 else (204, b"")) as receiver,
    ):
        made = client.webhooks.create(receiver.url)
        sent = client.webhooks.test(made)
        assert (sent.event, sent.status, sent.attempts) == ("webhook.test", "pending", 0)
        settled(client, made)
        again = client.webhooks.retry(made, sent)
        assert (again.id, again.status) == (sent.id, "pending")
        assert again.next_attempt_at is not None
        assert again.next_attempt_at <= datetime.now(UTC)
        assert settled(client, made, attempts=2).status == "delivered"


def test_a_destination_that_is_gone_is_disabled_with_a_reason_until_it_is_made_active(
    sending: RunningServer,
) -> None:
    with client_of(sending) as client, destination(lambda _: (410, b"")) as receiver:
        made = client.webhooks.create(receiver.url, events=["album.created"])
        client.albums.create("Cats")
        assert settled(client, made).status == "failed"
        disabled = client.webhooks.get(made)
        assert (disabled.is_active, disabled.disabled_reason) == (
            False,
            "the endpoint responded with 410 Gone",
        )
        client.albums.create("Dogs")
        assert len(list(client.webhooks.deliveries(made))) == 1
        active = client.webhooks.update(made, is_active=True)
        assert (active.is_active, active.disabled_reason) == (True, None)


def test_where_nobody_listens_the_delivery_says_why(sending: RunningServer) -> None:
    with client_of(sending) as client:
        made = client.webhooks.create("http://127.0.0.1:9/", events=["album.created"])
        client.albums.create("Cats")
        delivery = settled(client, made)
        client.webhooks.delete(made)
    assert (delivery.status, delivery.response_status, delivery.response_excerpt) == ("pending", None, "")
    assert delivery.error is not None
    assert delivery.error.startswith("no connection")


def test_a_server_that_is_told_not_to_send_leaves_it_to_a_worker(silent: RunningServer) -> None:
    with client_of(silent) as client, destination(lambda _: (200, b"")) as receiver:
        made = client.webhooks.create(receiver.url)
        client.webhooks.test(made)
        time.sleep(1.5)
        assert receiver.came == []
        with worker(silent.data):
            assert settled(client, made).status == "delivered"
        client.webhooks.delete(made)


def test_a_worker_that_is_asked_to_end_finishes_what_is_under_way(silent: RunningServer) -> None:
    asked = threading.Event()

    def answer(_count: int) -> tuple[int, bytes]:
        assert asked.wait(30)
        time.sleep(0.5)
        return 200, b"done"

    with client_of(silent) as client, destination(answer) as receiver:
        made = client.webhooks.create(receiver.url)
        client.webhooks.test(made)
        with worker(silent.data) as process:
            receiver.wait_for(1)
            process.send_signal(signal.SIGTERM)
            asked.set()
            assert process.wait(30) == 0
        (delivery,) = client.webhooks.deliveries(made)
        assert (delivery.status, delivery.response_excerpt) == ("delivered", "done")
        client.webhooks.delete(made)


def test_a_worker_that_is_asked_to_end_gives_back_what_does_not_end(silent: RunningServer) -> None:
    hang = threading.Event()

    def answer(_count: int) -> tuple[int, bytes]:
        hang.wait(30)
        return 200, b""

    with client_of(silent) as client, destination(answer) as receiver:
        made = client.webhooks.create(receiver.url)
        client.webhooks.test(made)
        with worker(silent.data) as process:
            receiver.wait_for(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        with ImageHost.open(silent.data) as host:
            (due,) = host.webhooks.lease(10)  # nobody has it any more
            assert (due.webhook.id, due.delivery.attempts) == (made.id, 0)
            host.webhooks.release(due)
        hang.set()
        client.webhooks.delete(made)


def test_a_server_that_is_stopped_finishes_what_is_under_way_and_ends_cleanly(tmp_path: Path) -> None:
    asked = threading.Event()

    def answer(_count: int) -> tuple[int, bytes]:
        assert asked.wait(30)
        return 200, b"done"

    with running(tmp_path / "data", variables=LOOPBACK) as server, destination(answer) as receiver:
        with client_of(server) as client:
            made = client.webhooks.create(receiver.url)
            client.webhooks.test(made)
            receiver.wait_for(1)
        threading.Timer(0.5, asked.set).start()
        assert server.stop() == 0
        assert "Traceback" not in server.log.read_text()
        with ImageHost.open(tmp_path / "data") as host:
            (delivery,) = host.webhooks.deliveries(made.id, owner="admin")
            assert (delivery.state, delivery.last_response) == ("delivered", "done")


def test_several_workers_share_what_is_due_and_send_each_delivery_once(silent: RunningServer) -> None:
    count = 300
    with client_of(silent) as client, destination(lambda _: (200, b"")) as receiver, ExitStack() as started:
        made = [client.webhooks.create(receiver.url, events=["album.created"]) for _ in range(10)]
        for _ in range(3):
            started.enter_context(worker(silent.data))
        with ImageHost.open(silent.data) as host:
            for number in range(count // 10):
                host.albums.create(owner="admin", name=f"Album {number}")
        receiver.wait_for(count)
        time.sleep(1)
        for webhook in made:
            found = list(client.webhooks.deliveries(webhook, per_page=100))
            assert {(one.status, one.attempts) for one in found} == {("delivered", 1)}
            client.webhooks.delete(webhook)
    per_event = Counter(headers["webhook-id"] for headers, _ in receiver.came)
    assert set(per_event.values()) == {10}
    assert len(per_event) == count // 10


def test_the_operator_makes_what_waits_due_now(
    silent: RunningServer, imagehost: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with (
        client_of(silent) as client,
        destination(lambda count: (500, b"") if count == 1 else (200, b"")) as receiver,
    ):
        made = client.webhooks.create(receiver.url)
        client.webhooks.test(made)
        with worker(silent.data):
            settled(client, made)
            done = imagehost("webhooks", "retry-now", "--data", silent.data)
            assert done.stdout in ("1 deliveries are due now\n", "0 deliveries are due now\n")
            assert settled(client, made, attempts=2).status == "delivered"
        client.webhooks.delete(made)
    with ImageHost.open(silent.data) as host:
        assert host.webhooks.retry_all_now() == 0


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_worker_explains_itself(
    imagehost: Callable[..., subprocess.CompletedProcess[str]], flag: str
) -> None:
    assert "in a process of its own" in imagehost("webhook-sender", flag).stdout


def test_albums_and_webhooks_are_managed_from_the_command_line_of_the_client(
    sending: RunningServer, tmp_path: Path
) -> None:
    variables = {"IMAGEHOST_BASE_URL": sending.base_url, "IMAGEHOST_TOKEN": sending.token}
    (tmp_path / "cat.png").write_bytes(make_image())

    def run(*words: str, status: int = 0) -> list[str]:
        done = subprocess.run(
            [Path(sys.executable).with_name("imagehost-client"), *words],
            cwd=tmp_path,
            env=environment(variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout.splitlines()

    (number,) = run("albums", "create", "Cats", "--description", "all of them", "--private")
    (line,) = run("upload", "cat.png", "--quiet", "--json")
    with client_of(sending) as client:
        (image,) = [one for one in client.images.list() if one.id in line]
        added = run("albums", "add", number, image.id, "missing", status=1)
        assert added == [f"{image.id}\tadded", "missing\tnot_found"]
        assert run("albums", "ls", "--limit", "1") == [f"{number}\t1\tprivate\tCats"]
        assert f'"cover_image_id": "{image.id}"' in "\n".join(run("albums", "show", number))
        run("albums", "remove", number, image.id)
        assert client.albums.get(number).image_count == 0
        run("albums", "add", number, image.id)
        run("albums", "rm", number, "--yes", "--delete-images")
        assert image.id not in {one.id for one in client.images.list()}
        with destination(lambda _: (200, b"")) as receiver:
            created = run("webhooks", "create", receiver.url, "--event", "album.created")
            (made,) = [one for one in client.webhooks.list() if one.url == receiver.url]
            assert any("whsec_" in line for line in created)
            run("webhooks", "test", made.id)
            settled(client, made)
            (shown,) = run("webhooks", "deliveries", made.id)
            assert shown.split("\t")[1:] == ["webhook.test", "delivered", "1"]
            run("webhooks", "rotate", made.id)
            run("webhooks", "rm", made.id, "--yes")
