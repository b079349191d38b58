"""A site below a path of its origin, behind proxies that remove the path, or leave it in requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from attrs import evolve
from tests.server.below_a_path import ROOT, use
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import PASSWORD, SETTINGS
from tests.waiting import PATIENCE

import imagehost_server.web
from imagehost_client import Client
from imagehost_core import ImageHost
from imagehost_core.settings.model import OWN_PATHS
from imagehost_core.testing import make_image
from imagehost_server.app import DELIVERY_PREFIXES
from imagehost_server.auth.cookies import SESSION_COOKIE, cookie_name
from imagehost_server.openapi.docs_page import docs_asset
from imagehost_server.routes import ROUTES
from imagehost_server.settings import ServerSettings
from imagehost_server.web.router import HANDLERS

SITE = "https://a.example"


class PathProxy(httpx2.BaseTransport):
    """A reverse proxy with a site of its own, where `/photos` is that of a server."""

    def __init__(self, upstream: str, *, strips: bool) -> None:
        self.upstream, self.strips, self.transport = httpx2.URL(upstream), strips, httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path
        if not path.startswith(f"{ROOT}/".encode()):
            return httpx2.Response(404, text="the other site")
        path = path.removeprefix(ROOT.encode()) if self.strips else path
        url = self.upstream.copy_with(raw_path=path)
        forwarded = httpx2.Request(request.method, url, headers=request.headers, stream=request.stream)
        return self.transport.handle_request(forwarded)

    def close(self) -> None:
        self.transport.close()


@pytest.fixture(scope="module")
def settings() -> ServerSettings:
    return evolve(SETTINGS, base_url=f"{SITE}{ROOT}/v1")


@pytest.fixture(scope="module")
def upstream(settings: ServerSettings) -> Iterator[str]:
    host = ImageHost.open(":memory:", settings=settings)
    host.accounts.set_password_hash("admin", hash_quickly(PASSWORD))
    with serving(host, settings) as origin:
        yield origin


@pytest.mark.parametrize("strips", [True, False])
def test_every_link_form_asset_and_record_leads_below_the_path(upstream: str, strips: bool) -> None:
    proxy = PathProxy(upstream, strips=strips)
    with httpx2.Client(base_url=SITE, transport=proxy, timeout=PATIENCE) as client:
        walk = use(client, PASSWORD)
        assert client.get(f"{ROOT}x/").text == "the other site"
    assert (len(walk.seen), len(walk.forms)) > (9, 9)


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/v1/gallery", "/v1//gallery/", "/api/v1/gallery", "/"]
)
def test_each_path_is_served_with_the_root_path_and_without_it(upstream: str, path: str) -> None:
    headers = {"Origin": "https://app.example"}
    bare, below = (httpx2.get(f"{upstream}{prefix}{path}", headers=headers) for prefix in ("", ROOT))
    assert (bare.status_code, below.status_code) == (200, 200)
    assert path == "/metrics" or bare.content == below.content
    assert bare.headers.keys() == below.headers.keys()
    assert httpx2.get(f"{upstream}{ROOT}x{path}").status_code == 404


def test_the_client_works_below_a_path(upstream: str) -> None:
    credentials = {"username": "admin", "password": PASSWORD}
    session = httpx2.post(f"{upstream}{ROOT}/v1/session", json=credentials).json()["data"]
    with Client(f"{upstream}{ROOT}/v1", session["token"]) as client:
        image = client.upload(make_image(), filename="a.png")
        assert image.url.startswith(f"{SITE}{ROOT}/img/")
        assert client.image_url(image.id, w=5) == f"{upstream}{ROOT}/img/{image.id}?w=5"
        assert client.images.get(image.url).id == image.id
        assert httpx2.get(client.image_url(image.id, w=5)).status_code == 200


def test_the_paths_that_no_root_path_may_begin_with_are_those_of_the_server() -> None:
    paths = {path for handler in (*ROUTES, *HANDLERS, docs_asset) for path in handler.paths}
    first = {path.split("/")[1] for path in (*paths, *DELIVERY_PREFIXES)} - {""}
    assert first | {"api"} == OWN_PATHS


def test_no_template_names_a_path_without_the_root_path() -> None:
    templates = [*(Path(imagehost_server.web.__file__).parent / "templates").iterdir()]
    assert templates
    for template in templates:
        assert not re.findall(r'(?:href|src|action)="/', template.read_text("utf-8")), template.name


@pytest.mark.parametrize("cdn_url", [f"{SITE}{ROOT}", "https://cdn.example", "https://cdn.example/x", None])
def test_images_are_below_the_path_of_the_cdn_url(settings: ServerSettings, cdn_url: str | None) -> None:
    own = evolve(settings, cdn_url=cdn_url)
    host = ImageHost.open(":memory:", settings=own)
    url = httpx2.URL(host.urls.image(host.upload(make_image(), owner="admin")))
    with serving(host, own) as origin:
        for path in {url.path, url.path.removeprefix(ROOT)}:
            assert httpx2.get(f"{origin}{path}").headers["content-type"].startswith("image/"), path


@pytest.mark.parametrize(
    ("cdn_url", "signed"), [(None, False), (f"{SITE}{ROOT}/pics", False), (f"{SITE}/pics", True)]
)
def test_private_images_have_signed_urls_where_the_cookie_is_not_sent(
    settings: ServerSettings, cdn_url: str | None, signed: bool
) -> None:
    own = evolve(settings, cdn_url=cdn_url)
    host = ImageHost.open(":memory:", settings=own)
    host.upload(make_image(), owner="admin", is_public=False)
    cookie = cookie_name(SESSION_COOKIE, ROOT)
    headers = {"Cookie": f"{cookie}={host.sessions.create(host.accounts.get('admin')).token}"}
    with serving(host, own) as origin:
        page = httpx2.get(f"{origin}{ROOT}/images", headers=headers)
    assert page.status_code == 200
    assert ("sig=" in page.text) == signed
