"""`imagehost serve`: first start, shutdown, workers, ports and settings."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import httpx2
import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner
from tests.live_files import iter_files
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server_processes import server_processes
from tests.waiting import PATIENCE

from imagehost_core.formats import Format, sniff
from imagehost_core.testing import make_image
from imagehost_server.auth import passwords
from imagehost_server.cli.bootstrap import sample_png
from imagehost_server.cli.main import main
from imagehost_server.cli.serving import format_settings
from imagehost_server.serve.runner import free_port, require_free_port
from imagehost_server.settings import ServerSettings, load
from imagehost_server.testing import RunningServer, running, start

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_the_first_start_prints_the_credentials_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data) as server:
        assert re.search(r"account +admin\n", server.output)
        assert re.search(r"password +[0-9A-Za-z]{20}\n", server.output)
        assert f"{server.origin}/img/<id>." in server.output
        response = httpx2.get(
            f"{server.base_url}/images", headers={"Authorization": f"Bearer {server.token}"}
        )
        assert response.status_code == 200
    with running(data) as again:
        assert again.output == f"Serving {again.base_url}\n"
        with pytest.raises(LookupError):
            _ = again.token


CONNECT_WHEN_TOLD = """
import os, re, socket, sys
from imagehost_server.cli.main import main

class Output:
    def write(self, text):
        if address := re.match("Serving http://(.+):(.+)/v1", text):
            socket.create_connection(address.groups()).close()
            os._exit(0)

    def flush(self):
        pass

sys.stdout = Output()
main()
"""


def test_a_connection_is_accepted_once_the_base_url_is_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONNECT_WHEN_TOLD, "serve", "--data", str(tmp_path), "--port", "0"]
    subprocess.run(command, check=True, timeout=PATIENCE)


@pytest.mark.slow
def test_the_first_start_on_an_embedded_data_folder_prints_a_token(tmp_path: Path) -> None:
    with open_host(tmp_path / "data") as host:
        host.upload(make_image(8, 8), owner="admin")
    with running(tmp_path / "data") as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        assert len(httpx2.get(f"{server.base_url}/images", headers=headers).json()["data"]["images"]) == 1


def test_the_sample_image_is_a_png() -> None:
    sample = sample_png()
    assert sniff(sample) is Format.PNG
    assert len(sample) < 20_000


def test_the_log_never_shows_a_token_or_a_signature(server: RunningServer, image_id: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    httpx2.get(f"{server.origin}/img/{image_id}?exp=1&sig=SIGNATURE", headers=headers)
    httpx2.get(f"{server.base_url}/images?token={server.token}", headers={"Authorization": "Bearer SECRET"})
    log = server.log.read_text(encoding="utf-8")
    assert f"path=/img/{image_id} " in log
    assert [secret for secret in (server.token, "SIGNATURE", "SECRET") if secret in log] == []


@pytest.mark.slow
def test_sigterm_completes_requests_in_progress(tmp_path: Path) -> None:
    server = start(tmp_path / "data")
    statuses: list[int] = []

    def upload() -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(headers=headers, timeout=PATIENCE) as client:
            files = {"image": make_image(1500, 1500)}
            statuses.append(client.post(f"{server.base_url}/upload", files=files).status_code)

    thread = threading.Thread(target=upload)
    thread.start()
    staging = server.data / "staging"
    while not any(path.name != "lock" for path in iter_files(staging)) and not statuses:
        time.sleep(0.005)
    assert server.stop() == 0
    thread.join()
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert statuses == [200]
    assert list(staging.iterdir()) == []


@pytest.mark.slow
def test_several_workers_serve_one_data_folder(tmp_path: Path, no_limits: dict[str, str]) -> None:
    with running(tmp_path / "data", "--workers", "2", variables=no_limits) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        for number in range(8):
            # A new connection for each request, so that both workers get some.
            files = {"image": make_image(8, 8, seed=number)}
            image = httpx2.post(f"{server.base_url}/upload", files=files, headers=headers).json()["data"]
            assert httpx2.get(image["url"]).status_code == 200
            assert (
                httpx2.delete(f"{server.base_url}/images/{image['id']}", headers=headers).status_code == 200
            )
            assert httpx2.get(image["url"]).status_code == 404


@pytest.mark.slow
def test_a_port_in_use_prevents_the_start_with_a_clear_error(
    server: RunningServer, tmp_path: Path, imagehost: Cli
) -> None:
    process = imagehost("serve", "--data", tmp_path / "data", "--port", server.port, check=False)
    assert (process.returncode, process.stdout) == (1, "")
    assert "in use" in process.stderr
    assert not (tmp_path / "data").exists()


def test_a_free_port_can_be_bound_at_once() -> None:
    port = free_port("127.0.0.1")
    require_free_port("127.0.0.1", port, timeout=0)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
        require_free_port("127.0.0.1", port, timeout=0.1)


def test_an_invalid_setting_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="IMAGEHOST_LIMITS_QUOTA_BYTES but received 'much'"):
        start(tmp_path / "data", variables={"IMAGEHOST_LIMITS_QUOTA_BYTES": "much"})


@contextmanager
def serving_at(cdn_url: str) -> Iterator[tuple[str, str]]:
    """Serve a host with a base URL of images, behind a proxy; yield the origin and a token."""
    settings = ServerSettings(cdn_url=cdn_url, trusted_proxies=("127.0.0.1",))
    host = open_host(settings=settings)
    with serving(host, settings) as origin:
        yield origin, host.keys.create(owner="admin").token


def test_image_urls_are_those_of_the_settings_and_ignore_forged_hosts(png: bytes) -> None:
    with serving_at("https://cdn.example/media") as (origin, token):
        headers = {
            "Authorization": f"Bearer {token}",
            "Host": "evil.example",
            "X-Forwarded-Host": "evil.example",
            "X-Forwarded-Proto": "https",
        }
        response = httpx2.post(f"{origin}/v1/upload", files={"image": png}, headers=headers)
        image = response.json()["data"]
        assert image["url"] == f"https://cdn.example/media/{image['id']}.webp"
        assert "evil" not in response.text
        assert httpx2.get(f"{origin}/media/{image['id']}.webp").status_code == 200
        assert httpx2.get(f"{origin}/img/{image['id']}.webp").status_code == 200


def test_cdn_url_may_have_no_path(png: bytes) -> None:
    with serving_at("https://cdn.example") as (origin, token):
        headers = {"Authorization": f"Bearer {token}"}
        image = httpx2.post(f"{origin}/v1/upload", files={"image": png}, headers=headers).json()["data"]
        assert image["url"] == f"https://cdn.example/{image['id']}.webp"
        assert httpx2.get(f"{origin}/{image['id']}.webp?w=9").status_code == 200
        assert httpx2.get(f"{origin}/healthz").json()["success"] is True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the process by /proc")
def test_a_worker_that_dies_is_replaced_and_logged(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--workers", "2") as server:
        worker, *_ = server_processes(server.process.pid)
        os.kill(worker, signal.SIGKILL)
        while "server worker exited" not in server.log.read_text(encoding="utf-8"):
            assert httpx2.get(f"{server.origin}/healthz", timeout=PATIENCE).status_code == 200
            time.sleep(0.05)
        assert f"pid={worker} exitcode=-9" in server.log.read_text(encoding="utf-8")
        assert httpx2.get(f"{server.origin}/healthz").status_code == 200


@pytest.mark.slow
def test_stalled_bodies_time_out_while_others_are_served(tmp_path: Path, no_limits: dict[str, str]) -> None:
    variables = {**no_limits, "IMAGEHOST_HTTP_BODY_IDLE_TIMEOUT_SECONDS": "0.5"}
    with running(tmp_path / "data", variables=variables) as server:
        head = (
            f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 1000\r\n\r\n--B"
        )
        with ExitStack() as stack:
            address = ("127.0.0.1", server.port)
            connections = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(30)]
            for connection in connections:
                connection.sendall(head.encode())
            assert httpx2.get(f"{server.origin}/healthz").status_code == 200
            for connection in connections:
                response = b"".join(iter(lambda peer=connection: peer.recv(65_536), b""))  # type: ignore[misc]
                assert response.startswith(b"HTTP/1.1 400 ")
                assert b"pauses above 0.5 s" in response


# The other commands.


def test_config_prints_every_setting_and_its_source(tmp_path: Path) -> None:
    tmp_path.joinpath("imagehost.toml").write_text("[limits]\nquota_bytes = 7\n", encoding="utf-8")
    lines = CliRunner().invoke(main, ["config", "--data", str(tmp_path)]).stdout.splitlines()
    assert "quota_bytes = 7  # imagehost.toml" in lines
    assert "workers = 1  # default" in lines
    assert 'base_url = "http://127.0.0.1:8000/v1"  # server.host and server.port' in lines
    assert "# cdn_url is not set" in lines
    assert [path.name for path in tmp_path.iterdir()] == ["imagehost.toml"]


def test_the_output_of_config_is_a_settings_file_with_equal_settings(tmp_path: Path) -> None:
    flags = {"server.host": "::1", "server.port": 8443, "log.access": False}
    variables = {
        "IMAGEHOST_TRUSTED_PROXIES": "10.0.0.7, 10.1.0.0/16",
        "IMAGEHOST_SERVER_TLS_CERT": 'C:\\certs\\"é".pem\t\x7f',
        "IMAGEHOST_SERVER_TLS_KEY": "# key",
        "IMAGEHOST_DELIVERY_PRIVATE": "unlisted",
        "IMAGEHOST_HTTP_BODY_TIMEOUT_SECONDS": "1e-7",
        "IMAGEHOST_LIMITS_QUOTA_BYTES": "999999999999",
    }
    settings, resolved = load(tmp_path / "old", flags, variables)
    text = format_settings(resolved)
    tree = tomllib.loads(text)
    assert tree["server"]["port"] == 8443
    assert "port = 8443  # flags" in text
    assert 'private = "unlisted"  # environment' in text
    tmp_path.joinpath("imagehost.toml").write_text(text, encoding="utf-8")
    loaded, again = load(tmp_path, {}, {})
    assert loaded == settings
    unset = {each.path for each in again if each.value is None}  # TOML has no null
    assert {each.path for each in again if each.origin != "imagehost.toml"} == unset


COMMANDS = [
    ("users", "create", "anna"),
    ("users", "list"),
    ("users", "delete", "admin", "--yes"),
    ("keys", "create", "--user", "admin"),
    ("keys", "list", "--user", "admin"),
    ("webhooks", "retry-now"),
    ("webhook-sender",),
]


@pytest.mark.parametrize("arguments", [*COMMANDS, ("config",)], ids=" ".join)
def test_commands_on_a_missing_data_directory_fail_and_create_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = CliRunner().invoke(main, [*arguments, "--data", str(tmp_path / "mistyped")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_on_a_directory_without_a_database_fail_and_create_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = CliRunner().invoke(main, [*arguments, "--data", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "expected a data directory for --data" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_password_hash_is_argon2id_with_a_random_salt(
    password_hasher: PasswordHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "HASHER", password_hasher)
    first, second = (passwords.hash_password("correct horse") for _ in range(2))
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert first != second


def test_the_password_of_an_unknown_account_is_compared_with_a_hash_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[str] = []

    class RecordingHasher(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            compared.append(str(hash))
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "HASHER", RecordingHasher(1, 8, 1))
    assert not passwords.verify_password(None, "correct horse")
    assert [each.split("$")[1] for each in compared] == ["argon2id"]


@pytest.mark.skipif(sys.platform == "win32", reason="a second socket cannot be bound to the port there")
def test_a_free_port_is_given_to_no_other_program_until_the_server_listens() -> None:
    port = free_port("127.0.0.1")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)) as listener:
        assert listener.getsockname()[1] == port
