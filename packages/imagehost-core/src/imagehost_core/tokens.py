"""Bearer tokens of API keys and sessions, and tokens of share links: generation, parsing and hashing.

A token is a prefix that names its kind, 30 characters of base62 (30 × log2 62 = 178.6 random bits)
and a checksum of 6 characters. Secret scanners recognise the format, and a typing error is detected
without a database query. Only the SHA-256 is stored: with that much entropy a slow password hash would
add no security.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from hashlib import sha256
from zlib import crc32

from imagehost_core.errors import UnauthorizedError
from imagehost_core.ids import ALPHABET, Random, base62

SECRET_LENGTH = 30
CHECKSUM_LENGTH = 6
"""62⁶ > 2³², so a CRC-32 always fits."""
PREFIX_LENGTH = 10
"""The characters of a token that lists show: its prefix and 6 more (36 of its 178 bits)."""


class TokenKind(StrEnum):
    """The kind of a token; the value is its prefix."""

    KEY = "ihk_"
    SESSION = "ihs_"
    SHARE = "iha_"
    """That of a link to an album, which is no bearer token."""


_TOKEN = re.compile(
    rf"(?P<body>(?P<kind>{'|'.join(TokenKind)})[0-9A-Za-z]{{{SECRET_LENGTH}}})"
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})",
    re.ASCII,
)


def new_token(kind: TokenKind, random: Random = os.urandom) -> str:
    """Return a random token of a kind, from a source of unpredictable bytes."""
    body = kind.value + base62(SECRET_LENGTH, random)
    return body + checksum(body)


def checksum(body: str) -> str:
    """Return the CRC-32 of a token's prefix and secret, as 6 digits of base62."""
    rest, digits = crc32(body.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        rest, digit = divmod(rest, 62)
        digits = ALPHABET[digit] + digits
    return digits


def parse_token(text: str) -> TokenKind:
    """Return the kind of a well-formed token.

    Raises:
        UnauthorizedError: The text is not a token or its checksum is wrong. The error never contains the
            text.
    """
    match = _TOKEN.fullmatch(text)
    if match is not None and checksum(match["body"]) == match["checksum"]:
        return TokenKind(match["kind"])
    raise UnauthorizedError("expected a token issued by this host but received another text")


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the bearer token of a request; the scheme is case-insensitive.

    Raises:
        UnauthorizedError: There is no `Authorization` header, several, or another scheme. The message never
            contains the received value.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        received = "several" if values else "none"
        raise UnauthorizedError(
            f"expected one Authorization header with a Bearer token but received {received}"
        )
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise UnauthorizedError("expected the scheme Bearer for Authorization but received another")
    return token.strip().decode("latin-1")


def hide_tokens(text: str) -> str:
    """Return a text with the first characters only of each token in it."""
    return _TOKEN.sub(lambda match: f"{match[0][:PREFIX_LENGTH]}…", text)


def token_hash(token: str) -> str:
    """Return the stored form of a token: its SHA-256, 64 hexadecimal digits."""
    return sha256(token.encode()).hexdigest()
