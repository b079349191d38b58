"""Bulk requests over HTTP: results, errors that name everything, and the limit of ids per minute."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
import pytest

from imagehost_core import ImageHost

MISSING = "0" * 16
BULK = (("PATCH", "/v1/images"), ("DELETE", "/v1/images"), ("POST", "/v1/images/delete"))


def store(client: httpx2.Client, png: bytes, count: int, **fields: str) -> list[str]:
    files = [("files[]", (f"{number}.png", png)) for number in range(count)]
    response = client.post("/v1/upload", files=files, data=fields)
    return [image["id"] for image in response.json()["data"]["images"]]


def details(response: httpx2.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["error"]["details"])


def test_a_bulk_update_responds_with_a_result_for_each_image(account: httpx2.Client, png: bytes) -> None:
    first, second = store(account, png, 2)
    body = {"image_ids": [second, MISSING, first, second], "is_public": 0, "description": "new"}
    results = account.patch("/v1/images", json=body).json()["data"]["results"]
    assert [(result["id"], result["status"]) for result in results] == [
        (second, "updated"),
        (MISSING, "not_found"),
        (first, "updated"),
    ]
    assert results[1]["error"]["code"] == "NOT_FOUND"
    assert MISSING in results[1]["error"]["details"]
    assert "error" not in results[0]
    assert account.get(f"/v1/images/{first}").json()["data"]["is_public"] is False
    again = account.patch("/v1/images", json=body).json()["data"]["results"]
    assert [result["status"] for result in again] == ["unchanged", "not_found", "unchanged"]


@pytest.mark.parametrize(("method", "path"), BULK[1:])
def test_a_bulk_deletion_responds_when_all_images_are_gone(
    account: httpx2.Client, png: bytes, method: str, path: str
) -> None:
    ids = store(account, png, 3)
    response = account.request(method, path, json={"image_ids": [*ids[:2], MISSING]})
    statuses = [result["status"] for result in response.json()["data"]["results"]]
    assert statuses == ["deleted", "deleted", "not_found"]
    assert [account.get(f"/v1/images/{image_id}").status_code for image_id in ids] == [404, 404, 200]
    assert [account.get(f"/img/{image_id}").status_code for image_id in ids] == [404, 404, 200]


@pytest.mark.parametrize(("method", "path"), BULK)
@pytest.mark.parametrize(
    "body", [{}, {"image_ids": []}, {"image_ids": [MISSING] * 101}, {"image_ids": "x"}, {"image_ids": [5]}]
)
def test_missing_no_too_many_or_malformed_ids_are_422(
    account: httpx2.Client, method: str, path: str, body: dict[str, object]
) -> None:
    assert "for image_ids" in details(account.request(method, path, json=body), 422)


def test_one_wrong_value_is_422_names_all_and_changes_nothing(account: httpx2.Client, png: bytes) -> None:
    (image_id,) = store(account, png, 1)
    before = account.get(f"/v1/images/{image_id}").json()
    body = {"image_ids": [image_id], "description": "x" * 2_001, "album_id": 10**9, "filename": "a.png"}
    text = details(account.patch("/v1/images", json=body), 422)
    assert "for description" in text
    assert "for album_id" in text
    assert account.get(f"/v1/images/{image_id}").json() == before


def test_signed_urls_work_without_a_token(
    account: httpx2.Client, anonymous: httpx2.Client, png: bytes
) -> None:
    first, second = store(account, png, 2, is_public="0")
    items = [{"image_id": second, "w": 40}, {"image_id": first, "fm": "png"}, {"image_id": second}]
    response = account.post("/v1/signed-urls", json={"items": items, "expires_in": 60})
    signed = response.json()["data"]["items"]
    assert [item["image_id"] for item in signed] == [second, first, second]
    assert all(item["expires_at"].endswith("Z") for item in signed)
    urls = [urlsplit(item["url"]) for item in signed]
    assert [anonymous.get(f"{url.path}?{url.query}").status_code for url in urls] == [200, 200, 200]
    assert anonymous.get(urls[0].path).status_code == 404


def test_all_errors_of_all_items_are_in_one_response(
    account: httpx2.Client, png: bytes, image_id: str
) -> None:
    (own,) = store(account, png, 1)
    items: list[object] = [
        {"image_id": own, "w": 0},
        {"image_id": image_id, "fit": "crop"},
        {"image_id": own},
    ]
    text = details(account.post("/v1/signed-urls", json={"items": items, "expires_in": 0}), 404)
    for name in ("items[0].w", "items[1].image_id", "items[1].fit", "expires_in"):
        assert f"for {name} " in text
    assert "items[2]" not in text


def test_the_ids_of_bulk_requests_have_a_limit_of_their_own(
    operator: ImageHost, client_of: Callable[..., httpx2.Client], png: bytes
) -> None:
    operator.accounts.create("busy", bulk_ids_per_minute=3)
    client = client_of("busy")
    ids = store(client, png, 2)
    assert client.patch("/v1/images", json={"image_ids": ids, "filename": " "}).status_code == 422
    first = client.patch("/v1/images", json={"image_ids": ids, "description": "first"})
    assert (first.status_code, first.headers["x-ratelimit-remaining"]) == (200, "1")
    for method, path in BULK:
        refused = client.request(method, path, json={"image_ids": ids, "description": "second"})
        assert "at most 3 ids for bulk_ids_per_minute but received 2 more" in details(refused, 429)
        assert "retry-after" in refused.headers
        assert refused.headers["x-ratelimit-limit"] == "3"
    images = [client.get(f"/v1/images/{image_id}").json()["data"] for image_id in ids]
    assert {image["description"] for image in images} == {"first"}
