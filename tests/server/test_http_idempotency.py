"""`Idempotency-Key` over HTTP: a repeated request returns the first response without a second effect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running, start

KEY = {"Idempotency-Key": "once"}
Client = httpx2.Client


def count(client: Client) -> tuple[int, int]:
    """Return how many images and albums there are."""
    pages = (client.get(f"/v1/{name}").json()["data"]["pagination"]["total"] for name in ("images", "albums"))
    images, albums = pages
    return images, albums


def replayed(response: httpx2.Response) -> bool:
    return response.headers.get("idempotent-replayed") == "true"


def test_a_repeated_upload_returns_the_first_response(account: Client, png: bytes) -> None:
    form: dict[str, Any] = {"files": {"image": ("a.png", png)}, "data": {"description": "x"}}
    first, second = (account.post("/v1/upload", headers=KEY, **form) for _ in range(2))
    assert (first.status_code, replayed(first)) == (200, False)
    assert (second.status_code, replayed(second)) == (200, True)
    assert second.content == first.content
    assert second.headers["content-type"] == first.headers["content-type"]
    assert count(account) == (1, 0)


def test_a_repeated_batch_upload_returns_the_first_response(account: Client) -> None:
    files = [("files[]", (f"{n}.png", make_image(20 + n, 20))) for n in range(3)] + [
        ("files[]", ("x.txt", b"x"))
    ]
    first, second = (account.post("/v1/upload", headers=KEY, files=files) for _ in range(2))
    assert len(first.json()["data"]["errors"]) == 1
    assert (second.content, replayed(second)) == (first.content, True)
    assert count(account) == (3, 0)


def test_a_repeated_album_creation_returns_the_first_response(account: Client) -> None:
    first, second = (account.post("/v1/albums", headers=KEY, json={"name": "x"}) for _ in range(2))
    assert (first.status_code, replayed(first)) == (201, False)
    assert (second.status_code, replayed(second)) == (201, True)
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert count(account) == (0, 1)


def test_the_same_json_in_other_bytes_is_the_same_request(account: Client) -> None:
    for body in (
        b'{"name": "x", "is_public": true}',
        b'{"is_public":true,"name":"x"}',
        b'{"name":"x","other":1}',
    ):
        headers = {**KEY, "content-type": "application/json"}
        assert account.post("/v1/albums", headers=headers, content=body).status_code == 201
    assert count(account) == (0, 1)


def test_a_different_request_with_the_same_key_is_409(account: Client, png: bytes) -> None:
    upload: dict[str, Any] = {"files": {"image": ("a.png", png)}}
    assert account.post("/v1/upload", headers=KEY, **upload).status_code == 200
    others: list[tuple[str, dict[str, Any]]] = [
        ("/v1/upload", {"files": {"image": ("b.png", png)}}),
        ("/v1/upload", {"files": {"image": ("a.png", make_image(9, 9))}}),
        ("/v1/upload", {"files": {"files[]": ("a.png", png)}}),
        ("/v1/upload", {**upload, "data": {"description": "x"}}),
        ("/v1/albums", {"json": {"name": "x"}}),
    ]
    for path, request in others:
        response = account.post(path, headers=KEY, **request)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "CONFLICT")
    assert count(account) == (1, 0)


def test_a_failed_request_may_be_repeated_with_its_key(account: Client) -> None:
    for _ in range(2):
        response = account.post("/v1/upload", headers=KEY, files={"image": ("a.png", b"not an image")})
        assert (response.status_code, replayed(response)) == (415, False)
    for _ in range(2):
        assert (
            account.post("/v1/albums", headers={"Idempotency-Key": "two"}, json={"name": ""}).status_code
            == 422
        )


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"a\xe4", b"a\tb"])
@pytest.mark.parametrize("path", ["/v1/albums", "/v1/upload"])
def test_an_invalid_key_is_400(account: Client, png: bytes, key: bytes, path: str) -> None:
    body: dict[str, Any] = {"json": {"name": "x"}} if "albums" in path else {"files": {"image": png}}
    response = account.post(path, headers={b"Idempotency-Key": key}, **body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert "Idempotency-Key" in response.json()["error"]["details"]
    assert count(account) == (0, 0)


def test_two_keys_in_one_request_are_400(account: Client) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert account.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 400


def test_the_longest_key_is_accepted(account: Client) -> None:
    key = {"Idempotency-Key": "".join(map(chr, range(33, 127))) + "x" * 161}
    assert [account.post("/v1/albums", headers=key, json={"name": "x"}).status_code for _ in range(2)] == [
        201
    ] * 2
    assert count(account) == (0, 1)


@pytest.mark.parametrize("path", ["/v1/albums", "/v1/upload"])
def test_concurrent_requests_with_one_key_have_one_effect(account: Client, png: bytes, path: str) -> None:
    body: dict[str, Any] = {"json": {"name": "x"}} if "albums" in path else {"files": {"image": png}}
    gate = threading.Barrier(8)

    def send(_index: int) -> httpx2.Response:
        gate.wait()
        return account.post(path, headers=KEY, **body)

    with ThreadPoolExecutor(8) as executor:
        responses = list(executor.map(send, range(8)))
    assert sum(count(account)) == 1
    assert {response.status_code for response in responses} == {201 if "albums" in path else 200}
    assert len({response.content for response in responses}) == 1
    assert sum(replayed(response) for response in responses) == 7


def test_a_request_waits_while_another_process_holds_its_key(account: Client, operator: ImageHost) -> None:
    """This process holds the key for another request, and releases it without a result."""
    name = account.get("/v1/account").json()["data"]["account"]["name"]
    owner = operator.accounts.get(name)
    with ThreadPoolExecutor(1) as executor, operator.idempotency.begin(owner, "once", "another request"):
        second = executor.submit(account.post, "/v1/albums", headers=KEY, json={"name": "x"})
        with pytest.raises(TimeoutError):
            second.result(0.3)
    assert second.result().status_code == 409
    assert count(account) == (0, 0)


def test_accounts_do_not_share_keys(account: Client, api: Client) -> None:
    first = account.post("/v1/albums", headers=KEY, json={"name": "x"})
    other = api.post("/v1/albums", headers=KEY, json={"name": "y"})
    assert (first.status_code, other.status_code) == (201, 201)
    assert not replayed(other)


@pytest.fixture
def crashing(tmp_path: Path, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    server = start(tmp_path / "data", variables=no_limits)
    yield server
    server.kill()
    if server.process.stdout is not None:
        server.process.stdout.close()


@pytest.mark.parametrize(
    "stored_before", [1, pytest.param(5, marks=pytest.mark.slow), pytest.param(11, marks=pytest.mark.slow)]
)
def test_after_a_crash_the_repeated_request_stores_only_the_missing_files(
    crashing: RunningServer, no_limits: dict[str, str], stored_before: int
) -> None:
    """The server is killed once that many of 12 files are stored."""
    token = crashing.token
    files = [("files[]", (f"{n}.png", make_image(300 + n, 300))) for n in range(12)]
    headers = {"Authorization": f"Bearer {token}", **KEY}
    with ImageHost.open(crashing.data) as host, ThreadPoolExecutor(1) as executor:

        def upload() -> None:
            with suppress(httpx2.TransportError):
                httpx2.post(f"{crashing.base_url}/upload", headers=headers, files=files, timeout=60)

        request = executor.submit(upload)
        while host.accounts.usage("admin").images < stored_before and not request.done():
            pass
        crashing.kill()
        request.result()
        before = {image.id for image in host.images.list(owner="admin")}
    assert stored_before <= len(before)

    with running(crashing.data, variables=no_limits) as restarted:
        responses = [
            httpx2.post(f"{restarted.base_url}/upload", headers=headers, files=files, timeout=60)
            for _ in range(2)
        ]
        with httpx2.Client(base_url=restarted.origin, headers={"Authorization": f"Bearer {token}"}) as client:
            assert count(client) == (12, 0)
    assert [response.status_code for response in responses] == [200, 200]
    stored = [image["id"] for image in responses[0].json()["data"]["images"]]
    assert len(set(stored)) == 12
    assert before <= set(stored)
    assert (responses[1].content, replayed(responses[1])) == (responses[0].content, True)
