"""Every setting of the server beside the core's, and how both are read.

A value comes from the first that names it: a flag of the command line, a variable
`IMAGEHOST_<SECTION>_<NAME>`, the file `imagehost.toml` in the data folder, the default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, le

from imagehost_core.limits import DAY
from imagehost_core.settings import Settings, require_section
from imagehost_core.settings.loader import (
    ResolvedSetting,
    SettingsError,
    SettingsSource,
    from_environment,
    from_toml,
    resolve,
)

FILE = "imagehost.toml"
"""The name of the settings file in the data folder."""

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
"""Hosts that stand for every interface, and the one under which the machine reaches itself."""


class LogLevel(StrEnum):
    """The least important messages that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _networks(_settings: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    for entry in value:
        try:
            ip_network(entry)
        except ValueError:
            expected = "addresses or networks like 10.0.0.7 or 10.0.0.0/8"
            raise ValueError(f"expected {expected} for {attribute.name} but received {entry!r}") from None


@frozen(kw_only=True)
class ListenSettings:
    """Where the server listens, and in how many processes.

    Attributes:
        host: The address of the interface to listen on.
        port: Its port; 0 takes a free one.
        workers: How many processes answer requests.
        tls_cert: A file with the certificate and its chain, PEM.
        tls_key: A file with the certificate's key, PEM.
        hsts_seconds: For how long browsers that were answered over HTTPS ask nothing of this name without it
            (RFC 6797); 0 = they are not told, for whoever tries HTTPS out on a name that has other uses.
    """

    host: str = "127.0.0.1"
    port: int = field(default=8000, validator=[ge(0), le(65_535)])
    workers: int = field(default=1, validator=ge(1))
    tls_cert: str | None = None
    tls_key: str | None = None
    hsts_seconds: int = field(default=365 * DAY, validator=ge(0))

    def __attrs_post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            raise ValueError(f"expected tls_cert and tls_key together but {missing} is missing")

    @property
    def origin(self) -> str:
        """Scheme, host and port under which this machine reaches the server."""
        host = ANY_ADDRESS.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.tls_cert else 'http'}://{shown}:{self.port}"


@frozen(kw_only=True)
class HttpSettings:
    """Bounds of HTTP connections and request bodies, in each server process.

    Attributes:
        header_timeout_seconds: For the headers of a request, between two requests of a connection, and while
            a client reads nothing of its response.
        max_connections: Connections at a time; a further one gets 503.
        max_concurrent_requests_per_client: Requests at a time of one client IP address; 0 is unlimited. A
            page with 200 images behind a proxy that speaks HTTP/2 requests all of them at once.
        body_idle_timeout_seconds: Longest pause between two chunks of a request body.
        body_timeout_seconds: Longest time for a whole body: 20 files of 50 MB at 5 Mbit/s take 28 minutes.
        json_body_timeout_seconds: Longest time for a JSON body: 1 MiB at 0.3 Mbit/s takes 28 seconds. Signing
            in needs no token, so any client can send such a body.
    """

    header_timeout_seconds: float = field(default=15.0, validator=[gt(0), le(600)])
    max_connections: int = field(default=4_096, validator=ge(1))
    max_concurrent_requests_per_client: int = field(default=256, validator=ge(0))
    body_idle_timeout_seconds: float = field(default=30.0, validator=gt(0))
    body_timeout_seconds: float = field(default=1_800.0, validator=gt(0))
    json_body_timeout_seconds: float = field(default=30.0, validator=gt(0))


@frozen(kw_only=True)
class LogSettings:
    """What is logged.

    Attributes:
        level: The least important messages that are shown.
        access: Whether each request has a line.
    """

    level: LogLevel = LogLevel.INFO
    access: bool = True


@frozen(kw_only=True)
class ServerSettings(Settings):
    """All settings: the core's and the server's.

    Attributes:
        trusted_proxies: Addresses and networks whose `X-Forwarded-*` headers are believed.
        registration: Whether anybody may make an account over HTTP.
        server: Where the server listens.
        http: Bounds of connections and request bodies.
        log: What is logged.

    Raises:
        TypeError: A section is not an instance of its class.
        ValueError: A value is not allowed.
    """

    trusted_proxies: tuple[str, ...] = field(default=(), validator=_networks)
    registration: bool = False
    server: ListenSettings = field(factory=ListenSettings, validator=require_section(ListenSettings))
    http: HttpSettings = field(factory=HttpSettings, validator=require_section(HttpSettings))
    log: LogSettings = field(factory=LogSettings, validator=require_section(LogSettings))


def load(
    data: Path, flags: Mapping[str, object], variables: Mapping[str, str]
) -> tuple[ServerSettings, tuple[ResolvedSetting, ...]]:
    """Return the settings for a data folder, and where each came from.

    Without a `base_url` the address is made from where the server listens.

    Args:
        data: The data folder; neither it nor the file in it need exist.
        flags: Values of the command line, by path: `{"server.port": 8000}`.
        variables: `os.environ`, or the like.

    Raises:
        SettingsError: A value cannot be read or is not allowed, or there is no such setting.
    """
    sources = [
        SettingsSource("flags", flags),
        from_environment(variables, ServerSettings),
        *_file(data / FILE),
    ]
    listen = resolve(sources, ServerSettings)[0].server
    derived = SettingsSource("server.host and server.port", {"base_url": f"{listen.origin}/v1"})
    return resolve([*sources, derived], ServerSettings)


def _file(path: Path) -> list[SettingsSource]:
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise SettingsError(f"expected TOML in {path.name} but received: {error}") from error
    return [from_toml(path.name, tree, ServerSettings)]


@lru_cache(1_000)
def is_loopback(host: str) -> bool:
    """Return whether an address is the machine's own, 127.0.0.0/8 or ::1, also as `::ffff:127.0.0.1`."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
