"""Pages guard nothing alone: what a page refuses, the core refuses to a program that embeds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from attrs import evolve
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn

from imagehost_core import ForbiddenError, ImageHost, NotFoundError
from imagehost_core.ids import AccountId
from imagehost_core.testing import make_image
from imagehost_server.settings import WebSettings
from imagehost_server.web.router import HANDLERS

PRIVATE = ("album_id", "image_id", "token", "webhook_id", "account_id")
"""The parameters that name something of an account."""
PAGES = sorted(
    path
    for handler in HANDLERS
    if "GET" in handler.http_methods
    for path in handler.paths
    if any(f"{{{name}:" in path for name in PRIVATE)
)


class Secrets(NamedTuple):
    """What an account keeps to itself, by the names of the paths' parameters."""

    album_id: str
    image_id: str
    token: str
    webhook_id: str
    account_id: AccountId


@pytest.fixture(scope="module")
def secrets(host: ImageHost) -> Secrets:
    album = host.albums.create("Secret", owner="admin", is_public=False)
    image = host.upload(make_image(40, 30), owner="admin", album_id=album.id, is_public=False)
    share = host.albums.create_share(album, owner="admin", password_hash="a stored hash")
    webhook = host.webhooks.create(owner="admin", url="https://8.8.8.8/")
    return Secrets(str(album.id), image.id, share.token or "", webhook.id, host.accounts.get("admin").id)


def public_album(host: ImageHost, secrets: Secrets) -> object:
    return host.gallery(album_id=int(secrets.album_id))


def own_album(host: ImageHost, secrets: Secrets) -> object:
    return host.albums.get(int(secrets.album_id), owner="bob")


def share(host: ImageHost, secrets: Secrets) -> object:
    return host.albums.get_shared(secrets.token)


VERBS: dict[str, Callable[[ImageHost, Secrets], object]] = {
    "/a/{album_id:str}": public_album,
    "/a/{album_id:str}/feed.xml": public_album,
    "/a/{album_id:str}/images.zip": public_album,
    "/i/{image_id:str}": lambda host, secrets: host.images.get(secrets.image_id, public=True),
    "/i/{image_id:str}/delete": lambda host, secrets: host.images.get_deletable(secrets.image_id, {}),
    "/images/{image_id:str}": lambda host, secrets: host.images.get(secrets.image_id, owner="bob"),
    "/albums/{album_id:str}": own_album,
    "/albums/{album_id:str}/images.zip": own_album,
    "/s/{token:str}": share,
    "/s/{token:str}/{image_id:str}": share,
    "/s/{token:str}/images.zip": share,
    "/settings/webhooks/{webhook_id:str}": lambda host, secrets: host.webhooks.get(
        secrets.webhook_id, owner="bob"
    ),
    "/admin/accounts/{account_id:str}": lambda host, secrets: host.accounts.update(
        secrets.account_id, operator=host.accounts.get("bob"), quota_bytes=1
    ),
}
"""The verb of the core behind each page that shows something of an account."""


@pytest.mark.parametrize("path", PAGES)
def test_what_a_page_refuses_the_verb_behind_it_refuses_to_a_program(
    host: ImageHost, origin: str, secrets: Secrets, path: str
) -> None:
    stranger = SignedIn(host, "bob")
    url = path.replace(":str}", "}").format(**secrets._asdict())
    for headers in (HTML, stranger.headers):
        response = httpx2.get(f"{origin}{url}", headers=headers, follow_redirects=False)
        assert response.status_code in (303, 403, 404)
        assert response.status_code != 303 or response.headers["location"].startswith("/login")
        assert "Secret" not in response.text
    with pytest.raises((ForbiddenError, NotFoundError)):
        VERBS[path](host, secrets)


def test_every_page_of_something_of_an_account_has_its_verb() -> None:
    assert sorted(VERBS) == PAGES


def test_a_logo_and_every_other_asset_is_no_document_with_scripts(tmp_path: Path) -> None:
    logo = tmp_path / "logo.svg"
    logo.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', encoding="utf-8"
    )
    settings = evolve(SETTINGS, web=WebSettings(logo_file=str(logo)))
    with serving(open_host(settings=settings), settings) as origin:
        page = httpx2.get(origin, headers=HTML).text
        paths = {"/favicon.ico", *re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)}
        assert any(path.endswith("logo.svg") for path in paths)
        for path in paths:
            response = httpx2.get(f"{origin}{path}")
            policy = response.headers["content-security-policy"].split("; ")
            assert (response.status_code, "sandbox" in policy, "default-src 'none'" in policy) == (
                200,
                True,
                True,
            )
            assert response.headers["x-content-type-options"] == "nosniff"
