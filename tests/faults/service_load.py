"""Load on several hosts of one service, with a record of what each of them has confirmed."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Self

import httpx2
from attrs import define, field

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

THREADS_PER_HOST = 3
MAX_IMAGES = 150
"""Images at a time; above, threads delete instead of uploading."""


def new_client(server: RunningServer, token: str, timeout: float) -> httpx2.Client:
    """Return a client that repeats no request."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=server.origin, headers=headers, timeout=timeout)


def get_when_available(client: httpx2.Client, path: str) -> httpx2.Response:
    """Return a response, after the time that a 503 names if there is one, at most ten times."""
    for _ in range(10):
        response = client.get(path)
        if response.status_code != 503:
            break
        sleep(float(response.headers["retry-after"]))
    return response


@define
class ServiceLoad:
    """Threads that upload, read, list and delete images through all hosts.

    Args:
        servers: The hosts.
        token: A token of all of them.
        deadline: The longest duration of a response, in seconds.
        is_killed: Whether the servers are killed, so that they refuse connections; then the load also changes
            and renders images.

    Attributes:
        stored: The SHA-256 of the confirmed images by id, without those whose deletion was ever requested.
        deleted: The ids of the images whose deletion was confirmed.
        wrong: What no fault may cause: a response that is late or contradicts an earlier one.
        statuses: The number of responses by method and status; 0 for none.
        slowest: The longest duration of a response, in seconds.
    """

    servers: Sequence[RunningServer]
    token: str
    deadline: float
    is_killed: bool = False
    stored: dict[str, str] = field(factory=dict)
    deleted: set[str] = field(factory=set)
    wrong: list[str] = field(factory=list)
    statuses: Counter[tuple[str, int]] = field(factory=Counter)
    slowest: float = 0.0
    _lock: threading.Lock = field(factory=threading.Lock)
    _ended: threading.Event = field(factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run the threads during a block."""
        threads = [
            threading.Thread(target=self._run, args=(server, seed), daemon=True)
            for server in self.servers
            for seed in range(THREADS_PER_HOST)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            for thread in threads:
                thread.join(2 * self.deadline)
            self._ended.clear()

    def _run(self, server: RunningServer, seed: int) -> None:
        rng = random.Random(f"{server.port}-{seed}-{len(self.stored)}")
        operations = [self.upload, self.read, self.read, self.list, self.delete]
        if self.is_killed:
            operations += [self.update, self.render]
        with new_client(server, self.token, 2 * self.deadline) as client:
            while not self._ended.is_set():
                operation = rng.choice(operations)
                operation(client, rng)

    def upload(self, client: httpx2.Client, rng: random.Random) -> None:
        """Upload an image."""
        if len(self.stored) >= MAX_IMAGES:
            self.delete(client, rng)
            return
        content = make_image(24, 16, seed=rng.randrange(2**31))
        files, options = {"image": ("a.png", content)}, {"convertToWebP": "false"}
        response = self._request(client, "POST", "/v1/upload", files=files, data=options)
        if response is not None and response.status_code == 200:
            record = response.json()["data"]
            if record["sha256"] != hashlib.sha256(content).hexdigest():
                self.wrong.append(f"uploaded {record['id']} with other bytes")
            with self._lock:
                self.stored[record["id"]] = record["sha256"]

    def read(self, client: httpx2.Client, rng: random.Random) -> None:
        """Read an image: one that was confirmed, or one whose deletion was confirmed."""
        with self._lock:
            image_id, digest = rng.choice([*self.stored.items()] or [("", "")])
            gone = rng.choice([*self.deleted] or [""])
        if image_id:
            response = self._request(client, "GET", f"/img/{image_id}")
            if response is not None and response.status_code == 200:
                if hashlib.sha256(response.content).hexdigest() != digest:
                    self.wrong.append(f"read {image_id} with other bytes")
            elif response is not None and response.status_code == 404 and image_id in self.stored:
                self.wrong.append(f"read {image_id}: 404")
        if gone:
            response = self._request(client, "GET", f"/img/{gone}")
            if response is not None and response.status_code == 200:
                self.wrong.append(f"read {gone} after its deletion")

    def update(self, client: httpx2.Client, rng: random.Random) -> None:
        """Change the description and the visibility of an image."""
        with self._lock:
            image_id = rng.choice([*self.stored] or [""])
        changes = {"description": str(rng.random()), "is_public": rng.random() < 0.7}
        self._request(client, "PATCH", f"/v1/images/{image_id}", json=changes)

    def render(self, client: httpx2.Client, rng: random.Random) -> None:
        """Request a variant of an image."""
        with self._lock:
            image_id = rng.choice([*self.stored] or [""])
        self._request(client, "GET", f"/img/{image_id}?w={rng.randrange(4, 12)}")

    def list(self, client: httpx2.Client, _rng: random.Random) -> None:
        """List images."""
        self._request(client, "GET", "/v1/images")

    def delete(self, client: httpx2.Client, rng: random.Random) -> None:
        """Delete an image."""
        with self._lock:
            if len(self.stored) < 10:
                return
            image_id = rng.choice([*self.stored])
            del self.stored[image_id]
        response = self._request(client, "DELETE", f"/v1/images/{image_id}")
        if response is not None and response.status_code == 200:
            with self._lock:
                self.deleted.add(image_id)
        elif response is not None and response.status_code == 404:
            self.wrong.append(f"deleted {image_id}: 404")

    def check(self) -> None:
        """Check what was confirmed on every host; needs a service without faults.

        A process of a server may refuse operations for a second more than another, until its next probe.
        """
        for server in self.servers:
            with new_client(server, self.token, self.deadline) as client:
                for image_id, digest in self.stored.items():
                    response = get_when_available(client, f"/img/{image_id}")
                    found = response.status_code, hashlib.sha256(response.content).hexdigest()
                    if found != (200, digest):
                        self.wrong.append(f"{image_id} is not stored: {response.status_code}")
                for image_id in self.deleted:
                    if (status := get_when_available(client, f"/img/{image_id}").status_code) != 404:
                        self.wrong.append(f"{image_id} is not deleted: {status}")

    def _request(
        self, client: httpx2.Client, method: str, path: str, **options: object
    ) -> httpx2.Response | None:
        """Send a request; return the response, or `None` without a whole one."""
        started, response = monotonic(), None
        try:
            response = client.request(method, path, **options)  # type: ignore[arg-type]
        except httpx2.HTTPError as error:
            client_error = type(error).__name__
            if isinstance(error, httpx2.ConnectError) and not self.is_killed:
                self.wrong.append(f"{method} {path}: {client_error}")
        seconds = monotonic() - started
        with self._lock:
            self.statuses[method, 0 if response is None else response.status_code] += 1
            self.slowest = max(self.slowest, seconds)
        if seconds > self.deadline:
            self.wrong.append(f"{method} {path} took {seconds:.1f} s")
        if response is not None and response.status_code >= 500 and response.status_code != 503:
            self.wrong.append(f"{method} {path}: {response.status_code} {response.text[:200]}")
        if response is None or response.status_code != 200:
            sleep(0.1)
        return response
