"""A host below a path of another site, behind nginx and Caddy that remove the path or leave it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.server.below_a_path import ROOT, use
from tests.server.conftest import NO_LIMITS

from imagehost_server.serve.runner import free_port
from imagehost_server.testing import running

PASSWORD = "correct horse battery staple"
WAIT_SECONDS = 30


def nginx(deploy: Path, folder: Path, port: int, upstream: int, *, strips: bool) -> list[str]:
    """Write the configuration, and return the command."""
    text = (deploy / "nginx-path.conf").read_text("utf-8")
    assert "proxy_pass http://127.0.0.1:8000/;" in text
    url = f"http://127.0.0.1:{upstream}{'/' if strips else ''}"
    text = text.replace("http://127.0.0.1:8000/", url)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    tls = f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;"
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {temporary}\n"
        f"server {{ listen 127.0.0.1:{port} ssl; {tls}\n{text}\nlocation / {{ return 404 other; }} }} }}\n"
    )
    return ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


def caddy(deploy: Path, folder: Path, port: int, upstream: int, *, strips: bool) -> list[str]:
    """Write the configuration, and return the command."""
    text = (deploy / "Caddyfile-path").read_text("utf-8")
    assert "\thandle_path /photos/* {" in text
    text = text if strips else text.replace("\thandle_path /", "\thandle /")
    for variable, value in (
        ("{$DOMAIN:www.example.com}", "127.0.0.1"),
        ("{$TLS}", f"tls {folder}/cert.pem {folder}/key.pem"),
        ("{$UPSTREAM:127.0.0.1:8000}", f"127.0.0.1:{upstream}"),
    ):
        assert variable in text
        text = text.replace(variable, value)
    ports = f"http_port {free_port('127.0.0.1')}\nhttps_port {port}"
    options = f"{{\nadmin off\nauto_https disable_redirects\n{ports}\n}}\n"
    (folder / "Caddyfile").write_text(options + text)
    return ["caddy", "run", "--config", f"{folder}/Caddyfile", "--adapter", "caddyfile"]


@pytest.mark.parametrize("strips", [True, False], ids=["removed", "left"])
@pytest.mark.parametrize("configure", [nginx, caddy])
def test_people_sign_in_upload_and_sign_out_below_a_path(
    configure: Callable[..., list[str]],
    strips: bool,
    certificate: tuple[Path, Path],
    workspace: Path,
    tmp_path: Path,
) -> None:
    if shutil.which(configure.__name__) is None:
        pytest.skip(f"NOT TESTED: a host below a path, because {configure.__name__} is not installed")
    for path in certificate:
        shutil.copy(path, tmp_path)
    (tmp_path / "password").write_text(PASSWORD)
    port, upstream = free_port("127.0.0.1"), free_port("127.0.0.1")
    variables = {
        **NO_LIMITS,
        "IMAGEHOST_LIMITS_PAGES_PER_MINUTE": "0",
        "IMAGEHOST_ADMIN_PASSWORD_FILE": f"{tmp_path}/password",
        "IMAGEHOST_BASE_URL": f"https://127.0.0.1:{port}{ROOT}/v1",
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
    }
    command = configure(workspace / "deploy", tmp_path, port, upstream, strips=strips)
    with (tmp_path / "log").open("wb") as log:
        proxy = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(tmp_path)})
    try:
        wait_for(port, tmp_path / "log")
        context = ssl.create_default_context(cafile=str(certificate[0]))
        with (
            running(tmp_path / "data", "--port", str(upstream), variables=variables) as server,
            httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=context, timeout=60) as client,
        ):
            assert f"https://127.0.0.1:{port}{ROOT}/upload" in server.output
            wait_for(upstream, server.log)
            assert client.get(f"{ROOT}/readyz").status_code == 200
            assert client.get(ROOT).headers["location"].endswith(f"{ROOT}/")
            assert client.get("/v1/gallery").status_code == 404
            walk = use(client, PASSWORD)
            assert (len(walk.seen), len(walk.forms)) > (9, 9)
    finally:
        proxy.terminate()
        proxy.wait(WAIT_SECONDS)


def wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return
