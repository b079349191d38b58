"""Rules of outgoing addresses: which URLs and IP addresses a host may connect to for its users.

They are a defence against server-side request forgery (SSRF). Endpoints of webhooks, and images that are
fetched from a URL, use https; http is allowed on loopback only, and only if the operator allows loopback.
Private, loopback, link-local, multicast, IPv4-embedding and metadata IP addresses are refused.
`parse_endpoint_url` checks the form of a URL when it is received; an `AddressPolicy` checks the IP address of
each connection before it is made. Only `resolve_host` looks up names.

```python
>>> from imagehost_core.endpoints import parse_endpoint_url
>>> endpoint = parse_endpoint_url("https://example.com/hooks?id=7")
>>> endpoint.authority, endpoint.target
('example.com', '/hooks?id=7')

```
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from threading import Thread
from urllib.parse import urlsplit

from attrs import frozen

from imagehost_core.errors import ValidationError, quote_value

MAX_URL = 2_000
"""The longest endpoint URL, in characters."""
HTTPS_PORT = 443
_MIN_PORT = 1_024
"""Lower ports belong to other services (RFC 6335, section 6); of these only 443 is allowed."""

IPAddress = IPv4Address | IPv6Address
AddressPolicy = Callable[[str], IPAddress]
"""Returns an IP address, parsed, or raises ValidationError if no connection may be made to it."""

_SPECIAL_V4 = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
            "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "224.0.0.0/4", "240.0.0.0/4",
        ),
    )
)  # fmt: skip
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
    if len(url) > MAX_URL or _PRINTABLE.fullmatch(url) is None or "\\" in url:
        raise _invalid(url, f"a URL of at most {MAX_URL} printable ASCII characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _invalid(url, "an https URL with a valid host and port") from None
    loopback = allow_loopback and host in _LOOPBACK_NAMES
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise _invalid(url, "an https URL")
    if "@" in parts.netloc:
        raise _invalid(url, "a URL without user and password")
    if "#" in url:
        raise _invalid(url, "a URL without a fragment")
    # `urlsplit` ignores text around the brackets and accepts future IP versions (`[v1.x]`).
    if _AUTHORITY.fullmatch(parts.netloc) is None:
        raise _invalid(url, "a URL with only an IPv6 address in brackets")
    if port is None:
        port = HTTPS_PORT if parts.scheme == "https" else 80
    if not loopback:
        _require_public_host(url, host)
        if port != HTTPS_PORT and port < _MIN_PORT:
            raise _invalid(url, f"a URL whose port is {HTTPS_PORT} or at least {_MIN_PORT}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(url, parts.scheme == "https", host, port, target)


def is_loopback_url(url: str) -> bool:
    """Return whether the host of a URL names this machine."""
    try:
        return urlsplit(url).hostname in _LOOPBACK_NAMES
    except ValueError:
        return False


def is_ip_address(host: str) -> bool:
    """Return whether a host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def require_ip_address(address: str) -> IPAddress:
    """Return an IP address of any network, parsed: the policy for URLs of the operator's own.

    Raises:
        ValidationError: The text is no IP address.
    """
    try:
        return ip_address(address)
    except ValueError:
        raise ValidationError.of("the endpoint's IP address", "an IP address", quote_value(address)) from None


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
    raise ValidationError.of("the endpoint's IP address", "a public one", quote_value(address))


def require_public_addresses(addresses: Iterable[str], *, allow_loopback: bool = False) -> None:
    """Raise ValidationError unless all IP addresses of a host name are public."""
    for address in addresses:
        require_public_address(address, allow_loopback=allow_loopback)


def _invalid(url: str, expected: str) -> ValidationError:
    # Errors are logged: a password and the query are secrets.
    shown = re.sub("//[^/]*@", "//…@", url.partition("?")[0])
    return ValidationError.of("url", expected, quote_value(shown))


def _require_public_host(url: str, host: str) -> None:
    if ":" in host or _NAME.fullmatch(host) is None:
        # Only the canonical form of an IP address is accepted: no octal, hexadecimal or short forms.
        try:
            require_public_address(host)
        except ValidationError:
            raise _invalid(url, "a public https URL") from None
    elif len(host) > 253 or host.endswith(_INTERNAL_SUFFIXES):
        raise _invalid(url, "a URL with a public host name")


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


HostResolver = Callable[[str, int], Iterable[str]]
"""A function that returns the IP addresses of a host name, for a port."""

RESOLVE_SECONDS = 3.0
"""The longest duration of a lookup. The system's resolver takes 5 seconds per try and name server by default
(resolv.conf(5)), and the owner of a domain decides whether its name server responds."""


def resolve_host(host: str, port: int, timeout: float = RESOLVE_SECONDS) -> list[str]:
    """Return the IP addresses of a host name from the system's resolver; none if it does not resolve in time.

    Args:
        host: The host name.
        port: The port.
        timeout: The longest duration, in seconds. The lookup itself cannot be cancelled: its thread ends
            later.
    """
    addresses = Future[list[str]]()

    def look_up() -> None:
        try:
            results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses.set_result([str(socket_address[0]) for *_, socket_address in results])
        except OSError:
            addresses.set_result([])

    Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    try:
        return addresses.result(timeout)
    except TimeoutError:
        return []
