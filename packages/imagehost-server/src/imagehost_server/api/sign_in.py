"""Signing in, for the JSON API and the sign-in page: verification of a password, and session cookies."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from litestar import Response

from imagehost_core.errors import FieldError, UnauthorizedError, ValidationError
from imagehost_core.limits import account_key, sign_in_keys
from imagehost_core.models import SessionWithToken
from imagehost_core.services.references import account_name_errors
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.cookies import ended_cookies, session_cookies
from imagehost_server.auth.passwords import (
    hash_password,
    new_password_errors,
    password_errors,
    verify_password,
)

T = TypeVar("T")

_INVALID_CREDENTIALS = "expected the name and password of an account but received others"


async def create_session(request: ApiRequest, name: str, password: str) -> SessionWithToken:
    """Return a new session of the account with a name and password.

    Raises:
        ValidationError: The password is too long.
        UnauthorizedError: There is no such account, or it has another password.
        RateLimitError: The IP address has no attempts left.
    """
    if errors := password_errors(password):
        raise ValidationError(errors=errors)
    host, executors = request.host, request.executors
    # An invalid name costs neither an attempt nor a hash: which names are valid is public. A valid one costs
    # both, whether the account exists or not, so that timing does not reveal account names.
    if account_name_errors(name):
        raise UnauthorizedError(_INVALID_CREDENTIALS)
    await throttle_password_attempt(request, name)
    stored_hash = await executors.database.run(host.accounts.password_hash, name)
    keys = sign_in_keys(name, request.identity.ip_address)
    if not await executors.passwords.run(keys, verify_password, stored_hash, password):
        raise UnauthorizedError(_INVALID_CREDENTIALS)
    account = await executors.database.run(host.accounts.get, name)
    return await executors.database.run(
        host.sessions.create,
        account,
        password_hash=stored_hash,
        user_agent=request.headers.get("user-agent", ""),
        ip_address=request.identity.ip_address,
    )


async def replace_password(request: ApiRequest, current: str, new: str) -> None:
    """Change the password of the request's account, and end its other sessions.

    A request counts as a sign-in attempt.

    Raises:
        ValidationError: The current password is another, or the new one has no allowed length.
        RateLimitError: The IP address has no attempts left.
        ConflictError: The password was changed meanwhile.
    """
    host, executors, account = request.host, request.executors, request.account
    await throttle_password_attempt(request, account.name)
    keys = (account_key(account.id), "")
    current_hash = await executors.database.run(host.accounts.password_hash, account.name)
    is_valid = not password_errors(current) and await executors.passwords.run(
        keys, verify_password, current_hash, current
    )
    errors = [*new_password_errors(new, "new_password")]
    if not is_valid:
        errors.insert(0, FieldError("current_password", "the account's password", "another"))
    if errors:
        raise ValidationError(errors=errors)
    new_hash = await executors.passwords.run(keys, hash_password, new)
    await executors.database.run(
        host.accounts.set_password_hash,
        account,
        new_hash,
        replaces=current_hash,
        keep=request.auth.session_id,
    )


def with_session_cookies(response: Response[T], session: SessionWithToken, now: datetime) -> Response[T]:
    """Return a response that sets the cookies of a new session.

    Args:
        response: The response.
        session: The session.
        now: The current time.
    """
    for cookie in session_cookies(session.token, now, session.expires_at):
        response.set_cookie(cookie)
    return response


def without_session_cookies(response: Response[T]) -> Response[T]:
    """Return a response that deletes the session's cookies."""
    for cookie in ended_cookies():
        response.set_cookie(cookie)
    return response
