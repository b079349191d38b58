"""What `imagehost check --url` finds from outside, as a client: certificate, redirect, sizes, headers."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click
from attrs import frozen

from imagehost_core.errors import quote_value
from imagehost_server.cli.check import Check, State

TIMEOUT_SECONDS = 10.0
CERTIFICATE_DAYS = 14
"""A certificate that ends sooner should have been renewed."""
BODY_MEGABYTES = (1, 5, 50)
UPLOAD = "/v1/upload"
SILENT_ADVICE = "the log of the proxy and that of the host have the reason"
BUFFERING_ADVICE = (
    "the proxy waits for the whole body: nginx: proxy_request_buffering off; Caddy: no request_buffers; "
    "Apache: no proxy-sendcl; Traefik: no buffering middleware"
)
BODY_ADVICE = (
    "nginx: client_max_body_size 52m; Caddy: request_body max_size 52MB; Apache: LimitRequestBody 54525952; "
    "Traefik: buffering maxRequestBodyBytes 54525952"
)
AUTHORIZATION_ADVICE = (
    "nginx: no proxy_set_header Authorization; Caddy: no header_up -Authorization; "
    "Apache: no RequestHeader unset Authorization; Traefik: no basicAuth with removeHeader"
)
RANGE_ADVICE = "nginx: proxy_force_ranges on, or no proxy_set_header Range; others: pass the header on"
CONDITION_ADVICE = "pass If-None-Match on, and let no filter change ETag (nginx: gzip off for images)"


@frozen
class Site:
    """A site as clients reach it.

    Attributes:
        url: Its URL without `/v1`.
    """

    url: SplitResult

    def request(self, method: str, path: str, headers: Mapping[str, str] = {}) -> tuple[HTTPResponse, bytes]:
        """Send the head of a request, and return the response with its body.

        Raises:
            OSError: There is no connection, or the certificate is not valid.
            HTTPException: The response is not HTTP.
        """
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        connection = kind(self.url.hostname or "", self.url.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.putrequest(method, f"{self.url.path.rstrip('/')}{path}")
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()


def parse_site(url: str) -> Site:
    """Return the site of a URL.

    Args:
        url: Its URL, such as `https://images.example.com`.

    Raises:
        BadParameter: It is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url.removesuffix("/").removesuffix("/v1"))
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise click.BadParameter(
            f"expected a URL such as https://images.example.com but received {quote_value(url)}",
            param_hint="--url",
        )
    return Site(parts)


def check_site(site: Site) -> Iterator[Check]:
    """Yield what was found, for each part of a site; one line if nothing responds there."""
    if site.url.scheme == "https":
        yield from _try("certificate", partial(_certificate, site))
        yield from _try("redirect", partial(_redirect, site))
    try:
        socket.create_connection((site.url.hostname, _port(site)), TIMEOUT_SECONDS).close()
    except OSError as error:
        advice = "check DNS, the firewall and the proxy"
        yield Check("site", State.FAILED, f"{site.url.geturl()}: {error}", advice)
        return
    yield from _try("host", partial(_alive, site))
    for megabytes in BODY_MEGABYTES:
        yield from _try(f"body of {megabytes} MB", partial(_body, site, megabytes))
    yield from _try("Authorization", partial(_authorization, site))
    yield from _try("image", partial(_image_headers, site))


def _try(name: str, check: Callable[[], Check | Iterator[Check]]) -> Iterator[Check]:
    """Yield the lines of a check; a failed one if there is no response."""
    try:
        found = check()
        yield from (found,) if isinstance(found, Check) else found
    except TimeoutError:
        silent = f"no response within {TIMEOUT_SECONDS:.0f} seconds"
        yield Check(
            name, State.FAILED, silent, BUFFERING_ADVICE if name.startswith("body") else SILENT_ADVICE
        )
    except (OSError, HTTPException) as error:
        yield Check(name, State.FAILED, str(error) or type(error).__name__, SILENT_ADVICE)


def _port(site: Site) -> int:
    return site.url.port or (443 if site.url.scheme == "https" else 80)


def _certificate(site: Site) -> Check:
    host = site.url.hostname or ""
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, site.url.port or 443), TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except ssl.SSLError as error:
        return Check("certificate", State.FAILED, str(error), "renew it, with all of its chain")
    days = int((ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) / 86_400)
    if days < CERTIFICATE_DAYS:
        return Check("certificate", State.WARNING, f"ends in {days} days", "check its automatic renewal")
    return Check("certificate", State.OK, f"ends in {days} days")


def _redirect(site: Site) -> Check:
    plain = Site(site.url._replace(scheme="http", netloc=site.url.hostname or ""))
    try:
        response, _ = plain.request("GET", "/")
    except (OSError, HTTPException) as error:
        return Check("redirect", State.WARNING, f"plain HTTP: {error}", "redirect port 80 to HTTPS")
    if response.status in (301, 308) and response.headers.get("location", "").startswith("https://"):
        return Check("redirect", State.OK, f"plain HTTP is {response.status} to HTTPS")
    return Check("redirect", State.WARNING, f"plain HTTP is {response.status}", "redirect port 80 to HTTPS")


def _alive(site: Site) -> Check:
    response, body = site.request("GET", "/healthz")
    if response.status == 200 and _data(body).get("status") == "alive":
        return Check("host", State.OK, "responds")
    advice = "the proxy sends requests elsewhere, or the host does not run"
    return Check("host", State.FAILED, f"/healthz is {response.status}", advice)


def _body(site: Site, megabytes: int) -> Check:
    name = f"body of {megabytes} MB"
    # Nothing is sent: who limits bodies refuses by the length, and the host refuses the token.
    headers = {
        "Authorization": "Bearer none",
        "Content-Type": "multipart/form-data; boundary=x",
        "Content-Length": str(megabytes * 2**20),
        "Expect": "100-continue",
    }
    response, _ = site.request("POST", UPLOAD, headers)
    if response.status == 401:
        return Check(name, State.OK, "reaches the host")
    return Check(name, State.FAILED, f"{response.status} before it reaches the host", BODY_ADVICE)


def _authorization(site: Site) -> Check:
    without, with_token = (
        site.request("GET", "/v1/images", headers)[1] for headers in ({}, {"Authorization": "Bearer none"})
    )
    if with_token == without:
        return Check("Authorization", State.FAILED, "does not arrive", AUTHORIZATION_ADVICE)
    return Check("Authorization", State.OK, "arrives")


def _image_headers(site: Site) -> Iterator[Check]:
    images = _data(site.request("GET", "/v1/gallery?per_page=1")[1]).get("images") or []
    if not images:
        return
    # It may be on another host, and may have a signature.
    url = urlsplit(images[0]["url"])
    origin = Site(url._replace(path="", query=""))
    target = f"{url.path}?{url.query}" if url.query else url.path
    whole, _ = origin.request("GET", target)
    part, _ = origin.request("GET", target, {"Range": "bytes=0-0"})
    yield _verdict("Range", part.status, 206, RANGE_ADVICE)
    same, _ = origin.request("GET", target, {"If-None-Match": whole.headers.get("etag", "")})
    yield _verdict("If-None-Match", same.status, 304, CONDITION_ADVICE)


def _verdict(name: str, status: int, expected: int, advice: str) -> Check:
    if status == expected:
        return Check(name, State.OK, "arrives")
    return Check(name, State.FAILED, f"{status} in place of {expected}", advice)


def _data(body: bytes) -> dict[str, Any]:
    try:
        data: object = json.loads(body)["data"]
    except (ValueError, KeyError, TypeError):
        return {}
    return data if isinstance(data, dict) else {}
