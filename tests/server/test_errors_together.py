"""Errors of the query are reported in one response; `test_all_errors` has those of each step of a request."""

from __future__ import annotations

import httpx2


def test_repeated_parameters_are_reported_with_the_others(api: httpx2.Client) -> None:
    response = api.get("/v1/images?page=1&page=2&per_page=101")
    assert response.status_code == 400
    assert "expected one value for page but received 2" in response.json()["error"]["details"]
    assert "for per_page but received '101'" in response.json()["error"]["details"]
