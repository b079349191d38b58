"""A server killed during uploads: acknowledged uploads are stored, and no partial image is listed."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from tests.faults.conftest import NO_LIMITS, client_of, kill, staged_files

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running, start

UPLOADS, THREADS = 200, 8


def image_of(number: int) -> bytes:
    """Return the image that is uploaded with `number` as its description."""
    return make_image(60 + number % 40, 50, seed=number)


def upload_until_killed(server: RunningServer, token: str, kill_after: int) -> dict[str, bytes]:
    """Upload images until the server is killed after `kill_after` responses; return the images by id."""
    acknowledged: dict[str, bytes] = {}
    enough = threading.Event()

    def upload(number: int) -> None:
        image = image_of(number)
        form = {"convertToWebP": "false", "description": str(number)}
        with suppress(httpx2.TransportError):
            response = client.post("/v1/upload", files={"image": image}, data=form)
            acknowledged[response.raise_for_status().json()["data"]["id"]] = image
            if len(acknowledged) >= kill_after:
                enough.set()

    with client_of(server, token) as client, ThreadPoolExecutor(THREADS) as threads:
        for number in range(UPLOADS):
            threads.submit(upload, number)
        assert enough.wait(120)
        kill(server)
    return acknowledged


def listed(client: httpx2.Client) -> dict[str, dict[str, object]]:
    """Return all image records of the account by id."""
    records: dict[str, dict[str, object]] = {}
    query = "?per_page=100"
    while query:
        data = client.get(f"/v1/images{query}").raise_for_status().json()["data"]
        records |= {image["id"]: image for image in data["images"]}
        cursor = data["pagination"]["next_cursor"]
        query = cursor and f"?per_page=100&cursor={cursor}"
    return records


@pytest.mark.parametrize("seed", range(2))
def test_acknowledged_uploads_survive_a_kill_and_no_partial_image_is_listed(
    tmp_path: Path, seed: int
) -> None:
    data = tmp_path / "data"
    server = start(data, variables=NO_LIMITS)
    token = server.token
    kill_after = random.Random(seed).randint(UPLOADS // 5, UPLOADS // 2)
    acknowledged = upload_until_killed(server, token, kill_after)
    assert kill_after <= len(acknowledged) < UPLOADS

    with running(data, variables=NO_LIMITS) as restarted, client_of(restarted, token) as client:
        records = listed(client)
        assert acknowledged.keys() <= records.keys()
        for image_id, record in records.items():
            master = client.get(f"/img/{image_id}.png").raise_for_status().content
            assert master == acknowledged.get(image_id, image_of(int(str(record["description"]))))
            client.get(f"/img/{image_id}.webp?w=10").raise_for_status()
        assert staged_files(data) == []
        response = client.post("/v1/upload", files={"image": make_image(9, 9)})
        assert response.status_code == 200
