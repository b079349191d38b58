"""`Idempotency-Key` over HTTP: a repeated request returns the first response without a second effect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from attrs import frozen
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_core.uploads import FORM_FIELDS
from imagehost_server.routes import idempotency
from imagehost_server.routes.albums import NewAlbum
from imagehost_server.routes.idempotency import fingerprint
from imagehost_server.settings import ServerSettings
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


@frozen
class Upload:
    """The parts of an upload's form that its second request can change."""

    files: tuple[tuple[str, str, bytes], ...]
    fields: dict[str, str]

    def send(self, client: Client) -> httpx2.Response:
        files = [(field, (name, data)) for field, name, data in self.files]
        return client.post("/v1/upload", headers=KEY, files=files, data=self.fields)


# What follows the end of an image is accepted and not stored, so that both are images of one size.
SMALL = make_image(9, 9)
ONE, OTHER = SMALL + b"1", SMALL + b"2"
BATCH = (("files[]", "a.png", ONE), ("files[]", "b.png", OTHER))
OPTIONS = {
    "quality": ("50", "60"),
    "format": ("png", "jpeg"),
    "remove_exif": ("true", "false"),
    "convertToWebP": ("true", "false"),
    "auto_rename": ("true", "false"),
    "is_public": ("true", "false"),
    "reuse": ("true", "false"),
    "description": ("x", "y"),
}
"""Two values of each field of the form, except of the album."""
FIRST = {name: first for name, (first, _) in OPTIONS.items()}
OTHER_UPLOADS = {
    "bytes": Upload((("files[]", "a.png", OTHER), BATCH[1]), FIRST),
    "last bytes": Upload((BATCH[0], ("files[]", "b.png", ONE)), FIRST),
    "file name": Upload((("files[]", "c.png", ONE), BATCH[1]), FIRST),
    "last file name": Upload((BATCH[0], ("files[]", "c.png", OTHER)), FIRST),
    "order": Upload(BATCH[::-1], FIRST),
    "fewer files": Upload(BATCH[:1], FIRST),
    "more files": Upload((*BATCH, BATCH[0]), FIRST),
    "fewer fields": Upload(BATCH, dict(list(FIRST.items())[1:])),
    **{name: Upload(BATCH, {**FIRST, name: other}) for name, (_, other) in OPTIONS.items()},
}
"""Uploads that differ in one thing from that of `BATCH` with `FIRST`."""


def test_an_upload_that_differs_in_one_thing_is_409(account: Client) -> None:
    album = str(account.post("/v1/albums", json={"name": "x"}).json()["data"]["id"])
    assert Upload(BATCH, FIRST).send(account).status_code == 200
    others = {**OTHER_UPLOADS, "album_id": Upload(BATCH, {**FIRST, "album_id": album})}
    assert {*OPTIONS, "album_id"} == {*FORM_FIELDS}, "every field of the form is compared"
    statuses = {what: upload.send(account).status_code for what, upload in others.items()}
    assert statuses == dict.fromkeys(others, 409)
    assert count(account) == (2, 1)


def test_the_two_forms_of_an_upload_are_different_requests(account: Client) -> None:
    statuses = [
        Upload(((field, "a.png", ONE),), {}).send(account).status_code
        for field in ("image", "files[]", "image")
    ]
    assert statuses == [200, 409, 200]


NEW_ALBUM = {"name": "x", "description": "y", "is_public": True}


@pytest.mark.parametrize("change", [{"name": "z"}, {"description": "z"}, {"is_public": False}])
def test_an_album_that_differs_in_one_field_is_409(account: Client, change: dict[str, object]) -> None:
    assert {*NEW_ALBUM} == {field.name for field in msgspec.structs.fields(NewAlbum)}
    bodies = (NEW_ALBUM, {**NEW_ALBUM, **change}, NEW_ALBUM)
    statuses = [account.post("/v1/albums", headers=KEY, json=body).status_code for body in bodies]
    assert statuses == [201, 409, 201]
    assert count(account) == (0, 1)


def test_the_same_key_for_another_operation_is_409(account: Client, png: bytes) -> None:
    assert account.post("/v1/upload", headers=KEY, files={"image": ("a.png", png)}).status_code == 200
    response = account.post("/v1/albums", headers=KEY, json={"name": "x"})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "CONFLICT")
    assert count(account) == (1, 0)


def test_the_fingerprint_of_another_operation_differs() -> None:
    assert fingerprint("upload", ["x"]) != fingerprint("albums", ["x"])


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


def test_a_request_waits_no_longer_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "WAIT_SECONDS", 0.05)
    host = open_host(tmp_path)
    with (
        serving(host, ServerSettings()) as origin,
        host.idempotency.begin(host.accounts.get("admin"), "once", "another request"),
    ):
        headers = {**KEY, "Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
        response = httpx2.post(f"{origin}/v1/albums", headers=headers, json={"name": "x"}, timeout=PATIENCE)
    assert (response.status_code, response.headers["retry-after"]) == (409, "1")


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


@pytest.mark.slow
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
    with open_host(crashing.data) as host, ThreadPoolExecutor(1) as executor:

        def upload() -> None:
            with suppress(httpx2.TransportError):
                httpx2.post(f"{crashing.base_url}/upload", headers=headers, files=files, timeout=PATIENCE)

        request = executor.submit(upload)
        while host.accounts.usage("admin").images < stored_before and not request.done():
            pass
        crashing.kill()
        request.result()
        before = {image.id for image in host.images.list(owner="admin")}
    assert stored_before <= len(before)

    with running(crashing.data, variables=no_limits) as restarted:
        responses = [
            httpx2.post(f"{restarted.base_url}/upload", headers=headers, files=files, timeout=PATIENCE)
            for _ in range(2)
        ]
        with httpx2.Client(base_url=restarted.origin, headers={"Authorization": f"Bearer {token}"}) as client:
            assert count(client) == (12, 0)
    assert [response.status_code for response in responses] == [200, 200]
    stored = [image["id"] for image in responses[0].json()["data"]["images"]]
    assert len(set(stored)) == 12
    assert before <= set(stored)
    assert (responses[1].content, replayed(responses[1])) == (responses[0].content, True)
