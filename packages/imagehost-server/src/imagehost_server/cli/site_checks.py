"""What `imagehost check --url` finds from outside, as a client: certificate, sizes, headers, purges."""

from __future__ import annotations

import ipaddress
import json
import math
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click
from attrs import field, frozen

from imagehost_core.errors import quote_value
from imagehost_server.cli.check import Check, State

TIMEOUT_SECONDS = 10.0
SLOW_SECONDS = 65.0
"""How long a slow upload takes: proxies that bound the time of a request do so at 60 seconds by default."""
PURGE_SECONDS = 15.0
"""How long a deleted image may be served: a purge that failed is sent again after 5 seconds."""
CERTIFICATE_DAYS = 14
"""A certificate that ends sooner should have been renewed."""
BODY_MEGABYTES = (1, 5, 50)
UPLOAD = "/v1/upload"
GALLERY = "/v1/gallery?per_page=1"
DEFAULT_PORTS = {"https": 443, "http": 80}
BEGINNING_BYTES = 64 * 2**10
"""What is sent of a body to a proxy that asks for it, before the rest."""
BODY_ATTEMPTS = 5
"""How often a body is sent: behind Caddy 2.6.2, one of eight connections ended without a response."""
EARLY_SECONDS = 1.0
"""How long a host may take to respond to the beginning of a body; a pause of 2 s ends the connection."""
LOOPBACK_SOURCE = "127.0.0.2"
"""The IP address of this client where the site is on this machine, so that it is not that of its proxy."""
FORGED = "192.0.2.1"
"""An IP address that no client has (RFC 5737)."""
BOUNDARY = "imagehost-check"
SLOW_RATE = 8 * 2**10
"""Bytes per second of a slow upload: as of a phone with bad reception."""
SLOW_PIECES = 32
"""In how many pieces a slow upload is sent."""
MOMENT_SECONDS = 0.001
SILENT_ADVICE = "the log of the proxy and that of the host have the reason"
REDIRECT_ADVICE = (
    "nginx: return 301 https://$host$request_uri; Caddy: no auto_https; "
    "Apache: Redirect permanent / https://…/; Traefik: redirections.entryPoint"
)
HTTPS_ADVICE = (
    "nginx: proxy_set_header X-Forwarded-Proto $scheme; Caddy: no header_up X-Forwarded-Proto; "
    "Apache: RequestHeader set X-Forwarded-Proto https; Traefik: no customRequestHeaders.X-Forwarded-Proto"
)
ADDRESS_ADVICE = (
    "server: IMAGEHOST_TRUSTED_PROXIES names each proxy and CDN before it; "
    "nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; "
    "Caddy: no header_up -X-Forwarded-For; Apache: ProxyAddHeaders On; Traefik: no notAppendXForwardedFor"
)
FORGED_ADVICE = (
    "server: IMAGEHOST_TRUSTED_PROXIES without networks of clients; "
    "nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; "
    "Caddy: no header_up X-Forwarded-For; Apache: ProxyAddHeaders On"
)
BUFFERING_ADVICE = (
    "nginx: proxy_request_buffering off; Caddy: no request_buffers or buffer_requests; "
    "Apache: no SetInputFilter BUFFER or KEPT_BODY; Traefik: no buffering middleware"
)
BODY_ADVICE = (
    "nginx: client_max_body_size 52m; Caddy: request_body max_size 53MB; "
    "Traefik: buffering.maxRequestBodyBytes 54525952"
)
SLOW_ADVICE = (
    "nginx: client_body_timeout 30s; Caddy: no timeouts read_body; Apache: RequestReadTimeout body=0; "
    "Traefik: respondingTimeouts.readTimeout 0"
)
EXPECT_ADVICE = "pass Expect: 100-continue on, or respond to it with 100"
AUTHORIZATION_ADVICE = (
    "nginx: no proxy_set_header Authorization; Caddy: no header_up -Authorization; "
    "Apache: no RequestHeader unset Authorization; Traefik: no customRequestHeaders.Authorization"
)
RANGE_ADVICE = (
    "nginx: no proxy_set_header Range, or where it caches proxy_set_header Range $http_range; "
    "Caddy: no header_up -Range; "
    "Apache: no RequestHeader unset Range; Traefik: no customRequestHeaders.Range"
)
CONDITION_ADVICE = (
    "nginx: no proxy_set_header If-None-Match, or where it caches "
    "proxy_set_header If-None-Match $http_if_none_match; Caddy: no header_up -If-None-Match; "
    "Apache: no RequestHeader unset If-None-Match; Traefik: no customRequestHeaders.If-None-Match"
)
ACCEL_ADVICE = (
    "server: no IMAGEHOST_DELIVERY_ACCEL_REDIRECT; "
    "nginx: the location of nginx_accel.conf, and the user of the server"
)
PURGE_ADVICE = (
    "server: IMAGEHOST_PURGE_URL, and `/readyz` on loopback; "
    "nginx: no proxy_ignore_headers Cache-Control, or nginx_cache.conf; Varnish: acl purgers of varnish.vcl; "
    "Apache: no Header set Cache-Control"
)


@frozen
class Site:
    """A site as clients reach it.

    Attributes:
        url: Its URL without `/v1`.
        token: A token of an account that uploads an image and deletes it, if there is one.
    """

    url: SplitResult
    token: str = field(default="", repr=False)

    @property
    def port(self) -> int:
        """Its port, also where the URL has none."""
        return self.url.port or DEFAULT_PORTS[self.url.scheme]

    @property
    def authorization(self) -> dict[str, str]:
        """The header with its token."""
        return {"Authorization": f"Bearer {self.token}"}

    def send_head(self, method: str, path: str, headers: Mapping[str, str] = {}) -> HTTPConnection:
        """Return a connection on which the head of a request was sent.

        Raises:
            OSError: There is no connection, or the certificate is not valid.
        """
        kind = HTTPSConnection if self.url.scheme == "https" else HTTPConnection
        host = self.url.hostname or ""
        source = (LOOPBACK_SOURCE, 0) if _is_on_this_machine(host) else None
        connection = kind(host, self.port, timeout=TIMEOUT_SECONDS, source_address=source)
        connection.putrequest(method, f"{self.url.path.rstrip('/')}{path}")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection

    def request(self, method: str, path: str, headers: Mapping[str, str] = {}) -> tuple[HTTPResponse, bytes]:
        """Send the head of a request, and return the response with its body.

        Raises:
            OSError: There is no connection, or the certificate is not valid.
            HTTPException: The response is not HTTP.
        """
        connection = self.send_head(method, path, headers)
        try:
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


def check_site(
    site: Site, *, slow_seconds: float = SLOW_SECONDS, purge_seconds: float = PURGE_SECONDS
) -> Iterator[Check]:
    """Yield what was found, for each part of a site; few lines if no host responds there, or with 403.

    Args:
        site: The site. With a token an image is uploaded to it, and deleted.
        slow_seconds: How long its upload takes.
        purge_seconds: How long it may be served when it is deleted.
    """
    if site.url.scheme == "https":
        yield from _try("certificate", partial(_certificate, site))
        # That of a site with a port of its own has one too, which its URL does not tell.
        if site.port == DEFAULT_PORTS["https"]:
            yield from _try("redirect", partial(check_redirect, site, DEFAULT_PORTS["http"]))
    try:
        socket.create_connection((site.url.hostname, site.port), TIMEOUT_SECONDS).close()
    except OSError as error:
        advice = "check DNS, the firewall and the proxy"
        yield Check("site", State.FAILED, f"{site.url.geturl()}: {error}", advice)
        return
    hosts = [*_try("host", partial(_host, site))]
    yield from hosts
    if any(each.state is State.FAILED for each in hosts):
        return
    yield from _try("client address", partial(_client_address, site))
    yield from _try("body", partial(_bodies, site), BUFFERING_ADVICE)
    yield from _try("Expect", partial(_expect, site), EXPECT_ADVICE)
    yield from _try("Authorization", partial(_authorization, site))
    uploaded: dict[str, Any] = {}
    if site.token:
        yield from _uploads(site)
        check, uploaded = _slow_upload(site, slow_seconds)
        yield check
    if image := uploaded or _newest_image(site):
        yield _image_url(site, image["url"])
        yield from _try("image", partial(_image, image["url"]))
    if uploaded:
        yield from _try("deletion", partial(_deletion, site, uploaded, purge_seconds))


def _try(
    name: str, check: Callable[[], Check | Iterator[Check]], silent_advice: str = SILENT_ADVICE
) -> Iterator[Check]:
    """Yield the lines of a check; a failed one if there is no response."""
    try:
        found = check()
        yield from (found,) if isinstance(found, Check) else found
    except TimeoutError:
        yield Check(name, State.FAILED, f"no response within {TIMEOUT_SECONDS:.0f} seconds", silent_advice)
    except (OSError, HTTPException) as error:
        yield Check(name, State.FAILED, str(error) or type(error).__name__, SILENT_ADVICE)


def _is_on_this_machine(host: str) -> bool:
    """Return whether a name is that of a loopback IP address beside which others can be used."""
    addresses = list[str]()
    if sys.platform == "linux":
        with suppress(OSError):
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
            addresses = [str(address[0]) for *_, address in found]
    return any(address.startswith("127.") for address in addresses)


def _certificate(site: Site) -> Check:
    host = site.url.hostname or ""
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, site.port), TIMEOUT_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            certificate = secured.getpeercert() or {}
    except ssl.SSLError as error:
        return Check("certificate", State.FAILED, str(error), "renew it, with all of its chain")
    days = int((ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) / 86_400)
    if days < CERTIFICATE_DAYS:
        return Check("certificate", State.WARNING, f"ends in {days} days", "check its automatic renewal")
    return Check("certificate", State.OK, f"ends in {days} days")


def check_redirect(site: Site, port: int) -> Check:
    """Return whether a port of plain HTTP leads to HTTPS."""
    plain = Site(site.url._replace(scheme="http", netloc=f"{site.url.hostname}:{port}"))
    try:
        response, _ = plain.request("GET", "/")
    except (OSError, HTTPException) as error:
        return Check("redirect", State.WARNING, f"plain HTTP: {error}", REDIRECT_ADVICE)
    if response.status in (301, 308) and response.headers.get("location", "").startswith("https://"):
        return Check("redirect", State.OK, f"plain HTTP is {response.status} to HTTPS")
    return Check("redirect", State.WARNING, f"plain HTTP is {response.status}", REDIRECT_ADVICE)


def _host(site: Site) -> Check:
    response, body = site.request("GET", "/healthz")
    probe = _data(body)
    if response.status != 200 or probe.get("status") != "alive":
        advice = "the proxy sends requests elsewhere, or the host does not run"
        return Check("host", State.FAILED, f"/healthz is {response.status}", advice)
    response, _ = site.request("GET", GALLERY)
    if response.status != 403:
        return Check("host", State.OK, "responds")
    own = _source(site)
    if probe.get("ip_address") == own:
        return Check("host", State.FAILED, "takes requests for plain HTTP", HTTPS_ADVICE)
    found = f"does not trust the proxy {probe.get('ip_address')}"
    return Check("host", State.FAILED, found, f"server: IMAGEHOST_TRUSTED_PROXIES={probe.get('ip_address')}")


def _source(site: Site) -> str:
    """Return the IP address of this client."""
    connection = site.send_head("GET", "/healthz")
    try:
        return str(connection.sock.getsockname()[0])
    finally:
        connection.close()


def _client_address(site: Site) -> Check:
    seen, forged = (
        str(_data(site.request("GET", "/healthz", headers)[1]).get("ip_address"))
        for headers in ({}, {"X-Forwarded-For": FORGED})
    )
    if forged == FORGED:
        found = "the one that a client sends as X-Forwarded-For"
        return Check("client address", State.FAILED, found, FORGED_ADVICE)
    own = _source(site)
    if seen == own:
        return Check("client address", State.OK, seen)
    found = f"{seen} in place of {own}"
    if ipaddress.ip_address(seen).is_loopback:
        return Check("client address", State.FAILED, found, ADDRESS_ADVICE)
    # That of a router, if the network of this machine is behind one.
    state = State.WARNING if ipaddress.ip_address(seen).is_private else State.OK
    return Check("client address", state, found, ADDRESS_ADVICE if state is State.WARNING else "")


def _begin_upload(site: Site, megabytes: int) -> tuple[HTTPConnection, int]:
    """Send the head of an upload that the host refuses, and return the connection and the first status."""
    headers = {
        "Authorization": "Bearer none",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(megabytes * 2**20),
        "Expect": "100-continue",
    }
    connection = site.send_head("POST", UPLOAD, headers)
    # Without a buffer, so that no byte of what follows is lost.
    lines = connection.sock.makefile("rb", 0)
    status = _status(lines.readline())
    while status == 100 and lines.readline().strip():
        pass
    return connection, status


def _bodies(site: Site) -> Iterator[Check]:
    are_early = True
    for megabytes in BODY_MEGABYTES:
        name = f"body of {megabytes} MB"
        try:
            status, is_early = _try_body(site, megabytes)
        except TimeoutError:
            raise
        except OSError as error:
            yield Check(name, State.FAILED, str(error), BODY_ADVICE)
            continue
        are_early &= is_early
        if status == 401:
            yield Check(name, State.OK, "reaches the host")
        else:
            yield Check(name, State.FAILED, f"{status} before it reaches the host", BODY_ADVICE)
    if are_early:
        yield Check("streaming", State.OK, "the host responds before it has the body")
    else:
        found = "responses wait until the proxy has the whole body"
        yield Check("streaming", State.WARNING, found, BUFFERING_ADVICE)


def _try_body(site: Site, megabytes: int) -> tuple[int, bool]:
    """Send an upload as `_send_body` does, again if the connection ends.

    A proxy that ends it right after a response to a part of the body can lose that response (RFC 9112, 9.6).
    """
    for _ in range(BODY_ATTEMPTS - 1):
        with suppress(ConnectionError, ssl.SSLEOFError):
            return _send_body(site, megabytes)
    return _send_body(site, megabytes)


def _send_body(site: Site, megabytes: int) -> tuple[int, bool]:
    """Send an upload that the host refuses; return the status, and whether it came before the last byte."""
    connection, status = _begin_upload(site, megabytes)
    try:
        if status != 100:
            return status, True
        # The proxy's own response. Some pass a request on when they have the beginning of its body.
        connection.sock.sendall(bytes(BEGINNING_BYTES))
        seconds = EARLY_SECONDS
        left = megabytes * 2**20 - BEGINNING_BYTES
        while left:
            if received := _read_within(connection.sock, seconds):
                return _status(received), True
            connection.sock.settimeout(TIMEOUT_SECONDS)
            piece = min(left, 2**20)
            connection.sock.sendall(bytes(piece))
            left -= piece
            seconds = MOMENT_SECONDS
        return _status(_read_within(connection.sock, TIMEOUT_SECONDS)), False
    finally:
        connection.close()


def _status(line: bytes) -> int:
    """Return the status of the beginning of a response; 0 if there is none."""
    version, _, rest = line.partition(b" ")
    return int(rest[:3]) if version.startswith(b"HTTP/") and rest[:3].isdigit() else 0


def _expect(site: Site) -> Check:
    connection, status = _begin_upload(site, 1)
    connection.close()
    if status in (100, 401):
        return Check("Expect", State.OK, f"is answered with {status}")
    return Check("Expect", State.FAILED, f"is answered with {status}", EXPECT_ADVICE)


def _authorization(site: Site) -> Check:
    without, with_token = (
        site.request("GET", "/v1/images", headers)[1] for headers in ({}, {"Authorization": "Bearer none"})
    )
    if with_token == without:
        return Check("Authorization", State.FAILED, "does not arrive", AUTHORIZATION_ADVICE)
    return Check("Authorization", State.OK, "arrives")


def _upload(site: Site, size: int, pieces: int = 1, seconds: float = 0) -> dict[str, Any]:
    """Upload an image of one pixel, and return its record.

    Args:
        site: The site.
        size: Its file's size in bytes, of which all but the first 35 have no meaning.
        pieces: In how many pieces its file is sent.
        seconds: How long that takes.

    Raises:
        OSError: The connection has failed.
        HTTPException: The response is another one, or came too early.
    """
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="is_public"\r\n\r\ntrue\r\n--{BOUNDARY}\r\n'
        'Content-Disposition: form-data; name="image"; filename="imagehost-check.gif"\r\n\r\n'
    ).encode()
    pixel = b"GIF89a\1\0\1\0\x80\0\0" + os.urandom(6) + b",\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
    body = head + pixel + bytes(size - len(pixel)) + f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = {
        **site.authorization,
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        "Content-Length": str(len(body)),
    }
    step = math.ceil(len(body) / pieces)
    connection = site.send_head("POST", UPLOAD, headers)
    try:
        for first in range(0, len(body), step):
            if early := _read_within(connection.sock, seconds / pieces or MOMENT_SECONDS):
                raise HTTPException(str(_status(early)))
            connection.sock.settimeout(TIMEOUT_SECONDS)
            connection.sock.sendall(body[first : first + step])
        response = connection.getresponse()
        record = _data(response.read())
    finally:
        connection.close()
    if "url" not in record:
        raise HTTPException(str(response.status))
    return record


def _uploads(site: Site) -> Iterator[Check]:
    for megabytes in BODY_MEGABYTES:
        name = f"upload of {megabytes} MB"
        try:
            image = _upload(site, megabytes * 2**20)
        except (OSError, HTTPException) as error:
            yield Check(name, State.FAILED, str(error) or type(error).__name__, BODY_ADVICE)
        else:
            _delete(site, image)
            yield Check(name, State.OK, "arrives")


def _slow_upload(site: Site, seconds: float) -> tuple[Check, dict[str, Any]]:
    """Return the line of a slow upload, and the record of its image; an empty one if it failed."""
    started = time.monotonic()
    try:
        image = _upload(site, int(seconds * SLOW_RATE), SLOW_PIECES, seconds)
    except (OSError, HTTPException) as error:
        found = f"{str(error) or type(error).__name__} after {time.monotonic() - started:.0f} seconds"
        return Check("slow upload", State.FAILED, found, SLOW_ADVICE), {}
    return Check("slow upload", State.OK, f"{seconds:.0f} seconds long"), image


def _delete(site: Site, image: Mapping[str, Any]) -> None:
    site.request("DELETE", f"/v1/images/{image['id']}", site.authorization)


def _read_within(connection: socket.socket, seconds: float) -> bytes:
    """Return what arrives within a time.

    Raises:
        ConnectionError: The connection was closed.
    """
    connection.settimeout(seconds)
    try:
        received = connection.recv(1024)
    except TimeoutError:
        return b""
    if not received:
        raise ConnectionResetError("connection closed")
    return received


def _newest_image(site: Site) -> dict[str, Any]:
    try:
        images = _data(site.request("GET", GALLERY)[1]).get("images") or [{}]
    except (OSError, HTTPException):
        return {}
    return dict(images[0])


def _image_url(site: Site, url: str) -> Check:
    if site.url.scheme == "https" and urlsplit(url).scheme != "https":
        advice = f"server: IMAGEHOST_BASE_URL={site.url.geturl()}/v1"
        return Check("image URL", State.FAILED, f"{url} is not HTTPS", advice)
    return Check("image URL", State.OK, url)


def _image(url: str) -> Iterator[Check]:
    origin, target = _origin(url)
    whole, _ = origin.request("GET", target)
    variant, _ = origin.request("GET", f"{target}{'&' if '?' in target else '?'}fm=png")
    if "x-accel-redirect" in whole.headers or (whole.status != 200 and variant.status == 200):
        found = f"its original does not arrive ({whole.status}), its variants do"
        yield Check("image", State.FAILED, found, ACCEL_ADVICE)
        return
    yield _verdict("image", whole.status, 200, SILENT_ADVICE)
    part, _ = origin.request("GET", target, {"Range": "bytes=0-0"})
    yield _verdict("Range", part.status, 206, RANGE_ADVICE)
    same, _ = origin.request("GET", target, {"If-None-Match": whole.headers.get("etag", "")})
    yield _verdict("If-None-Match", same.status, 304, CONDITION_ADVICE)


def _origin(url: str) -> tuple[Site, str]:
    """Return the site and the target of an image, which may be on another host, and may have a signature."""
    parts = urlsplit(url)
    return Site(
        parts._replace(path="", query="")
    ), f"{parts.path}?{parts.query}" if parts.query else parts.path


def _deletion(site: Site, image: Mapping[str, Any], seconds: float) -> Check:
    origin, target = _origin(image["url"])
    origin.request("GET", target)
    _delete(site, image)
    started = time.monotonic()
    while (status := origin.request("GET", target)[0].status) != 404:
        if time.monotonic() - started > seconds:
            found = f"the image is {status} for more than {seconds:.0f} seconds"
            return Check("deletion", State.FAILED, found, PURGE_ADVICE)
        time.sleep(0.5)
    return Check("deletion", State.OK, "the image is not served any more")


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
