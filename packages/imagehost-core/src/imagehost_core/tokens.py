"""Tokens: how they are made, recognised and kept.

A token is a prefix that tells its kind, 30 characters of base62 (30 × log2 62 = 178.6 random bits)
and 6 characters of checksum. Secret scanners know it by its shape; a typing error is told from a
wrong token without asking the catalog. Only its SHA-256 is stored: a token has too much entropy to
be guessed from that, so a slow hash would cost time and protect nothing.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from hashlib import sha256
from zlib import crc32

from imagehost_core.errors import ForbiddenError, UnauthorizedError
from imagehost_core.ids import ALPHABET, Random, base62
from imagehost_core.models import Principal, Scope

SECRET_LENGTH = 30
CHECKSUM_LENGTH = 6
"""62⁶ > 2³², so a CRC-32 always fits."""
PREFIX_LENGTH = 10
"""How much of a token is shown in lists: its kind, and 6 characters (36 of its 178 bits)."""


class TokenKind(StrEnum):
    """What a token stands for; the value is its prefix (contract 8)."""

    KEY = "ihk_"
    SESSION = "ihs_"


_SHAPE = re.compile(
    rf"(?P<body>(?P<kind>{'|'.join(TokenKind)})[0-9A-Za-z]{{{SECRET_LENGTH}}})"
    rf"(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})",
    re.ASCII,
)


def new_token(kind: TokenKind, random: Random = os.urandom) -> str:
    """Return a new token.

    Args:
        kind: Whether it is a key's or a session's.
        random: The source of unpredictable bytes.
    """
    body = kind.value + base62(SECRET_LENGTH, random)
    return body + checksum(body)


def checksum(body: str) -> str:
    """Return the CRC-32 of a token's first characters, as 6 digits of base62."""
    rest, digits = crc32(body.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        rest, digit = divmod(rest, 62)
        digits = ALPHABET[digit] + digits
    return digits


def parse_token(text: str) -> TokenKind:
    """Return the kind of a token that has the right shape.

    Raises:
        UnauthorizedError: It cannot be a token of ours. Never shows the text.
    """
    shape = _SHAPE.fullmatch(text)
    if shape is not None and checksum(shape["body"]) == shape["checksum"]:
        return TokenKind(shape["kind"])
    raise UnauthorizedError("expected a token that this host has given out but received another text")


def token_hash(token: str) -> str:
    """Return what is stored of a token: its SHA-256, 64 hexadecimal digits."""
    return sha256(token.encode()).hexdigest()


def require_scope(principal: Principal, need: Scope) -> None:
    """Let the principal pass, if its token has the scope.

    Raises:
        ForbiddenError: It has not (contract 2: *403 when the token is good but lacks the scope*).
    """
    if need not in principal.scopes:
        have = ", ".join(sorted(principal.scopes)) or "none"
        raise ForbiddenError(f"expected the scope {need} for this operation but received a token with {have}")
