"""Sessions: signing in, and out."""

from __future__ import annotations

from litestar import Response

from imagehost_core.errors import UnauthorizedError, ValidationError
from imagehost_server.api.operation import operation
from imagehost_server.api.representations import SessionRecord, session_record
from imagehost_server.api.request import ApiRequest, ok
from imagehost_server.api.schemas import SignIn
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.cookies import ended_cookies, session_cookies
from imagehost_server.auth.passwords import require_length, verify_password

_REFUSED = "expected the name and password of an account but received others"


@operation(
    "POST /v1/session", summary="Sign in.", body=SignIn, response=SessionRecord, status=201, errors=(401,)
)
async def sign_in(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with a token that acts with all scopes, and set the cookies of a browser's session."""
    wanted = await request.json_body(SignIn)
    require_length(wanted.password)
    host, executors = request.host, request.executors
    # Which names an account can have is no secret: one that it cannot have costs no attempt and no hash. One
    # that it can have costs both, whether there is such an account or not.
    try:
        host.accounts.require_name(wanted.username)
    except ValidationError:
        raise UnauthorizedError(_REFUSED) from None
    await throttle_password_attempt(request, wanted.username)
    stored = await executors.database.run(host.accounts.password_hash, wanted.username)
    if not await executors.passwords.run(verify_password, stored, wanted.password):
        raise UnauthorizedError(_REFUSED)
    account = await executors.database.run(host.accounts.get, wanted.username)
    session = await executors.database.run(host.sessions.create, account)
    reply = ok(session_record(session), 201)
    for cookie in session_cookies(session.token, host.now(), session.expires_at):
        reply.set_cookie(cookie)
    return reply


@operation("DELETE /v1/session", summary="Sign out.", response={"ended": bool})
async def sign_out(request: ApiRequest) -> Response[bytes]:
    """End the session whose token was sent, at once and in every process."""
    await request.executors.database.run(request.host.sessions.end, request.identity.token)
    reply = ok({"ended": True})
    for cookie in ended_cookies():
        reply.set_cookie(cookie)
    return reply


ROUTES = (sign_in, sign_out)
