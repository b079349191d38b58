"""Account routes: registration, where the setting allows it, and the caller's own account."""

from __future__ import annotations

from litestar import Response
from litestar.params import JSONBody

from imagehost_core import ImageHost
from imagehost_core.errors import ValidationError
from imagehost_core.models import Account
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.representations import (
    AccountRecord,
    AccountSummary,
    account_record,
    account_summary,
)
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import NewAccount
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.passwords import hash_password, new_password_errors


@operation(
    "POST /v1/accounts",
    summary="Create an account, if registration is enabled.",
    status=201,
    errors=(409,),
)
async def create_account(
    request: ApiRequest, data: JSONBody[NewAccount]
) -> Response[Success[AccountSummary]]:
    """Respond with 201 and the account. Signing in is another request."""
    host = request.host
    # An invalid name or password costs neither an attempt nor a hash.
    errors = [*host.accounts.name_errors(data.username), *new_password_errors(data.password)]
    if errors:
        raise ValidationError(errors=errors)
    await throttle_password_attempt(request, data.username)
    password_hash = await request.executors.passwords.run(hash_password, data.password)
    account = await request.executors.database.run(
        host.accounts.create, data.username, password_hash=password_hash
    )
    return ok(account_summary(account), 201)


@operation("GET /v1/account", summary="Get the usage, quota and rate limits of your account.")
async def get_account(request: ApiRequest) -> Response[Success[AccountRecord]]:
    """Respond with the account's usage, quota and rate limits."""
    return ok(await request.executors.database.run(_get_account, request.host, request.account))


def _get_account(host: ImageHost, account: Account) -> AccountRecord:
    quota = host.rate_limiter.limits_of(account).quota_bytes
    usage = host.accounts.usage(account.name)
    return account_record(account, usage, quota, host.rate_limiter.windows(account))


ROUTES = (create_account, get_account)
