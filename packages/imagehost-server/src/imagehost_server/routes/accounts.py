"""Account routes for operators: list, create, get and update accounts; and registration, if it is enabled."""

from __future__ import annotations

from typing import cast

from litestar import Response
from litestar.params import JSONBody

from imagehost_core import AccountChanges as CoreChanges
from imagehost_core import ImageHost
from imagehost_core.errors import ValidationError
from imagehost_core.ids import parse_account_id
from imagehost_core.limits import account_key, sign_in_keys
from imagehost_core.lists import parse_page_request
from imagehost_core.models import Account
from imagehost_server.api.body import set_fields
from imagehost_server.api.envelope import Success, ok
from imagehost_server.api.operation import operation
from imagehost_server.api.pagination import AccountList, pagination
from imagehost_server.api.parameters import AccountIdPath, Cursor, Page, PerPage
from imagehost_server.api.representations import ManagedAccountRecord, managed_account_record
from imagehost_server.api.request import ApiRequest
from imagehost_server.api.schemas import AccountChanges, NewAccount, account_properties
from imagehost_server.api.throttle import throttle_password_attempt
from imagehost_server.auth.passwords import hash_password


@operation("GET /v1/accounts", summary="List all accounts, newest first.")
async def list_accounts(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[AccountList]]:
    """Respond with a page of all accounts. Requires an operator's session."""
    host, page_request = request.host, parse_page_request(page, per_page, cursor)

    def read() -> AccountList:
        accounts = host.accounts.list(page_request)
        records = [_record(host, account) for account in accounts]
        return AccountList(accounts=records, pagination=pagination(accounts))

    return ok(await request.executors.database.run(read))


@operation("POST /v1/accounts", summary="Create an account, or register.", status=201, errors=(409,))
async def create_account(
    request: ApiRequest, data: JSONBody[NewAccount]
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with 201 and the account. Signing in is another request.

    Requires an operator's session. Where registration is enabled, a request without a valid token may create
    an account too, with a name and a password only.
    """
    host, identity, changes = request.host, request.identity, _changes(data)
    if changes and identity.principal is None:
        assert identity.auth_error is not None
        raise identity.auth_error
    # An invalid name or password costs neither an attempt nor a hash.
    if errors := data.value_errors(set_fields(data)):
        raise ValidationError(errors=errors)
    if identity.principal is None:
        await throttle_password_attempt(request, data.username)
        keys = sign_in_keys(data.username, identity.ip_address)
    else:
        keys = (account_key(request.account.id), "")
    password_hash = await request.executors.passwords.run(keys, hash_password, data.password)

    def create() -> ManagedAccountRecord:
        operator = None if identity.principal is None else request.account
        account = host.accounts.create(
            data.username, password_hash=password_hash, operator=operator, **changes
        )
        return _record(host, account)

    record = await request.executors.database.run(create)
    return ok(record, 201, (("location", f"{host.urls.base_url}/accounts/{record.id}"),))


@operation("GET /v1/accounts/{account_id}", summary="Get an account.")
async def get_managed_account(
    request: ApiRequest, account_id: AccountIdPath
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with the record. Requires an operator's session."""
    host, number = request.host, parse_account_id(account_id)
    return ok(await request.executors.database.run(lambda: _record(host, host.accounts.get(number))))


@operation(
    "PATCH /v1/accounts/{account_id}",
    summary="Update an account's role, limits, quota or suspension; omitted members keep their values.",
    errors=(409,),
)
async def update_account(
    request: ApiRequest, account_id: AccountIdPath, data: JSONBody[AccountChanges]
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with the updated record, once every process obeys the change. Requires an operator's session.

    The last operator that is not suspended cannot be suspended or demoted (409).
    """
    host, changes, number = request.host, _changes(data), parse_account_id(account_id)

    def update() -> ManagedAccountRecord:
        return _record(host, host.accounts.update(number, operator=request.account, **changes))

    return ok(await request.executors.database.run(update))


def _changes(body: NewAccount | AccountChanges) -> CoreChanges:
    return cast("CoreChanges", account_properties(set_fields(body)))


def _record(host: ImageHost, account: Account) -> ManagedAccountRecord:
    return managed_account_record(account, host.accounts.usage(account))


ROUTES = (list_accounts, create_account, get_managed_account, update_account)
