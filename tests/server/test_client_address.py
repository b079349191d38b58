"""The IP address of a client behind trusted proxies, as they write it in `X-Forwarded-For`."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_core.limits import ip_address_key
from imagehost_server.http.client_address import (
    MAX_WARNINGS,
    MIN_CLIENTS,
    WINDOW_REQUESTS,
    Network,
    UntrustedProxyDetector,
    client_address,
    resolve_client,
)

TRUSTED = (ip_network("127.0.0.1"), ip_network("2001:db8:ffff::/48"))

ports = st.integers(0, 65_535).map(":{}".format) | st.just("")
clients = st.ip_addresses().filter(lambda client: not any(client in network for network in TRUSTED))


def address_of(*values: str, peer: str = "127.0.0.1") -> str:
    headers = [(b"x-forwarded-for", value.encode("latin-1", "replace")) for value in values]
    scope: Any = {"client": (peer, 9), "headers": headers}
    return client_address(scope, TRUSTED)


def written(client: IPv4Address | IPv6Address, port: str) -> str:
    return f"{client}{port}" if client.version == 4 else f"[{client}]{port}"


@given(clients, ports, st.booleans())
def test_a_client_is_the_same_with_and_without_port_and_brackets(
    client: IPv4Address | IPv6Address, port: str, has_proxy: bool
) -> None:
    proxies = ", [2001:db8:ffff::7]:443" if has_proxy else ""
    for text in (str(client), written(client, port)):
        found = address_of(f"192.0.2.99, {text}{proxies}")
        assert ip_address_key(found) == ip_address_key(str(client))
        assert found == str(getattr(client, "ipv4_mapped", None) or client)


@pytest.mark.parametrize(
    "text",
    [
        "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "1.2.3.4:5:6", "[::1", "::1]", "[::1]x", "[::1]:", "[]",
        "[]:1", "[[::1]]", "unknown", "_hidden", "", "1.2.3", "1.2.3.4.5:6", "01.2.3.4:5", "[::1%eth0]:1",
        "[example.com]:1", "example.com:1", '"1.2.3.4:5"', "[::g]", "1.2.3.4/8", "\u0661.2.3.4:5",
    ],
)  # fmt: skip
def test_other_text_ends_the_list_at_the_proxy_that_wrote_it(text: str) -> None:
    assert address_of(f"192.0.2.99, {text}") == "127.0.0.1"


@given(st.lists(st.text(max_size=40), max_size=4), st.ip_addresses())
@example(["[::1]:80"], IPv4Address("192.0.2.1"))
def test_no_header_changes_the_address_of_a_peer_that_is_not_trusted(
    values: list[str], peer: IPv4Address | IPv6Address
) -> None:
    if not any(peer in network for network in TRUSTED):
        assert address_of(*values, peer=str(peer)) == str(peer)


@given(st.text("0123456789abcdef.:[]%, \t", max_size=60))
def test_any_value_gives_an_ip_address(value: str) -> None:
    assert ip_address_key(address_of(value)) != ip_address_key("unknown")


CDN = "203.0.113.7"


def warnings_of(caplog: pytest.LogCaptureFixture, trusted: tuple[Network, ...], *values: str) -> list[str]:
    """Return the clients that are taken for proxies after some windows of requests with these headers."""
    detector = UntrustedProxyDetector()
    for number in range(3 * WINDOW_REQUESTS):
        value = values[number % len(values)].encode()
        headers = [(b"x-forwarded-for", value)] if value else []
        scope: Any = {"client": ("127.0.0.1" if trusted else CDN, 9), "headers": headers}
        detector.observe(*resolve_client(scope, trusted))
    return [record.fields["client"] for record in caplog.records]  # type: ignore[attr-defined]


VISITORS = tuple(f"198.51.100.{number}" for number in range(MIN_CLIENTS))


def test_a_cdn_that_is_not_trusted_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    through_proxy = tuple(f"{visitor}, {CDN}" for visitor in VISITORS)
    assert warnings_of(caplog, TRUSTED, *through_proxy) == [CDN]
    advice = caplog.records[0].fields["advice"]  # type: ignore[attr-defined]
    assert "IMAGEHOST_TRUSTED_PROXIES" in advice
    assert "forges" in advice
    caplog.clear()
    assert warnings_of(caplog, (), *VISITORS) == [CDN]


def test_a_client_that_forges_the_header_does_not_hide_a_cdn(caplog: pytest.LogCaptureFixture) -> None:
    detector = UntrustedProxyDetector()
    peers = [f"192.0.2.{number}" for number in range(MAX_WARNINGS - 1)]
    for peer in (*peers, *peers, CDN, "2001:db8::1", "2001:db8::2"):
        for number in range(WINDOW_REQUESTS):
            detector.observe(peer, VISITORS[number % MIN_CLIENTS])
    assert [record.fields["client"] for record in caplog.records] == [*peers, CDN]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "values",
    [
        VISITORS,
        tuple(f"{visitor}, {CDN}" for visitor in VISITORS[1:]),
        (*(f"{visitor}, {CDN}" for visitor in VISITORS), *("192.0.2.1",) * MIN_CLIENTS),
        tuple(f"forged, {visitor}" for visitor in VISITORS),
        ("",),
    ],
    ids=["trusted", "few clients", "half of the requests", "of each client", "no header"],
)
def test_nothing_else_is_taken_for_a_proxy(caplog: pytest.LogCaptureFixture, values: tuple[str, ...]) -> None:
    assert warnings_of(caplog, TRUSTED, *values) == []
