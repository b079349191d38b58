"""Session routes of the in-memory host: sign in, list and end sessions, change the password."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from imagehost_client._wire import rfc3339
from imagehost_client.errors import UnauthorizedError
from imagehost_client.testing._accounts import account_summary, parse_secret
from imagehost_client.testing._members import Parser, parse_text
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import TokenGrant

PASSWORD = "secret"  # noqa: S105 - the documented password of accounts that tests create

SIGN_IN: dict[str, Parser] = {"username": parse_text, "password": parse_secret}
"""The members of a sign-in."""


def create_session(request: FakeRequest) -> object:
    """Create a session; accounts that a test has added have the password `secret`."""
    members, host = request.created(SIGN_IN, required=SIGN_IN), request.host
    name = members["username"]
    if name not in host.accounts or members["password"] != host.passwords.get(name, PASSWORD):
        raise UnauthorizedError("expected the name and password of an account but received others")
    token = "ihs_" + secrets.token_hex(16)
    request.host.tokens[token] = TokenGrant(name)
    expires = rfc3339(datetime.now(UTC) + timedelta(days=1))
    return {"token": token, "expires_at": expires, "account": account_summary(request, name)}


def delete_session(request: FakeRequest) -> object:
    """End the session of the request's token."""
    tokens = request.host.tokens
    for token in [text for text, grant in tokens.items() if grant is request.grant]:
        del tokens[token]
    return {"ended": True}
