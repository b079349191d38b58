"""Redirects between pages: to the sign-in page and back, and after a form."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote

from litestar import Response
from litestar.response import Redirect

from imagehost_server.web.request import OUTCOME_PARAMETER, WebRequest


def sign_in_redirect(request: WebRequest) -> Response[Any]:
    """Return the redirect to the sign-in page, which leads back.

    A browser does not send the session cookie, which is `SameSite=Strict`, with a navigation from another
    site. So such a request is repeated by a page of this site first.
    """
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return request.render("reload.html")
    path = quote(request.scope["path"])
    query = request.scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    if request.method != "GET":
        target = _path_of_form(request) or path
    return see_other(request, f"/login?next={quote(target, safe='/')}")


def _path_of_form(request: WebRequest) -> str:
    """Return the path of the page that has sent a form, whose script restores the text, or ""."""
    page, site = request.headers.get("referer", ""), request.settings.site_url
    return safe_path(page.removeprefix(site)) if page.startswith(f"{site}/") else ""


def see_other(request: WebRequest, path: str, outcome: str = "") -> Response[Any]:
    """Return a redirect to a page of this site, to be requested with GET (RFC 9110, section 15.4.4).

    Args:
        request: The request.
        path: The path of the page below the root path, without a query if there is an outcome.
        outcome: The message that the page shows: one of `OUTCOMES`, or "".
    """
    target = request.settings.root_path + (f"{path}?{OUTCOME_PARAMETER}={outcome}" if outcome else path)
    return cast("Response[Any]", Redirect(target, status_code=303, headers={"cache-control": "no-store"}))


def safe_path(path: str | None) -> str:
    """Return the path to continue at after signing in: a path of this site, or `/`.

    After the first slash, a second one or a backslash would make it another site.
    """
    is_safe = path is not None and path.startswith("/") and path.isascii() and path.isprintable()
    return path if path and is_safe and path[1:2] not in ("/", "\\") else "/"
