"""Parsing of the session cookie, and its protection against cross-site requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import ForbiddenError
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.cookies import (
    CSRF_HEADER,
    SESSION_COOKIE,
    cookie_name,
    csrf_token,
    require_csrf_token,
    session_cookie,
)

TOKEN = new_token(TokenKind.SESSION)


@pytest.mark.parametrize("text", ["{}", "a=b; {}", "{}; a=b", "a=b;{};c", " {} "])
def test_the_token_is_found_among_other_cookies(text: str) -> None:
    header = text.format(f"{SESSION_COOKIE}={TOKEN}").encode()
    assert session_cookie([(b"accept", b"*/*"), (b"cookie", header)], "") == TOKEN


def test_below_a_path_the_cookie_of_the_longest_path_counts() -> None:
    """Browsers send it first (RFC 6265, 5.4), and those of the site at the root have another name."""
    name = cookie_name(SESSION_COOKIE, "/photos")
    header = f"{SESSION_COOKIE}=root; {name}={TOKEN}; {name}=shorter".encode()
    assert session_cookie([(b"cookie", header)], "/photos") == TOKEN
    assert session_cookie([(b"cookie", header)], "") == "root"


@pytest.mark.parametrize("header", [b"", b"a=b", SESSION_COOKIE.lower().encode() + b"=x", b"=;;=;"])
def test_without_the_cookie_there_is_no_token(header: bytes) -> None:
    assert session_cookie([(b"cookie", header)], "") is None


def test_a_value_longer_than_any_token_is_ignored() -> None:
    """Parsers that unquote values have needed seconds for one such header."""
    header = f'{SESSION_COOKIE}="'.encode() + b"\\" * 60_000 + b'"'
    assert session_cookie([(b"cookie", header)], "") is None


@given(st.binary(max_size=300))
def test_any_bytes_can_be_parsed(header: bytes) -> None:
    token = session_cookie([(b"cookie", header)], "")
    assert token is None or len(token) <= 100


@pytest.mark.parametrize("values", [[], ["x"], [csrf_token("other")], [csrf_token(TOKEN)] * 2, [""]])
def test_an_unsafe_method_needs_the_csrf_token_of_the_session_once(values: list[str]) -> None:
    headers = [(CSRF_HEADER, value.encode()) for value in values]
    with pytest.raises(ForbiddenError, match="X-CSRF-Token"):
        require_csrf_token("POST", headers, TOKEN, "")
    require_csrf_token("GET", headers, TOKEN, "")
    require_csrf_token("POST", [(CSRF_HEADER, csrf_token(TOKEN).encode())], TOKEN, "")
