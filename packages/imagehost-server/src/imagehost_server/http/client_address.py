"""The IP address of a client, behind trusted proxies or not."""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar.types import HTTPScope

Network = IPv4Network | IPv6Network

_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)(?=:))(?::[0-9]{1,5})?", re.ASCII)
"""An IP address with a port or in brackets, as some proxies write it: `192.0.2.1:80`, `[2001:db8::1]:443`."""


logger = logging.getLogger("imagehost.server")

WINDOW_REQUESTS = 200
"""Requests after which `UntrustedProxyDetector` compares and begins anew."""
MIN_CLIENTS = 5
"""Different clients that one IP address must name to be taken for a proxy."""

MAX_NAMED = 64
"""Characters of an entry that `UntrustedProxyDetector` keeps: more than those of any IP address."""
MAX_WARNINGS = 64
"""Clients that a process warns of; each must send most of `WINDOW_REQUESTS` requests."""


def client_address(scope: HTTPScope, trusted: tuple[Network, ...]) -> str:
    """Return the IP address of the client that sent a request.

    A trusted proxy appends the IP address of its peer to `X-Forwarded-For`. So the header is read from its
    right end while the entries are trusted proxies; the first entry that is not one is the client.
    Entries further left were sent by the client, and may be forged. The header is ignored unless the peer
    of the connection is a trusted proxy.

    Args:
        scope: The request.
        trusted: Networks of trusted proxies.
    """
    return (scope["client"] or ("", 0))[0] if not trusted else resolve_client(scope, trusted)[0]


def resolve_client(scope: HTTPScope, trusted: tuple[Network, ...]) -> tuple[str, str]:
    """Return the IP address of the client, and the entry left of it, which it has sent or passed on.

    Args:
        scope: The request.
        trusted: Networks of trusted proxies.
    """
    client = (scope["client"] or ("", 0))[0]
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [hop.strip().decode("latin-1") for value in values for hop in value.split(b",")]
    while hops and is_trusted_proxy(client, trusted):
        hop = _parse(hops.pop())
        if hop is None:
            break
        client = str(hop)
    return client, hops[-1] if hops else ""


class UntrustedProxyDetector:
    """Logs which clients may be proxies: one sends most requests, and names many clients in them.

    Behind a CDN whose networks are not trusted, all visitors share the limits of one IP address. A client
    that forges `X-Forwarded-For` looks the same, so the advice is to compare with the list of the CDN.
    """

    def __init__(self) -> None:
        self._warned = set[str]()
        self._begin()

    def _begin(self) -> None:
        self._requests = 0
        self._named: dict[str, list[str]] = {}

    def observe(self, client: str, named: str) -> None:
        """Take a request into account.

        Args:
            client: The IP address of the client.
            named: The client that it names, of `resolve_client`.
        """
        if len(self._warned) == MAX_WARNINGS:
            return
        if named:
            self._named.setdefault(client, []).append(named[:MAX_NAMED])
        self._requests += 1
        if self._requests == WINDOW_REQUESTS:
            for client, clients in self._named.items():
                if len(clients) > WINDOW_REQUESTS // 2 and len(set(clients)) >= MIN_CLIENTS:
                    self._warn(client, len(set(clients)))
            self._begin()

    def _warn(self, client: str, count: int) -> None:
        if client in self._warned:
            return
        self._warned.add(client)
        advice = (
            "if your CDN or proxy lists this address, add the listed networks to IMAGEHOST_TRUSTED_PROXIES: "
            "its clients share limits; otherwise it forges X-Forwarded-For, and must not be trusted"
        )
        fields = {"client": client, "requests": WINDOW_REQUESTS, "named_clients": count, "advice": advice}
        logger.warning("client names many others in X-Forwarded-For", extra={"fields": fields})


def is_trusted_proxy(host: str, trusted: tuple[Network, ...]) -> bool:
    """Return whether an IP address is in one of the trusted networks."""
    address = _parse(host)
    return address is not None and any(address in network for network in trusted)


@lru_cache(1_000)
def _parse(text: str) -> IPv4Address | IPv6Address | None:
    match = _HOST_AND_PORT.fullmatch(text)
    try:
        address = ip_address(text if match is None else match[1] or match[2])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def without_root(path: str, root_path: str) -> str:
    """Return a path without the root path: proxies remove it, or leave it to the server."""
    return path[len(root_path) :] or "/" if f"{path}/".startswith(f"{root_path}/") else path
