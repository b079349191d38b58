"""Routes of the caller's own account: usage and limits, the password, and the secret of signed URLs."""

from __future__ import annotations

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody

from imagehost_core import ImageHost
from imagehost_core.models import Account
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.representations import (
    AccountRecord,
    account_record,
)
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import PasswordChange
from imagehost_server.api.sign_in import replace_password


@operation("GET /v1/account", summary="Get the usage, quota and rate limits of your account.")
async def get_account(request: ApiRequest) -> Response[Success[AccountRecord]]:
    """Respond with the account's usage, quota and rate limits."""
    return ok(await request.executors.reads.run(read_account, request.host, request.account))


def read_account(host: ImageHost, account: Account) -> AccountRecord:
    """Return the record of an account's usage, quota and rate limits."""
    quota = host.rate_limiter.limits_of(account).quota_bytes
    usage = host.accounts.usage(account)
    return account_record(account, usage, quota, host.rate_limiter.windows(account))


@frozen
class ChangedPassword:
    """The outcome of a password change.

    Attributes:
        changed: Always true.
    """

    changed: bool


@operation("POST /v1/account/password", summary="Change your password.", errors=(409,))
async def change_password(
    request: ApiRequest, data: JSONBody[PasswordChange]
) -> Response[Success[ChangedPassword]]:
    """Respond once the password is changed and all other sessions of the account have ended.

    Requires a session. A request counts as a sign-in attempt. A wrong current password is 422: 401 would mean
    that the session has ended.
    """
    await replace_password(request, data.current_password, data.new_password)
    return ok(ChangedPassword(changed=True))


@frozen
class RenewedSigningSecret:
    """The outcome of a renewal of the signing secret.

    Attributes:
        renewed: Always true.
    """

    renewed: bool


@operation("POST /v1/account/signing-secret", summary="End all signed URLs of your images.")
async def renew_signing_secret(request: ApiRequest) -> Response[Success[RenewedSigningSecret]]:
    """Respond once all signed URLs of the account have ended, in every process; new ones can be made.

    Requires a session.
    """
    await request.executors.database.run(request.host.accounts.renew_signing_secret, request.account)
    return ok(RenewedSigningSecret(renewed=True))


ROUTES = (get_account, change_password, renew_signing_secret)
