"""All errors of a step are reported together, with both clients: syntax and types; then values and names."""

from __future__ import annotations

import httpx2
import pytest
from tests.contract.conftest import assert_error, data_of

from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

MISSING = "0" * 16
LONG = "x" * 2_001

Members = dict[str, object]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/albums", {"name": "", "description": LONG}),
        ("/albums", {"name": 7, "description": 7, "is_public": "yes"}),
        ("/keys", {"name": "x" * 101, "scopes": ["all"], "expires_at": "soon"}),
        ("/webhooks", {"url": "ftp://x", "events": ["x"], "description": LONG}),
    ],
)
async def test_all_invalid_members_of_a_new_record_are_named(
    http: httpx2.AsyncClient, path: str, body: Members
) -> None:
    response = await http.post(path, json=body)
    assert_error(response, 422, "VALIDATION_ERROR", *(f"for {name} " for name in body))


@pytest.mark.parametrize(
    ("method", "path", "values", "types"),
    [
        ("PATCH", f"/images/{MISSING}", {"filename": " ", "album_id": 999_999}, {"description": 7}),
        ("POST", f"/images/{MISSING}/signed-url", {"w": 0, "expires_in": 0}, {"h": "1", "fit": 7}),
        ("PATCH", "/albums/999999", {"name": "", "description": LONG}, {"is_public": 2}),
        ("PUT", "/albums/999999/images", {"image_ids": []}, {"images_public": 2}),
        ("POST", "/albums/999999/shares", {"expires_at": "soon"}, {"password": 7}),
        ("PATCH", f"/keys/{MISSING}", {"scopes": []}, {"name": 7, "expires_at": 7}),
        ("PATCH", f"/webhooks/{MISSING}", {"url": "ftp://x", "events": ["x"]}, {"is_active": 2}),
    ],
)
async def test_types_are_422_first_and_then_values_with_a_missing_record_404(
    http: httpx2.AsyncClient, method: str, path: str, values: Members, types: Members
) -> None:
    record = path.split("/")[2]
    first = await http.request(method, path, json={**values, **types})
    assert_error(first, 422, "VALIDATION_ERROR", *(f"for {name} " for name in types))
    assert not any(text in first.text for text in (record, *(f"for {name} " for name in values)))
    second = await http.request(method, path, json=values)
    assert_error(second, 404, "NOT_FOUND", record, *(f"for {name} " for name in values))


async def test_an_invalid_query_is_400_and_then_a_missing_album_404(http: httpx2.AsyncClient) -> None:
    names = ("delete_images", "images_public")
    first = await http.delete("/albums/999999?delete_images=maybe&images_public=maybe")
    assert_error(first, 400, "BAD_REQUEST", *(f"for {name} " for name in names))
    assert "999999" not in first.text
    second = await http.delete("/albums/999999?delete_images=true")
    assert_error(second, 404, "NOT_FOUND", "999999")


async def test_a_form_without_a_file_is_400_and_then_all_invalid_options_422(
    http: httpx2.AsyncClient,
) -> None:
    options = {"quality": "0", "format": "tiff", "is_public": "yes", "album_id": "999999"}
    response = await http.post("/upload", files={"other": b"x"}, data=options)
    assert_error(response, 400, "BAD_REQUEST", "files[]", "other")
    response = await http.post("/upload", files={"image": make_png()}, data=options)
    assert_error(response, 422, "VALIDATION_ERROR", *(f"for {name} " for name in options))
    assert (await data_of(http.get("/images")))["images"] == []
