"""Session routes of the in-memory host: sign in, list and end sessions, change the password."""

from __future__ import annotations

from imagehost_client.errors import UnauthorizedError, ValidationError
from imagehost_client.testing._accounts import account_summary, parse_new_password, parse_secret
from imagehost_client.testing._lists import paginate
from imagehost_client.testing._members import Parser, parse_text
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import Row

PASSWORD = "secret"  # noqa: S105 - the documented password of accounts that tests create

SIGN_IN: dict[str, Parser] = {"username": parse_text, "password": parse_secret}
"""The members of a sign-in."""

PASSWORDS: dict[str, Parser] = {"current_password": parse_secret, "new_password": parse_new_password}
"""The members of a change of the password."""


def create_session(request: FakeRequest) -> object:
    """Create a session; accounts that a test has added have the password `secret`."""
    members, host = request.created(SIGN_IN, required=SIGN_IN), request.host
    name = host.find_name(members["username"])
    if name is None or members["password"] != _password(request, name) or not host.is_active(name):
        raise UnauthorizedError("expected the name and password of an account but received others")
    token = host.add_session(name, request.user_agent)
    expires = host.tables["sessions"].rows[host.tokens[token].session or ""].record["expires_at"]
    return {"token": token, "expires_at": expires, "account": account_summary(request, name)}


def delete_current_session(request: FakeRequest) -> object:
    """End the session of the request's token."""
    _end(request, request.table("sessions").rows[request.grant.session or ""])
    return {"ended": True}


def list_sessions(request: FakeRequest) -> object:
    """List the sessions of the account."""
    page = paginate(request, "sessions", lambda row: row.owner == request.grant.account)
    current = request.grant.session
    return {
        **page,
        "sessions": [{**record, "is_current": record["id"] == current} for record in page["sessions"]],
    }


def delete_session(request: FakeRequest) -> object:
    """End a session of the account."""
    row = request.row("sessions")
    _end(request, row)
    return {"id": row.record["id"], "deleted": True}


def change_password(request: FakeRequest) -> object:
    """Change the password of the account, and end its other sessions."""
    members, name = request.members(PASSWORDS, required=PASSWORDS), request.grant.account
    current = members.get("current_password")
    if current is not None and current != _password(request, name):
        request.errors.add(
            ValidationError("expected the account's password for current_password but received another")
        )
    request.errors.raise_all()
    request.host.passwords[name] = members["new_password"]
    request.host.end_sessions(name, keep=request.grant.session)
    return {"changed": True}


def renew_signing_secret(request: FakeRequest) -> object:
    """End all signed URLs of the account."""
    request.host.signing_keys.pop(request.grant.account, None)
    return {"renewed": True}


def _password(request: FakeRequest, name: str) -> str:
    return request.host.passwords.get(name, PASSWORD)


def _end(request: FakeRequest, session: Row) -> None:
    del request.table("sessions").rows[session.record["id"]]
    request.host.tokens.pop(session.secret, None)
