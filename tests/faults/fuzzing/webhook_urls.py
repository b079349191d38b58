"""Webhook URLs: no accepted one leads to an IP address that is not public, however it is written.

The oracle shares nothing with the code under test: it reads the host as browsers and the C library do, and
finds IPv4 addresses in IPv6 ones by the offsets of the standards. An input is a URL, or the byte 4 or 6 and
an IP address of that version.
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from imagehost_core.endpoints import parse_endpoint_url, require_public_address
from imagehost_core.errors import ValidationError

ISATAP = (0x0000_5EFE, 0x0100_5EFE, 0x0200_5EFE, 0x0300_5EFE)
DICTIONARY = (
    *(
        b"https://",
        b"http://",
        b"HTTPS://",
        b"@",
        b"\\",
        b"#",
        b"?",
        b"%",
        b"%25",
        b"%2e",
        b":443",
        b":80",
        b":0",
    ),
    *(b"127.0.0.1", b"0x7f.1", b"0177.0.0.1", b"2130706433", b"127.1", b"169.254.169.254", b"10.0.0.1", b"."),
    *(
        b"[::1]",
        b"[::ffff:127.0.0.1]",
        b"[64:ff9b::7f00:1]",
        b"[2002:7f00:1::]",
        b"[fe80::1%25eth0]",
        b"[v1.a]",
    ),
    *(b"[2001:0:7f00:1::]", b"[2606:4700::5efe:7f00:1]", b"[::127.0.0.1]", b"[64:ff9b:1::1]", b"[fec0::1]"),
    *(b"localhost", b".local", b".internal", b".home.arpa", b"xn--", b"example.com", b"\xe3\x80\x82", b"\t"),
    *(
        b"\x06\x26\x06\x47",
        b"\0\x5e\xfe",
        b"\x20\x02",
        b"\xff\xff",
        b"\x06\0\x64\xff\x9b",
        b"\xef\xbc\x91",
        b"[2606:4700::1]",
        b"1.1.1.1",
        b":65536",
        b"[ff0e::1]",
        b"[fc00::1]",
        b"[3fff::1]",
    ),
)
FINDINGS = ()
_HOST = re.compile(r"[a-z]+://([^/?#]*)", re.IGNORECASE)
_PRIVATE_SUFFIXES = ("localhost", "local", "internal", "localdomain", "lan", "home", "corp", "home.arpa")


def seeds() -> list[bytes]:
    return [
        b"https://example.com/hook?a=b",
        b"https://hooks.example.com:8443/",
        b"https://1.1.1.1/",
        b"https://[2606:4700::1111]:443/x",
        b"https://user@example.com/",
        b"https://127.0.0.1/",
        b"https://[::ffff:10.0.0.1]/",
        b"\6" + IPv6Address("2606:4700::5efe:7f00:1").packed,
        b"\6" + IPv6Address("64:ff9b::a00:1").packed,
        b"\4" + IPv4Address("169.254.169.254").packed,
    ]


def check(data: bytes) -> None:
    if data[:1] == b"\4":
        check_address(str(IPv4Address(data[1:5].ljust(4, b"\0"))))
        return
    if data[:1] == b"\6":
        check_address(str(IPv6Address(data[1:17].ljust(16, b"\0"))))
        return
    url = data.decode("utf-8", "replace")
    try:
        endpoint = parse_endpoint_url(url)
    except ValidationError:
        return
    match = _HOST.match(url)
    assert match is not None
    assert url[:8].lower() == "https://"
    host = match[1]
    assert "@" not in host
    assert not set(url) & set("\\#\r\n\t ")
    name = re.sub(r":\d*$", "", host).strip("[]").lower()
    assert endpoint.host == name, f"{endpoint.host!r} is not {name!r}"
    assert endpoint.port == 443 or 1_024 <= endpoint.port <= 65_535
    require_public_name(name)
    again = parse_endpoint_url(f"https://{endpoint.authority}{endpoint.target}")
    assert (again.host, again.port, again.target) == (endpoint.host, endpoint.port, endpoint.target)


def check_address(text: str) -> None:
    """Assert that an IP address is rejected unless the oracle says that it is public."""
    try:
        require_public_address(text)
    except ValidationError:
        return
    assert is_public(ip_address(text)), text


def require_public_name(name: str) -> None:
    """Assert that a host is a public name, or a public IP address in its usual form."""
    if ":" in name:
        assert is_public(IPv6Address(name)), name
        return
    try:
        packed = socket.inet_aton(name)  # It reads octal, hexadecimal and short forms, too.
    except OSError:
        labels = name.split(".")
        assert len(labels) > 1, name
        assert not labels[-1].isdigit(), name
        assert not any(name == suffix or name.endswith(f".{suffix}") for suffix in _PRIVATE_SUFFIXES), name
        assert name.isascii(), name
        return
    assert is_public(IPv4Address(packed)), name
    assert str(IPv4Address(packed)) == name


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an IP address is public, and so are the IPv4 addresses in it."""
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local:
        return False
    if isinstance(address, IPv4Address):
        return True
    packed, number = address.packed, int(address)
    if number >> 96 in ISATAP or (number >> 32) & 0xFFFF_FFFF in ISATAP:
        return False
    # IPv4-compatible and -mapped (RFC 4291), NAT64 (RFC 6052 and 8215), Teredo (RFC 4380), 6to4 (RFC 3056).
    if packed[:10] == bytes(10) or packed[:4] == b"\0\x64\xff\x9b" or packed[:4] == b"\x20\1\0\0":
        return False
    return packed[:2] != b"\x20\2"
