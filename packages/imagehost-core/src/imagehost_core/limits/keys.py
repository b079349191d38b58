"""Rate limit keys: which requests are counted together."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from imagehost_core.ids import AccountId

MAX_NAME = 64
"""The longest account name, in characters (`imagehost_core.services.owners`)."""
_IPV6_PREFIX = 64
"""An IPv6 subscriber has a network of this prefix length (RFC 6177), so its IP addresses count as one
client."""


def account_key(account_id: AccountId) -> str:
    """Return the rate limit key of an account."""
    return f"account:{account_id}"


def ip_address_key(ip_address: str) -> str:
    """Return the rate limit key of a client IP address.

    Args:
        ip_address: The text of the address. An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) is the IPv4
            client; other text, such as that of a Unix socket, shares one key.
    """
    return f"address:{_client(ip_address)}"


def sign_in_keys(name: str, ip_address: str) -> tuple[str, str]:
    """Return the rate limit keys of a sign-in attempt: of the account and of the client IP address.

    Args:
        name: The received account name; names that are too long share one key.
        ip_address: The client IP address.
    """
    # Names that differ in their case only are one account's.
    valid_name = name.lower() if len(name) <= MAX_NAME else ""
    return f"sign-in:account:{valid_name}", f"sign-in:address:{_client(ip_address)}"


@lru_cache(10_000)
def _client(ip_address: str) -> str:
    try:
        parsed = ipaddress.ip_address(ip_address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
