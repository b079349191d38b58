"""Whose requests are counted together."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.ids import AccountId
from imagehost_core.limits.keys import account_key, address_key, sign_in_keys


def test_each_account_has_a_bucket_of_its_own() -> None:
    assert account_key(AccountId(1)) != account_key(AccountId(11))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_ipv6_clients_are_counted_by_their_network_of_64_bits(network: int, one: int, other: int) -> None:
    first, second = (str(IPv6Address(network << 64 | host)) for host in (one, other))
    if network:
        assert address_key(first) == address_key(second)
        assert address_key(first) != address_key(str(IPv6Address((network ^ 1 << 40) << 64 | one)))


def test_an_ipv4_client_is_the_same_however_its_address_comes() -> None:
    assert address_key("192.0.2.1") == address_key("::ffff:192.0.2.1")
    assert address_key("192.0.2.1") != address_key("192.0.2.2")


def test_a_zone_makes_no_other_client() -> None:
    assert address_key("fe80::1%eth0") == address_key("fe80::1")


@pytest.mark.parametrize("text", ["", "unix:", "client"])
def test_what_is_no_address_shares_one_bucket(text: str) -> None:
    assert address_key(text) == address_key("?")


def test_signing_in_is_counted_for_the_account_and_for_the_address() -> None:
    account, address = sign_in_keys("ann", "192.0.2.1")
    assert account == sign_in_keys("ann", "192.0.2.2")[0]
    assert address == sign_in_keys("bob", "192.0.2.1")[1]
    assert account != address
    assert address != address_key("192.0.2.1")
