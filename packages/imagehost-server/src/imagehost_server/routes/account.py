"""Accounts: made by whoever wants one, where the host lets them; and the caller's own."""

from __future__ import annotations

from litestar import Response

from imagehost_server.api.operation import operation
from imagehost_server.api.representations import (
    AccountRecord,
    AccountSummary,
    account_record,
    account_summary,
)
from imagehost_server.api.request import ApiRequest, ok
from imagehost_server.api.schemas import NewAccount
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.passwords import hash_password, require_new_password


@operation(
    "POST /v1/accounts",
    summary="Make an account, where the host lets anybody do so.",
    body=NewAccount,
    response=AccountSummary,
    status=201,
    errors=(409,),
)
async def create_account(request: ApiRequest) -> Response[bytes]:
    """Answer 201 with the account; signing in to it is another request."""
    wanted, host = await request.json_body(NewAccount), request.host
    # A name that can be nobody's costs neither an attempt nor a hash.
    host.accounts.require_name(wanted.username)
    require_new_password(wanted.password)
    await throttle_password_attempt(request, wanted.username)
    password_hash = await request.executors.passwords.run(hash_password, wanted.password)
    create = host.accounts.create
    made = await request.executors.database.run(create, wanted.username, password_hash=password_hash)
    return ok(account_summary(made), 201)


@operation(
    "GET /v1/account",
    summary="Show your usage, quota, and what is left of your limits.",
    response=AccountRecord,
)
async def get_account(request: ApiRequest) -> Response[bytes]:
    """Answer what the account has stored and may still ask for."""
    return ok(await request.executors.database.run(_account, request))


def _account(request: ApiRequest) -> AccountRecord:
    host, account = request.host, request.account
    quota = host.rate_limiter.limits_of(account).quota_bytes
    return account_record(
        account, host.accounts.usage(account.name), quota, host.rate_limiter.windows(account)
    )


ROUTES = (create_account, get_account)
