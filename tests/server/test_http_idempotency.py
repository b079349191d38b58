"""Over real HTTP: the same `Idempotency-Key` again gets the same answer, and nothing happens twice."""

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


def replayed(answer: httpx2.Response) -> bool:
    return answer.headers.get("idempotent-replayed") == "true"


def test_an_upload_again_is_answered_in_the_same_words(account: Client, picture: bytes) -> None:
    form: dict[str, Any] = {"files": {"image": ("a.png", picture)}, "data": {"description": "x"}}
    first, second = (account.post("/v1/upload", headers=KEY, **form) for _ in range(2))
    assert (first.status_code, replayed(first)) == (200, False)
    assert (second.status_code, replayed(second)) == (200, True)
    assert second.content == first.content
    assert second.headers["content-type"] == first.headers["content-type"]
    assert count(account) == (1, 0)


def test_a_form_of_many_files_again_is_answered_in_the_same_words(account: Client) -> None:
    files = [("files[]", (f"{n}.png", make_image(20 + n, 20))) for n in range(3)] + [
        ("files[]", ("x.txt", b"x"))
    ]
    first, second = (account.post("/v1/upload", headers=KEY, files=files) for _ in range(2))
    assert len(first.json()["data"]["errors"]) == 1
    assert (second.content, replayed(second)) == (first.content, True)
    assert count(account) == (3, 0)


def test_an_album_again_is_answered_in_the_same_words(account: Client) -> None:
    first, second = (account.post("/v1/albums", headers=KEY, json={"name": "x"}) for _ in range(2))
    assert (first.status_code, replayed(first)) == (201, False)
    assert (second.status_code, replayed(second)) == (201, True)
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert count(account) == (0, 1)


def test_the_same_request_in_other_bytes_is_the_same_request(account: Client) -> None:
    for body in (
        b'{"name": "x", "is_public": true}',
        b'{"is_public":true,"name":"x"}',
        b'{"name":"x","other":1}',
    ):
        headers = {**KEY, "content-type": "application/json"}
        assert account.post("/v1/albums", headers=headers, content=body).status_code == 201
    assert count(account) == (0, 1)


def test_another_request_under_the_same_key_is_a_conflict(account: Client, picture: bytes) -> None:
    upload: dict[str, Any] = {"files": {"image": ("a.png", picture)}}
    assert account.post("/v1/upload", headers=KEY, **upload).status_code == 200
    others: list[tuple[str, dict[str, Any]]] = [
        ("/v1/upload", {"files": {"image": ("b.png", picture)}}),
        ("/v1/upload", {"files": {"image": ("a.png", make_image(9, 9))}}),
        ("/v1/upload", {"files": {"files[]": ("a.png", picture)}}),
        ("/v1/upload", {**upload, "data": {"description": "x"}}),
        ("/v1/albums", {"json": {"name": "x"}}),
    ]
    for path, request in others:
        answer = account.post(path, headers=KEY, **request)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "CONFLICT")
    assert count(account) == (1, 0)


def test_a_request_that_failed_may_come_again_under_its_key(account: Client) -> None:
    for _ in range(2):
        answer = account.post("/v1/upload", headers=KEY, files={"image": ("a.png", b"no picture")})
        assert (answer.status_code, replayed(answer)) == (415, False)
    for _ in range(2):
        assert (
            account.post("/v1/albums", headers={"Idempotency-Key": "two"}, json={"name": ""}).status_code
            == 422
        )


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"a\xe4", b"a\tb"])
@pytest.mark.parametrize("path", ["/v1/albums", "/v1/upload"])
def test_a_key_that_is_none_is_400(account: Client, picture: bytes, key: bytes, path: str) -> None:
    more: dict[str, Any] = {"json": {"name": "x"}} if "albums" in path else {"files": {"image": picture}}
    answer = account.post(path, headers={b"Idempotency-Key": key}, **more)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_REQUEST")
    assert "Idempotency-Key" in answer.json()["error"]["details"]
    assert count(account) == (0, 0)


def test_two_keys_in_one_request_are_400(account: Client) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    assert account.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 400


def test_the_longest_key_is_taken(account: Client) -> None:
    key = {"Idempotency-Key": "".join(map(chr, range(33, 127))) + "x" * 161}
    assert [account.post("/v1/albums", headers=key, json={"name": "x"}).status_code for _ in range(2)] == [
        201
    ] * 2
    assert count(account) == (0, 1)


@pytest.mark.parametrize("path", ["/v1/albums", "/v1/upload"])
def test_many_at_once_do_one_thing(account: Client, picture: bytes, path: str) -> None:
    more: dict[str, Any] = {"json": {"name": "x"}} if "albums" in path else {"files": {"image": picture}}
    gate = threading.Barrier(8)

    def ask(_turn: int) -> httpx2.Response:
        gate.wait()
        return account.post(path, headers=KEY, **more)

    with ThreadPoolExecutor(8) as crew:
        answers = list(crew.map(ask, range(8)))
    assert sum(count(account)) == 1
    assert {answer.status_code for answer in answers} == {201 if "albums" in path else 200}
    assert len({answer.content for answer in answers}) == 1
    assert sum(replayed(answer) for answer in answers) == 7


def test_while_the_first_is_under_way_in_another_process_the_second_waits(
    account: Client, operator: ImageHost
) -> None:
    """This process holds the key, as another of the server's would; then it lets go, having done nothing."""
    name = account.get("/v1/account").json()["data"]["account"]["name"]
    owner = operator.accounts.get(name)
    with ThreadPoolExecutor(1) as crew, operator.idempotency.begin(owner, "once", "another request"):
        second = crew.submit(account.post, "/v1/albums", headers=KEY, json={"name": "x"})
        with pytest.raises(TimeoutError):
            second.result(0.3)
    assert second.result().status_code == 409
    assert count(account) == (0, 0)


def test_accounts_do_not_share_keys(account: Client, api: Client) -> None:
    mine = account.post("/v1/albums", headers=KEY, json={"name": "x"})
    theirs = api.post("/v1/albums", headers=KEY, json={"name": "y"})
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert not replayed(theirs)


@pytest.fixture
def crashing(tmp_path: Path, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    server = start(tmp_path / "data", variables=no_limits)
    yield server
    server.kill()
    if server.process.stdout is not None:
        server.process.stdout.close()


@pytest.mark.parametrize("wanted", [1, 5, 11])
def test_what_a_crash_has_cut_short_is_finished_by_the_same_request_again(
    crashing: RunningServer, no_limits: dict[str, str], wanted: int
) -> None:
    """Killed when so many of 12 files are stored; those are not stored again."""
    token = crashing.token
    files = [("files[]", (f"{n}.png", make_image(300 + n, 300))) for n in range(12)]
    headers = {"Authorization": f"Bearer {token}", **KEY}
    with ImageHost.open(crashing.data) as host, ThreadPoolExecutor(1) as crew:

        def ask() -> None:
            with suppress(httpx2.TransportError):
                httpx2.post(f"{crashing.base_url}/upload", headers=headers, files=files, timeout=60)

        asked = crew.submit(ask)
        while host.images.list(owner="admin").total < wanted and not asked.done():
            pass
        crashing.kill()
        asked.result()
        before = {image.id for image in host.images.list(owner="admin")}
    assert wanted <= len(before)

    with running(crashing.data, variables=no_limits) as again:
        answers = [
            httpx2.post(f"{again.base_url}/upload", headers=headers, files=files, timeout=60)
            for _ in range(2)
        ]
        with httpx2.Client(base_url=again.origin, headers={"Authorization": f"Bearer {token}"}) as client:
            assert count(client) == (12, 0)
    assert [answer.status_code for answer in answers] == [200, 200]
    stored = [image["id"] for image in answers[0].json()["data"]["images"]]
    assert len(set(stored)) == 12
    assert before <= set(stored)
    assert (answers[1].content, replayed(answers[1])) == (answers[0].content, True)
