"""Routes of the caller's own account: its usage and limits, and its password."""

from __future__ import annotations

from typing import Literal

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody

from imagehost_core import ImageHost
from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.models import Account
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.representations import (
    AccountRecord,
    account_record,
)
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import PasswordChange
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.passwords import (
    hash_password,
    new_password_errors,
    password_errors,
    verify_password,
)


@operation("GET /v1/account", summary="Get the usage, quota and rate limits of your account.")
async def get_account(request: ApiRequest) -> Response[Success[AccountRecord]]:
    """Respond with the account's usage, quota and rate limits."""
    return ok(await request.executors.reads.run(_get_account, request.host, request.account))


def _get_account(host: ImageHost, account: Account) -> AccountRecord:
    quota = host.rate_limiter.limits_of(account).quota_bytes
    usage = host.accounts.usage(account)
    return account_record(account, usage, quota, host.rate_limiter.windows(account))


@frozen
class ChangedPassword:
    """The outcome of a password change."""

    changed: Literal[True] = True


@operation("POST /v1/account/password", summary="Change your password.", errors=(409,))
async def change_password(
    request: ApiRequest, data: JSONBody[PasswordChange]
) -> Response[Success[ChangedPassword]]:
    """Respond once the password is changed and all other sessions of the account have ended.

    Requires a session. A request counts as a sign-in attempt. A wrong current password is 422: 401 would mean
    that the session has ended.
    """
    host, executors, account = request.host, request.executors, request.account
    await throttle_password_attempt(request, account.name)
    current_hash = await executors.database.run(host.accounts.password_hash, account.name)
    is_valid = not password_errors(data.current_password) and await executors.passwords.run(
        verify_password, current_hash, data.current_password
    )
    errors = [*new_password_errors(data.new_password, "new_password")]
    if not is_valid:
        errors.insert(0, FieldError("current_password", "the account's password", "another"))
    if errors:
        raise ValidationError(errors=errors)
    new_hash = await executors.passwords.run(hash_password, data.new_password)
    await executors.database.run(
        host.accounts.set_password_hash,
        account,
        new_hash,
        replaces=current_hash,
        keep=request.auth.session_id,
    )
    return ok(ChangedPassword())


ROUTES = (get_account, change_password)
