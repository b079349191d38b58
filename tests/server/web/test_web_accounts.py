"""Signing in and uploading without a script."""

from __future__ import annotations

import re

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.web.conftest import PASSWORD, SETTINGS, SignedIn

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.web.redirects import safe_path

ORIGIN = SETTINGS.base_url.removesuffix("/v1")


def test_signing_in_leads_back_to_the_page_that_required_it(visitor: httpx2.Client) -> None:
    redirect = visitor.get("/upload")
    assert (redirect.status_code, redirect.headers["location"]) == (303, "/login?next=/upload")
    assert 'value="/upload"' in visitor.get(redirect.headers["location"]).text
    form = {"name": "admin", "password": PASSWORD, "next": "/upload"}
    response = visitor.post("/login", data=form)
    assert (response.status_code, response.headers["location"]) == (303, "/upload")
    cookies = response.headers.get_list("set-cookie")
    (session,) = [cookie for cookie in cookies if cookie.startswith(SESSION_COOKIE)]
    for attribute in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert attribute.lower() in session.lower()


@pytest.mark.parametrize(
    "form",
    [
        {"name": "admin", "password": "wrong"},
        {"name": "nobody", "password": PASSWORD},
        {"name": "<b>", "password": PASSWORD},
        {"name": "admin", "password": "x" * 2000},
        {"name": "", "password": ""},
    ],
)
def test_a_failed_sign_in_says_the_same_whatever_was_wrong(
    visitor: httpx2.Client, form: dict[str, str]
) -> None:
    response = visitor.post("/login", data=form)
    assert response.status_code == 401
    assert "The user name or password is incorrect." in response.text
    assert "set-cookie" not in response.headers
    assert not form["password"] or form["password"] not in response.text


def test_signing_out_ends_the_session_at_once(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    assert owner.get("/upload").status_code == 200
    assert owner.post("/logout", data={"csrf_token": "x"}).status_code == 403
    assert owner.post("/logout", data={"csrf_token": session.csrf}).status_code == 303
    assert owner.get("/upload").status_code == 303
    with pytest.raises(Exception, match="token"):
        host.authenticate(session.token)


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://example.com"}],
)
def test_a_form_that_another_site_sends_is_rejected(visitor: httpx2.Client, headers: dict[str, str]) -> None:
    form = {"name": "admin", "password": PASSWORD}
    response = visitor.post("/login", data=form, headers=headers)
    assert response.status_code == 403
    assert "set-cookie" not in response.headers
    own = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}
    assert visitor.post("/login", data=form, headers=own).status_code == 303


@given(st.text(max_size=40))
def test_the_path_after_signing_in_is_one_of_this_site(path: str) -> None:
    joined = httpx2.URL(f"{ORIGIN}/login").join(safe_path(path))
    assert joined.host == httpx2.URL(ORIGIN).host
    assert safe_path(path) in (path, "/")


@pytest.mark.parametrize(
    "path", ["//example.com", "/\\example.com", "https://example.com", "/\t/example.com", ""]
)
def test_other_sites_are_no_targets_of_a_sign_in(path: str) -> None:
    assert safe_path(path) == "/"


def test_files_are_uploaded_without_a_script_each_with_its_own_result(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    files = [
        ("files[]", ("one.png", make_image(40, 30), "image/png")),
        ("files[]", ("two.pdf", b"%PDF-1.4", "application/pdf")),
        ("files[]", ("three.png", make_image(50, 30), "image/png")),
    ]
    fields = {"csrf_token": session.csrf, "is_public": "false", "format": "original", "remove_exif": "true"}
    response = owner.post("/upload", data=fields, files=files)
    assert response.status_code == 200
    assert "<strong>two.pdf</strong>: Not an image in a supported format." in response.text
    urls = re.findall(rf'value="({ORIGIN}/img/[^"]+)"', response.text)
    assert [url.rpartition(".")[2] for url in urls] == ["png", "png"]
    stored = [host.images.get(re.search(r"/img/(\w+)", url)[1]) for url in urls]  # type: ignore[index]
    assert [(image.width, image.is_public) for image in stored] == [(40, False), (50, False)]


def test_an_upload_without_the_token_of_the_session_stores_nothing(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    before = host.accounts.usage("admin").images
    files = [("files[]", ("one.png", make_image(40, 30), "image/png"))]
    for token in ("", "x", session.csrf[:-1]):
        assert owner.post("/upload", data={"csrf_token": token}, files=files).status_code == 403
    assert host.accounts.usage("admin").images == before


def test_a_form_without_a_file_is_explained(owner: httpx2.Client, session: SignedIn) -> None:
    files = [("files[]", ("", b"", "application/octet-stream"))]
    response = owner.post("/upload", data={"csrf_token": session.csrf}, files=files)
    assert response.status_code == 400
    assert 'role="alert"' in response.text


def test_the_key_of_a_program_is_no_session(host: ImageHost, visitor: httpx2.Client) -> None:
    token = host.keys.create(owner="admin", name="program").token
    response = visitor.get("/upload", headers={"Cookie": f"{SESSION_COOKIE}={token}"})
    assert response.status_code == 303


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("text/plain", b"name=admin", 415),
        ("application/x-www-form-urlencoded", b"name=%ff", 400),
        ("application/x-www-form-urlencoded", b"\xff", 400),
        ("application/x-www-form-urlencoded", b"&".join(b"a=1" for _ in range(300)), 400),
        ("application/x-www-form-urlencoded", b"a" * 70_000, 413),
    ],
)
def test_malformed_forms_get_the_error_of_their_kind(
    visitor: httpx2.Client, content_type: str, body: bytes, status: int
) -> None:
    response = visitor.post("/login", content=body, headers={"Content-Type": content_type})
    assert response.status_code == status
    assert response.headers["content-type"].startswith("text/html")
