"""The server's settings in addition to the core's, and their sources.

The first source with a value wins: command line flag, environment variable `IMAGEHOST_<SECTION>_<NAME>`, the
file `imagehost.toml` in the data directory, default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path

from attrs import Attribute, field, fields, frozen
from attrs.validators import ge, gt, le, matches_re, max_len, min_len, optional

from imagehost_core.limits import DAY
from imagehost_core.settings import (
    ResolvedSetting,
    Settings,
    SettingsError,
    SettingsSource,
    from_environment,
    from_toml,
    require_base_url,
    require_section,
    resolve_settings,
    secret,
    with_version,
)

FILE = "imagehost.toml"
"""The name of the settings file in the data directory."""

WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
"""Hosts that listen on every interface, with the loopback address to connect to instead."""


MIN_METRICS_TOKEN = 16
"""The shortest `metrics.token`, in characters."""


class LogLevel(StrEnum):
    """The minimum level of logged messages."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _require_networks(
    _settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for entry in value:
        try:
            ip_network(entry)
        except ValueError:
            expected = "IP addresses or networks like 10.0.0.7 or 10.0.0.0/8"
            raise ValueError(f"expected {expected} for {attribute.name} but received {entry!r}") from None


# RFC 6454, 6.2, as browsers send it: in lower case, and without a port that is the scheme's default.
_ORIGIN = re.compile(
    r"(?!http://[^/]*:80$|https://[^/]*:443$)"
    r"[a-z][a-z0-9+.-]*://([a-z0-9._~-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?"
)


def _require_origins(
    _settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]
) -> None:
    for entry in value:
        if not (_ORIGIN.fullmatch(entry) or value == ("*",)):
            expected = "* alone, or origins like https://app.example.com, without a path or a default port,"
            raise ValueError(f"expected {expected} for {attribute.name} but received {entry!r}")


@frozen(kw_only=True)
class ListenSettings:
    """Interface, port, TLS and number of server processes.

    Attributes:
        host: IP address or name of the interface to listen on.
        port: TCP port; 0 picks a free one.
        workers: Number of server processes.
        tls_cert: Path of the TLS certificate with its chain, PEM.
        tls_key: Path of the certificate's private key, PEM.
        hsts_seconds: `max-age` of Strict-Transport-Security (RFC 6797), sent over HTTPS; 0 sends none, for
            host names that also serve other things over plain HTTP.
        drain_seconds: How long the server serves on after SIGTERM, while `/readyz` responds with 503 and
            connections are closed after their next response; longer than a load balancer takes to notice.
    """

    host: str = "127.0.0.1"
    port: int = field(default=8000, validator=[ge(0), le(65_535)])
    workers: int = field(default=1, validator=ge(1))
    tls_cert: str | None = None
    tls_key: str | None = None
    hsts_seconds: int = field(default=365 * DAY, validator=ge(0))
    drain_seconds: float = field(default=0.0, validator=[ge(0), le(600)])

    def __attrs_post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            raise ValueError(f"expected tls_cert and tls_key together but {missing} is missing")

    @property
    def origin(self) -> str:
        """Scheme, host and port by which this machine reaches the server."""
        host = WILDCARD_HOSTS.get(self.host, self.host)
        url_host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls_cert else 'http'}://{url_host}:{self.port}"


@frozen(kw_only=True)
class HttpSettings:
    """Limits of HTTP connections and request bodies, in each server process.

    Attributes:
        header_timeout_seconds: For the headers of a request, and between two requests of a connection.
        max_connections: Connections at a time. For a further one the oldest idle connection is closed, of the
            client IP address with most of them; while none is idle it gets 503, unless it is a probe's.
        max_connections_per_client: Connections at a time of one client IP address, except trusted proxies; 0
            is unlimited. For a further one the client's oldest idle connection is closed.
        max_concurrent_requests_per_client: Requests at a time of one client IP address, except probes; 0 is
            unlimited. A page with 200 images behind a proxy that speaks HTTP/2 requests all of them at once.
        body_idle_timeout_seconds: Longest pause between two chunks of a request body.
        body_timeout_seconds: Longest time for a whole body: 20 files of 50 MB at 5 Mbit/s take 28 minutes.
        json_body_timeout_seconds: Longest time for a JSON body: 1 MiB at 0.3 Mbit/s takes 28 seconds. Signing
            in needs no token, so any client can send such a body.
        fast_path: Whether images in memory are sent before the request reaches ASGI. The responses are the
            same without it, at about a third of the requests per second.
    """

    header_timeout_seconds: float = field(default=15.0, validator=[gt(0), le(600)])
    max_connections: int = field(default=4_096, validator=ge(1))
    max_connections_per_client: int = field(default=512, validator=ge(0))
    max_concurrent_requests_per_client: int = field(default=256, validator=ge(0))
    body_idle_timeout_seconds: float = field(default=30.0, validator=gt(0))
    body_timeout_seconds: float = field(default=1_800.0, validator=gt(0))
    json_body_timeout_seconds: float = field(default=30.0, validator=gt(0))
    fast_path: bool = True


@frozen(kw_only=True)
class GallerySettings:
    """The gallery of public images.

    Attributes:
        require_sign_in: Whether it requires a token, of any scope, or a session.
    """

    require_sign_in: bool = False


def _require_logo(_settings: object, attribute: Attribute[str], value: str) -> None:
    path = Path(value)
    if path.suffix not in (".svg", ".png", ".webp") or not path.is_file():
        expected = "the path of an SVG, PNG or WebP file"
        raise ValueError(f"expected {expected} for {attribute.name} but received {value!r}")


def _require_color(_settings: object, attribute: Attribute[str], value: str) -> None:
    if not re.fullmatch("#[0-9a-fA-F]{6}", value):
        raise ValueError(f"expected a colour like #1f5fd6 for {attribute.name} but received {value!r}")


@frozen(kw_only=True)
class WebSettings:
    """The web pages.

    Attributes:
        enabled: Whether there are any.
        site_name: The name that they show.
        logo_file: Path of the image beside the name, which is the icon of the site too: SVG, PNG or WebP;
            `None` for that of imagehost.
        accent: The colour of links and buttons, as `#1f5fd6`; `None` for blue.
        listed: Whether search engines may list public pages and images.
        security_contact: Where to report vulnerabilities: a URL, such as `mailto:security@example.com`, for
            `/.well-known/security.txt`.
    """

    enabled: bool = True
    site_name: str = field(default="imagehost", validator=[min_len(1), max_len(60)])
    logo_file: str | None = field(default=None, validator=optional(_require_logo))
    accent: str | None = field(default=None, validator=optional(_require_color))
    listed: bool = True
    security_contact: str | None = field(
        default=None, validator=optional(matches_re(r"(?:mailto:|tel:|https://)[!-~]+"))
    )


@frozen(kw_only=True)
class AdminSettings:
    """The account `admin` of a new data directory.

    Attributes:
        password_file: Path of a file with its password, such as a secret of a container; `None` for a random
            password, which the first start prints.
    """

    password_file: str | None = None


class LogFormat(StrEnum):
    """The form of logged messages."""

    LINE = "line"
    JSON = "json"


@frozen(kw_only=True)
class LogSettings:
    """Logging.

    Attributes:
        level: Minimum level of logged messages.
        access: Whether to log each request.
        buffered: Whether the lines of requests wait for others, up to 50 ms.
        format: Lines with `key=value` fields, or JSON objects.
    """

    level: LogLevel = LogLevel.INFO
    access: bool = True
    buffered: bool = True
    format: LogFormat = LogFormat.LINE


@frozen(kw_only=True)
class MetricsSettings:
    """Access to the metrics.

    Attributes:
        token: The bearer token with which clients on other machines can read `/metrics`; without it, they
            cannot.
    """

    token: str | None = field(
        default=None, repr=False, validator=optional(min_len(MIN_METRICS_TOKEN)), metadata=secret()
    )


@frozen(kw_only=True)
class ServerSettings(Settings):
    """All settings: the core's and the server's.

    Attributes:
        base_url: The public URL of the HTTP interface; `/v1` is added if it is missing.
        trusted_proxies: IP addresses and networks of proxies whose `X-Forwarded-*` headers are used.
        cors_origins: Origins whose pages may use the JSON API in browsers, with a token; `*` is all of them,
            and none disables CORS.
        registration: Whether accounts can be created over HTTP without authentication.
        server: Interface, port, TLS and processes.
        http: Limits of HTTP connections and request bodies.
        gallery: The gallery of public images.
        web: The web pages.
        admin: The account `admin` of a new data directory.
        log: Logging.
        metrics: Access to the metrics.

    Raises:
        TypeError: A section is not an instance of its class.
        ValueError: A value is not allowed.
    """

    base_url: str = field(
        default="http://127.0.0.1:8000/v1",
        converter=with_version,
        validator=require_base_url,
        metadata=fields(Settings).base_url.metadata,
    )
    trusted_proxies: tuple[str, ...] = field(default=(), validator=_require_networks)
    cors_origins: tuple[str, ...] = field(default=("*",), validator=_require_origins)
    registration: bool = False
    server: ListenSettings = field(factory=ListenSettings, validator=require_section(ListenSettings))
    http: HttpSettings = field(factory=HttpSettings, validator=require_section(HttpSettings))
    gallery: GallerySettings = field(factory=GallerySettings, validator=require_section(GallerySettings))
    web: WebSettings = field(factory=WebSettings, validator=require_section(WebSettings))
    admin: AdminSettings = field(factory=AdminSettings, validator=require_section(AdminSettings))
    log: LogSettings = field(factory=LogSettings, validator=require_section(LogSettings))
    metrics: MetricsSettings = field(factory=MetricsSettings, validator=require_section(MetricsSettings))


def load(
    data: Path, flags: Mapping[str, object], variables: Mapping[str, str]
) -> tuple[ServerSettings, tuple[ResolvedSetting, ...]]:
    """Return the settings of a data directory, and the source of each.

    The default of `base_url` is derived from `server.host` and `server.port`.

    Args:
        data: The data directory; neither it nor a settings file in it need exist.
        flags: Values of command line flags, by setting path: `{"server.port": 8000}`.
        variables: Environment variables.

    Raises:
        SettingsError: A value cannot be parsed or is not allowed, or a setting is unknown.
    """
    sources = [
        SettingsSource("flags", flags),
        from_environment(variables, ServerSettings),
        *_read_file(data / FILE),
    ]
    listen = resolve_settings(sources, ServerSettings)[0].server
    derived = SettingsSource("server.host and server.port", {"base_url": f"{listen.origin}/v1"})
    return resolve_settings([*sources, derived], ServerSettings)


def _read_file(path: Path) -> list[SettingsSource]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"expected TOML in {path.name} but received: {error}") from error
    return [from_toml(path.name, tree, ServerSettings)]


@lru_cache(1_000)
def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address: 127.0.0.0/8 or ::1, also as `::ffff:127.0.0.1`."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
