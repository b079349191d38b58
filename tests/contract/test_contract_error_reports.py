"""All errors of a request are reported together, with both clients."""

from __future__ import annotations

import httpx2
import pytest
from tests.contract.conftest import assert_error, data_of

from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

MISSING = "0" * 16


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        (
            "/albums",
            {"name": "", "description": "x" * 2001, "is_public": "yes"},
            ("name", "description", "is_public"),
        ),
        ("/albums", {"description": 7}, ("name", "description")),
        (
            "/keys",
            {"name": "x" * 101, "scopes": ["all"], "expires_at": "soon"},
            ("name", "scopes", "expires_at"),
        ),
        (
            "/webhooks",
            {"url": "ftp://x", "events": ["x"], "description": 7},
            ("url", "events", "description"),
        ),
    ],
)
async def test_all_invalid_members_of_a_new_record_are_named(
    http: httpx2.AsyncClient, path: str, body: dict[str, object], names: tuple[str, ...]
) -> None:
    response = await http.post(path, json=body)
    assert_error(response, 422, "VALIDATION_ERROR", *(f"for {name}" for name in names))


@pytest.mark.parametrize(
    ("method", "path", "body", "names"),
    [
        ("PATCH", f"/images/{MISSING}", {"description": 7, "album_id": 999_999}, ("description", "album_id")),
        ("POST", f"/images/{MISSING}/signed-url", {"w": 0, "expires_in": 0}, ("w", "expires_in")),
        ("PATCH", "/albums/999999", {"name": "", "is_public": 2}, ("name", "is_public")),
        ("PUT", "/albums/999999/images", {"image_ids": []}, ("image_ids",)),
        ("PATCH", f"/keys/{MISSING}", {"name": 7, "scopes": []}, ("name", "scopes")),
        ("PATCH", f"/webhooks/{MISSING}", {"url": "ftp://x", "is_active": 2}, ("url", "is_active")),
    ],
)
async def test_a_missing_record_and_invalid_members_are_404_and_all_named(
    http: httpx2.AsyncClient, method: str, path: str, body: dict[str, object], names: tuple[str, ...]
) -> None:
    response = await http.request(method, path, json=body)
    resource_id = path.split("/")[2]
    assert_error(response, 404, "NOT_FOUND", resource_id, *(f"for {name}" for name in names))


async def test_a_missing_album_and_an_invalid_query_are_400_and_both_named(http: httpx2.AsyncClient) -> None:
    response = await http.delete("/albums/999999?delete_images=maybe")
    assert_error(response, 400, "BAD_REQUEST", "999999", "for delete_images")


async def test_a_form_without_a_file_and_invalid_options_are_400_and_all_named(
    http: httpx2.AsyncClient,
) -> None:
    options = {"quality": "0", "format": "tiff", "is_public": "yes", "album_id": "999999"}
    response = await http.post("/upload", files={"other": b"x"}, data=options)
    assert_error(response, 400, "BAD_REQUEST", "files[]", "other", *(f"for {name}" for name in options))
    response = await http.post("/upload", files={"image": make_png()}, data=options)
    assert_error(response, 422, "VALIDATION_ERROR", *(f"for {name}" for name in options))
    assert (await data_of(http.get("/images")))["images"] == []
