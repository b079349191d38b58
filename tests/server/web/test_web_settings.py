"""Settings, webhooks and administration, without a script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx2
import pytest
from attrs import evolve
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import PASSWORD, SETTINGS, SignedIn

from imagehost_core import ImageHost
from imagehost_core.errors import ForbiddenError, NotFoundError, UnauthorizedError
from imagehost_core.models import Role, Scope
from imagehost_core.settings import WebhookSettings
from imagehost_core.storage import MASTER
from imagehost_core.testing import make_image
from imagehost_core.webhooks import Attempt
from imagehost_server.auth.passwords import verify_password
from imagehost_server.web.pages.admin import TIERS
from imagehost_server.web.pages.settings import PRESETS
from imagehost_server.web.user_agents import describe_user_agent

WEBHOOKS = "/settings/webhooks"


@pytest.fixture(scope="module")
def host() -> ImageHost:
    """A host of its own: its tests change accounts and passwords."""
    settings = evolve(SETTINGS, webhooks=WebhookSettings(allow_loopback=True, send_in_server=False))
    host = open_host(settings=settings)
    host.accounts.set_password_hash("admin", hash_quickly(PASSWORD))
    return host


@pytest.fixture(scope="module")
def origin(host: ImageHost) -> Iterator[str]:
    with serving(host, evolve(SETTINGS, webhooks=host.settings.webhooks)) as origin:
        yield origin


def post(browser: httpx2.Client, session: SignedIn, path: str, **fields: object) -> httpx2.Response:
    return browser.post(path, data={"csrf_token": session.csrf, **fields})


def shown_value(page: str, prefix: str) -> str:
    (value,) = re.findall(rf'value="({prefix}[^"]+)"', page)
    return str(value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_key_is_created_with_the_scopes_of_its_preset_and_shown_once(
    host: ImageHost, owner: httpx2.Client, session: SignedIn, preset: str
) -> None:
    response = post(owner, session, "/settings/keys", name=f"program <{preset}>", preset=preset)
    token = shown_value(response.text, "ihk_")
    assert response.headers["cache-control"] == "no-store"
    assert host.authenticate(token).scopes == PRESETS[preset]
    page = owner.get("/settings").text
    assert token not in page
    assert f"program &lt;{preset}&gt;" in page


def test_a_revoked_key_is_refused_at_once(host: ImageHost, owner: httpx2.Client, session: SignedIn) -> None:
    created = host.keys.create(owner="admin", name="old")
    assert post(owner, session, f"/settings/keys/{created.id}/revoke").status_code == 303
    with pytest.raises(UnauthorizedError):
        host.authenticate(created.token)
    assert post(owner, session, "/settings/keys/nothing/revoke").status_code == 404


def test_a_key_without_a_known_preset_is_refused(owner: httpx2.Client, session: SignedIn) -> None:
    assert post(owner, session, "/settings/keys", name="x", preset="operator").status_code == 422
    assert post(owner, session, "/settings/keys", name="x" * 101, preset="upload").status_code == 422


def test_the_file_of_a_program_has_a_fresh_key_that_can_only_upload(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    response = post(owner, session, "/settings/integrations/sharex.sxcu")
    assert "attachment" in response.headers["content-disposition"]
    assert response.headers["cache-control"] == "no-store"
    token = json.loads(response.text)["Headers"]["Authorization"].removeprefix("Bearer ")
    assert host.authenticate(token).scopes == {Scope.IMAGES_WRITE}
    assert post(owner, session, "/settings/integrations/nothing").status_code == 404
    assert owner.post("/settings/integrations/sharex.sxcu", data={"csrf_token": "x"}).status_code == 403


def test_the_password_is_changed_and_other_sessions_end(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    other, new = SignedIn(host), "another long password"
    for fields in (
        {"current_password": "wrong", "new_password": new},
        {"current_password": PASSWORD, "new_password": "short"},
        {"new_password": new},
    ):
        refused = post(owner, session, "/settings/password", **fields)
        assert refused.status_code == 422
        assert new not in refused.text
    assert host.authenticate(other.token).is_session
    changed = post(owner, session, "/settings/password", current_password=PASSWORD, new_password=new)
    assert "all other sessions were ended" in owner.get(changed.headers["location"]).text
    assert verify_password(host.accounts.password_hash("admin"), new)
    with pytest.raises(UnauthorizedError):
        host.authenticate(other.token)
    assert owner.get("/settings").status_code == 200
    host.accounts.set_password_hash("admin", hash_quickly(PASSWORD))


def test_another_session_is_ended(host: ImageHost, owner: httpx2.Client, session: SignedIn) -> None:
    other = SignedIn(host)
    other_id = host.authenticate(other.token).session_id
    assert post(owner, session, f"/settings/sessions/{other_id}/end").status_code == 303
    with pytest.raises(UnauthorizedError):
        host.authenticate(other.token)


def test_usage_and_limits_are_shown() -> None:
    settings = evolve(SETTINGS, limits=evolve(SETTINGS.limits, uploads_per_minute=7, quota_bytes=2_000_000))
    host = open_host(settings=settings)
    session = SignedIn(host)
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=session.headers) as client:
        page = client.get("/settings").text
    assert "0 / 7" in page
    assert "0 B / 2.0 MB" in page


def test_a_webhook_is_created_tested_rotated_changed_and_deleted(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    url = "http://127.0.0.1:9/hook"
    created = post(owner, session, WEBHOOKS, url=url, events=["image.uploaded", "image.deleted"])
    secret = shown_value(created.text, "whsec_")
    (webhook,) = host.webhooks.list(owner="admin")
    path = f"{WEBHOOKS}/{webhook.id}"
    assert set(webhook.events) == {"image.uploaded", "image.deleted"}
    assert secret not in owner.get(path).text
    assert post(owner, session, f"{path}/test").headers["location"] == f"{path}?done=event_sent"
    (delivery,) = host.webhooks.deliveries(webhook, owner="admin")
    assert "webhook.test" in owner.get(path).text
    assert post(owner, session, f"{path}/deliveries/{delivery.id}/retry").status_code == 303
    assert shown_value(post(owner, session, f"{path}/rotate-secret").text, "whsec_") != secret
    changed = post(
        owner, session, path, url=url, description="<i>", is_active="false", events="album.created"
    )
    assert changed.status_code == 303
    current = host.webhooks.get(webhook, owner="admin")
    assert (current.description, current.is_active, current.events) == ("<i>", False, ("album.created",))
    assert url in owner.get(WEBHOOKS).text
    for fields in ({"url": "ftp://example.com"}, {"url": url, "events": "nothing"}):
        assert post(owner, session, path, **fields).status_code == 422
        assert post(owner, session, WEBHOOKS, **fields).status_code == 422
    assert post(owner, session, f"{path}/delete").headers["location"] == f"{WEBHOOKS}?done=deleted"
    assert owner.get(path).status_code == 404


def test_webhooks_of_others_are_404s(host: ImageHost, owner: httpx2.Client, session: SignedIn) -> None:
    host.accounts.get_or_create("gina")
    created = host.webhooks.create(owner="gina", url="http://127.0.0.1:9/hook")
    other = host.webhooks.get(created, owner="gina")
    for action in ("", "/test", "/rotate-secret", "/delete", "/deliveries/x/retry"):
        assert (
            post(owner, session, f"{WEBHOOKS}/{other.id}{action}", url="http://127.0.0.1:9/").status_code
            == 404
        )
    assert host.webhooks.get(other, owner="gina") == other


def test_an_operator_creates_and_changes_accounts(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    created = post(owner, session, "/admin/accounts", name="erika")
    (password,) = re.findall(r'value="([0-9A-Za-z]{20})"', created.text)
    assert verify_password(host.accounts.password_hash("erika"), password)
    account = host.accounts.get("erika")
    path = f"/admin/accounts/{account.id}"
    changes = {"role": "user", "uploads_per_minute": "5", "api_per_minute": "", "quota_bytes": "0"}
    assert post(owner, session, path, **changes).headers["location"] == f"{path}?done=saved"
    changed = host.accounts.get("erika")
    limits = changed.limits
    assert (limits.uploads_per_minute, limits.api_per_minute, changed.quota_bytes) == (5, None, 0)
    token = host.sessions.create(account).token
    assert post(owner, session, path, suspended="true").status_code == 303
    with pytest.raises(UnauthorizedError):
        host.authenticate(token)
    assert "suspended" in owner.get("/admin").text
    assert post(owner, session, path, suspended="false").status_code == 303
    for fields in ({"uploads_per_minute": "x"}, {"uploads_per_minute": "-1"}, {"role": "king"}):
        assert post(owner, session, path, **fields).status_code == 422
    for name, status in (("erika", 409), ("<b>", 422), ("", 422)):
        assert post(owner, session, "/admin/accounts", name=name).status_code == status
    assert post(owner, session, "/admin/accounts", name="frieda", password="short").status_code == 422
    admin = host.accounts.get("admin")
    assert post(owner, session, f"/admin/accounts/{admin.id}", role="user").status_code == 409
    assert owner.get("/admin/accounts/999999").status_code == 404


def test_an_operator_resets_a_password_and_the_sessions_end(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    account = host.accounts.get_or_create("nora")
    host.accounts.set_password_hash(account, hash_quickly("the password before"))
    token = host.sessions.create(account).token
    path = f"/admin/accounts/{account.id}"
    page = post(owner, session, f"{path}/password").text
    (password,) = re.findall(r'value="([0-9A-Za-z]{20})"', page)
    assert verify_password(host.accounts.password_hash("nora"), password)
    with pytest.raises(UnauthorizedError):
        host.authenticate(token)
    assert password not in owner.get(path).text


def test_an_operator_deletes_an_account_with_its_data_by_typing_its_name(
    host: ImageHost, owner: httpx2.Client, session: SignedIn
) -> None:
    account = host.accounts.get_or_create("oskar")
    image = host.upload(make_image(40, 30), owner=account)
    path = f"/admin/accounts/{account.id}"
    assert "1 image" in owner.get(path).text
    for typed in ("", "OSKAR", "admin"):
        refused = post(owner, session, f"{path}/delete", confirm=typed)
        assert refused.status_code == 422
        assert "Type the name of the account exactly" in refused.text
    assert (
        post(owner, session, f"{path}/delete", confirm="oskar").headers["location"] == "/admin?done=deleted"
    )
    with pytest.raises(NotFoundError):
        host.images.get(image.id)
    assert owner.get(path).status_code == 404
    admin = host.accounts.get("admin")
    refused = post(owner, session, f"/admin/accounts/{admin.id}/delete", confirm="admin")
    assert (refused.status_code, host.accounts.get("admin")) == (409, admin)


def test_an_operator_lists_the_largest_accounts_first(host: ImageHost, owner: httpx2.Client) -> None:
    for name, side in (("small", 20), ("large", 900)):
        host.upload(make_image(side, side), owner=host.accounts.get_or_create(name))
    page = owner.get("/admin?sort=bytes").text
    assert page.index(">large</a>") < page.index(">small</a>")
    accounts = host.accounts.list_largest()
    stored = [host.accounts.usage(account).bytes for account in accounts]
    assert stored == sorted(stored, reverse=True)
    assert host.accounts.list_largest(1) == accounts[:1]


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            "Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox, Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.0 Safari/605.1.15",
            "Safari, macOS",
        ),
        (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 "
            "Mobile Safari/537.36",
            "Chrome, Android",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "CriOS/137.0 Mobile/15E148 Safari/604.1",
            "Chrome, iPhone",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0 Safari/537.36 "
            "Edg/137.0",
            "Edge, Windows",
        ),
        ("python-requests/2.32", "python-requests/2.32"),
        ("", "–"),
    ],
)
def test_a_session_is_named_by_its_browser_and_system(user_agent: str, name: str) -> None:
    assert describe_user_agent(user_agent) == name


def test_users_cannot_administer(host: ImageHost, origin: str) -> None:
    session = SignedIn(host, "hanna")
    assert host.accounts.get("hanna").role is Role.USER
    admin = host.accounts.get("admin")
    with httpx2.Client(base_url=origin, headers=session.headers) as client:
        assert 'href="/admin"' not in client.get("/").text
        for path in ("/admin", f"/admin/accounts/{admin.id}"):
            assert client.get(path).status_code == 403
        assert post(client, session, "/admin/accounts", name="ida").status_code == 403
        assert post(client, session, f"/admin/accounts/{admin.id}", suspended="true").status_code == 403
        for action, fields in (("password", {}), ("delete", {"confirm": "admin"})):
            assert post(client, session, f"/admin/accounts/{admin.id}/{action}", **fields).status_code == 403
    hanna = host.accounts.get("hanna")
    with pytest.raises(ForbiddenError):
        host.accounts.set_password_hash(admin, "a hash", operator=hanna)
    with pytest.raises(ForbiddenError):
        host.accounts.delete(admin, operator=hanna)
    assert host.accounts.get("admin") == admin


@pytest.mark.parametrize(
    "path",
    ["/settings", WEBHOOKS, f"{WEBHOOKS}/x", "/admin", "/admin/accounts/1", "/images", "/albums", "/upload"],
)
def test_pages_of_accounts_require_a_session(visitor: httpx2.Client, path: str) -> None:
    response = visitor.get(path)
    assert (response.status_code, response.headers["location"]) == (303, f"/login?next={path}")
    assert visitor.post(path, data={"name": "x"}).status_code in (303, 405)


def test_an_operator_sees_the_webhooks_that_failed_without_the_secrets_in_their_urls(
    host: ImageHost, owner: httpx2.Client
) -> None:
    assert "disabled after failed deliveries" not in owner.get("/admin").text
    host.accounts.get_or_create("frank")
    url = "http://127.0.0.1:9/hooks/SECRET?token=SECRET"
    failing = host.webhooks.create(owner="frank", url=url, events=[])
    host.webhooks.create(owner="frank", url=f"{url}&working=1", events=[])
    host.webhooks.test(failing, owner="frank")
    with host.webhooks.sender_slot():
        gone = Attempt(at=host.now(), status=410, duration_ms=1, response="")
        host.webhooks.report([(leased, gone) for leased in host.webhooks.lease(1)])
    page = owner.get("/admin").text
    assert "disabled after failed deliveries" in page
    assert page.count("http://127.0.0.1:9 ") == 1
    assert failing.id in page
    assert "410 Gone" in page
    assert "SECRET" not in page


def test_operators_see_the_latest_errors_by_request_id_and_no_path(
    host: ImageHost, owner: httpx2.Client
) -> None:
    assert "No request has failed" in owner.get("/admin").text
    image = host.upload(make_image(31, 21), owner="admin", filename="secret.png")
    next(host.path.rglob(f"{image.id}/{MASTER}*")).write_bytes(b"damaged")
    response = owner.get(f"/img/{image.id}.png?w=7")
    assert response.status_code == 500
    page = owner.get("/admin").text
    assert f"<code>{response.headers['x-request-id']}</code>" in page
    assert "500 " in page
    assert image.id not in page
    assert "secret" not in page


def test_operators_see_where_images_came_from(host: ImageHost, owner: httpx2.Client) -> None:
    def counts() -> dict[str, int]:
        rows = re.findall(r"<tr><td>([^<]+)</td><td>(\d+)</td><td><meter", owner.get("/admin").text)
        return {name: int(count) for name, count in rows}

    image = host.upload(make_image(40, 30), owner="admin")
    assert owner.get(f"/img/{image.id}.png?w=9").status_code == 200
    before = counts()
    for _ in range(3):
        assert owner.get(f"/img/{image.id}.png?w=9").status_code == 200
    after = counts()
    assert {name: after[name] - before[name] for name in after if after[name] > before[name]} == {"Memory": 3}
    assert len(after) == len(TIERS)
