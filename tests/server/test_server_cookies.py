"""Parsing of the session cookie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.cookies import SESSION_COOKIE, session_cookie

TOKEN = new_token(TokenKind.SESSION)


@pytest.mark.parametrize("text", ["{}", "a=b; {}", "{}; a=b", "a=b;{};c", " {} "])
def test_the_token_is_found_among_other_cookies(text: str) -> None:
    header = text.format(f"{SESSION_COOKIE}={TOKEN}").encode()
    assert session_cookie([(b"accept", b"*/*"), (b"cookie", header)]) == TOKEN


@pytest.mark.parametrize("header", [b"", b"a=b", SESSION_COOKIE.lower().encode() + b"=x", b"=;;=;"])
def test_without_the_cookie_there_is_no_token(header: bytes) -> None:
    assert session_cookie([(b"cookie", header)]) is None


def test_a_value_longer_than_any_token_is_ignored() -> None:
    """Parsers that unquote values have needed seconds for one such header."""
    header = f'{SESSION_COOKIE}="'.encode() + b"\\" * 60_000 + b'"'
    assert session_cookie([(b"cookie", header)]) is None


@given(st.binary(max_size=300))
def test_any_bytes_can_be_parsed(header: bytes) -> None:
    token = session_cookie([(b"cookie", header)])
    assert token is None or len(token) <= 100
