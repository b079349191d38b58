"""Shared caches in front of the server: no response of a cache outlives an image."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from attrs import frozen
from tests.server.conftest import NO_LIMITS
from tests.shipped_files import shipped

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

WAIT_SECONDS = 30
VARIANTS = ("", "?w=64", "?w=32&fm=png")
HOUR = {"IMAGEHOST_DELIVERY_SHARED_MAX_AGE_SECONDS": "1h"}


@frozen
class CachedServer:
    """A server, and a client of the cache in front of it."""

    server: RunningServer
    cache: httpx2.Client

    def upload(self) -> str:
        """Upload an image and return its id."""
        files = {"image": make_image(128, 96)}
        return str(self.api("POST", "/v1/upload", files=files)["id"])

    def api(self, method: str, path: str, **options: object) -> dict[str, object]:
        """Send a request to the server itself, and return the data of the response."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        url = f"{self.server.origin}{path}"
        response = httpx2.request(method, url, headers=headers, **options)  # type: ignore[arg-type]
        data: dict[str, object] = response.raise_for_status().json()["data"]
        return data

    def statuses(self, image_id: str) -> set[int]:
        """Return the statuses of the image and its variants through the cache."""
        return {self.cache.get(f"/img/{image_id}{query}").status_code for query in VARIANTS}

    def wait_for_404(self, image_id: str) -> None:
        """Wait until the cache has the image and its variants no more."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self.statuses(image_id) != {404}:
            assert time.monotonic() < deadline, self.server.log.read_text(encoding="utf-8")
            time.sleep(0.05)


def delete(host: CachedServer, image_id: str) -> None:
    host.api("DELETE", f"/v1/images/{image_id}")


def make_private(host: CachedServer, image_id: str) -> None:
    host.api("PATCH", f"/v1/images/{image_id}", json={"is_public": False})


CHANGES = pytest.mark.parametrize("change", [delete, make_private])
Change = Callable[[CachedServer, str], None]


def require_program(name: str) -> None:
    """Skip the test unless a program is installed."""
    if shutil.which(name) is None:
        pytest.skip(f"NOT TESTED: the configuration of {name}, because it is not installed")


@contextmanager
def started(command: list[str], port: int, log: Path) -> Iterator[None]:
    """Run a cache until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(0.05)
            else:
                break
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def behind(
    cache_port: int,
    command: Callable[[int], list[str]],
    folder: Path,
    variables: Mapping[str, str],
    authority: Path | None = None,
) -> Iterator[CachedServer]:
    """Run a server, and a cache in front of it that the command starts, given the server's port.

    Args:
        cache_port: The port of the cache.
        command: Returns the command.
        folder: A directory for both.
        variables: Environment variables of the server.
        authority: The certificate of a cache with TLS.
    """
    scheme = "https" if authority else "http"
    context = ssl.create_default_context(cafile=authority)
    settings = {**NO_LIMITS, "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1", **variables}
    with (
        running(folder / "data", variables=settings) as server,
        started(command(server.port), cache_port, folder / "cache.log"),
        httpx2.Client(base_url=f"{scheme}://127.0.0.1:{cache_port}", verify=context, timeout=60) as client,
    ):
        yield CachedServer(server, client)


@contextmanager
def behind_nginx(
    certificate: tuple[Path, Path], folder: Path, variables: Mapping[str, str], *, purges: bool = False
) -> Iterator[CachedServer]:
    """Run a server behind nginx with the shipped configuration of its cache."""
    port = free_port("127.0.0.1")
    purge_port = free_port("127.0.0.1")
    for path, suffix in zip(certificate, ("pem", "key"), strict=True):
        shutil.copy(path, folder / f"images.example.com.{suffix}")

    def command(upstream: int) -> list[str]:
        values = {
            "listen 443": f"listen 127.0.0.1:{port}",
            "listen 127.0.0.1:80": f"listen 127.0.0.1:{purge_port}",
            "127.0.0.1:8000": f"127.0.0.1:{upstream}",
            "/etc/ssl/": f"{folder}/",
            "/var/cache/nginx/": f"{folder}/",
        }
        text = shipped("docs/examples/nginx_cache.conf", values)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        # As root it would run as another user, who cannot read the directories of the test.
        user = "user root;" if os.geteuid() == 0 else ""
        main = f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
        path = folder / "nginx.conf"
        path.write_text(f"{main}\nhttp {{ access_log off; {temporary}\n{text}\n}}\n", encoding="utf-8")
        return ["nginx", "-e", f"{folder}/error.log", "-c", str(path)]

    purge = {
        "IMAGEHOST_PURGE_URL": f"http://127.0.0.1:{purge_port}/purge/{{id}}",
        "IMAGEHOST_PURGE_METHOD": "HEAD",
        "IMAGEHOST_PURGE_SUCCESS_STATUSES": "404",
    }
    variables = {**variables, **(purge if purges else {})}
    with behind(port, command, folder, variables, certificate[0]) as host:
        yield host


@CHANGES
def test_with_the_default_headers_nginx_stores_nothing(
    certificate: tuple[Path, Path], tmp_path: Path, change: Change
) -> None:
    require_program("nginx")
    with behind_nginx(certificate, tmp_path, {}) as host:
        image_id = host.upload()
        assert [host.statuses(image_id) for _ in range(2)] == [{200}, {200}]
        for folder in ("images", "states"):
            assert [path for path in (tmp_path / folder).rglob("*") if path.is_file()] == []
        change(host, image_id)
        assert host.statuses(image_id) == {404}


@CHANGES
def test_with_a_shared_max_age_nginx_serves_no_variant_of_an_image_that_is_gone(
    certificate: tuple[Path, Path], tmp_path: Path, change: Change
) -> None:
    require_program("nginx")
    with behind_nginx(certificate, tmp_path, HOUR, purges=True) as host:
        image_id, other_id = host.upload(), host.upload()
        assert host.statuses(image_id) == host.statuses(other_id) == {200}
        assert host.cache.get(f"/img/{image_id}").headers["x-cache-status"] == "HIT"
        change(host, image_id)
        host.wait_for_404(image_id)
        assert host.cache.get(f"/img/{other_id}").headers["x-cache-status"] == "HIT"


def test_without_a_purge_a_shared_max_age_keeps_deleted_images_in_nginx(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    require_program("nginx")
    with behind_nginx(certificate, tmp_path, HOUR) as host:
        image_id = host.upload()
        assert host.statuses(image_id) == {200}
        delete(host, image_id)
        assert host.statuses(image_id) == {200}
        log = host.server.log.read_text(encoding="utf-8")
        assert "shared caches will serve deleted and private images until s-maxage ends" in log


@CHANGES
def test_with_a_shared_max_age_varnish_removes_all_variants_by_their_tag(
    tmp_path: Path, change: Change
) -> None:
    require_program("varnishd")
    port = free_port("127.0.0.1")

    def command(upstream: int) -> list[str]:
        vcl = tmp_path / "varnish.vcl"
        values = {'.port = "8000"': f'.port = "{upstream}"'}
        vcl.write_text(shipped("docs/examples/varnish.vcl", values), encoding="utf-8")
        listen = ["-a", f"127.0.0.1:{port}", "-T", "none", "-j", "none"]
        return ["varnishd", "-F", *listen, "-n", str(tmp_path / "work"), "-f", str(vcl), "-s", "malloc,64m"]

    variables = {
        **HOUR,
        "IMAGEHOST_PURGE_URL": f"http://127.0.0.1:{port}/",
        "IMAGEHOST_PURGE_METHOD": "BAN",
        "IMAGEHOST_PURGE_HEADERS": "X-Cache-Tag: {tag}",
    }
    with behind(port, command, tmp_path, variables) as host:
        image_id, other_id = host.upload(), host.upload()
        for each in (image_id, other_id):
            assert host.statuses(each) == {200}
            # Two transaction ids: the response is one that Varnish stored.
            assert len(host.cache.get(f"/img/{each}?w=64").headers["x-varnish"].split()) == 2
        change(host, image_id)
        host.wait_for_404(image_id)
        assert len(host.cache.get(f"/img/{other_id}?w=64").headers["x-varnish"].split()) == 2
