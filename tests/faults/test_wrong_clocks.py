"""Two hosts whose clocks are wrong, by hours or by seconds: the time is that of the database."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import define, frozen
from tests.faults.conftest import NO_LIMITS, client_of
from tests.faults.faked_clock import clock_file_variables, clock_variables
from tests.faults.service_load import ServiceLoad
from tests.faults.webhook_server import run_webhook_server
from tests.object_store import shared_s3_server
from tests.postgres import PostgresServer

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, environment, running

pytestmark = pytest.mark.external

CLOCKS = {"+1h": 3_600, "-1h": -3_600, "+5s": 5, "+0s": 0}
"""Clocks as libfaketime names them, with their differences in seconds."""
PAIRS = {"hours, and a directory": ("-1h", "+1h"), "seconds, and an object store": ("+0s", "+5s")}
"""The clocks of both hosts. Object stores refuse requests of those that are wrong by hours."""
LOAD_SECONDS = 3.0
DEADLINE = 60.0
HALF_AN_HOUR = timedelta(minutes=30)
PRECISION = 1.0
"""Seconds by which a time may be outside the readings of the right clock before and after it."""
MAX_RECOVERY_SECONDS = 10.0
SIGNED_SECONDS = 3
PASSWORD = "correct horse battery"


@frozen
class Hosts:
    """Servers with wrong clocks, a client of each, and the variables of the first."""

    servers: list[RunningServer]
    clients: list[httpx2.Client]
    variables: dict[str, str]

    @property
    def pairs(self) -> list[tuple[httpx2.Client, httpx2.Client]]:
        """Each client with the other one."""
        first, second = self.clients
        return [(first, second), (second, first)]


@pytest.fixture(scope="module", params=PAIRS)
def hosts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[Hosts]:
    directory, clocks = tmp_path_factory.mktemp("clocks"), PAIRS[request.param]
    shared, password = directory / "images", directory / "password"
    shared.mkdir()
    password.write_text(PASSWORD)
    with ExitStack() as stack:
        variables = {
            **NO_LIMITS,
            "IMAGEHOST_LIMITS_API_PER_HOUR": "1000000",
            "IMAGEHOST_DATABASE": stack.enter_context(postgres_server.empty_database()),
            "IMAGEHOST_ADMIN_PASSWORD_FILE": str(password),
            "IMAGEHOST_SESSIONS_LIFETIME_SECONDS": str(round(HALF_AN_HOUR.total_seconds())),
            "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
        }
        if "store" in request.param:
            variables["IMAGEHOST_STORAGE"] = stack.enter_context(shared_s3_server()).url()
        servers = []
        for clock in clocks:
            (directory / clock).mkdir()
            if "store" not in request.param:
                (directory / clock / "images").symlink_to(shared)
            variables |= clock_variables(directory, FAKETIME=clock)
            servers.append(stack.enter_context(running(directory / clock, variables=variables)))
        clients = [stack.enter_context(client_of(server, servers[0].token)) for server in servers]
        for client, clock in zip(clients, clocks, strict=True):
            with measured() as readings:
                date = parsedate_to_datetime(client.get("/healthz").headers["date"]).timestamp()
            readings.require(date - CLOCKS[clock])
        yield Hosts(servers, clients, variables)


@define
class Readings:
    """The readings of the right clock before and after a block."""

    before: float = 0.0
    after: float = 0.0

    def require(self, time: float) -> None:
        """Require that a time was read within the block."""
        assert self.before - PRECISION <= time <= self.after + PRECISION


@contextmanager
def measured() -> Iterator[Readings]:
    readings = Readings(time.time())
    yield readings
    readings.after = time.time()


def upload(client: httpx2.Client, headers: dict[str, str] | None = None, **options: str) -> dict[str, Any]:
    files = {"image": ("a.png", make_image(16, 12))}
    response = client.post("/v1/upload", files=files, data=options, headers=headers)
    record: dict[str, Any] = response.raise_for_status().json()["data"]
    return record


def is_refused(client: httpx2.Client, path: str) -> bool:
    """Return whether an image is not sent without a token."""
    return httpx2.get(client.base_url.copy_with(raw_path=path.encode())).status_code != 200


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_nothing_wrong_is_confirmed_under_load(hosts: Hosts) -> None:
    load = ServiceLoad(hosts.servers, hosts.servers[0].token, DEADLINE)
    with load.running():
        time.sleep(LOAD_SECONDS)
        until(lambda: len(load.stored) > 12)
    load.check()
    assert not load.wrong
    assert {status for _, status in load.statuses} <= {200, 404}
    command = [sys.executable, "-m", "imagehost_server", "fsck", "--data", str(hosts.servers[1].data)]
    environ = environment(hosts.variables)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    assert result.returncode == 0, result.stdout + result.stderr


def test_records_have_the_time_of_the_database(hosts: Hosts) -> None:
    for client in hosts.clients:
        with measured() as readings:
            created_at = upload(client)["created_at"]
        readings.require(datetime.fromisoformat(created_at).timestamp())


def test_a_deletion_by_one_host_holds_on_the_other(hosts: Hosts) -> None:
    for here, there in hosts.pairs:
        path = httpx2.URL(upload(here)["url"]).raw_path.decode()
        assert [is_refused(client, path) for client in (here, there, there)] == [False] * 3
        here.delete(f"/v1/images/{Path(path).stem}").raise_for_status()
        assert [is_refused(client, path) for client in (here, there)] == [True] * 2


def test_sessions_and_keys_of_one_host_are_valid_on_the_other(hosts: Hosts) -> None:
    for here, there in hosts.pairs:
        credentials = {"username": "admin", "password": PASSWORD}
        session = here.post("/v1/session", json=credentials).raise_for_status().json()["data"]
        bearer = {"Authorization": f"Bearer {session['token']}"}
        expires_at = (datetime.now(UTC) + HALF_AN_HOUR).isoformat()
        body = {"name": "k", "scopes": ["images:read"], "expires_at": expires_at}
        key = there.post("/v1/keys", json=body, headers=bearer).raise_for_status().json()["data"]
        for client in (here, there):
            headers = {"Authorization": f"Bearer {key['token']}"}
            client.get("/v1/images", headers=headers).raise_for_status()


def test_a_signed_url_of_one_host_is_valid_on_the_other_until_it_expires(hosts: Hosts) -> None:
    for here, there in hosts.pairs:
        image_id = upload(here, is_public="false")["id"]
        with measured() as signed:
            response = here.post(f"/v1/images/{image_id}/signed-url", json={"expires_in": SIGNED_SECONDS})
        url = httpx2.URL(response.raise_for_status().json()["data"]["url"])
        expires_at = int(url.params["exp"])
        signed.require(expires_at - SIGNED_SECONDS)
        refused = False
        while not refused:
            with measured() as readings:
                refused = is_refused(there, url.raw_path.decode())
            if refused:
                assert readings.after > expires_at - PRECISION
            else:
                assert readings.before < expires_at + PRECISION
            time.sleep(0.1)


def test_a_repeated_request_is_recognized_and_windows_are_shared(hosts: Hosts) -> None:
    for here, there in hosts.pairs:
        key = {"Idempotency-Key": str(here.base_url)}
        assert upload(here, key)["id"] == upload(there, key)["id"]
    remaining, resets = [], []
    for client in hosts.clients * 2:
        with measured() as readings:
            headers = client.get("/v1/images").raise_for_status().headers
        remaining.append(int(headers["x-ratelimit-remaining"]))
        resets.append(int(headers["x-ratelimit-reset"]))
        assert readings.before - PRECISION < resets[-1] < readings.after + 3_600 + PRECISION
    if len(set(resets)) == 1:  # no hour has ended meanwhile
        assert remaining == sorted(set(remaining), reverse=True)


def test_webhooks_are_sent_and_repeated_in_time_with_the_right_timestamp(hosts: Hosts) -> None:
    received: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def respond(headers: Message, _body: bytes) -> int:
        attempts = received[headers["webhook-id"]]
        attempts.append((time.time(), float(headers["webhook-timestamp"])))
        return 500 if len(attempts) == 1 else 204

    with run_webhook_server(respond) as url:
        webhook = {"url": url, "events": ["image.uploaded"]}
        created = hosts.clients[0].post("/v1/webhooks", json=webhook).raise_for_status().json()["data"]
        began = time.time()
        for client in hosts.clients:
            upload(client)
        until(lambda: [len(attempts) for attempts in received.values()] == [2, 2])
        hosts.clients[0].delete(f"/v1/webhooks/{created['id']}").raise_for_status()
    for first, second in received.values():
        assert second[0] - first[0] > 2
        for since, (arrived, claimed) in zip((began, first[0]), (first, second), strict=True):
            Readings(since, arrived).require(claimed)


def test_a_host_whose_clock_the_object_store_refuses_names_it_until_it_is_set(
    tmp_path: Path,
) -> None:
    def set_clock(offset: str) -> None:
        path = tmp_path / "clock"
        path.with_suffix(".new").write_text(offset, encoding="ascii")
        path.with_suffix(".new").replace(path)

    set_clock("+0")
    variables = {**NO_LIMITS, **clock_file_variables(tmp_path, tmp_path / "clock")}
    with ExitStack() as stack:
        variables["IMAGEHOST_STORAGE"] = stack.enter_context(shared_s3_server()).url()
        server = stack.enter_context(running(tmp_path / "data", variables=variables))
        client = stack.enter_context(client_of(server, server.token))
        stored = upload(client)

        def responds(expected: bool) -> bool:
            response = client.get("/readyz")
            return response.is_success and ("storage" in response.text) is not expected

        for clock in ("+1h", "-1h"):
            set_clock(clock)
            until(partial(responds, False))
            response = client.post("/v1/upload", files={"image": ("b.png", make_image(8, 8))})
            assert (response.status_code, response.headers["retry-after"].isdigit()) == (503, True)
            set_clock("+0")
            began = time.monotonic()
            until(partial(responds, True))
            assert time.monotonic() - began < MAX_RECOVERY_SECONDS
        assert upload(client)["id"] != stored["id"]
        command = [sys.executable, "-m", "imagehost_server", "fsck", "--data", str(server.data)]
        environ = environment(variables)
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        assert result.returncode == 0, result.stdout + result.stderr
