"""Reverse proxies with the shipped configurations: none serves what its host does not serve any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from attrs import frozen
from tests.outside.reverse_proxies import (
    HOUR,
    MOVED,
    PASSWORD,
    PROXIES,
    WITHOUT_HOTLINKS,
    Place,
    ProxiedServer,
    Proxy,
    behind,
    nginx_cache,
)
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.http.client_address import WINDOW_REQUESTS

QUERIES = ("", "?w=64", "?w=32&fm=png", "?w=48&fm=auto")
ACCEPTS = ("*/*", "image/webp,*/*", "image/avif,image/webp,*/*;q=0.8")


@pytest.fixture(scope="module", params=PROXIES)
def proxied(
    request: pytest.FixtureRequest,
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ProxiedServer]:
    """A server behind a reverse proxy, as documented."""
    with behind(request.param, certificate, tmp_path_factory.mktemp("proxied")) as proxied:
        yield proxied


def upload(proxied: ProxiedServer, token: str | None = None, **form: str) -> str:
    """Upload an image to the server and return its id."""
    files = {"image": ("secret-name.png", make_image(128, 96))}
    return str(proxied.api("POST", "/upload", token, files=files, data=form)["id"])


def responses(proxied: ProxiedServer, image_id: str) -> list[httpx2.Response]:
    """Return the responses of the proxy to all kinds of requests for an image."""
    validators = {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}, {"If-None-Match": "*"}
    kinds = *({"Accept": accept} for accept in ACCEPTS), {"Range": "bytes=0-9"}, *validators
    return [proxied.get(f"/img/{image_id}{query}", headers) for query in QUERIES for headers in kinds]


def serves(proxied: ProxiedServer, image_id: str) -> bool:
    """Return whether any of the responses is the image."""
    return {response.status_code for response in responses(proxied, image_id)} != {404}


def serves_name(proxied: ProxiedServer, image_id: str) -> bool:
    """Return whether any of the responses has the name that the image had at first."""
    return any(
        "secret-name" in response.headers.get("content-disposition", "")
        for response in responses(proxied, image_id)
    )


def is_hit(response: httpx2.Response) -> bool:
    """Return whether a proxy has stored a response: Varnish then names two transactions."""
    varnish = response.headers.get("x-varnish", "").split()
    return response.headers.get("x-cache-status") == "HIT" or len(varnish) == 2


def delete(proxied: ProxiedServer, owner: Owner) -> None:
    proxied.api("DELETE", f"/images/{owner.image_id}", owner.token)


def make_private(proxied: ProxiedServer, owner: Owner) -> None:
    proxied.api("PATCH", f"/images/{owner.image_id}", owner.token, json={"is_public": False})


def suspend(proxied: ProxiedServer, owner: Owner) -> None:
    operator = proxied.sign_in("admin")
    proxied.api("PATCH", f"/accounts/{owner.account_id}", operator, json={"suspended": True})


def rename(proxied: ProxiedServer, owner: Owner) -> None:
    proxied.api("PATCH", f"/images/{owner.image_id}", owner.token, json={"filename": "another"})


@frozen
class Owner:
    """An account with an image."""

    account_id: str
    token: str
    image_id: str


def create_owner(proxied: ProxiedServer, name: str) -> Owner:
    """Create an account that has uploaded an image."""
    body = {"username": name, "password": PASSWORD}
    account = proxied.api("POST", "/accounts", proxied.sign_in("admin"), json=body)
    token = proxied.sign_in(name)
    return Owner(str(account["id"]), token, upload(proxied, token))


@pytest.mark.parametrize("change", [delete, make_private, suspend, rename])
def test_what_an_owner_or_operator_hides_is_never_served_again(
    proxied: ProxiedServer, change: Callable[[ProxiedServer, Owner], None]
) -> None:
    owner = create_owner(proxied, change.__name__)
    other_id = upload(proxied)
    for image_id in (owner.image_id, other_id):
        for _ in range(2):
            statuses = {response.status_code for response in responses(proxied, image_id)}
            assert statuses == {200, 206, 304}
        assert serves_name(proxied, image_id)
        for query in QUERIES:
            assert is_hit(proxied.get(f"/img/{image_id}{query}")) == proxied.proxy.stores
    change(proxied, owner)
    is_served = serves_name if change is rename else serves
    deadline = time.monotonic() + PATIENCE
    while proxied.proxy.stores and is_served(proxied, owner.image_id):
        assert time.monotonic() < deadline, proxied.server.log.read_text(encoding="utf-8")
        time.sleep(0.05)
    for _ in range(3):
        assert not is_served(proxied, owner.image_id)
    assert serves_name(proxied, other_id)
    assert is_hit(proxied.get(f"/img/{other_id}")) == proxied.proxy.stores


COMPARED = (
    "accept-ranges",
    "cache-control",
    "cache-tag",
    "content-disposition",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "vary",
)


def conditional_requests(etag: str, last_modified: str) -> Iterator[dict[str, str]]:
    """Yield the headers of conditional requests and of requests for ranges."""
    yield {}
    for value in (etag, f"W/{etag}", '"x"', f'"x", {etag}', "*"):
        yield {"If-None-Match": value}
        yield {"If-Match": value}
    for value in (last_modified, "Fri, 01 Jan 2100 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", "x"):
        yield {"If-Modified-Since": value}
        yield {"If-Unmodified-Since": value}
        yield {"If-Modified-Since": value, "If-None-Match": '"x"'}
    for value in ("0-9", "5-", "-5", "0-1,4-5", "5-2", "9999999-", "9" * 5_000 + "-", "x"):
        yield {"Range": f"bytes={value}"}
        yield {"Range": f"bytes={value}", "If-Range": etag}
        yield {"Range": f"bytes={value}", "If-Range": '"x"'}


def compared(response: httpx2.Response) -> dict[str, object]:
    """Return what a proxy must not change in a response."""
    headers = {name: response.headers.get_list(name) for name in COMPARED if name in response.headers}
    if response.status_code >= 400:
        # The body of an error has the id of its request.
        headers.pop("content-length", None)
        return {"status": response.status_code, **headers}
    return {"status": response.status_code, "content": response.content, **headers}


@pytest.mark.parametrize("query", ["", "?w=64"])
def test_conditional_requests_and_ranges_get_the_response_of_the_host(
    proxied: ProxiedServer, query: str
) -> None:
    path = f"/img/{upload(proxied)}{query}"
    for _ in range(2):
        validators = proxied.get(path).headers
    different: dict[str, object] = {}
    for headers in conditional_requests(validators["etag"], validators["last-modified"]):
        expected = compared(proxied.get_directly(path, headers))
        received = compared(proxied.get(path, headers))
        if received != expected:
            unequal = {name for name in received | expected if received.get(name) != expected.get(name)}
            different[str(headers)] = [
                {name: each.get(name) for name in sorted(unequal)} for each in (received, expected)
            ]
    assert different == {}


def test_a_private_image_is_never_stored(proxied: ProxiedServer) -> None:
    path = f"/img/{upload(proxied, is_public='false')}?w=50"
    for _ in range(2):
        with proxied.authorized() as client:
            response = client.get(f"{proxied.proxy.root_path}{path}")
        assert (response.status_code, response.headers["cache-control"]) == (200, "private, no-store")
        assert not is_hit(response)
        assert proxied.get(path).status_code == 404


SPELLINGS = (
    ("*/*", "", "image/png,image/*;q=0.8,*/*;q=0.5", "image/avif;q=0,image/webp;q=0.0,*/*"),
    ("image/webp,*/*", "image/webp,image/apng,image/*,*/*;q=0.8", "text/html, IMAGE/WEBP, */*"),
    ("image/avif,*/*", "image/jxl,image/avif,image/png,*/*;q=0.5"),
    (
        "image/webp,image/avif,*/*",
        "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
        "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
        "image/jxl,image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    ),
)
"""Values of `Accept`, by the formats that clients take: those of a row get the same response."""


@pytest.mark.parametrize("query", ["?w=40&fm=auto", ".auto?w=41", "?w=42&f%6d=auto", "?w=43"])
def test_one_copy_is_stored_for_all_spellings_of_accept_that_get_the_same_response(
    proxied: ProxiedServer, query: str
) -> None:
    path = f"/img/{upload(proxied)}{query}"
    # nginx knows no other spelling of the parameter, and requests what all clients take.
    varies = "auto" in query and ("%" not in query or proxied.proxy.command is not nginx_cache)
    stored: set[str] = set()
    for spellings in SPELLINGS:
        for number, accept in enumerate(spellings):
            response = proxied.get(path, {"Accept": accept})
            is_stored = number > 0 if varies else bool(stored)
            assert is_hit(response) == (proxied.proxy.stores and is_stored)
            expected = proxied.get_directly(path, {"Accept": accept if varies else "*/*"})
            assert compared(response) == compared(expected)
            stored.add(response.headers["etag"])


def test_nginx_stores_nothing_unless_the_server_lets_it(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    age = {"IMAGEHOST_DELIVERY_SHARED_MAX_AGE_SECONDS": "0"}
    with behind("nginx that stores images", certificate, tmp_path, age) as proxied:
        image_id = upload(proxied)
        for _ in range(2):
            assert {response.status_code for response in responses(proxied, image_id)} == {200, 206, 304}
        for folder in ("images", "states"):
            assert [path for path in (tmp_path / folder).rglob("*") if path.is_file()] == []


def test_without_a_purge_a_shared_max_age_keeps_deleted_images(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    with behind("nginx that stores images", certificate, tmp_path, {"IMAGEHOST_PURGE_URL": ""}) as proxied:
        path = f"/img/{upload(proxied)}"
        assert proxied.get(path).status_code == 200
        proxied.api("DELETE", path.replace("img", "images"))
        assert proxied.get(path).status_code == 200
        log = proxied.server.log.read_text(encoding="utf-8")
        assert "shared caches will serve deleted and private images until s-maxage ends" in log


@pytest.mark.parametrize("name", WITHOUT_HOTLINKS)
def test_the_recipes_against_hotlinks_send_images_to_the_named_sites_alone(
    name: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    with behind(name, certificate, tmp_path) as proxied:
        path = f"/img/{upload(proxied)}?w=40"
        assert proxied.get(path).status_code == 200
        for site in ("images.example.com", "www.example.com", "blog.example.org", "example.org"):
            for referer in (f"https://{site}/page?x=1", f"https://{site}"):
                if (name, site) != ("nginx without hotlinks", "example.org"):  # `*.` is not the name itself.
                    assert proxied.get(path, {"Referer": referer}).status_code == 200, referer
        for site in ("evil.example", "www.example.com.evil.example", "evil.example/www.example.com/"):
            refused = proxied.get(path, {"Referer": f"https://{site}/"})
            assert (refused.status_code, refused.headers["cache-control"]) == (403, "no-store"), site
        assert proxied.get("/v1/gallery", {"Referer": "https://evil.example/"}).status_code == 200


@pytest.mark.parametrize("name", MOVED)
def test_the_old_name_of_a_site_leads_people_to_the_new_one_and_serves_programs(
    name: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    old = {"Host": "old.example.com"}
    with behind(name, certificate, tmp_path) as proxied, proxied.authorized() as program:
        image_id = upload(proxied)
        for path in (f"/img/{image_id}?w=40&sig=x%2Fy", "/", f"/i/{image_id}", "/login?next=%2Fimages"):
            response = proxied.get(path, old)
            location = f"https://images.example.com{path}"
            assert (response.status_code, response.headers["location"]) == (308, location)
        for prefix in ("/v1", "/api/v1"):
            assert program.get(f"{prefix}/images/{image_id}", headers=old).status_code == 200
            files = {"image": ("a.png", make_image(30, 20))}
            record = program.post(f"{prefix}/upload", headers=old, files=files).json()["data"]
            # Records have the URLs of the setting, whichever name a request has.
            assert record["url"].startswith(proxied.server.base_url.removesuffix("/v1"))
        assert proxied.get(f"/img/{image_id}").status_code == 200


EDGE = "127.0.0.2"
"""The IP address of a CDN in front of the proxy."""


@pytest.mark.parametrize("is_trusted", [False, True])
def test_clients_behind_a_cdn_share_a_limit_until_it_is_trusted_and_the_log_says_so(
    certificate: tuple[Path, Path], tmp_path: Path, is_trusted: bool
) -> None:
    variables = {
        "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "60",
        "IMAGEHOST_TRUSTED_PROXIES": f"127.0.0.1,{EDGE}" if is_trusted else "127.0.0.1",
    }
    with behind("nginx", certificate, tmp_path, variables) as proxied:
        transport = httpx2.HTTPTransport(verify=proxied.context, local_address=EDGE)
        with httpx2.Client(base_url=proxied.client.base_url, transport=transport, timeout=PATIENCE) as edge:
            statuses = [
                edge.get("/v1/gallery", headers={"X-Forwarded-For": f"198.51.100.{number % 50}"}).status_code
                for number in range(WINDOW_REQUESTS + 10)
            ]
        assert (429 in statuses) is not is_trusted
        log = proxied.server.log.read_text(encoding="utf-8")
        assert log.count("client names many others in X-Forwarded-For") == (not is_trusted)
        assert is_trusted or f"client={EDGE}" in log


def plain_nginx(place: Place) -> list[str]:
    cache = f"proxy_cache_path {place.directory}/plain keys_zone=plain:1m;"
    headers = "proxy_set_header X-Forwarded-Proto https; add_header X-Cache-Status $upstream_cache_status;"
    location = f"proxy_pass http://127.0.0.1:{place.server_port}; proxy_cache plain; {headers}"
    return place.nginx(f"{cache} server {{ listen 127.0.0.1:{place.port}; location / {{ {location} }} }}")


def plain_varnish(place: Place) -> list[str]:
    path = place.directory / "plain.vcl"
    path.write_text(
        f'vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{place.server_port}"; }} '
        'sub vcl_recv { set req.http.X-Forwarded-Proto = "https"; }',
        encoding="utf-8",
    )
    listen = ["-a", f"127.0.0.1:{place.port}", "-T", "none", "-j", "none"]
    return ["varnishd", "-F", *listen, "-n", f"{place.directory}/work", "-f", str(path), "-s", "malloc,64m"]


def plain_caddy(place: Place) -> list[str]:
    upstream = f"127.0.0.1:{place.server_port} {{\nheader_up X-Forwarded-Proto https\n}}"
    path = place.directory / "plain"
    site = f"{{\nadmin off\n}}\nhttp://127.0.0.1:{place.port} {{\nreverse_proxy {upstream}\n}}\n"
    path.write_text(site, encoding="utf-8")
    return ["caddy", "run", "--config", str(path), "--adapter", "caddyfile"]


PLAIN = {
    "nginx 1.22.1, `proxy_cache`": Proxy(plain_nginx, HOUR, scheme="http"),
    "Varnish 7.1.1": Proxy(plain_varnish, HOUR, scheme="http"),
    "Caddy 2.6.2": Proxy(plain_caddy, HOUR, scheme="http"),
}
"""Proxies without the lines of the shipped configurations."""


def behaviour(proxied: ProxiedServer) -> list[str]:
    """Return what a proxy does with the headers of the host, as cells of a table."""
    path = f"/img/{upload(proxied)}"
    proxied.get(path)
    stores = is_hit(proxied.get(path))
    first = proxied.get(path)
    copies = 0
    for accept in (spelling for row in SPELLINGS for spelling in row):
        copies += not is_hit(proxied.get(f"{path}?w=40&fm=auto", {"Accept": accept}))
    listed = proxied.get(path, {"If-None-Match": f'"x", {first.headers["etag"]}'}).status_code
    failed = proxied.get(path, {"If-Match": '"x"'}).status_code
    several = proxied.get(path, {"Range": "bytes=0-1,4-5"}).status_code
    proxied.api("DELETE", path.replace("img", "images"))
    gone = proxied.get(path).status_code
    return list(map(str, (copies if stores else "–", listed, failed, several, gone)))


@pytest.mark.parametrize("name", PLAIN)
def test_the_page_says_what_a_server_does_with_the_headers_of_the_host(
    name: str, certificate: tuple[Path, Path], tmp_path: Path, workspace: Path
) -> None:
    with behind(PLAIN[name], certificate, tmp_path, {"IMAGEHOST_PURGE_URL": ""}) as proxied:
        row = f"| {name} | {' | '.join(behaviour(proxied))} |"
    assert row in (workspace / "docs" / "proxy.md").read_text(encoding="utf-8"), row
