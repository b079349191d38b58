"""The page `/login`, and signing out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from litestar import Response

from imagehost_core.errors import NotFoundError, RateLimitError, UnauthorizedError, ValidationError
from imagehost_server.routes.sessions import create_session, with_session_cookies, without_session_cookies
from imagehost_server.web.page import page
from imagehost_server.web.redirects import safe_path, see_other
from imagehost_server.web.request import WebRequest


@page("/login")
async def login_page(request: WebRequest) -> Response[Any]:
    """Show the form, or go on if the client is signed in."""
    next_path = safe_path(request.query_params.get("next"))
    if request.viewer is not None:
        return see_other(request, next_path)
    return request.render("login.html", next_path=next_path, name="", problem="")


@page("/login", method="POST")
async def login(request: WebRequest) -> Response[Any]:
    """Sign in, and go on to the page that required it."""
    form = request.fields
    name = form.get("name", "").strip()
    next_path = safe_path(form.get("next"))
    try:
        session = await create_session(request, name, form.get("password", ""))
    except (UnauthorizedError, ValidationError):
        return _failed(request, 401, "invalid", name, next_path)
    except RateLimitError as error:
        response = _failed(request, error.status, "throttled", name, next_path)
        response.headers["retry-after"] = str(error.retry_after)
        return response
    await _end_session(request)
    return with_session_cookies(request, see_other(request, next_path), session)


@page("/logout", method="POST")
async def logout(request: WebRequest) -> Response[Any]:
    """End the session at once, and show the gallery."""
    await _end_session(request)
    return without_session_cookies(request, see_other(request, "/"))


async def _end_session(request: WebRequest) -> None:
    """End the session of the request, if it has one that has not ended meanwhile."""
    principal = request.identity.principal
    if principal is not None:
        with suppress(NotFoundError):
            await request.executors.database.run(
                request.host.sessions.delete, principal.session_id, owner=principal.account
            )


def _failed(request: WebRequest, status: int, problem: str, name: str, next_path: str) -> Response[Any]:
    return request.render("login.html", status=status, next_path=next_path, name=name, problem=problem)
