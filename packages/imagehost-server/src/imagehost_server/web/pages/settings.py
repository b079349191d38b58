"""The page `/settings`: usage, password, sessions, API keys and files for other programs."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.params import FromPath

from imagehost_core.errors import ConflictError, ImageHostError, RateLimitError, ValidationError
from imagehost_core.models import ALL_SCOPES, ApiKeyWithToken, Scope
from imagehost_server.integrations import INTEGRATIONS
from imagehost_server.routes.accounts import account_record
from imagehost_server.routes.integrations import create_file
from imagehost_server.routes.sessions import replace_password
from imagehost_server.web.forms import read_choice
from imagehost_server.web.page import page
from imagehost_server.web.presentation import size_text
from imagehost_server.web.redirects import see_other
from imagehost_server.web.request import WebRequest
from imagehost_server.web.user_agents import describe_user_agent

MAX_LISTED = 100
"""The number of sessions and keys that the page lists: the newest."""
PRESETS: dict[str, frozenset[Scope]] = {
    "upload": frozenset({Scope.IMAGES_WRITE}),
    "read": frozenset({Scope.IMAGES_READ, Scope.ALBUMS_READ, Scope.ACCOUNT_READ}),
    "all": frozenset(ALL_SCOPES),
}
"""The scopes that the form for a key offers."""


@page("/settings", sign_in=True)
async def settings(request: WebRequest) -> Response[Any]:
    """Show the settings of the account."""
    return await _show(request)


@page("/settings/password", method="POST", sign_in=True)
async def set_password(request: WebRequest) -> Response[Any]:
    """Change the password, and end all other sessions."""
    form = request.fields
    try:
        await replace_password(request, form.get("current_password", ""), form.get("new_password", ""))
    except (ValidationError, ConflictError, RateLimitError) as error:
        return await _show(request, failure=error)
    return see_other(request, "/settings", "password_changed")


@page("/settings/signing-secret", method="POST", sign_in=True)
async def renew_signing_secret(request: WebRequest) -> Response[Any]:
    """End all signed URLs of the account at once."""
    await request.executors.database.run(request.host.accounts.renew_signing_secret, request.account)
    return see_other(request, "/settings", "signing_secret_renewed")


@page("/settings/sessions/{session_id:str}/end", method="POST", sign_in=True)
async def end_session(request: WebRequest, session_id: FromPath[str]) -> Response[Any]:
    """End another session of the account at once."""
    await request.call(request.host.sessions.delete, session_id)
    return see_other(request, "/settings#sessions")


@page("/settings/keys", method="POST", sign_in=True)
async def create_key(request: WebRequest) -> Response[Any]:
    """Create an API key, and show its token once."""
    form = request.fields
    scopes = read_choice(form, "preset", PRESETS)
    try:
        created = await request.call(request.host.keys.create, name=form.get("name", ""), scopes=scopes)
    except ValidationError as error:
        return await _show(request, failure=error)
    return await _show(request, created=created)


@page("/settings/keys/{key_id:str}/revoke", method="POST", sign_in=True)
async def revoke_key(request: WebRequest, key_id: FromPath[str]) -> Response[Any]:
    """Revoke an API key at once."""
    await request.call(request.host.keys.delete, key_id)
    return see_other(request, "/settings#keys")


@page("/settings/integrations/{name:str}", method="POST", sign_in=True)
async def create_integration(request: WebRequest, name: FromPath[str]) -> Response[Any]:
    """Create a key that can only upload, and send the file of a program with it."""
    return await create_file(request, name)


async def _show(
    request: WebRequest,
    *,
    failure: ImageHostError | None = None,
    created: ApiKeyWithToken | None = None,
) -> Response[Any]:
    host, account = request.host, request.account

    def read() -> dict[str, Any]:
        record = account_record(host.account(owner=account))
        return {
            "quota": record.quota,
            "windows": record.limits,
            "usage": record.usage,
            "used": size_text(record.usage.bytes, request.texts),
            "allowed": size_text(record.quota.bytes, request.texts) if record.quota.bytes else "",
            "sessions": [
                (session, describe_user_agent(session.user_agent))
                for session in host.sessions.list(owner=account, per_page=MAX_LISTED)
            ],
            "keys": host.keys.list(owner=account, per_page=MAX_LISTED).items,
        }

    return request.render(
        "settings.html",
        created=created,
        current_session=request.auth.session_id,
        failure=failure,
        integrations=INTEGRATIONS.values(),
        presets=PRESETS,
        **await request.executors.database.run(read),
    )
