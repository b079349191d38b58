"""The server is killed in the middle of uploads: what was answered is there, and nothing is half there."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running, start

UPLOADS, AT_ONCE = 200, 8
NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}


def upload_until_killed(server: RunningServer, token: str, kill_after: int) -> dict[str, bytes]:
    """Upload pictures, kill the server after so many answers, and return what was answered, by id."""
    answered: dict[str, bytes] = {}
    enough = threading.Event()

    def upload(number: int) -> None:
        picture = make_image(60 + number % 40, 50, seed=number)
        form = {"convertToWebP": "false", "description": str(number)}
        with suppress(httpx2.TransportError):
            answer = client.post("/v1/upload", files={"image": picture}, data=form)
            answered[answer.raise_for_status().json()["data"]["id"]] = picture
            if len(answered) >= kill_after:
                enough.set()

    headers = {"Authorization": f"Bearer {token}"}
    with (
        httpx2.Client(base_url=server.origin, headers=headers, timeout=60) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        for number in range(UPLOADS):
            pool.submit(upload, number)
        assert enough.wait(120)
        server.kill()
    assert server.process.stdout is not None
    server.process.stdout.close()
    return answered


def listed(client: httpx2.Client) -> dict[str, dict[str, object]]:
    """Return all records of the account, by id."""
    records: dict[str, dict[str, object]] = {}
    query = "?per_page=100"
    while query:
        data = client.get(f"/v1/images{query}").raise_for_status().json()["data"]
        records |= {image["id"]: image for image in data["images"]}
        cursor = data["pagination"]["next_cursor"]
        query = cursor and f"?per_page=100&cursor={cursor}"
    return records


@pytest.mark.parametrize("round_", range(2))
def test_every_answered_upload_is_there_byte_for_byte_and_nothing_half_made_is_listed(
    tmp_path: Path, round_: int
) -> None:
    data = tmp_path / "data"
    server = start(data, variables=NO_LIMITS)
    token = server.token
    kill_after = random.Random(round_).randint(UPLOADS // 5, UPLOADS // 2)
    answered = upload_until_killed(server, token, kill_after)
    assert kill_after <= len(answered) < UPLOADS

    with running(data, variables=NO_LIMITS) as again:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=again.origin, headers=headers, timeout=60) as client:
            records = listed(client)
            assert answered.keys() <= records.keys()
            for image_id, record in records.items():
                master = client.get(f"/img/{image_id}.png").raise_for_status().content
                expected = answered.get(image_id) or make_image(
                    60 + int(str(record["description"])) % 40, 50, seed=int(str(record["description"]))
                )
                assert master == expected
                client.get(f"/img/{image_id}.webp?w=10").raise_for_status()
            assert left_over(data) == []
            one_more = client.post("/v1/upload", files={"image": make_image(9, 9)})
            assert one_more.status_code == 200


def left_over(data: Path) -> list[Path]:
    """Return the files of the staging folder, less locks of living processes and signs of dead ones."""
    files = [path for path in (data / "staging").rglob("*") if path.is_file()]
    return [path for path in files if path.name != "lock" and path.suffix != ".incomplete"]
