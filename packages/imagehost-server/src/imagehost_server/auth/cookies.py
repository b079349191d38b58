"""Sessions of browsers: a cookie that scripts cannot read, and a token that other sites cannot send.

A browser sends cookies unasked, also when another site makes it send a request. So with a cookie every
unsafe request must repeat, in a header, a value that only our own pages can read: that of a second
cookie, made from the session's token, so that it cannot be planted (OWASP, *signed double-submit cookie*).
The prefix `__Host-` keeps both from being set by other hosts or without HTTPS (RFC 6265bis, 4.1.3.2).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest

from litestar.datastructures import Cookie

from imagehost_core.errors import FieldError, ForbiddenError

SESSION_COOKIE = "__Host-imagehost-session"
CSRF_COOKIE = "__Host-imagehost-csrf"
CSRF_HEADER = b"x-csrf-token"
_SESSION_KEY = SESSION_COOKIE.encode()
MAX_COOKIE_BYTES = 100
"""Bytes of a cookie's value that are looked at; a token has 40."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def csrf_token(session_token: str) -> str:
    """Return the value that belongs to a session: a hash of its token, which tells nothing of it."""
    digest = sha256(b"csrf\n" + session_token.encode("latin-1")).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def session_cookie(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the session's token that a browser sent in its cookie, or `None`.

    A token needs no quotes, so none are undone: to unquote is where parsers of cookies have been slow.
    """
    for name, value in headers:
        if name == b"cookie":
            for pair in value.split(b";"):
                key, _, token = pair.strip().partition(b"=")
                if key == _SESSION_KEY and len(token) <= MAX_COOKIE_BYTES:
                    return token.decode("latin-1")
    return None


def require_csrf_token(method: str, headers: Iterable[tuple[bytes, bytes]], session_token: str) -> None:
    """Let a request pass that came with a cookie, if it is safe or proves that our page sent it.

    Raises:
        ForbiddenError: It does not.
    """
    if method in SAFE_METHODS:
        return
    right = csrf_token(session_token).encode()
    values = [value for name, value in headers if name == CSRF_HEADER]
    if len(values) != 1 or not compare_digest(values[0], right):
        received = "another value" if values else "none"
        fault = FieldError("X-CSRF-Token", f"the value of the cookie {CSRF_COOKIE}", received)
        raise ForbiddenError(errors=[fault])


def session_cookies(token: str, now: datetime, expires_at: datetime) -> tuple[Cookie, Cookie]:
    """Return the cookies of a session that has begun."""
    age = int((expires_at - now).total_seconds())
    return _cookie(SESSION_COOKIE, token, age, hidden=True), _cookie(
        CSRF_COOKIE, csrf_token(token), age, hidden=False
    )


def ended_cookies() -> tuple[Cookie, Cookie]:
    """Return what removes the cookies of a session that has ended."""
    return _cookie(SESSION_COOKIE, "", 0, hidden=True), _cookie(CSRF_COOKIE, "", 0, hidden=False)


def _cookie(name: str, value: str, age: int, *, hidden: bool) -> Cookie:
    return Cookie(name, value=value, max_age=age, path="/", secure=True, httponly=hidden, samesite="strict")
