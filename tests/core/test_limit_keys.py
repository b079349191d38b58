"""Rate limit keys of accounts and clients."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.ids import AccountId
from imagehost_core.limits import account_key, ip_address_key, sign_in_keys


def test_accounts_have_different_keys() -> None:
    assert account_key(AccountId(1)) != account_key(AccountId(11))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_ipv6_clients_of_one_64_bit_network_share_a_key(network: int, one: int, other: int) -> None:
    first, second = (str(IPv6Address(network << 64 | host)) for host in (one, other))
    if network:
        assert ip_address_key(first) == ip_address_key(second)
        assert ip_address_key(first) != ip_address_key(str(IPv6Address((network ^ 1 << 40) << 64 | one)))


def test_an_ipv4_address_and_its_ipv6_mapped_form_share_a_key() -> None:
    assert ip_address_key("192.0.2.1") == ip_address_key("::ffff:192.0.2.1")
    assert ip_address_key("192.0.2.1") != ip_address_key("192.0.2.2")


def test_the_zone_of_an_ipv6_address_is_ignored() -> None:
    assert ip_address_key("fe80::1%eth0") == ip_address_key("fe80::1")


@pytest.mark.parametrize("text", ["", "unix:", "client"])
def test_clients_without_an_ip_address_share_a_key(text: str) -> None:
    assert ip_address_key(text) == ip_address_key("?")


def test_a_sign_in_has_a_key_of_the_account_and_one_of_the_ip_address() -> None:
    account, address = sign_in_keys("ann", "192.0.2.1")
    assert account == sign_in_keys("ann", "192.0.2.2")[0] == sign_in_keys("Ann", "192.0.2.2")[0]
    assert address == sign_in_keys("bob", "192.0.2.1")[1]
    assert account != address
    assert address != ip_address_key("192.0.2.1")
