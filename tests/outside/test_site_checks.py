"""`imagehost check --url` behind reverse proxies: nothing wrong, or the fault and what repairs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from attrs import evolve
from tests.outside.faulty_proxies import COMMANDS, FAULTS, REDIRECTS, TRAEFIK, Fault
from tests.outside.packages import install_python
from tests.outside.reverse_proxies import PASSWORD, PROXIES, Place, ProxiedServer, behind, started
from tests.server.conftest import NO_LIMITS
from tests.waiting import wait_until

from imagehost_core.testing import make_image
from imagehost_server.cli.check import Check, State
from imagehost_server.cli.site_checks import check_redirect, check_site, parse_site
from imagehost_server.testing import running

SLOW_SECONDS = 2.0
PURGE_SECONDS = 3.0
ALL = {
    *("certificate", "host", "client address", "body of 1 MB", "body of 5 MB", "body of 50 MB", "streaming"),
    *("Expect", "Authorization", "upload of 1 MB", "upload of 5 MB", "upload of 50 MB", "slow upload"),
    *("image URL", "image", "Range", "If-None-Match", "deletion"),
}
WITH_UPLOADS = {*(name for name in ALL if name.startswith("upload")), "slow upload", "deletion"}


@pytest.fixture(autouse=True)
def _trusting(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))


def checks_of(url: str, token: str) -> dict[str, Check]:
    """Return the lines of the table by name."""
    site = evolve(parse_site(url), token=token)
    checks = check_site(site, slow_seconds=SLOW_SECONDS, purge_seconds=PURGE_SECONDS)
    return {check.name: check for check in checks}


def problems(url: str, token: str) -> dict[str, Check]:
    """Return the lines of the table that are not ok by name."""
    return {name: check for name, check in checks_of(url, token).items() if check.state is not State.OK}


def proxied_url(proxied: ProxiedServer) -> str:
    return f"{proxied.proxy.scheme}://127.0.0.1:{proxied.place.port}{proxied.proxy.root_path}"


@pytest.mark.parametrize("name", PROXIES)
def test_nothing_is_wrong_behind_a_shipped_proxy(
    name: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    proxy = PROXIES[name]
    url = f"{proxy.scheme}://127.0.0.1:{{port}}{proxy.root_path}/v1"
    variables = {"IMAGEHOST_BASE_URL": url, **proxy.variables}
    with behind(evolve(proxy, variables=variables), certificate, tmp_path) as proxied:
        checks = checks_of(proxied_url(proxied), proxied.sign_in("admin"))
    expected = ALL if proxy.scheme == "https" else ALL - {"certificate"}
    assert {*checks} == expected
    # Varnish sends no response before it has the whole body.
    assert {each.name for each in checks.values() if each.state is not State.OK} == (
        {"streaming"} if name == "Varnish" else set()
    )


@pytest.fixture(scope="module")
def port() -> int:
    """The port of all proxies before the server."""
    return Place(Path()).port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[tuple[int, str]]:
    """The port of a server with an image that trusts a proxy of this machine, and a token."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    variables = {
        **NO_LIMITS,
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
        "IMAGEHOST_CDN_URL": f"https://127.0.0.1:{port}/img",
        "IMAGEHOST_ADMIN_PASSWORD_FILE": f"{folder}/password",
    }
    with running(folder / "data", "--port", "0", variables=variables) as server:
        body = {"username": "admin", "password": PASSWORD}
        session = httpx2.post(f"{server.origin}/v1/session", json=body).raise_for_status().json()["data"]
        headers = {"Authorization": f"Bearer {session['token']}"}
        files = {"image": ("a.png", make_image(30, 20))}
        httpx2.post(f"{server.origin}/v1/upload", headers=headers, files=files).raise_for_status()
        yield int(server.origin.rpartition(":")[2]), session["token"]


@pytest.fixture(scope="module")
def traefik(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the program of Traefik."""
    return install_python(tmp_path_factory.mktemp("traefik") / "environment", TRAEFIK)


@pytest.fixture
def place(certificate: tuple[Path, Path], tmp_path: Path, port: int, server: tuple[int, str]) -> Place:
    """Where a proxy runs before the server."""
    for path, suffix in zip(certificate, ("pem", "key"), strict=True):
        shutil.copy(path, tmp_path / f"images.example.com.{suffix}")
    return Place(tmp_path, port=port, server_port=server[0])


def responds(url: str) -> bool:
    """Return whether a proxy passes requests on: Traefik listens before it has read where to."""
    try:
        return httpx2.get(f"{url}/healthz", verify=False).status_code != 404
    except httpx2.TransportError:
        return False


@contextmanager
def running_proxy(fault: Fault, place: Place, line: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a proxy with a line of a fault; yield its URL."""
    program, *arguments = COMMANDS[fault.proxy](place, fault.good, line)
    if fault.proxy == "Traefik":
        program = str(request.getfixturevalue("traefik") / program)
    elif shutil.which(program) is None:
        pytest.skip(f"NOT TESTED: {fault.proxy}, because {program} is not installed")
    url = f"https://127.0.0.1:{place.port}"
    log = place.directory / "proxy.log"
    with started([program, *arguments], place.port, log, place.caddy_variables):
        wait_until(lambda: responds(url))
        yield url


def advice_for(proxy: str, check: Check) -> str:
    """Return what a check advises for a proxy."""
    return check.advice.partition(f"{proxy}: ")[2].partition("; ")[0]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.proxy} {fault.check} {fault.advice}")
def test_a_fault_of_a_proxy_is_named_with_the_line_that_repairs_it(
    fault: Fault, place: Place, server: tuple[int, str], request: pytest.FixtureRequest
) -> None:
    # Uploads take most of the time.
    token = server[1] if fault.check in WITH_UPLOADS else ""
    with running_proxy(fault, place, fault.broken, request) as url:
        found = problems(url, token)
    assert fault.check in found
    assert fault.advice in advice_for(fault.proxy, found[fault.check])
    with running_proxy(fault, place, fault.repaired, request) as url:
        left = problems(url, token)
    # A proxy that bounds the size of bodies may have to wait for them.
    assert {*left} <= ({"streaming"} if fault.check.startswith("upload") else set()), left


@pytest.mark.parametrize("fault", REDIRECTS, ids=lambda fault: fault.proxy)
def test_a_missing_redirect_to_https_is_named_with_the_line_that_repairs_it(
    fault: Fault, place: Place, request: pytest.FixtureRequest
) -> None:
    found = []
    for line in (fault.broken, fault.repaired):
        with running_proxy(fault, place, line, request) as url:
            found.append(check_redirect(parse_site(url), place.http_port))
    assert [each.state for each in found] == [State.WARNING, State.OK]
    assert fault.advice in advice_for(fault.proxy, found[0])


OWN_SERVERS = {
    "IMAGEHOST_TRUSTED_PROXIES": ("Caddy", "host", {"IMAGEHOST_TRUSTED_PROXIES": "127.0.0.9"}),
    "IMAGEHOST_DELIVERY_ACCEL_REDIRECT": ("Caddy", "image", {"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": "/files/"}),
    "location of nginx_accel.conf": ("nginx", "image", {"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": "/files/"}),
    "IMAGEHOST_PURGE_URL": ("nginx that stores images", "deletion", {"IMAGEHOST_PURGE_URL": ""}),
    "acl purgers": ("Varnish", "deletion", {"IMAGEHOST_PURGE_HEADERS": "X-Other: x"}),
    "IMAGEHOST_BASE_URL": ("Caddy", "image URL", {"IMAGEHOST_BASE_URL": ""}),
}
"""Faults that the settings of the server have: proxy, check and settings, by what the advice names."""


@pytest.mark.parametrize("advice", OWN_SERVERS)
def test_a_setting_that_does_not_fit_the_proxy_is_named(
    advice: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    name, check, settings = OWN_SERVERS[advice]
    proxy = PROXIES[name]
    url = f"{proxy.scheme}://127.0.0.1:{{port}}/v1"
    variables = {"IMAGEHOST_BASE_URL": url, **proxy.variables, **settings}
    given = {name: value for name, value in variables.items() if value}
    with behind(evolve(proxy, variables=given), certificate, tmp_path) as proxied:
        found = problems(proxied_url(proxied), proxied.sign_in("admin"))
    assert advice in found[check].advice
