"""Validation of webhook endpoint URLs, against server-side request forgery (SSRF).

Endpoints use https; http is allowed on loopback only, and only if the operator allows loopback. Private,
loopback, link-local, multicast, IPv4-embedding and metadata IP addresses are rejected. `parse_endpoint_url`
checks the form of a URL when a webhook is saved; `require_public_address` checks the IP address of each
connection before it is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from attrs import frozen

from imagehost_core.errors import FieldError, ValidationError, quote_value

MAX_URL = 2_000
"""The longest endpoint URL, in characters."""
HTTPS_PORT = 443
_MIN_PORT = 1_024
"""Lower ports belong to other services (RFC 6335, section 6); of these only 443 is allowed."""

IPAddress = IPv4Address | IPv6Address

_SPECIAL_V4 = tuple(
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
"""IANA's special-purpose IPv4 networks, and multicast (RFC 5771)."""
_GLOBAL_V6 = IPv6Network("2000::/3")
"""The allocated global unicast range. Everything outside it is rejected: loopback, unique local, link-local,
site-local, multicast, IPv4-mapped, IPv4-compatible and the NAT64 prefixes."""
_SPECIAL_V6 = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
"""Special-purpose networks within it: 2001::/23 with Teredo, documentation, 6to4 (which embeds an IPv4
address), AS112."""
_ISATAP = 0x5EFE
"""The upper half of an ISATAP interface identifier, which embeds an IPv4 address (RFC 5214, section 6.1)."""
_ISATAP_FLAGS = 0x0300_0000
"""Its bits that are not compared: whether the IPv4 address is globally unique, and whether it is a group."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)+(?=[a-z]){_LABEL}", re.ASCII)
"""A host name with a dot whose last label begins with a letter, so that no resolver parses it as an IP
address."""
_AUTHORITY = re.compile(r"(?:\[[^\[\]]*:[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?", re.ASCII)
"""A host and a port (RFC 3986, section 3.2); an IPv6 address is in brackets."""
_PRINTABLE = re.compile(r"[!-~]+", re.ASCII)
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_INTERNAL_SUFFIXES = (
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
    """A parsed and valid endpoint URL.

    Attributes:
        url: The URL as received.
        secure: Whether the scheme is https.
        host: The host name in lower case, or the IP address without brackets.
        port: The port, explicit or the scheme's default.
        target: The path and query, as in a request line.
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
        default_port = HTTPS_PORT if self.secure else 80
        return name if self.port == default_port else f"{name}:{self.port}"


def parse_endpoint_url(url: str, *, allow_loopback: bool = False) -> Endpoint:
    """Return the endpoint of a URL.

    Args:
        url: The received URL.
        allow_loopback: Whether loopback is allowed, and http there.

    Raises:
        ValidationError: The URL is not allowed.
    """
    try:
        return _parse(url, allow_loopback)
    except _InvalidEndpoint as error:
        raise ValidationError(errors=[FieldError("url", error.expected, quote_value(url))]) from None


def is_ip_address(host: str) -> bool:
    """Return whether a host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def require_public_address(address: str, *, allow_loopback: bool = False) -> IPAddress:
    """Raise ValidationError unless an IP address is public; return it.

    Args:
        address: An IPv4 or IPv6 address as text, as the resolver returned it.
        allow_loopback: Whether loopback is allowed.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        parsed = None
    if parsed is not None and (_is_global(parsed) or (allow_loopback and _is_loopback(parsed))):
        return parsed
    raise ValidationError(
        errors=[FieldError("the endpoint's IP address", "a public one", quote_value(address))]
    )


def require_public_addresses(addresses: Iterable[str], *, allow_loopback: bool = False) -> None:
    """Raise ValidationError unless all IP addresses of a host name are public."""
    for address in addresses:
        require_public_address(address, allow_loopback=allow_loopback)


class _InvalidEndpoint(Exception):
    """A URL is not allowed.

    Args:
        expected: A description of the allowed URLs.
    """

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def _parse(url: str, allow_loopback: bool) -> Endpoint:
    if len(url) > MAX_URL or _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise _InvalidEndpoint(f"a URL of at most {MAX_URL} printable ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _InvalidEndpoint("an https URL with a valid host and port") from None
    loopback = allow_loopback and host in _LOOPBACK_NAMES
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise _InvalidEndpoint("an https URL")
    if "@" in parts.netloc:
        raise _InvalidEndpoint("a URL without user and password")
    if "#" in url:
        raise _InvalidEndpoint("a URL without a fragment")
    # `urlsplit` ignores text around the brackets and accepts future IP versions (`[v1.x]`).
    if _AUTHORITY.fullmatch(parts.netloc) is None:
        raise _InvalidEndpoint("a URL with only an IPv6 address in brackets")
    if port is None:
        port = HTTPS_PORT if parts.scheme == "https" else 80
    if not loopback:
        _require_public_host(host)
        if port != HTTPS_PORT and port < _MIN_PORT:
            raise _InvalidEndpoint(f"a URL whose port is {HTTPS_PORT} or at least {_MIN_PORT}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(url, parts.scheme == "https", host, port, target)


def _require_public_host(host: str) -> None:
    if ":" in host or _NAME.fullmatch(host) is None:
        # Only the canonical form of an IP address is accepted: no octal, hexadecimal or short forms.
        try:
            require_public_address(host)
        except ValidationError:
            raise _InvalidEndpoint("a public https URL") from None
    elif len(host) > 253 or host.endswith(_INTERNAL_SUFFIXES):
        raise _InvalidEndpoint("a URL with a public host name")


def _is_global(address: IPAddress) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    special = any(address in network for network in _SPECIAL_V6)
    is_plain = not special and not _is_isatap(address) and address.scope_id is None
    return address in _GLOBAL_V6 and is_plain


def _is_isatap(address: IPv6Address) -> bool:
    """Return whether a tunnel would send packets for the address to an IPv4 address, within any network."""
    return int(address) >> 32 & 0xFFFF_FFFF & ~_ISATAP_FLAGS == _ISATAP


def _is_loopback(address: IPAddress) -> bool:
    return address in (ip_address("127.0.0.1"), ip_address("::1"))
