"""Two servers on one PostgreSQL: what one has deleted or restricted, the other does not send any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from attrs import frozen
from tests.faults.conftest import NO_LIMITS, client_of
from tests.postgres import PostgresServer
from tests.tcp_proxy import TcpProxy, run_tcp_proxy
from tests.waiting import PATIENCE

from imagehost_core.cluster.membership import LEASE_SECONDS, MARGIN_SECONDS
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.external

DELETIONS = int(os.environ.get("IMAGEHOST_TEST_DELETIONS", "300"))
THREADS = 8
WAIT_SECONDS = LEASE_SECONDS + MARGIN_SECONDS
PASSWORD = "correct horse battery"
QUERY = "?w=8"


@frozen
class Hosts:
    """Two servers with one database and one folder of images; the other one's connections use a proxy."""

    one: RunningServer
    other: RunningServer
    proxy: TcpProxy
    here: httpx2.Client
    there: httpx2.Client

    def upload(self, count: int) -> list[str]:
        ids: list[str] = []
        for start in range(0, count, 20):
            files = [
                ("files[]", (f"{number}.png", make_image(10, 9, seed=number)))
                for number in range(start, min(start + 20, count))
            ]
            response = self.here.post("/v1/upload", files=files, data={"convertToWebP": "false"})
            ids += [image["id"] for image in response.raise_for_status().json()["data"]["images"]]
        return ids

    def status(self, image_id: str) -> int:
        """Return the status of an image on the other server, on a new connection; 0 without a response."""
        try:
            return httpx2.get(f"{self.other.origin}/img/{image_id}{QUERY}", timeout=5).status_code
        except httpx2.TransportError:
            return 0

    def warm(self, image_id: str, client: httpx2.Client | None = None) -> None:
        """Let the other server send an image from memory."""
        for _ in range(3):
            (client or self.there).get(f"/img/{image_id}{QUERY}").raise_for_status()


@contextmanager
def two_hosts(tmp_path: Path, server: PostgresServer, url: str, *flags: str) -> Iterator[Hosts]:
    shared, password = tmp_path / "images", tmp_path / "password"
    shared.mkdir()
    password.write_text(PASSWORD)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "images").symlink_to(shared)
    with ExitStack() as stack:
        proxy = stack.enter_context(run_tcp_proxy(server.port))
        variables = {**NO_LIMITS, "IMAGEHOST_ADMIN_PASSWORD_FILE": str(password)}
        direct = {**variables, "IMAGEHOST_DATABASE": url}
        database = urlsplit(url).path.lstrip("/")
        proxied = {**variables, "IMAGEHOST_DATABASE": server.url_of(database, proxy.port)}
        one = stack.enter_context(running(tmp_path / "one", *flags, variables=direct))
        other = stack.enter_context(running(tmp_path / "other", *flags, variables=proxied))
        here = stack.enter_context(client_of(one, one.token))
        there = stack.enter_context(httpx2.Client(base_url=other.origin, timeout=PATIENCE))
        yield Hosts(one, other, proxy, here, there)


@pytest.fixture
def hosts(tmp_path: Path, postgres_server: PostgresServer, postgres_url: str) -> Iterator[Hosts]:
    with two_hosts(tmp_path, postgres_server, postgres_url) as started:
        yield started


def timed(function: Any, *arguments: Any, **options: Any) -> tuple[Any, float]:
    started = monotonic()
    return function(*arguments, **options), monotonic() - started


def test_no_byte_of_an_image_is_sent_by_another_host_after_the_response_to_its_deletion(
    hosts: Hosts,
) -> None:
    ids = hosts.upload(DELETIONS)

    def delete(numbers: range) -> list[int]:
        statuses = []
        with (
            httpx2.Client(base_url=hosts.other.origin, timeout=PATIENCE) as there,
            client_of(hosts.one, hosts.one.token) as here,
        ):
            for number in numbers:
                hosts.warm(ids[number], there)
                here.delete(f"/v1/images/{ids[number]}").raise_for_status()
                statuses.append(there.get(f"/img/{ids[number]}{QUERY}").status_code)
        return statuses

    with ThreadPoolExecutor(THREADS) as pool:
        parts = [range(part, len(ids), THREADS) for part in range(THREADS)]
        statuses = [status for part in pool.map(delete, parts) for status in part]
    assert statuses == [404] * len(ids)
    assert not [path for path in (hosts.other.data / "variants").rglob("*") if path.is_file()]
    assert "not acknowledged" not in hosts.one.log.read_text()


def sign_in(server: RunningServer, name: str) -> dict[str, str]:
    """Create a session of an account, and return the header of its requests."""
    credentials = {"username": name, "password": PASSWORD}
    response = httpx2.post(
        f"{server.base_url}/session", json=credentials, timeout=PATIENCE
    ).raise_for_status()
    return {"Authorization": f"Bearer {response.json()['data']['token']}"}


def test_changes_of_visibility_keys_and_accounts_hold_on_another_host_when_they_are_answered(
    hosts: Hosts,
) -> None:
    (image_id,) = hosts.upload(1)
    operator = sign_in(hosts.one, "admin")
    for _ in range(20):
        hosts.warm(image_id)
        hosts.here.patch(f"/v1/images/{image_id}", json={"is_public": False}).raise_for_status()
        assert hosts.there.get(f"/img/{image_id}{QUERY}").status_code == 404
        hosts.here.patch(f"/v1/images/{image_id}", json={"is_public": True}).raise_for_status()
        hosts.warm(image_id)
    for _ in range(10):
        body = {"name": "k", "scopes": ["images:read"]}
        response = hosts.here.post("/v1/keys", json=body, headers=operator).raise_for_status()
        key = response.json()["data"]
        bearer = {"Authorization": f"Bearer {key['token']}"}
        for _ in range(3):
            assert hosts.there.get("/v1/images", headers=bearer).status_code == 200
        hosts.here.delete(f"/v1/keys/{key['id']}", headers=operator).raise_for_status()
        assert hosts.there.get("/v1/images", headers=bearer).status_code == 401
    body = {"username": "other", "password": PASSWORD}
    account = hosts.here.post("/v1/accounts", json=body, headers=operator).raise_for_status().json()["data"]
    session = sign_in(hosts.other, "other")
    body = {"name": "k", "scopes": ["images:read", "images:write"]}
    response = hosts.there.post("/v1/keys", json=body, headers=session).raise_for_status()
    bearer = {"Authorization": f"Bearer {response.json()['data']['token']}"}
    files = {"image": ("a.png", make_image(10, 9))}
    response = hosts.there.post("/v1/upload", files=files, headers=bearer).raise_for_status()
    image_id = response.json()["data"]["id"]
    path = f"/v1/accounts/{account['id']}"
    assert hosts.there.get("/v1/images", headers=session).status_code == 200
    for _ in range(10):
        hosts.warm(image_id)
        for _ in range(3):
            assert hosts.there.get("/v1/images", headers=bearer).status_code == 200
        hosts.here.patch(path, json={"suspended": True}, headers=operator).raise_for_status()
        for headers in (bearer, session):  # a suspension ends sessions
            assert hosts.there.get("/v1/images", headers=headers).status_code == 401
        assert hosts.there.get(f"/img/{image_id}{QUERY}").status_code == 404
        hosts.here.patch(path, json={"suspended": False}, headers=operator).raise_for_status()


def test_a_deletion_waits_for_the_lease_of_a_host_that_is_cut_off_which_then_sends_nothing_from_memory(
    hosts: Hosts,
) -> None:
    ids = hosts.upload(3)
    for image_id in ids:
        hosts.warm(image_id)
    hosts.proxy.cut()
    response, seconds = timed(hosts.here.delete, f"/v1/images/{ids[0]}")
    assert response.status_code == 200
    assert seconds < WAIT_SECONDS + 2
    assert hosts.status(ids[0]) in {0, 404, 503}
    assert hosts.status(ids[1]) in {0, 404, 503}
    sleep(2)  # until the member is removed: deletions wait for it no longer
    _, seconds = timed(hosts.here.delete, f"/v1/images/{ids[1]}")
    assert seconds < WAIT_SECONDS
    hosts.proxy.restore()
    deadline = monotonic() + 15
    while hosts.status(ids[2]) != 200:
        assert monotonic() < deadline
    for image_id in ids[:2]:
        assert hosts.status(image_id) == 404
    hosts.warm(ids[2])
    hosts.here.delete(f"/v1/images/{ids[2]}").raise_for_status()
    assert hosts.status(ids[2]) == 404


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_deletion_does_not_wait_longer_than_a_lease_for_a_host_that_is_stopped(
    hosts: Hosts, is_killed: bool
) -> None:
    ids = hosts.upload(3)
    for image_id in ids:
        hosts.warm(image_id)
    os.killpg(hosts.other.process.pid, signal.SIGKILL if is_killed else signal.SIGSTOP)
    for image_id in ids[:2]:
        response, seconds = timed(hosts.here.delete, f"/v1/images/{image_id}")
        assert response.status_code == 200
        assert seconds < WAIT_SECONDS + 2
    if not is_killed:
        os.killpg(hosts.other.process.pid, signal.SIGCONT)
        for image_id in ids[:2]:
            assert hosts.status(image_id) == 404
        hosts.warm(ids[2])


def test_what_was_deleted_stays_deleted_everywhere_when_the_database_is_restarted(
    hosts: Hosts, postgres_server: PostgresServer
) -> None:
    ids = hosts.upload(3)
    for image_id in ids:
        hosts.warm(image_id)
    hosts.here.delete(f"/v1/images/{ids[0]}").raise_for_status()
    postgres_server.stop(signal.SIGQUIT)
    postgres_server.start()
    deadline = monotonic() + 15
    while hosts.here.delete(f"/v1/images/{ids[1]}").status_code not in {200, 404}:
        assert monotonic() < deadline
        sleep(0.1)
    assert hosts.status(ids[0]) != 200
    assert hosts.status(ids[1]) != 200
    while hosts.status(ids[2]) != 200:
        assert monotonic() < deadline
        sleep(0.1)
    assert hosts.status(ids[1]) == 404
