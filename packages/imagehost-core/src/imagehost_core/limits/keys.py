"""Whose requests are counted together."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from imagehost_core.ids import AccountId

MAX_NAME = 64
"""Characters of an account's name (`imagehost_core.services.owners`)."""
_SUBSCRIBER_BITS = 64
"""One subscriber has a whole IPv6 network of this length (RFC 6177), so its addresses count as one."""


def account_key(account_id: AccountId) -> str:
    """Return the bucket of an account's requests."""
    return f"account:{account_id}"


def address_key(address: str) -> str:
    """Return the bucket of requests from a client address.

    Args:
        address: As text; an IPv4 address that comes as an IPv6 one (`::ffff:192.0.2.1`) is the same
            client. What is no address, such as a Unix socket, shares one bucket.
    """
    return f"address:{_client(address)}"


def sign_in_keys(name: str, address: str) -> tuple[str, str]:
    """Return the buckets of an attempt to sign in: that of the account, and that of the address.

    Args:
        name: What was given for the account's name; all that are too long for one share a bucket.
        address: The client's.
    """
    shown = name if len(name) <= MAX_NAME else ""
    return f"sign-in:account:{shown}", f"sign-in:address:{_client(address)}"


@lru_cache(10_000)
def _client(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(ip_network((parsed, _SUBSCRIBER_BITS), strict=False))
