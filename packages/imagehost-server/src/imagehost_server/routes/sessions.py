"""Session routes: sign in, sign out, list your sessions and end one; and the passwords that they verify."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, TypeVar

from attrs import field, frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter

from imagehost_core.authorization import SessionRequirement
from imagehost_core.errors import FieldError, UnauthorizedError, UnavailableError, ValidationError
from imagehost_core.ids import SessionId
from imagehost_core.limits import account_key, ip_address_key, sign_in_keys
from imagehost_core.models import (
    Deleted,
    Role,
    Session,
    SessionWithToken,
)
from imagehost_core.services.rate_limiter import SignInAttempt
from imagehost_core.services.references import account_name_errors
from imagehost_server._executors import Standing
from imagehost_server.auth.cookies import session_cookies
from imagehost_server.auth.passwords import (
    MAX_PASSWORD,
    MIN_PASSWORD,
    hash_password,
    new_password_errors,
    password_errors,
    verify_password,
)
from imagehost_server.http.responses import Success, ok, record_of
from imagehost_server.routes.body import JsonBody, member
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination

SessionIdPath = Annotated[str, PathParameter(description="The session's id.")]

AccountName = Annotated[str, member("The account's name.")]

Password = Annotated[
    str, member("The account's password.", format="password", minLength=MIN_PASSWORD, maxLength=MAX_PASSWORD)
]


class SignIn(JsonBody, kw_only=True):
    """The body of `POST /session`."""

    username: AccountName
    password: Password

    def __repr__(self) -> str:
        # Without the password, which must not be logged.
        return f"{type(self).__name__}(username={self.username!r})"


@frozen(kw_only=True)
class AccountSummary:
    """The name and role of an account, and when it was created.

    Attributes:
        name: Up to 100 characters.
        role: Operators manage all accounts.
        created_at: When it was created.
    """

    name: str
    role: Role
    created_at: datetime


@frozen(kw_only=True)
class SessionRecord:
    """A session, without its token; `is_current` is true for the session of the request.

    Attributes:
        id: Identifier.
        user_agent: The `User-Agent` of the sign-in.
        ip_address: The IP address of the sign-in.
        created_at: When it was created.
        expires_at: When it expires; null = never.
        last_used_at: When the token was last used, to the minute.
        is_current: Whether it is the session of the request.
    """

    id: str
    user_agent: str
    ip_address: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime
    is_current: bool


@frozen(kw_only=True)
class CreatedSessionRecord:
    """A new session, with its token, which is returned only once.

    Attributes:
        id: Identifier.
        token: The secret token. Returned only here.
        expires_at: When it expires; null = never.
        account: The account.
    """

    id: str
    token: str = field(repr=False)
    expires_at: datetime
    account: AccountSummary


def session_record(session: Session, current: SessionId | None) -> SessionRecord:
    """Return the record of a session.

    Args:
        session: The session.
        current: The session of the request.
    """
    return record_of(SessionRecord, session, is_current=session.id == current)


def new_session_record(created: SessionWithToken) -> CreatedSessionRecord:
    """Return the record of a new session, with its token."""
    return record_of(CreatedSessionRecord, created, account=record_of(AccountSummary, created.account))


@frozen(kw_only=True)
class SessionList:
    """A page of an account's sessions.

    Attributes:
        sessions: The sessions of the page.
        pagination: The position of the page.
    """

    sessions: list[SessionRecord]
    pagination: Pagination


@operation("POST /v1/session", None, summary="Sign in.", status=201, errors=(401,))
async def sign_in(request: ApiRequest, data: JSONBody[SignIn]) -> Response[Success[CreatedSessionRecord]]:
    """Respond with 201 and a session token, which has all scopes; set the session cookies."""
    session = await create_session(request, data.username, data.password)
    return with_session_cookies(request, ok(new_session_record(session), 201), session)


@operation("DELETE /v1/session", SessionRequirement.ONLY, summary="Sign out.")
async def sign_out(request: ApiRequest) -> Response[Success[Deleted]]:
    """End the session of the request's token, at once and in every process."""
    return without_session_cookies(request, ok(await request.call(request.host.sessions.delete)))


@operation("GET /v1/sessions", SessionRequirement.ONLY, summary="List your sessions, newest first.")
async def list_sessions(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[SessionList]]:
    """Respond with a page of the caller's sessions that have not expired."""
    sessions = await request.call(request.host.sessions.list, page=page, per_page=per_page, cursor=cursor)
    records = [session_record(session, request.auth.session_id) for session in sessions]
    return ok(SessionList(sessions=records, pagination=pagination(sessions)))


@operation("DELETE /v1/sessions/{session_id}", SessionRequirement.ONLY, summary="End one of your sessions.")
async def delete_session(request: ApiRequest, session_id: SessionIdPath) -> Response[Success[Deleted]]:
    """End a session at once, in every process. Ending that of the request is signing out."""
    response = ok(await request.call(request.host.sessions.delete, session_id))
    is_own = session_id == request.auth.session_id
    return without_session_cookies(request, response) if is_own else response


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
    async with password_attempt(request, name) as standing:
        stored_hash = await executors.database.run(host.accounts.password_hash, name)
        keys = sign_in_keys(name, request.identity.ip_address)
        if not await executors.passwords.run(standing, keys, verify_password, stored_hash, password):
            raise UnauthorizedError(_INVALID_CREDENTIALS)
    account = await executors.database.run(host.accounts.get, name)
    session = await executors.database.run(
        host.sessions.create,
        account,
        password_hash=stored_hash,
        user_agent=request.headers.get("user-agent", ""),
        ip_address=request.identity.ip_address,
    )
    request.log(account=account.name, session=session.id)
    return session


async def replace_password(request: ApiRequest, current: str, new: str) -> None:
    """Change the password of the request's account, and end its other sessions.

    A wrong current password counts as a sign-in attempt.

    Raises:
        ValidationError: The current password is another, or the new one has no allowed length.
        RateLimitError: The IP address has no attempts left.
        ConflictError: The password was changed meanwhile.
    """
    host, executors, account = request.host, request.executors, request.account
    keys = (account_key(account.id), "")
    errors = [*new_password_errors(new, "new_password")]
    async with password_attempt(request, account.name):
        current_hash = await executors.database.run(host.accounts.password_hash, account.name)
        if password_errors(current) or not await executors.passwords.run(
            Standing.KNOWN, keys, verify_password, current_hash, current
        ):
            errors.insert(0, FieldError("current_password", "the account's password", "another"))
            raise ValidationError(errors=errors)
    if errors:
        raise ValidationError(errors=errors)
    new_hash = await executors.passwords.run(Standing.KNOWN, keys, hash_password, new)
    await executors.database.run(
        host.accounts.set_password_hash,
        account,
        new_hash,
        replaces=current_hash,
        keep=request.auth.session_id,
    )


def with_session_cookies(
    request: ApiRequest, response: Response[T], session: SessionWithToken
) -> Response[T]:
    """Return a response that sets the cookies of a new session."""
    max_age = int((session.expires_at - request.host.now()).total_seconds())
    for cookie in session_cookies(session.token, max_age, request.settings.root_path):
        response.set_cookie(cookie)
    return response


def without_session_cookies(request: ApiRequest, response: Response[T]) -> Response[T]:
    """Return a response that deletes the session's cookies."""
    for cookie in session_cookies("", 0, request.settings.root_path):
        response.set_cookie(cookie)
    return response


@asynccontextmanager
async def password_attempt(request: ApiRequest, name: str) -> AsyncIterator[Standing]:
    """Throttle a block that verifies a password and raises if it is wrong; yield the standing of its client.

    Neither a right password is counted, nor one that is not verified because too many others wait.

    Args:
        request: The request that has the password.
        name: What the password belongs to, as for `throttle_password_attempt`.

    Raises:
        RateLimitError: The IP address has no attempts left.
    """
    attempt = await _admit(request, name)
    executors, ip_address = request.executors, request.identity.ip_address
    forget = partial(executors.database.run, request.host.rate_limiter.forget_sign_in, name, ip_address)
    with executors.password_attempts.attempt(ip_address_key(ip_address)):
        try:
            yield await _delay(request, name, attempt)
        except UnavailableError:
            await forget()
            raise
        await forget()


async def throttle_password_attempt(request: ApiRequest, name: str) -> Standing:
    """Count a password attempt, and wait if the account has had many; or raise RateLimitError.

    Args:
        request: The request that has the password.
        name: The account name; the account need not exist.

    Raises:
        RateLimitError: The IP address has no attempts left.
    """
    return await _delay(request, name, await _admit(request, name))


async def _admit(request: ApiRequest, name: str) -> SignInAttempt:
    """Count a password attempt, as soon as the client IP address may make one; or raise RateLimitError.

    While others of it are in progress, it waits for them: as many as there are people may sign in from there
    at the same time. The response's rate limit headers then describe these windows, if they are tighter than
    the API's.
    """
    executors, ip_address = request.executors, request.identity.ip_address
    admit = partial(executors.database.run, request.host.rate_limiter.admit_sign_in, name, ip_address)
    wait_for_one = partial(executors.password_attempts.wait_for_one, ip_address_key(ip_address))
    attempt = await admit()
    while not attempt.decision.admitted and await wait_for_one():
        attempt = await admit()
    request.apply(attempt.decision)
    return attempt


async def _delay(request: ApiRequest, name: str, attempt: SignInAttempt) -> Standing:
    """Wait if the account has had many attempts; return the standing of the client.

    A client IP address at which a session of the account began does not wait: whoever guesses has others.
    """
    host, executors = request.host, request.executors
    if await executors.database.run(host.sessions.is_known_client, name, request.identity.ip_address):
        return Standing.KNOWN
    await executors.sign_in_delays.wait(attempt.delay_seconds)
    return Standing.NEW if attempt.is_first else Standing.FAILED
