"""Changes, deletions and signed URLs of many images in one request, with both clients."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.contract.conftest import Account, Backend, Connect, assert_error, data_of

from imagehost_client import (
    AsyncClient,
    ForbiddenError,
    Image,
    NotFoundError,
    RateLimitError,
    ValidationError,
)
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

MISSING = "0" * 16
BULK = (("PATCH", "/images"), ("DELETE", "/images"), ("POST", "/images/delete"))


async def uploads(client: AsyncClient, count: int, **options: object) -> list[Image]:
    """Upload images, and return them, oldest first."""
    return [await client.upload(make_png(number + 1, 1), **options) for number in range(count)]  # type: ignore[arg-type]


async def test_images_are_changed_together(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    first, second, third = await uploads(client, 3)
    await client.images.update(second, description="Same", album_id=album)
    results = await client.images.update_many(
        [first, second.id, MISSING, third.url], description="Same", album_id=album
    )
    assert [(result.id, str(result.status)) for result in results] == [
        (first.id, "updated"),
        (second.id, "unchanged"),
        (MISSING, "not_found"),
        (third.id, "updated"),
    ]
    assert [result.error is None for result in results] == [True, True, False, True]
    assert results[2].error is not None
    assert (results[2].error.code, MISSING in results[2].error.details) == ("NOT_FOUND", True)
    assert (await client.albums.get(album)).image_count == 3
    changed = await client.images.get(first)
    assert (changed.description, changed.album_id, changed.is_public) == ("Same", album.id, True)
    assert changed.updated_at > first.updated_at
    await client.images.update_many([first], album_id=None, is_public=False, filename="x.png")
    changed = await client.images.get(first)
    assert (changed.album_id, changed.is_public, changed.filename.partition(".")[0]) == (None, False, "x")


async def test_images_are_deleted_together(client: AsyncClient, anonymous_http: httpx2.AsyncClient) -> None:
    first, second, third = await uploads(client, 3)
    results = await client.images.delete_many([third, MISSING, first])
    assert [(result.id, str(result.status)) for result in results] == [
        (third.id, "deleted"),
        (MISSING, "not_found"),
        (first.id, "deleted"),
    ]
    assert [image.id async for image in client.images.list()] == [second.id]
    assert_error(await anonymous_http.get(first.url), 404, "NOT_FOUND")
    assert [str(result.status) for result in await client.images.delete_many([first])] == ["not_found"]


async def test_more_images_than_a_request_takes_have_results_in_order(client: AsyncClient) -> None:
    image, other = await uploads(client, 2)
    missing = [f"{number:016}" for number in range(200)]
    ids = [image.id, *missing, other.id]
    assert [result.id for result in await client.images.update_many([*ids, *ids], description="x")] == ids
    results = await client.images.delete_many(ids)
    assert [result.id for result in results] == ids
    assert [str(result.status) for result in (results[0], results[100], results[-1])] == [
        "deleted",
        "not_found",
        "deleted",
    ]
    for change in (client.images.update_many, client.images.delete_many, client.images.signed_urls):
        with pytest.raises(ValidationError, match="one or more"):
            await change([])


@pytest.mark.parametrize(("method", "path"), BULK)
@pytest.mark.parametrize(
    "body",
    [{}, {"image_ids": []}, {"image_ids": "x"}, {"image_ids": [1]}, {"image_ids": None}],
)
async def test_a_bulk_request_without_ids_is_422(
    http: httpx2.AsyncClient, method: str, path: str, body: dict[str, object]
) -> None:
    response = await http.request(method, path, json={**body, "description": "x"})
    assert_error(response, 422, "VALIDATION_ERROR", "image_ids")


@pytest.mark.parametrize(("method", "path"), BULK)
async def test_a_bulk_request_takes_100_images_at_most(
    http: httpx2.AsyncClient, method: str, path: str
) -> None:
    body = {"image_ids": [f"{number:016}" for number in range(101)]}
    assert_error(await http.request(method, path, json=body), 422, "VALIDATION_ERROR", "image_ids", "101")


async def test_an_invalid_change_changes_nothing_and_all_errors_are_reported(
    client: AsyncClient, http: httpx2.AsyncClient
) -> None:
    (image,) = await uploads(client, 1)
    body = {"image_ids": [image.id], "description": 7, "is_public": "yes"}
    response = await http.patch("/images", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", "for description", "for is_public")
    body = {"image_ids": [], "description": "x" * 2001, "album_id": 999_999}
    response = await http.patch("/images", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", *(f"for {name}" for name in body))
    with pytest.raises(ValidationError):
        await client.images.update_many([image], album_id=999_999)
    assert await client.images.get(image) == image


async def test_images_of_another_account_are_not_found(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    (image,) = await uploads(client, 1)
    other_client = connect(other.token)
    for results in (
        await other_client.images.update_many([image], description="Mine now"),
        await other_client.images.delete_many([image]),
    ):
        assert [str(result.status) for result in results] == ["not_found"]
    with pytest.raises(NotFoundError):
        await other_client.images.signed_urls([image])
    assert await client.images.get(image) == image


async def test_bulk_requests_require_the_scopes_of_single_ones(client: AsyncClient, connect: Connect) -> None:
    (image,) = await uploads(client, 1)
    writer = connect((await client.keys.create("w", scopes=["images:write"])).token)
    deleter = connect((await client.keys.create("d", scopes=["images:delete"])).token)
    await writer.images.update_many([image], description="x")
    with pytest.raises(ForbiddenError, match="images:delete"):
        await writer.images.delete_many([image])
    with pytest.raises(ForbiddenError, match="images:read"):
        await writer.images.signed_urls([image])
    with pytest.raises(ForbiddenError, match="images:write"):
        await deleter.images.update_many([image], description="y")
    assert [str(result.status) for result in await deleter.images.delete_many([image])] == ["deleted"]


async def test_urls_are_signed_together(
    backend: Backend, client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    images = await uploads(client, 2, is_public=False)
    signed = await client.images.signed_urls(
        [images[0], (images[1].id, {"w": 5, "fm": "png"})], expires_in=600, w=9
    )
    assert [one.image_id for one in signed] == [image.id for image in images]
    assert ["w=9" in signed[0].url, "w=5" in signed[1].url, "fm=png" in signed[1].url] == [True] * 3
    assert signed[0].expires_at is not None
    lifetime = signed[0].expires_at - datetime.now(UTC)
    assert timedelta(seconds=500) < lifetime <= timedelta(seconds=601)
    for one in signed:
        assert one.url.startswith(backend.cdn_url)
        assert (await anonymous_http.get(one.url)).status_code == 200
        assert_error(await anonymous_http.get(one.url.replace("w=", "w=1")), 404, "NOT_FOUND")


async def test_a_request_to_sign_urls_names_all_errors(client: AsyncClient, http: httpx2.AsyncClient) -> None:
    (image,) = await uploads(client, 1)
    items: list[object] = [
        {"image_id": image.id, "w": 0, "fit": "crop"},
        {"image_id": MISSING},
        {"image_id": image.id},
    ]
    response = await http.post("/signed-urls", json={"items": items, "expires_in": 0})
    names = ("items[0].w", "items[0].fit", "items[1].image_id", "expires_in")
    assert_error(response, 404, "NOT_FOUND", *(f"for {name}" for name in names))
    assert "items[2]" not in response.json()["error"]["details"]
    bodies: list[dict[str, object]] = [{}, {"items": []}, {"items": "x"}, {"items": [1]}, {"items": [{}]}]
    for body in bodies:
        assert_error(await http.post("/signed-urls", json=body), 422, "VALIDATION_ERROR", "items")
    assert_error(
        await http.post("/signed-urls", json={"items": [{"image_id": image.id}] * 101}),
        *(422, "VALIDATION_ERROR", "items", "101"),
    )
    data = await data_of(http.post("/signed-urls", json={"items": [{"image_id": image.id}]}))
    assert [one.keys() for one in data["items"]] == [{"image_id", "url", "expires_at"}]


async def test_image_ids_have_a_limit_per_minute(
    backend: Backend, client: AsyncClient, account: Account, connect: Connect
) -> None:
    operator = connect(backend.create_account(role="operator").token)
    ids = {one.name: one.id async for one in operator.accounts.list()}
    images = await uploads(client, 3)
    await operator.accounts.update(ids[account.name], bulk_ids_per_minute=3)
    once = client.with_options(max_retries=0)
    minute = datetime.now(UTC).minute
    error, raw = await use_up_ids(once, images)
    if minute != datetime.now(UTC).minute:  # they were counted in two windows
        error, raw = await use_up_ids(once, images)
    assert (error.rate_limit.limit, error.rate_limit.remaining) == (3, 2)
    assert "expected at most 3" in error.details
    assert "received 3 more when 2 were left" in error.details
    assert 1 <= error.retry_after <= 60
    assert (raw[0].headers["x-ratelimit-limit"], raw[0].headers["x-ratelimit-remaining"]) == ("3", "0")
    assert [image.description for image in [await client.images.get(image) for image in images]] == [
        "A",
        "A",
        "",
    ]


async def use_up_ids(client: AsyncClient, images: list[Image]) -> tuple[Any, Any]:
    """Send bulk requests until three ids are counted; return the error of too many, and the last response."""
    # An id that is given twice counts once, and an invalid request counts none.
    await client.request("PATCH", "/images", json={"image_ids": [images[0].id] * 2, "description": "A"})
    with pytest.raises(ValidationError):
        await client.request("PATCH", "/images", json={"image_ids": [images[0].id], "description": 7})
    with pytest.raises(RateLimitError) as caught:
        await client.images.update_many(images, description="B")
    raw = await client.images.update_many.with_raw_response(images[:2], description="A")
    return caught.value, raw
