"""Where webhooks may be sent: never to a place that only this machine or its network can reach.

Contract 10: *https only (http on loopback only when the operator allows it), no private, loopback,
link-local, multicast, embedded-IPv4 or metadata addresses, checked when saved and again on the address
really connected to*. The name is checked here by its form; its addresses, by `check_address`, each time
one is about to be connected to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from attrs import frozen

from imagehost_core.errors import FieldError, ValidationError, quote_value

MAX_URL = 2_000
"""Characters of a destination."""
HTTPS_PORT = 443
_FIRST_FREE_PORT = 1_024
"""Below it are ports of other services (RFC 6335, section 6); only that of HTTPS is taken."""

IPAddress = IPv4Address | IPv6Address

_REFUSED_V4 = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
"""The IPv4 networks of IANA's registry of special purposes, and multicast (RFC 5771)."""
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All global unicast addresses that IANA has given out. Everything else is refused: loopback, unique
local, link-local, site-local, multicast, IPv4-mapped, IPv4-compatible, and the NAT64 prefixes."""
_REFUSED_V6 = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
"""What is not for everybody within it: Teredo and others of 2001::/23, documentation, 6to4 (which embeds
an IPv4 address), AS112."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+(?=[a-z]){_LABEL}", re.ASCII)
"""A name with a dot whose last label begins with a letter, so that no resolver reads it as an address."""
_AUTHORITY = re.compile(r"(?:\[[^\[\]]*:[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?", re.ASCII)
"""A host and a port (RFC 3986, 3.2); in brackets is what has colons of its own."""
_PRINTABLE = re.compile(r"[!-~]+", re.ASCII)
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_INTERNAL_ENDINGS = (
    ".localhost",
    ".local",
    ".internal",
    ".localdomain",
    ".lan",
    ".home",
    ".corp",
    ".home.arpa",
)


@frozen
class Endpoint:
    """A destination whose form is allowed.

    Attributes:
        url: As it was given.
        secure: Whether it is https.
        host: A name in lower case, or an address without brackets.
        port: Its port.
        target: The path and the query, as a request line has them.
    """

    url: str
    secure: bool
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        standard = HTTPS_PORT if self.secure else 80
        return name if self.port == standard else f"{name}:{self.port}"


def parse_endpoint_url(url: str, *, allow_loopback: bool = False) -> Endpoint:
    """Return a destination whose form is allowed.

    Args:
        url: As it was received.
        allow_loopback: Whether loopback is taken, and http there.

    Raises:
        ValidationError: It is not allowed.
    """
    try:
        return _parse(url, allow_loopback)
    except _InvalidEndpoint as refused:
        raise ValidationError(errors=[FieldError("url", refused.expected, quote_value(url))]) from None


def is_ip_address(host: str) -> bool:
    """Return whether a host is an address already, and no name that must be resolved."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def require_public_address(address: str, *, allow_loopback: bool = False) -> IPAddress:
    """Let an address that is about to be connected to pass.

    Args:
        address: Of IPv4 or IPv6, as the resolver gave it.
        allow_loopback: Whether loopback is taken.

    Raises:
        ValidationError: It is none that everybody can reach.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        parsed = None
    if parsed is not None and (_is_global(parsed) or (allow_loopback and _is_loopback(parsed))):
        return parsed
    fault = FieldError(
        "the destination's address", "one that is reachable from everywhere", quote_value(address)
    )
    raise ValidationError(errors=[fault])


def require_public_addresses(addresses: Iterable[str], *, allow_loopback: bool = False) -> None:
    """Let the addresses of a name pass, if every one of them does.

    Raises:
        ValidationError: One is none that everybody can reach.
    """
    for address in addresses:
        require_public_address(address, allow_loopback=allow_loopback)


class _InvalidEndpoint(Exception):
    """What is wrong with an address: what would have been right."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def _parse(url: str, allow_loopback: bool) -> Endpoint:
    if len(url) > MAX_URL or _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise _InvalidEndpoint(f"an address of at most {MAX_URL} printable ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        # It speaks of its own matters, to whoever calls it.
        raise _InvalidEndpoint("an https address whose host and port can be read") from None
    loopback = allow_loopback and host in _LOOPBACK_NAMES
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise _InvalidEndpoint("an https address")
    if "@" in parts.netloc:
        raise _InvalidEndpoint("an address without user and password")
    if "#" in url:
        raise _InvalidEndpoint("an address without a fragment")
    # `urlsplit` takes no notice of what stands around brackets, and lets versions to come (`[v1.x]`) pass.
    if _AUTHORITY.fullmatch(parts.netloc) is None:
        raise _InvalidEndpoint("an IPv6 address, and nothing else, in brackets")
    if port is None:
        port = HTTPS_PORT if parts.scheme == "https" else 80
    if not loopback:
        _check_host(host)
        if port != HTTPS_PORT and port < _FIRST_FREE_PORT:
            raise _InvalidEndpoint(f"the port {HTTPS_PORT}, or one from {_FIRST_FREE_PORT} on,")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(url, parts.scheme == "https", host, port, target)


def _check_host(host: str) -> None:
    if ":" in host or _NAME.fullmatch(host) is None:
        # Only the one usual way of writing an address is read: no octal, hexadecimal or short forms.
        try:
            require_public_address(host)
        except ValidationError:
            raise _InvalidEndpoint("an https address that everybody can reach") from None
    elif len(host) > 253 or host.endswith(_INTERNAL_ENDINGS):
        raise _InvalidEndpoint("an address whose name is known everywhere")


def _is_global(address: IPAddress) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    refused = any(address in network for network in _REFUSED_V6)
    return address in _GLOBAL_V6 and not refused and address.scope_id is None


def _is_loopback(address: IPAddress) -> bool:
    return address in (ip_address("127.0.0.1"), ip_address("::1"))
