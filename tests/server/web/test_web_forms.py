"""Every form of the pages: refused without the token of its session, and accepted with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from attrs import evolve, frozen
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, PASSWORD, SETTINGS, SignedIn
from tests.server.web.test_web_attacks import FORMS

from imagehost_core import ImageHost, Role
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
}
"""The fields of a form, beside its token, that have an effect, by its path."""


@pytest.fixture(scope="module")
def host() -> ImageHost:
    return ImageHost.open(
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


@pytest.fixture
def person(host: ImageHost, request: pytest.FixtureRequest) -> Person:
    name = f"person-{FORMS.index(request.getfixturevalue('form'))}"
    account = host.accounts.create(name, password_hash=hash_quickly(PASSWORD), role=Role.OPERATOR)
    webhook = host.webhooks.create(owner=account, url=HOOK).webhook
    album = host.albums.create(owner=account, name="album")
    ids = {
        "account_id": str(account.id),
        "album_id": str(album.id),
        "delivery_id": host.webhooks.test(webhook, owner=account).id,
        "image_id": host.upload(PNG, owner=account, filename="a.png").id,
        "key_id": host.keys.create(owner=account).key.id,
        "name": "sharex.sxcu",
        "share_id": host.albums.create_share(album, owner=account).id,
        "session_id": host.sessions.create(account).session.id,
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
    files: dict[str, Any] = {"files": {"files[]": ("b.png", PNG)}} if form == "/upload" else {}
    with httpx2.Client(base_url=origin, timeout=60, headers=person.session.headers) as browser:
        before = person.state()
        for wrong in (None, "", "x", person.session.csrf[:-1], other.csrf, person.session.token):
            token = {} if wrong is None else {"csrf_token": wrong}
            response = browser.post(person.path(form), data={"other": "", **FIELDS[form], **token}, **files)
            assert (response.status_code, person.state() == before) == (403, True), wrong
        right = {**FIELDS[form], "csrf_token": person.session.csrf}
        response = browser.post(person.path(form), data=right, **files)
        assert response.status_code in (200, 303), response.text
        assert (person.state() != before) or "sig=" in response.text


def test_the_cookie_of_another_session_does_not_fit_a_token(origin: str, host: ImageHost) -> None:
    one, other = SignedIn(host, "one"), SignedIn(host, "two")
    with httpx2.Client(base_url=origin, headers={**HTML, "Cookie": one.headers["Cookie"]}) as browser:
        assert browser.post("/albums", data={"name": "x", "csrf_token": other.csrf}).status_code == 403
        assert browser.post("/albums", data={"name": "x", "csrf_token": one.csrf}).status_code == 303
