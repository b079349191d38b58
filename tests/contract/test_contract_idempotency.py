"""Idempotency keys, with both clients."""

from __future__ import annotations

from functools import partial

import anyio
import httpx2
import pytest
from tests.contract.conftest import Account, Connect, OpenHttp, assert_error, data_of

from imagehost_client import AsyncClient, ConflictError, ValidationError
from imagehost_client.models import Image
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio


async def test_a_repeated_upload_gets_the_first_response(client: AsyncClient, png: bytes) -> None:
    first, second = [await client.upload(png, idempotency_key="once") for _ in range(2)]
    assert second == first
    assert (first.meta.replayed, second.meta.replayed) == (False, True)
    assert [image.id async for image in client.images.list()] == [first.id]


async def test_a_repeated_album_is_created_once(http: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "once"}
    first, second = [await http.post("/albums", json={"name": "A"}, headers=key) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert second.headers["location"] == first.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (await data_of(http.get("/albums")))["pagination"]["total"] == 1


async def test_uploads_are_compared_by_content_and_not_by_boundary(
    http: httpx2.AsyncClient, png: bytes
) -> None:
    key = {"Idempotency-Key": "once"}
    files = [("files[]", ("a.png", png)), ("files[]", ("b.png", make_png(9, 9)))]
    first, second = [await http.post("/upload", files=files, headers=key) for _ in range(2)]
    assert second.json() == first.json()
    assert second.headers["idempotent-replayed"] == "true"
    assert (await data_of(http.get("/images")))["pagination"]["total"] == 2


async def test_another_request_with_the_key_is_a_conflict(client: AsyncClient, png: bytes) -> None:
    await client.upload(png, filename="a.png", idempotency_key="once")
    for call in (
        partial(client.upload, png, filename="b.png"),
        partial(client.upload, make_png(9, 9), filename="a.png"),
        partial(client.upload, png, filename="a.png", description="Other"),
        partial(client.albums.create, "A"),
    ):
        with pytest.raises(ConflictError):
            await call(idempotency_key="once")
    assert (await client.images.list().first_page()).total == 1


async def test_keys_of_two_accounts_are_independent(
    client: AsyncClient, connect: Connect, other: Account, png: bytes
) -> None:
    of_account = await client.upload(png, idempotency_key="once")
    of_other = await connect(other.token).upload(png, idempotency_key="once")
    assert of_account.id != of_other.id
    assert not of_other.meta.replayed


async def test_a_failed_request_reserves_its_key(client: AsyncClient, png: bytes) -> None:
    for _ in range(2):
        with pytest.raises(ValidationError) as caught:
            await client.upload(png, album_id=999_999, idempotency_key="once")
        assert caught.value.fields == ("album_id",)
    with pytest.raises(ConflictError):
        await client.upload(png, quality=1, idempotency_key="once")


@pytest.mark.parametrize("path", ["/upload", "/albums"])
@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
async def test_a_key_has_1_to_255_printable_characters(
    http: httpx2.AsyncClient, png: bytes, path: str, key: str
) -> None:
    headers = {"Idempotency-Key": key}
    if path == "/upload":
        response = await http.post(path, files={"image": png}, headers=headers)
    else:
        response = await http.post(path, json={"name": "A"}, headers=headers)
    assert_error(response, 400, "BAD_REQUEST", "Idempotency-Key")


async def test_a_key_of_maximum_length_is_accepted(open_http: OpenHttp, account: Account) -> None:
    http = open_http(account.token)
    headers = {"Idempotency-Key": "~" * 255}
    await data_of(http.post("/albums", json={"name": "A"}, headers=headers), 201)


async def test_concurrent_equal_uploads_are_stored_once(client: AsyncClient) -> None:
    images: list[Image] = []

    async def send() -> None:
        images.append(await client.upload(make_png(200, 200), idempotency_key="once"))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(send)
    assert len(images) == 4
    assert len({image.id for image in images}) == 1
    assert (await client.images.list().first_page()).total == 1
