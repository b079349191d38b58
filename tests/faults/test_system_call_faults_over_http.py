"""Requests to a running server while a system call on its files fails.

A response with 2xx is true, also after a restart; any other is an error of the API after which nothing has
changed. The server goes on without a restart once the disk works again.
"""

from __future__ import annotations

import errno
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
from attrs import define, field
from tests.faults.conftest import NO_LIMITS, client_of, staged_files, stored_ids
from tests.faults.system_calls import Fault, Outcome, SystemCalls, build_library, preload_variables
from tests.faults.trials import run_trials, trial_count

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs LD_PRELOAD, cc"),
]
SMALL, WIDE = make_image(24, 16), make_image(1200, 500)
ERRORS = {500, 503, 507}
"""The statuses of errors of the host."""


@define
class Service:
    """A server with the library, and the images that it must have.

    Attributes:
        server: The server.
        client: A client of it.
        calls: The control of the library.
        pid: The process that handles requests.
        images: The SHA-256 of the master of each image, by id.
        renders: The number of variants that were requested.
    """

    server: RunningServer
    client: httpx2.Client
    calls: SystemCalls
    pid: int
    images: dict[str, str] = field(factory=dict)
    renders: int = 0

    def request(self, method: str, url: str, fault: Fault | None, **arguments: object) -> Answer:
        """Send a request while calls fail; its response must be a success or an error of the API."""
        with self.calls.failing(self.server.data, fault, pid=self.pid) as outcome:
            response = self.client.request(method, url, **arguments)  # type: ignore[arg-type]
        if response.is_success:
            assert not outcome.is_sync_of_changes, f"{response.status_code} after a failed {outcome.first}"
        else:
            assert response.status_code in ERRORS, response.text
            assert response.json()["success"] is False
        return Answer(response, outcome)

    def upload(self, fault: Fault | None = None, data: bytes = SMALL, **options: object) -> Answer:
        answer = self.request("POST", "/v1/upload", fault, files={"image": ("a.png", data)}, data=options)
        if answer.response.is_success:
            record = answer.response.json()["data"]
            self.images[record["id"]] = record["sha256"]
        return answer

    def status_of(self, image_id: str) -> int:
        return self.client.get(f"/v1/images/{image_id}").status_code

    def check(self) -> None:
        """Check that the server has exactly the images that it must have, whole."""
        records = self.client.get("/v1/images?per_page=100").json()["data"]["images"]
        assert {record["id"]: record["sha256"] for record in records} == self.images
        for image_id, digest in self.images.items():
            master = self.client.get(f"/img/{image_id}")
            assert (master.status_code, sha256(master.content).hexdigest()) == (200, digest)


@define
class Answer:
    """A response, and what happened to system calls meanwhile."""

    response: httpx2.Response
    outcome: Outcome


Operation = Callable[[Service, Fault | None], Outcome]


def upload(service: Service, fault: Fault | None) -> Outcome:
    return service.upload(fault, convertToWebP="false").outcome


def upload_with_derivative(service: Service, fault: Fault | None) -> Outcome:
    return service.upload(fault, WIDE, format="webp").outcome


def update(service: Service, fault: Fault | None) -> Outcome:
    image_id = min(service.images)
    before = service.client.get(f"/v1/images/{image_id}").json()["data"]
    body = {"description": f"{before['description']}x"[-50:], "is_public": not before["is_public"]}
    answer = service.request("PATCH", f"/v1/images/{image_id}", fault, json=body)
    after = service.client.get(f"/v1/images/{image_id}").json()["data"]
    if answer.response.is_success:
        assert after == answer.response.json()["data"]
        assert {name: after[name] for name in body} == body
    else:
        assert after == before
    return answer.outcome


def delete(service: Service, fault: Fault | None) -> Outcome:
    image_id = service.upload(convertToWebP="false").response.json()["data"]["id"]
    service.client.get(f"/img/{image_id}?w=8")
    answer = service.request("DELETE", f"/v1/images/{image_id}", fault)
    if not answer.response.is_success and service.status_of(image_id) == 404:
        # The record is gone, and the next attempt deletes the files.
        assert service.client.delete(f"/v1/images/{image_id}").status_code in {200, 404}
    elif not answer.response.is_success:
        return answer.outcome
    del service.images[image_id]
    assert not list(service.server.data.glob(f"*/*/{image_id}")), "files of a deleted image are left"
    return answer.outcome


def render(service: Service, fault: Fault | None) -> Outcome:
    image_id = min(service.images)
    service.renders += 1
    url = f"/img/{image_id}?w={8 + service.renders}&fm=png"
    answer = service.request("GET", url, fault)
    again = service.client.get(url)
    assert again.status_code == 200
    assert not answer.response.is_success or answer.response.content == again.content
    return answer.outcome


OPERATIONS: tuple[Operation, ...] = (upload, upload_with_derivative, update, delete, render)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    control = tmp_path / "control"
    variables = {**NO_LIMITS, **preload_variables(build_library(tmp_path), control)}
    with running(tmp_path / "data", variables=variables) as server, client_of(server, server.token) as client:
        yield Service(server, client, SystemCalls(control), pid_of_handler(server))


def pid_of_handler(server: RunningServer) -> int:
    """Return the process ID of the process that has the database open."""
    pids = [server.process.pid]
    for pid in pids:
        pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())
    database = str(server.data / "imagehost.sqlite3")
    [handler] = [pid for pid in pids if database in open_files(pid)]
    return handler


def open_files(pid: int) -> set[str]:
    paths = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            paths.add(str(path.readlink()))
    return paths


def test_no_response_is_wrong_while_system_calls_of_the_server_fail(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    service.upload(convertToWebP="false")
    calls = {operation: operation(service, None).calls for operation in OPERATIONS}
    with run_trials("system calls of a server fail", "sqlite+folder", record_property) as trials:
        for _ in range(trial_count(quick=25, soak=1_000)):
            operation = trials.random.choice(OPERATIONS)
            fault = choose_fault(calls[operation], trials.random)
            with trials.trial(f"{operation.__name__}, {fault}"):
                operation(service, fault)
                service.check()
            # Few images in each trial.
            for image_id in [*service.images][4:]:
                assert service.client.delete(f"/v1/images/{image_id}").status_code == 200
                del service.images[image_id]
    service.server.stop()
    with ImageHost.open(service.server.data) as host:
        host.maintenance.collect_garbage()
        assert stored_ids(service.server.data) == sorted(service.images)
        assert staged_files(service.server.data) == []
        assert list(host.check()) == []


def choose_fault(calls: int, choice: random.Random) -> Fault:
    error = choice.choice((errno.EIO, errno.ENOSPC))
    return Fault(choice.randint(1, calls), error, choice.random() < 0.5)
