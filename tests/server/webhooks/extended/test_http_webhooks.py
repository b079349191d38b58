"""Webhooks over HTTP: the server or a separate process sends them, and reports each delivery."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from click.testing import CliRunner
from tests.ports import free_port
from tests.server.webhooks.conftest import (
    ALLOW_LOOPBACK,
    client_of,
    sender_process,
    wait_for_attempts,
    webhook_receiver,
)

from imagehost_client import webhooks
from imagehost_client.cli import main
from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.cli.main import main as server_main
from imagehost_server.testing import RunningServer, running


def test_the_server_sends_webhooks_and_reports_attempts_status_duration_and_response(
    sending_server: RunningServer,
) -> None:
    with (
        client_of(sending_server) as client,
        webhook_receiver(lambda _: (202, b"thank you" * 100)) as receiver,
    ):
        webhook = client.webhooks.create(receiver.url, events=["image.uploaded"])
        image = client.upload(make_image())
        receiver.wait_for(1)
        ((headers, body),) = receiver.requests
        event = webhooks.unwrap(body, headers, webhook.secret)
        assert isinstance(event, webhooks.ImageUploaded)
        assert event.data == image
        delivery = wait_for_attempts(client, webhook)
    assert (delivery.event_id, delivery.webhook_id, delivery.event) == (
        event.id,
        webhook.id,
        "image.uploaded",
    )
    assert (delivery.status, delivery.attempts, delivery.response_status) == ("delivered", 1, 202)
    assert delivery.response_excerpt == ("thank you" * 100)[:500]
    assert delivery.duration_ms is not None
    assert delivery.duration_ms >= 0
    assert (delivery.error, delivery.next_attempt_at) == (None, None)


def test_a_failed_delivery_is_retried_after_five_seconds(sending_server: RunningServer) -> None:
    with (
        client_of(sending_server) as client,
        webhook_receiver(lambda count: (500, b"broken") if count == 1 else (200, b"")) as receiver,
    ):
        webhook = client.webhooks.create(receiver.url, events=["album.created"])
        client.albums.create("Cats")
        first = wait_for_attempts(client, webhook)
        assert (first.status, first.response_status, first.response_excerpt) == ("pending", 500, "broken")
        assert first.next_attempt_at is not None
        assert first.last_attempt_at is not None
        assert 4.5 <= (first.next_attempt_at - first.last_attempt_at).total_seconds() <= 5.5
        second = wait_for_attempts(client, webhook, attempts=2)
        assert (second.status, second.id, len(receiver.requests)) == ("delivered", first.id, 2)
    ids = {headers["webhook-id"] for headers, _ in receiver.requests}
    assert ids == {first.event_id}


def test_a_failed_delivery_can_be_retried_at_once(sending_server: RunningServer) -> None:
    with (
        client_of(sending_server) as client,
        webhook_receiver(lambda count: (503, b"") if count == 1 else (204, b"")) as receiver,
    ):
        webhook = client.webhooks.create(receiver.url)
        delivery = client.webhooks.test(webhook)
        assert (delivery.event, delivery.status, delivery.attempts) == ("webhook.test", "pending", 0)
        wait_for_attempts(client, webhook)
        retried = client.webhooks.retry(webhook, delivery)
        assert (retried.id, retried.status) == (delivery.id, "pending")
        assert retried.next_attempt_at is not None
        assert retried.next_attempt_at <= datetime.now(UTC)
        assert wait_for_attempts(client, webhook, attempts=2).status == "delivered"


def test_a_410_response_disables_the_webhook_with_a_reason_until_it_is_enabled(
    sending_server: RunningServer,
) -> None:
    with client_of(sending_server) as client, webhook_receiver(lambda _: (410, b"")) as receiver:
        webhook = client.webhooks.create(receiver.url, events=["album.created"])
        client.albums.create("Cats")
        assert wait_for_attempts(client, webhook).status == "failed"
        disabled = client.webhooks.get(webhook)
        assert (disabled.is_active, disabled.disabled_reason) == (
            False,
            "the endpoint responded with 410 Gone",
        )
        client.albums.create("Dogs")
        assert len(list(client.webhooks.deliveries(webhook))) == 1
        active = client.webhooks.update(webhook, is_active=True)
        assert (active.is_active, active.disabled_reason) == (True, None)


def test_a_refused_connection_is_reported_as_the_error(sending_server: RunningServer) -> None:
    with client_of(sending_server) as client:
        webhook = client.webhooks.create("http://127.0.0.1:9/", events=["album.created"])
        client.albums.create("Cats")
        delivery = wait_for_attempts(client, webhook)
        client.webhooks.delete(webhook)
    assert (delivery.status, delivery.response_status, delivery.response_excerpt) == ("pending", None, "")
    assert delivery.error is not None
    assert delivery.error.startswith("no connection")


def test_with_send_in_server_off_only_a_separate_process_sends(non_sending_server: RunningServer) -> None:
    with client_of(non_sending_server) as client, webhook_receiver(lambda _: (200, b"")) as receiver:
        webhook = client.webhooks.create(receiver.url)
        client.webhooks.test(webhook)
        time.sleep(1.5)
        assert receiver.requests == []
        with sender_process(non_sending_server.data):
            assert wait_for_attempts(client, webhook).status == "delivered"
        client.webhooks.delete(webhook)


def test_a_separate_process_serves_the_metrics_of_its_attempts(non_sending_server: RunningServer) -> None:
    with client_of(non_sending_server) as client, webhook_receiver(lambda _: (200, b"")) as receiver:
        webhook = client.webhooks.create(receiver.url)
        client.webhooks.test(webhook)
        port = str(free_port())
        with sender_process(non_sending_server.data, "--metrics-port", port):
            wait_for_attempts(client, webhook)
            counted = 'imagehost_webhook_attempt_duration_seconds_count{result="ok"} 1.0'
            # They are counted after the commit that the client sees.
            while counted not in (text := httpx2.get(f"http://127.0.0.1:{port}/metrics").text):
                pass
        client.webhooks.delete(webhook)
    assert 'imagehost_process_resident_memory_bytes{process="webhook_sender"}' in text
    assert "imagehost_images" not in text, "the totals of the host are those of the server"


def test_a_port_in_use_prevents_the_sender_with_a_clear_error(non_sending_server: RunningServer) -> None:
    port = urlsplit(non_sending_server.base_url).port
    arguments = ["webhook-sender", "--data", str(non_sending_server.data), "--metrics-port", str(port)]
    result = CliRunner().invoke(server_main, arguments)
    assert result.exit_code == 1
    assert "Error: [Errno 98]" in result.stderr or "in use" in result.stderr


def test_sigterm_lets_the_sender_finish_attempts_in_flight(non_sending_server: RunningServer) -> None:
    stopping = threading.Event()

    def respond(_count: int) -> tuple[int, bytes]:
        assert stopping.wait(30)
        time.sleep(0.5)
        return 200, b"done"

    with client_of(non_sending_server) as client, webhook_receiver(respond) as receiver:
        webhook = client.webhooks.create(receiver.url)
        client.webhooks.test(webhook)
        with sender_process(non_sending_server.data) as process:
            receiver.wait_for(1)
            process.send_signal(signal.SIGTERM)
            stopping.set()
            assert process.wait(30) == 0
        (delivery,) = client.webhooks.deliveries(webhook)
        assert (delivery.status, delivery.response_excerpt) == ("delivered", "done")
        client.webhooks.delete(webhook)


def test_sigterm_makes_the_sender_release_attempts_that_do_not_finish(
    non_sending_server: RunningServer,
) -> None:
    hang = threading.Event()

    def respond(_count: int) -> tuple[int, bytes]:
        hang.wait(30)
        return 200, b""

    with client_of(non_sending_server) as client, webhook_receiver(respond) as receiver:
        webhook = client.webhooks.create(receiver.url)
        client.webhooks.test(webhook)
        with sender_process(non_sending_server.data) as process:
            receiver.wait_for(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        with ImageHost.open(non_sending_server.data) as host:
            (lease,) = host.webhooks.lease(10)  # available again
            assert (lease.webhook.id, lease.delivery.attempts) == (webhook.id, 0)
            host.webhooks.release(lease)
        hang.set()
        client.webhooks.delete(webhook)


def test_a_stopped_server_finishes_attempts_in_flight_and_exits_cleanly(tmp_path: Path) -> None:
    stopping = threading.Event()

    def respond(_count: int) -> tuple[int, bytes]:
        assert stopping.wait(30)
        return 200, b"done"

    with (
        running(tmp_path / "data", variables=ALLOW_LOOPBACK) as server,
        webhook_receiver(respond) as receiver,
    ):
        with client_of(server) as client:
            webhook = client.webhooks.create(receiver.url)
            client.webhooks.test(webhook)
            receiver.wait_for(1)
        threading.Timer(0.5, stopping.set).start()
        assert server.stop() == 0
        assert "Traceback" not in server.log.read_text()
        with ImageHost.open(tmp_path / "data") as host:
            (delivery,) = host.webhooks.deliveries(webhook.id, owner="admin")
            assert (delivery.status, delivery.response_excerpt) == ("delivered", "done")


def test_several_senders_share_due_deliveries_and_send_each_once(non_sending_server: RunningServer) -> None:
    count = 300
    with (
        client_of(non_sending_server) as client,
        webhook_receiver(lambda _: (200, b"")) as receiver,
        ExitStack() as senders,
    ):
        endpoints = [client.webhooks.create(receiver.url, events=["album.created"]) for _ in range(10)]
        for _ in range(3):
            senders.enter_context(sender_process(non_sending_server.data))
        with ImageHost.open(non_sending_server.data) as host:
            for number in range(count // 10):
                host.albums.create(owner="admin", name=f"Album {number}")
        receiver.wait_for(count)
        time.sleep(1)
        for webhook in endpoints:
            deliveries = list(client.webhooks.deliveries(webhook, per_page=100))
            assert {(delivery.status, delivery.attempts) for delivery in deliveries} == {("delivered", 1)}
            client.webhooks.delete(webhook)
    per_event = Counter(headers["webhook-id"] for headers, _ in receiver.requests)
    assert set(per_event.values()) == {10}
    assert len(per_event) == count // 10


def test_retry_now_makes_pending_deliveries_due(
    non_sending_server: RunningServer, imagehost: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with (
        client_of(non_sending_server) as client,
        webhook_receiver(lambda count: (500, b"") if count == 1 else (200, b"")) as receiver,
    ):
        webhook = client.webhooks.create(receiver.url)
        client.webhooks.test(webhook)
        with sender_process(non_sending_server.data):
            wait_for_attempts(client, webhook)
            result = imagehost("webhooks", "retry-now", "--data", non_sending_server.data)
            assert result.stdout in ("Deliveries due now: 1\n", "Deliveries due now: 0\n")
            assert wait_for_attempts(client, webhook, attempts=2).status == "delivered"
        client.webhooks.delete(webhook)
    with ImageHost.open(non_sending_server.data) as host:
        assert host.webhooks.retry_all_now() == 0


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_webhook_sender_command_has_help(flag: str) -> None:
    assert "in a separate process" in CliRunner().invoke(server_main, ["webhook-sender", flag]).stdout


def test_the_client_command_line_manages_albums_and_webhooks(
    sending_server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("IMAGEHOST_BASE_URL", sending_server.base_url)
    monkeypatch.setenv("IMAGEHOST_TOKEN", sending_server.token)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat.png").write_bytes(make_image())

    def run(*args: str, status: int = 0) -> list[str]:
        with pytest.raises(SystemExit) as end:
            main(list(args))
        assert end.value.code == status
        return capsys.readouterr().out.splitlines()

    (album_id,) = run("albums", "create", "Cats", "--description", "all of them", "--private")
    (line,) = run("upload", "cat.png", "--quiet", "--json")
    with client_of(sending_server) as client:
        (image,) = [item for item in client.images.list() if item.id in line]
        added = run("albums", "add", album_id, image.id, "missing", status=6)
        assert added == [f"{image.id}\tadded", "missing\tnot_found"]
        assert run("albums", "ls", "--limit", "1") == [f"{album_id}\t1\tprivate\tCats"]
        assert f'"cover_image_id": "{image.id}"' in "\n".join(run("albums", "show", album_id))
        run("albums", "remove", album_id, image.id)
        assert client.albums.get(album_id).image_count == 0
        run("albums", "add", album_id, image.id)
        run("albums", "rm", album_id, "--yes", "--delete-images")
        assert image.id not in {item.id for item in client.images.list()}
        with webhook_receiver(lambda _: (200, b"")) as receiver:
            created = run("webhooks", "create", receiver.url, "--event", "album.created")
            (webhook,) = [item for item in client.webhooks.list() if item.url == receiver.url]
            assert any("whsec_" in line for line in created)
            run("webhooks", "test", webhook.id)
            wait_for_attempts(client, webhook)
            (line,) = run("webhooks", "deliveries", webhook.id)
            assert line.split("\t")[1:] == ["webhook.test", "delivered", "1"]
            run("webhooks", "rotate", webhook.id)
            run("webhooks", "rm", webhook.id, "--yes")
