"""Every form of the pages: refused without the token of its session, and accepted with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import evolve, frozen
from tests.core.headers.test_headers_camera import photograph
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, PASSWORD, SETTINGS, SignedIn
from tests.server.web.test_web_attacks import FORMS, ORIGIN
from tests.waiting import PATIENCE

import imagehost_server
from imagehost_core import ImageHost, Role
from imagehost_core.headers.camera import CameraData
from imagehost_core.settings import WebhookSettings
from imagehost_core.testing import make_image

HOOK = "http://127.0.0.1:9/hook"
PNG = make_image(8, 8)
TABLES = (
    "accounts",
    "album_shares",
    "albums",
    "api_keys",
    "images",
    "sessions",
    "webhook_deliveries",
    "webhooks",
)
FIELDS: dict[str, dict[str, str]] = {
    "/logout": {},
    "/upload": {},
    "/images/{image_id:str}": {"description": "changed"},
    "/images/{image_id:str}/delete": {},
    "/images/{image_id:str}/sign": {"expires_in": "60"},
    "/albums": {"name": "new"},
    "/albums/{album_id:str}": {"name": "changed"},
    "/albums/{album_id:str}/delete": {},
    "/albums/{album_id:str}/shares": {"expires_in": "3600"},
    "/albums/{album_id:str}/shares/{share_id:str}/delete": {},
    "/selection.zip": {"image_ids": ""},
    "/settings/password": {"current_password": PASSWORD, "new_password": "another password"},
    "/settings/signing-secret": {},
    "/settings/sessions/{session_id:str}/end": {},
    "/settings/keys": {"name": "new", "preset": "all"},
    "/settings/keys/{key_id:str}/revoke": {},
    "/settings/integrations/{name:str}": {},
    "/settings/webhooks": {"url": HOOK},
    "/settings/webhooks/{webhook_id:str}": {"description": "changed"},
    "/settings/webhooks/{webhook_id:str}/test": {},
    "/settings/webhooks/{webhook_id:str}/rotate-secret": {},
    "/settings/webhooks/{webhook_id:str}/delete": {},
    "/settings/webhooks/{webhook_id:str}/deliveries/{delivery_id:str}/retry": {},
    "/admin/accounts": {"name": "new"},
    "/admin/accounts/{account_id:str}": {"quota_bytes": "7"},
    "/admin/accounts/{account_id:str}/delete": {"confirm": "{account}"},
    "/admin/accounts/{account_id:str}/password": {},
}
"""The fields of a form, beside its token, that have an effect, by its path; `{account}` is the account."""


@pytest.fixture(scope="module")
def host() -> ImageHost:
    return open_host(
        settings=evolve(SETTINGS, webhooks=WebhookSettings(allow_loopback=True, send_in_server=False))
    )


@pytest.fixture(scope="module")
def origin(host: ImageHost) -> Iterator[str]:
    with serving(host, evolve(SETTINGS, webhooks=host.settings.webhooks)) as origin:
        yield origin


@frozen
class Person:
    """An operator with a session, and the paths of forms about a resource of each kind."""

    host: ImageHost
    session: SignedIn
    ids: dict[str, str]

    def path(self, form: str) -> str:
        for name, value in self.ids.items():
            form = form.replace(f"{{{name}:str}}", value)
        return form

    def state(self) -> object:
        """Return everything that is stored, without the times of uses."""
        rows = {
            table: self.host._context.records.database.fetch_all(f"SELECT * FROM {table}", {})
            for table in TABLES
        }
        return {
            table: sorted(repr({**row, "last_used_at": None}) for row in found)
            for table, found in rows.items()
        }


PEOPLE = count()


@pytest.fixture
def person(host: ImageHost) -> Person:
    name = f"person-{next(PEOPLE)}"
    account = host.accounts.create(name, password_hash=hash_quickly(PASSWORD), role=Role.OPERATOR)
    webhook = host.webhooks.create(owner=account, url=HOOK)
    album = host.albums.create(owner=account, name="album")
    ids = {
        "account_id": str(account.id),
        "album_id": str(album.id),
        "delivery_id": host.webhooks.test(webhook, owner=account).id,
        "image_id": host.upload(PNG, owner=account, filename="a.png").id,
        "key_id": host.keys.create(owner=account).id,
        "name": "sharex.sxcu",
        "share_id": host.albums.create_share(album, owner=account).id,
        "session_id": host.sessions.create(account).id,
        "webhook_id": webhook.id,
    }
    return Person(host, SignedIn(host, name), ids)


def test_every_form_that_requires_a_session_is_in_the_table() -> None:
    assert sorted(FIELDS) == FORMS


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_its_effect_with_the_token_of_its_session_only(
    origin: str, person: Person, form: str
) -> None:
    other = SignedIn(person.host, "other")
    fields = {name: value.format(account=person.session.name) for name, value in FIELDS[form].items()}
    files: dict[str, Any] = {"files": {"files[]": ("b.png", PNG)}} if form == "/upload" else {}
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=person.session.headers) as browser:
        before = person.state()
        for wrong in (None, "", "x", person.session.csrf[:-1], other.csrf, person.session.token):
            token = {} if wrong is None else {"csrf_token": wrong}
            response = browser.post(person.path(form), data={"other": "", **fields, **token}, **files)
            assert (response.status_code, person.state() == before) == (403, True), wrong
        right = {**fields, "csrf_token": person.session.csrf}
        response = browser.post(person.path(form), data=right, **files)
        assert response.status_code in (200, 303), response.text
        is_archive = response.headers["content-type"] == "application/zip"
        assert is_archive or person.state() != before or "sig=" in response.text


CHOICES = (
    ("/upload", "is_public"),
    ("/upload", "remove_exif"),
    ("/upload", "format"),
    ("/upload", "auto_rename"),
    ("/upload", "album_id"),
    ("/images/{image_id:str}", "is_public"),
    ("/images/{image_id:str}", "album_id"),
    ("/images/{image_id:str}/sign", "expires_in"),
    ("/albums", "is_public"),
    ("/albums/{album_id:str}", "is_public"),
    ("/albums/{album_id:str}", "images_public"),
    ("/albums/{album_id:str}/delete", "images"),
    ("/albums/{album_id:str}/shares", "expires_in"),
    ("/settings/keys", "preset"),
    ("/settings/webhooks", "events"),
    ("/settings/webhooks/{webhook_id:str}", "events"),
    ("/settings/webhooks/{webhook_id:str}", "is_active"),
    ("/admin/accounts/{account_id:str}", "role"),
    ("/admin/accounts/{account_id:str}", "suspended"),
)
"""The fields of forms whose values are chosen from those that the page offers."""
CHOICE = re.compile(r'<select[^>]* name="(\w+)"|type="(?:radio|checkbox)" name="(\w+)"')
QUERIES = {"sort", "fit", "fm"}
"""Choices of forms that are sent as the query of a URL."""


def test_every_choice_of_the_templates_is_in_the_table() -> None:
    templates = Path(imagehost_server.__file__).parent.glob("web/templates/*.html")
    names = {first or second for each in templates for first, second in CHOICE.findall(each.read_text())}
    assert names - QUERIES == {field for _, field in CHOICES} - {"suspended"}


@pytest.mark.parametrize(("form", "field"), CHOICES)
def test_a_choice_that_the_page_does_not_offer_is_refused_and_stands_for_no_other(
    origin: str, person: Person, form: str, field: str
) -> None:
    files: dict[str, Any] = {"files": {"files[]": ("b.png", PNG)}} if form == "/upload" else {}
    fields = {**FIELDS[form], field: "another", "csrf_token": person.session.csrf}
    before = person.state()
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=person.session.headers) as browser:
        response = browser.post(person.path(form), data=fields, **files)
    assert response.status_code in (404, 422)
    assert person.state() == before


def test_the_cookie_of_another_session_does_not_fit_a_token(origin: str, host: ImageHost) -> None:
    one, other = SignedIn(host, "one"), SignedIn(host, "two")
    with httpx2.Client(base_url=origin, headers={**HTML, "Cookie": one.headers["Cookie"]}) as browser:
        assert browser.post("/albums", data={"name": "x", "csrf_token": other.csrf}).status_code == 403
        assert browser.post("/albums", data={"name": "x", "csrf_token": one.csrf}).status_code == 303


SHARED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
"""The headers of what a phone shares to the app, beside `Origin: null`."""
WAYS = ("files[]", "files", "image", "image_url", "empty", "shared", "shared with an origin")
"""The ways in which a form can store an image."""


@pytest.mark.parametrize("form", FORMS)
def test_no_form_stores_metadata_unless_it_says_so(origin: str, person: Person, form: str) -> None:
    account = person.host.accounts.get(person.session.name)
    original = person.host.upload(photograph(), owner=account, convert_to_webp=False)
    assert person.host.camera_data(original).has_place
    known = {image.id for image in person.host.images.iter(owner=account)}
    stored: list[tuple[str, bool]] = []
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=person.session.headers) as browser:
        for way in (*WAYS, "keep"):
            fields = {**FIELDS[form], "csrf_token": person.session.csrf}
            files, headers = {"files[]": ("photo.jpg", photograph())}, {}
            match way:
                case "files" | "image":
                    files = {way: ("photo.jpg", photograph())}
                case "image_url":
                    files, fields = {}, {**fields, way: f"{origin}/img/{original.id}", "x": ""}
                case "empty":
                    fields["remove_exif"] = ""
                case "shared":
                    fields, headers = {}, {**SHARED, "Origin": "null"}
                case "shared with an origin":
                    fields, headers = {}, SHARED
                case "keep":
                    fields["remove_exif"] = "false"
            parts = [(name, (None, value)) for name, value in fields.items()]
            browser.post(person.path(form), files=[*parts, *files.items()], headers=headers)
            for image in person.host.images.iter(owner=account):
                if image.id not in known:
                    known.add(image.id)
                    stored.append((way, person.host.camera_data(image) != CameraData()))
    expected = [*((way, False) for way in WAYS), ("keep", True)] if form in STORING_FORMS else []
    assert stored == expected


STORING_FORMS = {"/upload"}
"""The forms that store images: `test_no_form_stores_metadata_unless_it_says_so` walks all for others."""


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Mode": "navigate"},
        {**SHARED, "Origin": ORIGIN},
        {**SHARED, "Origin": "https://example.com"},
        *({**SHARED, "Sec-Fetch-Site": site} for site in ("same-origin", "same-site", "cross-site")),
        *({**SHARED, "Sec-Fetch-Site": site, "Origin": "null"} for site in ("same-site", "cross-site")),
        {"Origin": "null"},
    ],
)
def test_files_are_shared_without_a_token_only_as_a_user_does_it(
    owner: httpx2.Client, headers: dict[str, str]
) -> None:
    files = {"files[]": ("shared.png", PNG)}
    assert owner.post("/upload", files=files, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "field", ["is_public", "album_id", "remove_exif", "image_url", "title", "csrf_token"]
)
def test_what_is_shared_without_a_token_has_files_alone(owner: httpx2.Client, field: str) -> None:
    files: dict[str, Any] = {"files[]": ("shared.png", PNG), field: (None, "1")}
    assert owner.post("/upload", files=files, headers={**SHARED, "Origin": "null"}).status_code == 403


def test_what_is_shared_without_a_session_leads_to_the_page_for_signing_in(visitor: httpx2.Client) -> None:
    files = {"files[]": ("shared.png", PNG)}
    response = visitor.post("/upload", files=files, headers={**SHARED, "Origin": "null"})
    assert (response.status_code, response.headers["location"]) == (303, "/login?next=/upload")


def test_the_url_that_could_not_be_fetched_stays_in_the_form(owner: httpx2.Client, session: SignedIn) -> None:
    url = "http://127.0.0.1:1/?a=1&b=2"
    fields = {"csrf_token": (None, session.csrf), "image_url": (None, url)}
    page = owner.post("/upload", files=fields)
    assert page.status_code == 422
    assert f'name="image_url" type="url" value="{escape(url)}"' in page.text


def test_the_path_of_a_page_ends_with_the_page(host: ImageHost, owner: httpx2.Client) -> None:
    album = host.albums.create(owner="admin", name="Rivers & lakes")
    for path, last in (
        (f"/albums/{album.id}", "Rivers &amp; lakes"),
        (f"/a/{album.id}", "Rivers &amp; lakes"),
        ("/admin/accounts/1", "admin"),
        ("/settings/webhooks", "Webhooks"),
    ):
        assert f'<span aria-current="page" dir="auto">{last}</span></nav>' in owner.get(path).text
