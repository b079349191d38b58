"""The caller's own account."""

from __future__ import annotations

from litestar import Response

from imagehost_server.operations import operation
from imagehost_server.records import AccountRecord, account_record
from imagehost_server.requests import ApiRequest, answer


@operation(
    "GET /v1/account",
    summary="Show your usage, quota, and what is left of your limits.",
    answer=AccountRecord,
)
async def get_account(request: ApiRequest) -> Response[bytes]:
    """Answer what the account has stored and may still ask for."""
    return answer(await request.rooms.catalog.run(_account, request))


def _account(request: ApiRequest) -> AccountRecord:
    host, account = request.host, request.account
    quota = host.limiter.of(account).quota_bytes
    return account_record(account, host.accounts.usage(account.name), quota, host.limiter.windows(account))


ROUTES = (get_account,)
