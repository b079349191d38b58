"""Validation of webhook endpoint URLs and their IP addresses."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.endpoints import parse_endpoint_url, require_public_address, require_public_addresses
from imagehost_core.errors import ValidationError, quote_value
from imagehost_core.webhooks.fields import validate_webhook

LOOPBACK_HOSTS = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7F.0x0.0x0.0x1",
    "0177.0.0.1",
    "0177.0000.0000.0001",
    "017700000001",
    "127.0.0.01",
    "127.0.0.1.",
    "0",
    "0.0.0.0",
    "00.00.00.00",
    "0x0",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "foo.localhost",
    "127。0。0。1",
    "127.0.0.1",
    "①②⑦.⓪.⓪.①",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:127.0.0.1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2001:0:7f00:1::]",
    "[2001::1]",
    "[2606:4700::5efe:7f00:1]",
    "[2606:4700::200:5efe:7f00:1]",
    "[2606:4700::5efe:127.0.0.1]",
    "[::1%lo]",
    "[::1%25lo]",
    "[fe80::1%25eth0]",
]
INTERNAL_HOSTS = [
    "10.0.0.1",
    "10.255.255.255",
    "10.1",
    "0xa000001",
    "012.0.0.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.257",
    "3232235777",
    "0xc0a80101",
    "0300.0250.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "169.254.169.254",
    "169.254.0.1",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fdff:ffff::1]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "[100::1]",
    "[2001:db8::1]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[3fff::1]",
    "[2002:a00:1::]",
    "[2002:c0a8:101::1]",
    "[2002:a9fe:a9fe::]",
    "[::ffff:10.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::10.0.0.1]",
    "[4000::1]",
    "[8000::1]",
    "metadata",
    "metadata.google.internal",
    "router.lan",
    "printer.local",
    "intranet",
    "server.corp",
    "nas.home.arpa",
    "box.localdomain",
    "a.b.1",
    "example.1",
    "1.2.3.4.5",
    "256.256.256.256",
    "999.1.1.1",
    "1.1.1.1x",
    "exa mple.com",
    "-bad.example.com",
    "bad-.example.com",
    "a..example.com",
    ".example.com",
    "exam%70le.com",
    "example.com%00.internal",
    "exämple.com",
    "",
]
INVALID_URLS = [
    "http://example.com/",
    "http://127.0.0.1/",
    "http://localhost:9/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "//example.com/",
    "example.com/hook",
    "https:/example.com/",
    "https:///hook",
    "https://",
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://example.com@127.0.0.1/",
    "https://@example.com/",
    "https://127.0.0.1:443@example.com/",
    "https://example.com\\@127.0.0.1/",
    "https://127.0.0.1\\.example.com/",
    "https://example.com/#fragment",
    "https://example.com#@127.0.0.1/",
    "https://example.com:0/",
    "https://example.com:22/",
    "https://example.com:25/",
    "https://example.com:80/",
    "https://example.com:1023/",
    "https://example.com:65536/",
    "https://example.com:-1/",
    "https://example.com:4 43/",
    "https://example.com:abc/",
    "https://example.com/a b",
    "https://example.com/\r\nHost: internal",
    "https://example.com/\tx",
    "https://example.com/\x00",
    "https://exa\nmple.com/",
    "https://[::1",
    "https://::1/",
    "https://[127.0.0.1]/",
    "https://[v1.x]/",
    "https://[v1.example.com]:8443/",
    "https://[vF.a:b]/",
    "https://example.com]/",
    "https://[example.com]/",
    "https://example.com/" + "x" * 2_000,
]

MALFORMED_URLS = [
    "https://[2606:4700::1111]x/",
    "https://x[2606:4700::1111]/",
    "https://[2606:4700::1111]:x/",
    "https://[2606:4700::1111%25eth0]/",
]
"""URLs with a public IP address and a syntax error."""


def test_at_least_120_forms_are_tested() -> None:
    assert len(set(LOOPBACK_HOSTS + INTERNAL_HOSTS + INVALID_URLS)) >= 120


@pytest.mark.parametrize("host", LOOPBACK_HOSTS + INTERNAL_HOSTS)
def test_no_notation_of_an_internal_host_is_accepted(host: str) -> None:
    for url in (f"https://{host}/hook", f"https://{host}:8443/hook"):
        with pytest.raises(ValidationError):
            parse_endpoint_url(url)


@pytest.mark.parametrize("url", INVALID_URLS + MALFORMED_URLS)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ValidationError):
        parse_endpoint_url(url)


EXPECTED = re.compile(
    r"a public https URL|an https URL( with a valid host and port)?"
    r"|a URL (of at most 2000 printable ASCII characters|without (user and password|a fragment)"
    r"|with (a public host name|only an IPv6 address in brackets)"
    r"|whose port is 443 or at least 1024)"
)


@pytest.mark.parametrize(
    "url", [*INVALID_URLS, *MALFORMED_URLS, *(f"https://{host}/" for host in LOOPBACK_HOSTS + INTERNAL_HOSTS)]
)
def test_the_error_names_the_field_url_and_the_expected_form(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_endpoint_url(url)
    (error,) = caught.value.errors
    assert error.name == "url"
    assert error.received == quote_value(url) or "@" in url or "?" in url
    assert EXPECTED.fullmatch(error.expected)


@pytest.mark.parametrize("url", ["https://user:secret@example.com/a", "http://example.com/a?token=secret"])
def test_the_error_shows_neither_a_password_nor_the_query(url: str) -> None:
    with pytest.raises(ValidationError, match="received 'http") as caught:
        parse_endpoint_url(url)
    assert "secret" not in caught.value.details


@pytest.mark.parametrize(
    ("url", "host", "port", "target", "authority"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("https://Example.COM:443/a?b=c", "example.com", 443, "/a?b=c", "example.com"),
        ("https://hooks.example.com:8443/x", "hooks.example.com", 8443, "/x", "hooks.example.com:8443"),
        ("https://8.8.8.8/x", "8.8.8.8", 443, "/x", "8.8.8.8"),
        ("https://[2606:4700::1111]/x", "2606:4700::1111", 443, "/x", "[2606:4700::1111]"),
        ("https://xn--exmple-cua.com/", "xn--exmple-cua.com", 443, "/", "xn--exmple-cua.com"),
    ],
)
def test_a_public_url_is_accepted(url: str, host: str, port: int, target: str, authority: str) -> None:
    endpoint = parse_endpoint_url(url)
    assert endpoint.secure
    assert (endpoint.host, endpoint.port, endpoint.target) == (host, port, target)
    assert endpoint.authority == authority


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_accepted_with_http_if_the_operator_allows_it(host: str) -> None:
    endpoint = parse_endpoint_url(f"http://{host}:9000/hook", allow_loopback=True)
    assert (endpoint.secure, endpoint.port) == (False, 9000)
    with pytest.raises(ValidationError):
        parse_endpoint_url(f"http://{host}:9000/hook")


def test_allow_loopback_allows_nothing_else() -> None:
    for url in ("http://example.com/", "https://10.0.0.1/", "http://127.0.0.2/", "http://0.0.0.0/"):
        with pytest.raises(ValidationError):
            parse_endpoint_url(url, allow_loopback=True)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "fe80::1%1",
        "x",
    ],
)
def test_a_resolved_ip_address_that_is_not_public_is_rejected(address: str) -> None:
    with pytest.raises(ValidationError):
        require_public_address(address)
    with pytest.raises(ValidationError):
        require_public_addresses(["8.8.8.8", address])


def test_a_name_with_only_allowed_ip_addresses_is_accepted() -> None:
    require_public_addresses(["8.8.8.8", "2606:4700::1111"])
    require_public_addresses(["127.0.0.1", "::1"], allow_loopback=True)
    with pytest.raises(ValidationError):
        require_public_addresses(["127.0.0.2"], allow_loopback=True)


@given(st.ip_addresses(v=6))
def test_every_accepted_ipv6_address_is_global_unicast(address: object) -> None:
    try:
        checked = require_public_address(str(address))
    except ValidationError:
        return
    assert checked.is_global
    assert str(checked).startswith(("2", "3"))


EMBEDDINGS = {
    "IPv4-compatible": (0, 0),
    "IPv4-mapped": (0xFFFF << 32, 0),
    "IPv4-translated": (0xFFFF << 48, 0),
    "NAT64": (int(IPv6Address("64:ff9b::")), 0),
    "local NAT64": (int(IPv6Address("64:ff9b:1::")), 0),
    "local NAT64, as with a prefix of 48 bits": (int(IPv6Address("64:ff9b:1::")), 40),
    "6to4": (int(IPv6Address("2002::")), 80),
    "Teredo server": (int(IPv6Address("2001::")), 64),
    "ISATAP": (int(IPv6Address("2606:4700::5efe:0:0")), 0),
    "ISATAP of a unique address": (int(IPv6Address("2606:4700::200:5efe:0:0")), 0),
    "ISATAP in another network": (int(IPv6Address("2a00:1450:4001:829:0:5efe::")), 0),
}
"""How IPv6 addresses embed an IPv4 address: the other bits, and by how many the IPv4 address is shifted."""


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@given(ipv4=st.ip_addresses(v=4))
def test_no_ipv6_address_that_embeds_an_ipv4_address_is_accepted_on_save_or_on_connection(
    embedding: str, ipv4: IPv4Address
) -> None:
    base, shift = EMBEDDINGS[embedding]
    address = IPv6Address(base | int(ipv4) << shift)
    for text in (str(address), address.exploded):
        with pytest.raises(ValidationError):
            require_public_address(text)
        with pytest.raises(ValidationError):
            parse_endpoint_url(f"https://[{text}]/hook")


@given(ipv4=st.ip_addresses(v=4))
def test_the_client_of_a_teredo_address_is_not_accepted(ipv4: IPv4Address) -> None:
    address = IPv6Address(int(IPv6Address("2001:0:808:808::")) | int(ipv4) ^ 0xFFFF_FFFF)
    with pytest.raises(ValidationError):
        require_public_address(str(address))


def test_a_public_address_whose_interface_identifier_only_resembles_isatap_is_accepted() -> None:
    for address in ("2606:4700::5eff:808:808", "2606:4700::5efe", "2606:4700:0:5efe::1"):
        assert str(require_public_address(address)) == address


@given(st.ip_addresses(v=4))
def test_every_accepted_ipv4_address_is_global_unicast(address: object) -> None:
    try:
        checked = require_public_address(str(address))
    except ValidationError:
        return
    assert checked.is_global
    assert not checked.is_multicast


@given(st.text(max_size=80))
def test_any_text_is_accepted_or_rejected_with_a_validation_error(text: str) -> None:
    for url in (text, f"https://{text}"):
        try:
            endpoint = parse_endpoint_url(url)
        except ValidationError:
            continue
        assert endpoint.secure


def test_an_address_of_one_interface_is_not_public() -> None:
    """RFC 4007, section 11: what follows the percent sign has a meaning on this machine only."""
    require_public_address("2606:4700::1111")
    with pytest.raises(ValidationError):
        require_public_address("2606:4700::1111%eth0")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/", "https://localhost/", "https://[::1]/"])
def test_the_error_of_an_endpoint_on_loopback_names_the_setting(url: str) -> None:
    with pytest.raises(ValidationError, match="IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK"):
        validate_webhook({"url": url}, lambda _host, _port: [], allow_loopback=False)
    with pytest.raises(ValidationError) as caught:
        validate_webhook({"url": "http://10.0.0.1/"}, lambda _host, _port: [], allow_loopback=False)
    assert "LOOPBACK" not in str(caught.value)
