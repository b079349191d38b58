"""Session cookies of browsers, and their protection against cross-site request forgery (CSRF).

A browser also sends cookies with requests that another site causes. So an unsafe request that is
authenticated by a cookie must repeat the value of a second cookie in a header, which only pages of this
origin can read. That value is derived from the session token, so an injected cookie does not match (OWASP,
*signed double-submit cookie*). The prefix `__Host-` keeps other hosts and plain HTTP from setting either
cookie (RFC 6265bis, section 4.1.3.2). It requires the path `/`, so a site below a path has `__Secure-`, which
keeps plain HTTP from it: other sites of the origin do not receive the cookies.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest

from litestar.datastructures import Cookie

from imagehost_core.errors import FieldError, ForbiddenError

SESSION_COOKIE = "__Host-imagehost-session"
CSRF_COOKIE = "__Host-imagehost-csrf"
"""The names of the cookies at the root of an origin; `cookie_name` has those below a path."""
CSRF_HEADER = b"x-csrf-token"
FETCH_SITE_HEADER = b"sec-fetch-site"
FETCH_MODE_HEADER = b"sec-fetch-mode"
SHARE_COOKIE = "__Secure-imagehost-share"
"""The name of the cookie of a share's page whose password was entered; its path is that of the page."""
MAX_COOKIE_BYTES = 100
"""Longest cookie value that is parsed, in bytes; a session token has 40."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(name: str, root_path: str) -> str:
    """Return the name of a cookie of the site at a root path."""
    return name.replace("__Host-", "__Secure-") if root_path else name


def csrf_token(session_token: str) -> str:
    """Return the CSRF token of a session: a hash of the session token, which cannot be computed back."""
    digest = sha256(b"csrf\n" + session_token.encode("latin-1")).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def session_cookie(headers: Iterable[tuple[bytes, bytes]], root_path: str) -> str | None:
    """Return the session token in the request's cookies, or `None`."""
    return cookie_value(headers, cookie_name(SESSION_COOKIE, root_path))


def cookie_value(headers: Iterable[tuple[bytes, bytes]], cookie: str) -> str | None:
    """Return the value of a cookie of the request, or `None`.

    Quoted values are not unquoted: tokens need no quotes, and unquoting is where cookie parsers were slow.
    Of several cookies the first counts, which is that of the longest path.
    """
    expected = cookie.encode()
    for name, value in headers:
        if name == b"cookie":
            for pair in value.split(b";"):
                key, _, token = pair.strip().partition(b"=")
                if key == expected and len(token) <= MAX_COOKIE_BYTES:
                    return token.decode("latin-1")
    return None


def same_origin_session_cookie(headers: Iterable[tuple[bytes, bytes]], root_path: str) -> str | None:
    """Return the session token in the cookies of a request of this origin or of the user, or `None`.

    That is a request that a page of this origin made, or a navigation that the user began, such as from the
    address bar. `SameSite=Strict` also admits pages of other ports and subdomains. `Sec-Fetch-Site` tells
    them apart, and scripts cannot set it (Fetch Metadata Request Headers, section 2.3); old browsers do not
    send it.
    """
    headers = tuple(headers)
    is_own = _values(headers, FETCH_SITE_HEADER) == [b"same-origin"] or is_user_navigation(headers)
    return session_cookie(headers, root_path) if is_own else None


def is_user_navigation(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the user began a navigation outside all pages: by the address bar, or by sharing files.

    A navigation that a page causes names the site of that page (Fetch Metadata Request Headers, section 2.3).
    """
    headers = tuple(headers)
    site = _values(headers, FETCH_SITE_HEADER)
    mode = _values(headers, FETCH_MODE_HEADER)
    return (site, mode) == ([b"none"], [b"navigate"])


def _values(headers: Iterable[tuple[bytes, bytes]], header: bytes) -> list[bytes]:
    return [value for name, value in headers if name == header]


def require_csrf_token(
    method: str, headers: Iterable[tuple[bytes, bytes]], session_token: str, root_path: str
) -> None:
    """Raise ForbiddenError unless the method is safe or the request has the session's CSRF token.

    Args:
        method: The HTTP method, in upper case.
        headers: The request headers, names in lower case.
        session_token: The session token of the cookie.
        root_path: The path below which the site is.

    Raises:
        ForbiddenError: The header `X-CSRF-Token` is missing, repeated or different.
    """
    if method in SAFE_METHODS:
        return
    expected = csrf_token(session_token).encode()
    values = [value for name, value in headers if name == CSRF_HEADER]
    if len(values) != 1 or not compare_digest(values[0], expected):
        received = "another value" if values else "none"
        cookie = cookie_name(CSRF_COOKIE, root_path)
        error = FieldError("X-CSRF-Token", f"the value of the cookie {cookie}", received)
        raise ForbiddenError(errors=[error])


def session_cookies(token: str, max_age: int, root_path: str) -> tuple[Cookie, ...]:
    """Return the session cookie and the CSRF cookie of a session; with `max_age` 0 they delete it."""
    values = ((SESSION_COOKIE, token), (CSRF_COOKIE, csrf_token(token) if max_age else ""))
    return tuple(
        Cookie(
            cookie_name(name, root_path),
            value=value,
            max_age=max_age,
            path=root_path or "/",
            secure=True,
            httponly=name == SESSION_COOKIE,
            samesite="strict",
        )
        for name, value in values
    )


def share_cookie(password_hash: str, path: str) -> Cookie:
    """Return the cookie of a share's page whose password was entered.

    Its value is a hash of the stored hash, which has a random salt: only who knows the password gets it,
    and it ends with the share. `SameSite=Lax`, because links to the page are on other sites.

    Args:
        password_hash: The stored hash of the share's password.
        path: The path of the page.
    """
    value = urlsafe_b64encode(sha256(b"share\n" + password_hash.encode()).digest()).decode().rstrip("=")
    return Cookie(SHARE_COOKIE, value=value, path=path, secure=True, httponly=True, samesite="lax")
