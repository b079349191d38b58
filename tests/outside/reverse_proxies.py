"""A server behind each reverse proxy that the repository has a configuration of."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from attrs import field, frozen
from tests.ports import free_port
from tests.server.conftest import NO_LIMITS
from tests.shipped_files import shipped
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer, running

PASSWORD = "correct horse battery staple"
HOUR = {"IMAGEHOST_DELIVERY_SHARED_MAX_AGE_SECONDS": "1h"}


def _port() -> int:
    return free_port()


@frozen
class Place:
    """Where a reverse proxy and its server run.

    Attributes:
        directory: The directory of both, with the certificate.
        port: The port of the proxy: of HTTPS, if it terminates TLS.
        http_port: Its port of plain HTTP.
        purge_port: Its port for purges.
        server_port: The port of the server.
        leaves_path: Whether a proxy of a host below a path leaves the path to the host: an alternative of
            comments in the files, which otherwise remove it.
    """

    directory: Path
    port: int = field(factory=_port)
    http_port: int = field(factory=_port)
    purge_port: int = field(factory=_port)
    server_port: int = field(factory=_port)
    leaves_path: bool = False

    @property
    def files(self) -> Path:
        """The data directory as the proxy sees it: a test can take it away, and leave the server's own."""
        return self.directory / "files"

    def shipped(self, path: str, *names: str) -> str:
        """Return a shipped file with what it has of ports and directories, by their names in it."""
        values = {
            "listen 443": f"listen 127.0.0.1:{self.port}",
            "listen 80": f"listen 127.0.0.1:{self.http_port}",
            "listen 127.0.0.1:80": f"listen 127.0.0.1:{self.purge_port}",
            "127.0.0.1:8000": f"127.0.0.1:{self.server_port}",
            '.port = "8000"': f'.port = "{self.server_port}"',
            "/etc/ssl/": f"{self.directory}/",
            "/var/cache/nginx/": f"{self.directory}/",
            "/var/lib/imagehost/": f"{self.files}/",
            "http://127.0.0.1:8000/": f"http://127.0.0.1:{self.server_port}",
            "handle_path /photos/": "handle /photos/",
        }
        return shipped(path, {name: values[name] for name in names})

    def nginx(self, http: str) -> list[str]:
        """Return the command of nginx with the content of an `http` block."""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {self.directory}/{kind};" for kind in kinds)
        # As root it would run as another user, who cannot read the directories of the test.
        user = "user root;" if os.geteuid() == 0 else ""
        main = f"{user} daemon off; pid {self.directory}/pid; error_log {self.directory}/error.log;"
        path = self.directory / "nginx.conf"
        path.write_text(
            f"{main} events {{}}\nhttp {{ access_log off; {temporary}\n{http}\n}}\n", encoding="utf-8"
        )
        return ["nginx", "-e", f"{self.directory}/error.log", "-c", str(path)]

    def caddy(self, text: str) -> list[str]:
        """Return the command of Caddy with a Caddyfile."""
        options = (
            f"admin off\nauto_https disable_redirects\nhttp_port {self.http_port}\nhttps_port {self.port}"
        )
        path = self.directory / "Caddyfile"
        path.write_text(f"{{\n{options}\n}}\n{text}", encoding="utf-8")
        return ["caddy", "run", "--config", str(path), "--adapter", "caddyfile"]

    @property
    def caddy_variables(self) -> dict[str, str]:
        """The variables of the shipped Caddyfiles."""
        upstream = f"127.0.0.1:{self.server_port}"
        certificate = f"tls {self.directory}/images.example.com.pem {self.directory}/images.example.com.key"
        variables = {"DOMAIN": "127.0.0.1", "TLS": certificate, "UPSTREAM": upstream, "UPSTREAMS": upstream}
        return {**variables, "HOME": str(self.directory)}


def in_server_block(http: str, text: str) -> str:
    """Return a configuration with directives at the end of its last `server` block."""
    head, brace, tail = http.rpartition("}")
    return f"{head}{text}{brace}{tail}"


NGINX = ("listen 443", "listen 80", "127.0.0.1:8000", "/etc/ssl/")


def nginx(place: Place) -> list[str]:
    return place.nginx(place.shipped("deploy/nginx.conf", *NGINX))


def nginx_sending_files(place: Place) -> list[str]:
    place.files.symlink_to(place.directory / "data")
    files = place.shipped("docs/examples/nginx_accel.conf", "/var/lib/imagehost/")
    return place.nginx(in_server_block(place.shipped("deploy/nginx.conf", *NGINX), files))


def nginx_without_hotlinks(place: Place) -> list[str]:
    recipe = place.shipped("docs/examples/nginx_hotlink.conf")
    return place.nginx(in_server_block(place.shipped("deploy/nginx.conf", *NGINX), recipe))


def nginx_cache(place: Place) -> list[str]:
    names = (*NGINX, "listen 127.0.0.1:80", "/var/cache/nginx/")
    return place.nginx(place.shipped("docs/examples/nginx_cache.conf", *names))


def nginx_path(place: Place) -> list[str]:
    certificate = f"{place.directory}/images.example.com"
    tls = f"ssl_certificate {certificate}.pem; ssl_certificate_key {certificate}.key;"
    alternative = ("http://127.0.0.1:8000/",) if place.leaves_path else ("127.0.0.1:8000",)
    location = place.shipped("deploy/nginx-path.conf", *alternative)
    other = "location / { return 404 other; }"
    return place.nginx(f"server {{ listen 127.0.0.1:{place.port} ssl; {tls}\n{location}\n{other} }}")


def varnish(place: Place) -> list[str]:
    path = place.directory / "varnish.vcl"
    path.write_text(place.shipped("docs/examples/varnish.vcl", '.port = "8000"'), encoding="utf-8")
    listen = ["-a", f"127.0.0.1:{place.port}", "-T", "none", "-j", "none"]
    return ["varnishd", "-F", *listen, "-n", f"{place.directory}/work", "-f", str(path), "-s", "malloc,64m"]


def caddy(place: Place) -> list[str]:
    return place.caddy(place.shipped("deploy/Caddyfile"))


def caddy_without_hotlinks(place: Place) -> list[str]:
    recipe = place.shipped("docs/examples/caddy_hotlink.caddyfile")
    return place.caddy(place.shipped("deploy/Caddyfile").replace("{$TLS}\n", f"{{$TLS}}\n{recipe}"))


def nginx_of_two_names(place: Place) -> list[str]:
    old = place.shipped("docs/examples/nginx_move.conf", "listen 443", "/etc/ssl/")
    for suffix in ("pem", "key"):
        link = place.directory / f"old.example.com.{suffix}"
        link.symlink_to(place.directory / f"images.example.com.{suffix}")
    return place.nginx(place.shipped("deploy/nginx.conf", *NGINX) + old)


def caddy_of_two_names(place: Place) -> list[str]:
    return place.caddy(
        place.shipped("deploy/Caddyfile") + place.shipped("docs/examples/caddy_move.caddyfile")
    )


def caddy_hosts(place: Place) -> list[str]:
    return place.caddy(place.shipped("deploy/Caddyfile-hosts"))


def caddy_path(place: Place) -> list[str]:
    alternative = ("handle_path /photos/",) if place.leaves_path else ()
    return place.caddy(place.shipped("deploy/Caddyfile-path", *alternative))


@frozen
class Proxy:
    """A reverse proxy with a shipped configuration.

    Attributes:
        command: Writes the configuration, and returns the command.
        variables: The variables of the server that the documentation names, with the proxy's ports by name.
        root_path: The path below which the proxy has the host.
        scheme: Of its URLs.
    """

    command: Callable[[Place], list[str]]
    variables: Mapping[str, str] = field(factory=dict)
    root_path: str = ""
    scheme: str = "https"

    @property
    def stores(self) -> bool:
        """Whether the server lets it store images."""
        return HOUR.items() <= self.variables.items()


PROXIES: Mapping[str, Proxy] = {
    "nginx": Proxy(nginx),
    "nginx that sends files": Proxy(
        nginx_sending_files, {"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": "/imagehost-files/"}
    ),
    "nginx that stores images": Proxy(
        nginx_cache,
        {
            **HOUR,
            "IMAGEHOST_PURGE_URL": "http://127.0.0.1:{purge_port}/purge/{{id}}",
            "IMAGEHOST_PURGE_METHOD": "HEAD",
            "IMAGEHOST_PURGE_SUCCESS_STATUSES": "404",
        },
    ),
    "nginx below a path": Proxy(
        nginx_path, {"IMAGEHOST_BASE_URL": "https://127.0.0.1:{port}/photos/v1"}, "/photos"
    ),
    "Varnish": Proxy(
        varnish,
        {
            **HOUR,
            "IMAGEHOST_PURGE_URL": "http://127.0.0.1:{port}/",
            "IMAGEHOST_PURGE_METHOD": "BAN",
            "IMAGEHOST_PURGE_HEADERS": "X-Cache-Tag: {{tag}}",
        },
        scheme="http",
    ),
    "Caddy": Proxy(caddy),
    "Caddy of several hosts": Proxy(caddy_hosts),
    "Caddy below a path": Proxy(
        caddy_path, {"IMAGEHOST_BASE_URL": "https://127.0.0.1:{port}/photos/v1"}, "/photos"
    ),
}

WITHOUT_HOTLINKS: Mapping[str, Proxy] = {
    "nginx without hotlinks": Proxy(nginx_without_hotlinks),
    "Caddy without hotlinks": Proxy(caddy_without_hotlinks),
}


MOVED: Mapping[str, Proxy] = {
    "nginx of two names": Proxy(nginx_of_two_names),
    "Caddy of two names": Proxy(caddy_of_two_names),
}


@frozen
class ProxiedServer:
    """A server behind a reverse proxy.

    Attributes:
        proxy: The reverse proxy.
        place: Where both run.
        server: The server.
        client: A client of the proxy without a token.
        context: Trusts the certificate of the proxy.
    """

    proxy: Proxy
    place: Place
    server: RunningServer
    client: httpx2.Client
    context: ssl.SSLContext

    @contextmanager
    def authorized(self) -> Iterator[httpx2.Client]:
        """A client of the proxy with a token that has all scopes."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        origin = self.client.base_url
        with httpx2.Client(base_url=origin, verify=self.context, headers=headers, timeout=PATIENCE) as client:
            yield client

    def exchange(self, request: bytes) -> bytes:
        """Send bytes to the proxy by TLS, and return what it sends until it closes the connection."""
        with (
            socket.create_connection(("127.0.0.1", self.place.port), 30) as connection,
            self.context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(request)
            response = b""
            while chunk := tls.recv(65_536):
                response += chunk
        return response

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Request a path of the host from the proxy."""
        return self.client.get(f"{self.proxy.root_path}{path}", headers=headers)

    def get_directly(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Request a path from the server."""
        return httpx2.get(f"http://127.0.0.1:{self.place.server_port}{path}", headers=headers)

    def api(self, method: str, path: str, token: str | None = None, **options: object) -> dict[str, object]:
        """Send a request to the server itself, and return the data of the response."""
        url = f"http://127.0.0.1:{self.place.server_port}/v1{path}"
        headers = {"Authorization": f"Bearer {token or self.server.token}"}
        response = httpx2.request(method, url, headers=headers, timeout=PATIENCE, **options)  # type: ignore[arg-type]
        data: dict[str, object] = response.raise_for_status().json()["data"]
        return data

    def sign_in(self, username: str) -> str:
        """Return the token of a new session."""
        body = {"username": username, "password": PASSWORD}
        return str(self.api("POST", "/session", json=body)["token"])


def wait_for(port: int, log: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a port of loopback accepts connections, while a process runs."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            has_ended = process is not None and process.poll() is not None
            assert not has_ended, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return


@contextmanager
def started(
    command: list[str],
    port: int,
    log: Path,
    variables: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[None]:
    """Run a proxy, or another program with a port, until the block ends."""
    with log.open("wb") as output:
        environment = {**os.environ, **(variables or {})}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=directory)
    try:
        wait_for(port, log, process)
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def behind(
    name: str | Proxy,
    certificate: tuple[Path, Path],
    directory: Path,
    variables: Mapping[str, str] | None = None,
    *,
    leaves_path: bool = False,
) -> Iterator[ProxiedServer]:
    """Run a server behind a reverse proxy.

    Args:
        name: Its name in `PROXIES`, `WITHOUT_HOTLINKS` or `MOVED`, or another one.
        certificate: A certificate and its key, as `images.example.com.pem` and `.key`.
        directory: A directory for both.
        variables: Variables of the server, in addition to the documented ones.
        leaves_path: As of `Place`.
    """
    proxy = name if isinstance(name, Proxy) else {**PROXIES, **WITHOUT_HOTLINKS, **MOVED}[name]
    place = Place(directory, leaves_path=leaves_path)
    command = proxy.command(place)
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED: {name}, because {command[0]} is not installed")
    for path, suffix in zip(certificate, ("pem", "key"), strict=True):
        shutil.copy(path, directory / f"images.example.com.{suffix}")
    (directory / "password").write_text(PASSWORD, encoding="utf-8")
    ports = {"port": place.port, "purge_port": place.purge_port}
    settings = {
        **NO_LIMITS,
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
        "IMAGEHOST_ADMIN_PASSWORD_FILE": f"{directory}/password",
        **{name: value.format_map(ports) for name, value in proxy.variables.items()},
        **(variables or {}),
    }
    context = ssl.create_default_context(cafile=certificate[0])
    origin = f"{proxy.scheme}://127.0.0.1:{place.port}"
    with (
        started(command, place.port, directory / "proxy.log", place.caddy_variables),
        # It is ready when its base URL responds, which may be that of the proxy.
        running(directory / "data", "--port", str(place.server_port), variables=settings) as server,
        httpx2.Client(base_url=origin, verify=context, timeout=PATIENCE) as client,
    ):
        wait_for(place.server_port, server.log)
        yield ProxiedServer(proxy, place, server, client, context)
