"""Errors of path, query and body are reported in one response."""

from __future__ import annotations

import httpx2
import pytest

MISSING = "0" * 16


@pytest.mark.parametrize(
    ("path", "body", "status", "names"),
    [
        (
            "/v1/images/" + "0" * 16,
            {"description": 5, "album_id": 999},
            404,
            ("000", "description", "album_id"),
        ),
        ("/v1/albums/999", {"name": 5, "is_public": "x"}, 404, ("'999'", "name", "is_public")),
        ("/v1/albums/999", [], 404, ("'999'", "the body")),
    ],
)
def test_an_invalid_body_is_reported_with_the_resources_that_do_not_exist(
    api: httpx2.Client, path: str, body: object, status: int, names: tuple[str, ...]
) -> None:
    response = api.patch(path, json=body)
    assert response.status_code == status
    assert all(name in response.json()["error"]["details"] for name in names)


def test_malformed_json_is_400_and_names_the_missing_resource_too(api: httpx2.Client) -> None:
    response = api.patch("/v1/albums/999", content=b"{", headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "'999'" in response.json()["error"]["details"]


def test_repeated_parameters_are_reported_with_the_others(api: httpx2.Client) -> None:
    response = api.get("/v1/images?page=1&page=2&per_page=101")
    assert response.status_code == 400
    assert "expected one value for page but received 2" in response.json()["error"]["details"]
    assert "for per_page but received '101'" in response.json()["error"]["details"]
