"""The address of a client, as far as it can be believed."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar.types import HTTPScope

Network = IPv4Network | IPv6Network


def client_address(scope: HTTPScope, trusted: tuple[Network, ...]) -> str:
    """Return the address of whoever sent a request.

    A trusted proxy appends to `X-Forwarded-For` the address that it was asked from. So the header is
    read from its right end, as long as what stands there is a trusted proxy itself; the first that is
    none is the client. What is further left was written by the client, who may write anything. From
    anybody else the header is not read.

    Args:
        scope: The request.
        trusted: Networks of proxies that are believed.
    """
    address = (scope["client"] or ("", 0))[0]
    if not trusted:
        return address
    values = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [hop.strip().decode("latin-1") for value in values for hop in value.split(b",")]
    while hops and is_trusted_proxy(address, trusted):
        hop = _parsed(hops.pop())
        if hop is None:
            break
        address = str(hop)
    return address


def is_trusted_proxy(address: str, trusted: tuple[Network, ...]) -> bool:
    """Whether an address is that of a proxy which is believed."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in trusted)


@lru_cache(1_000)
def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
