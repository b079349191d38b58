"""Session routes: sign in, sign out, list your sessions and end one."""

from __future__ import annotations

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody

from imagehost_core.lists import parse_page_request
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import SessionList, pagination
from imagehost_server.api.parameters import Cursor, Page, PerPage, SessionIdPath
from imagehost_server.api.representations import Deleted, NewSessionRecord, new_session_record, session_record
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import SignIn
from imagehost_server.api.sign_in import create_session, with_session_cookies, without_session_cookies


@frozen
class EndedSession:
    """The outcome of a sign-out.

    Attributes:
        ended: Always true.
    """

    ended: bool


@operation("POST /v1/session", summary="Sign in.", status=201, errors=(401,))
async def sign_in(request: ApiRequest, data: JSONBody[SignIn]) -> Response[Success[NewSessionRecord]]:
    """Respond with 201 and a session token, which has all scopes; set the session cookies."""
    session = await create_session(request, data.username, data.password)
    return with_session_cookies(ok(new_session_record(session), 201), session, request.host.now())


@operation("DELETE /v1/session", summary="Sign out.")
async def sign_out(request: ApiRequest) -> Response[Success[EndedSession]]:
    """End the session of the request's token, at once and in every process."""
    await request.executors.database.run(request.host.sessions.end, request.identity.token)
    return without_session_cookies(ok(EndedSession(ended=True)))


@operation("GET /v1/sessions", summary="List your sessions, newest first.")
async def list_sessions(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[SessionList]]:
    """Respond with a page of the caller's sessions that have not expired."""
    sessions = await request.executors.database.run(
        request.host.sessions.list, owner=request.account, page=parse_page_request(page, per_page, cursor)
    )
    records = [session_record(session, request.auth.session_id) for session in sessions]
    return ok(SessionList(sessions=records, pagination=pagination(sessions)))


@operation("DELETE /v1/sessions/{session_id}", summary="End one of your sessions.")
async def delete_session(request: ApiRequest, session_id: SessionIdPath) -> Response[Success[Deleted]]:
    """End a session at once, in every process. Ending that of the request is signing out."""
    await request.executors.database.run(request.host.sessions.delete, session_id, owner=request.account)
    response = ok(Deleted(id=session_id, deleted=True))
    return without_session_cookies(response) if session_id == request.auth.session_id else response


ROUTES = (sign_in, sign_out, list_sessions, delete_session)
