"""The IP address of a client, behind trusted proxies or not."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar.types import HTTPScope

Network = IPv4Network | IPv6Network

_HOST_AND_PORT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)(?=:))(?::[0-9]{1,5})?", re.ASCII)
"""An IP address with a port or in brackets, as some proxies write it: `192.0.2.1:80`, `[2001:db8::1]:443`."""


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
    client = (scope["client"] or ("", 0))[0]
    if not trusted:
        return client
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [hop.strip().decode("latin-1") for value in values for hop in value.split(b",")]
    while hops and is_trusted_proxy(client, trusted):
        hop = _parse(hops.pop())
        if hop is None:
            break
        client = str(hop)
    return client


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
