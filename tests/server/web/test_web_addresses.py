"""Addresses that are opened again: those of forms and their results, unknown ones, and wrong methods."""

from __future__ import annotations

import re

import httpx2
import pytest
from tests.server.web.conftest import SignedIn

from imagehost_core import ImageHost
from imagehost_server.web.request import reopened_path
from imagehost_server.web.router import HANDLERS

METHODS = {
    path: {method for each in HANDLERS if path in each.paths for method in each.http_methods}
    for handler in HANDLERS
    for path in handler.paths
}
FORMS = sorted(path for path, methods in METHODS.items() if "GET" not in methods)
"""The paths that only forms are sent to."""


def fill(path: str) -> str:
    return re.sub(r"\{.*?\}", "1", path)


@pytest.mark.parametrize("path", FORMS)
def test_the_address_of_a_form_leads_to_the_page_that_has_the_form(
    owner: httpx2.Client, visitor: httpx2.Client, path: str
) -> None:
    target = reopened_path(fill(path))
    assert target in {fill(path) for path, methods in METHODS.items() if "GET" in methods}
    assert fill(path).startswith(target)
    for client in (owner, visitor):
        response = client.get(fill(path))
        assert (response.status_code, response.headers["location"]) == (303, target)


def test_the_result_of_a_form_says_the_address_of_its_page(owner: httpx2.Client, session: SignedIn) -> None:
    forms = {
        "/settings/keys": ({"name": "Olympus", "preset": "upload"}, "/settings"),
        "/settings/password": ({"current_password": "-", "new_password": "-"}, "/settings"),
        "/albums": ({"name": ""}, "/albums"),
    }
    for path, (fields, address) in forms.items():
        page = owner.post(path, data={"csrf_token": session.csrf, **fields}).text
        assert f'data-address="{address}"' in page, path
        assert "data-address" not in owner.get(address).text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("PUT", "/settings", 405), ("DELETE", "/images/1", 405), ("POST", "/", 405)],
)
def test_an_unknown_path_and_a_wrong_method_are_pages_of_the_session(
    owner: httpx2.Client, visitor: httpx2.Client, method: str, path: str, status: int
) -> None:
    page, of_visitor = (client.request(method, path) for client in (owner, visitor))
    assert page.status_code == of_visitor.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert '<span class="name">admin</span>' in page.text
    assert "admin" not in of_visitor.text
    assert page.headers["cache-control"] == "no-store"
    assert ("allow" in page.headers) is (status == 405)
    response = owner.request(method, path, headers={"Accept": "application/json"})
    assert response.json()["success"] is False


def test_an_unknown_path_with_an_ended_session_is_a_page_of_a_visitor(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    principal = host.authenticate(session.token)
    host.sessions.delete(principal.session_id, owner=principal.account)
    page = owner.get("/nothing")
    assert page.status_code == 404
    assert '<span class="name">' not in page.text
