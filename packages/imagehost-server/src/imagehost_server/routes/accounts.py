"""Account routes: your own usage, limits, password and secret of signed URLs; all accounts for operators.

A setting lets anybody register.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, cast

from attrs import frozen
from litestar import Response
from litestar.params import JSONBody, PathParameter
from msgspec import UNSET, UnsetType

from imagehost_core import AccountChanges as CoreChanges
from imagehost_core import ImageHost
from imagehost_core.authorization import SessionRequirement
from imagehost_core.errors import ValidationError
from imagehost_core.ids import parse_account_id
from imagehost_core.limits import account_key, sign_in_keys
from imagehost_core.models import (
    Account,
    AccountOverview,
    AccountUsage,
    Role,
    Scope,
)
from imagehost_core.services.accounts import MAX_LIMIT, AccountProperties, account_change_errors
from imagehost_core.services.references import account_name_errors
from imagehost_server._executors import Standing
from imagehost_server.auth.passwords import MAX_PASSWORD, MIN_PASSWORD, hash_password, new_password_errors
from imagehost_server.http.responses import Success, ok, record_of
from imagehost_server.routes.body import JsonBody, member, set_fields
from imagehost_server.routes.handler import ApiRequest, operation
from imagehost_server.routes.lists import Cursor, Page, Pagination, PerPage, pagination
from imagehost_server.routes.sessions import (
    AccountName,
    AccountSummary,
    Password,
    replace_password,
    throttle_password_attempt,
)

AccountIdPath = Annotated[str, PathParameter(description="The account's id: a positive integer.")]

NewPassword = Annotated[
    str, member("The new password.", format="password", minLength=MIN_PASSWORD, maxLength=MAX_PASSWORD)
]

AccountRole = Annotated[str, member("Operators manage all accounts.", enum=[role.value for role in Role])]

Limit = Annotated[
    int | None, member("Requests; null is the host's limit, 0 is unlimited.", minimum=0, maximum=MAX_LIMIT)
]

Quota = Annotated[
    int | None,
    member("Bytes of stored images; null is the host's quota, 0 is unlimited.", minimum=0, maximum=MAX_LIMIT),
]


class PasswordChange(JsonBody, kw_only=True):
    """The body of `POST /account/password`."""

    current_password: Annotated[str, member("The account's password.", format="password")]
    new_password: NewPassword

    def __repr__(self) -> str:
        # Without the passwords, which must not be logged.
        return f"{type(self).__name__}()"


class AccountLimits(JsonBody, kw_only=True):
    """The limits of an account that differ from the host's; omitted members keep their values."""

    api_per_minute: Limit | UnsetType = UNSET
    api_per_hour: Limit | UnsetType = UNSET
    api_per_day: Limit | UnsetType = UNSET
    uploads_per_minute: Limit | UnsetType = UNSET
    bulk_ids_per_minute: Limit | UnsetType = UNSET


class NewAccount(JsonBody, kw_only=True):
    """The body of `POST /accounts`; only operators may send more than the name and the password.

    `username` is accepted in place of `name`.
    """

    aliases: ClassVar[Mapping[str, str]] = {"username": "name"}

    name: AccountName
    password: Password
    role: AccountRole | UnsetType = UNSET
    limits: AccountLimits | UnsetType = UNSET
    quota_bytes: Quota | UnsetType = UNSET

    def __repr__(self) -> str:
        # Without the password, which must not be logged.
        return f"{type(self).__name__}(name={self.name!r})"


class AccountChanges(JsonBody, kw_only=True):
    """The body of `PATCH /accounts/{id}`; omitted members keep their values."""

    role: AccountRole | UnsetType = UNSET
    limits: AccountLimits | UnsetType = UNSET
    quota_bytes: Quota | UnsetType = UNSET
    suspended: Annotated[bool, member("Whether the account is suspended.")] | UnsetType = UNSET


def account_properties(members: Mapping[str, object]) -> dict[str, object]:
    """Return the properties of an account in a body by their names in the core, where limits have no group.

    Args:
        members: The members of a `NewAccount` or an `AccountChanges`.
    """
    properties = {name: members[name] for name in ("role", "suspended", "quota_bytes") if name in members}
    limits = members.get("limits")
    return properties | (set_fields(limits) if isinstance(limits, AccountLimits) else {})


@frozen(kw_only=True)
class QuotaRecord:
    """The quota of an account and what remains of it, in bytes; `null` without a quota.

    Attributes:
        bytes: The quota in bytes; null without one.
        remaining: The rest of the quota in bytes; null without one.
    """

    bytes: int | None
    remaining: int | None


@frozen(kw_only=True)
class LimitRecord:
    """A rate limit window, and when it resets.

    Attributes:
        name: Up to 100 characters.
        limit: The limit of the window.
        remaining: What remains.
        reset: When the window ends.
    """

    name: str
    limit: int
    remaining: int
    reset: datetime


@frozen(kw_only=True)
class AccountRecord:
    """The usage, quota and rate limits of an account.

    Attributes:
        account: The account.
        usage: What the account uses.
        quota: The storage quota.
        limits: The rate limit windows.
    """

    account: AccountSummary
    usage: AccountUsage
    quota: QuotaRecord
    limits: list[LimitRecord]


@frozen(kw_only=True)
class LimitOverridesRecord:
    """The limits of an account that differ from the host's: `null` is the host's limit, 0 is unlimited.

    Attributes:
        api_per_minute: API requests per minute.
        api_per_hour: API requests per hour.
        api_per_day: API requests per day.
        uploads_per_minute: Upload requests per minute.
        bulk_ids_per_minute: Image ids in bulk requests per minute.
    """

    api_per_minute: int | None
    api_per_hour: int | None
    api_per_day: int | None
    uploads_per_minute: int | None
    bulk_ids_per_minute: int | None


@frozen(kw_only=True)
class ManagedAccountRecord:
    """An account, as operators see it; a quota of `null` is the host's, and 0 is unlimited.

    Attributes:
        id: Identifier.
        name: Up to 100 characters.
        role: Operators manage all accounts.
        limits: The limits that differ from the host's.
        quota_bytes: Bytes that may be stored; null is the host's quota, 0 is unlimited.
        suspended: Whether the account is suspended.
        created_at: When it was created.
        usage: What the account uses.
    """

    id: int
    name: str
    role: Role
    limits: LimitOverridesRecord
    quota_bytes: int | None
    suspended: bool
    created_at: datetime
    usage: AccountUsage


def managed_account_record(account: Account, usage: AccountUsage) -> ManagedAccountRecord:
    """Return the record of an account for operators."""
    return record_of(
        ManagedAccountRecord,
        account,
        limits=record_of(LimitOverridesRecord, account.limits),
        usage=usage,
    )


def account_record(overview: AccountOverview) -> AccountRecord:
    """Return the record of an account's usage, quota and rate limits."""
    return record_of(
        AccountRecord,
        overview,
        account=record_of(AccountSummary, overview.account),
        quota=record_of(QuotaRecord, overview.quota),
        limits=[record_of(LimitRecord, window) for window in overview.limits],
    )


@frozen(kw_only=True)
class AccountList:
    """A page of all accounts.

    Attributes:
        accounts: The accounts of the page.
        pagination: The position of the page.
    """

    accounts: list[ManagedAccountRecord]
    pagination: Pagination


@operation(
    "GET /v1/account", Scope.ACCOUNT_READ, summary="Get the usage, quota and rate limits of your account."
)
async def get_account(request: ApiRequest) -> Response[Success[AccountRecord]]:
    """Respond with the account's usage, quota and rate limits."""
    overview = await request.executors.reads.run(request.host.account, owner=request.account)
    return ok(account_record(overview))


@frozen
class ChangedPassword:
    """The outcome of a password change.

    Attributes:
        changed: Always true.
    """

    changed: bool


@operation(
    "POST /v1/account/password", SessionRequirement.ONLY, summary="Change your password.", errors=(409,)
)
async def change_password(
    request: ApiRequest, data: JSONBody[PasswordChange]
) -> Response[Success[ChangedPassword]]:
    """Respond once the password is changed and all other sessions of the account have ended.

    Requires a session. A wrong current password counts as a sign-in attempt and is 422: 401 would mean that
    the session has ended.
    """
    await replace_password(request, data.current_password, data.new_password)
    return ok(ChangedPassword(changed=True))


@frozen
class RenewedSigningSecret:
    """The outcome of a renewal of the signing secret.

    Attributes:
        renewed: Always true.
        signing_key: The new key with which programs sign URLs themselves; it is not returned again.
    """

    renewed: bool
    signing_key: str


@operation(
    "POST /v1/account/signing-secret", SessionRequirement.ONLY, summary="End all signed URLs of your images."
)
async def renew_signing_secret(request: ApiRequest) -> Response[Success[RenewedSigningSecret]]:
    """Respond once all signed URLs of the account have ended, in every process; new ones can be made.

    The response has a key with which programs sign URLs of the account's images without a request. Requires a
    session.
    """

    def renew() -> str:
        request.host.accounts.renew_signing_secret(request.account)
        return request.host.images.signing_key(owner=request.account)

    signing_key = await request.executors.database.run(renew)
    return ok(RenewedSigningSecret(renewed=True, signing_key=signing_key))


@operation("GET /v1/accounts", SessionRequirement.OPERATOR, summary="List all accounts, newest first.")
async def list_accounts(
    request: ApiRequest, page: Page = None, per_page: PerPage = None, cursor: Cursor = None
) -> Response[Success[AccountList]]:
    """Respond with a page of all accounts. Requires an operator's session."""
    host = request.host

    def read() -> AccountList:
        accounts = host.accounts.list(page=page, per_page=per_page, cursor=cursor)
        records = [_record(host, account) for account in accounts]
        return AccountList(accounts=records, pagination=pagination(accounts))

    return ok(await request.executors.database.run(read))


@operation(
    "POST /v1/accounts",
    SessionRequirement.OPERATOR,
    summary="Create an account, or register.",
    status=201,
    errors=(409,),
)
async def create_account(
    request: ApiRequest, data: JSONBody[NewAccount]
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with 201 and the account. Signing in is another request.

    Requires an operator's session. Where registration is enabled, a request without a valid token may create
    an account too, with a name and a password only.
    """
    host, identity, changes = request.host, request.identity, _properties(data)
    if changes and identity.principal is None:
        assert identity.auth_error is not None
        raise identity.auth_error
    # An invalid name or password costs neither an attempt nor a hash.
    errors = [*account_name_errors(data.name), *new_password_errors(data.password)]
    if errors := [*errors, *account_change_errors(changes)]:
        raise ValidationError(errors=errors)
    if identity.principal is None:
        standing = await throttle_password_attempt(request, data.name)
        keys = sign_in_keys(data.name, identity.ip_address)
    else:
        standing, keys = Standing.KNOWN, (account_key(request.account.id), "")
    password_hash = await request.executors.passwords.run(standing, keys, hash_password, data.password)

    def create() -> ManagedAccountRecord:
        operator = None if identity.principal is None else request.account
        account = host.accounts.create(data.name, password_hash=password_hash, operator=operator, **changes)
        return _record(host, account)

    record = await request.executors.database.run(create)
    return ok(record, 201, (("location", f"{host.urls.base_url}/accounts/{record.id}"),))


@operation("GET /v1/accounts/{account_id}", SessionRequirement.OPERATOR, summary="Get an account.")
async def get_managed_account(
    request: ApiRequest, account_id: AccountIdPath
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with the record. Requires an operator's session."""
    host, number = request.host, parse_account_id(account_id)
    return ok(await request.executors.database.run(lambda: _record(host, host.accounts.get(number))))


@operation(
    "PATCH /v1/accounts/{account_id}",
    SessionRequirement.OPERATOR,
    summary="Update an account's role, limits, quota or suspension; omitted members keep their values.",
    errors=(409,),
)
async def update_account(
    request: ApiRequest, account_id: AccountIdPath, data: JSONBody[AccountChanges]
) -> Response[Success[ManagedAccountRecord]]:
    """Respond with the updated record, once every process obeys the change. Requires an operator's session.

    The last operator that is not suspended cannot be suspended or demoted (409).
    """
    host = request.host
    changes = _changes(data)
    number = parse_account_id(account_id)

    def update() -> ManagedAccountRecord:
        return _record(host, host.accounts.update(number, operator=request.account, **changes))

    return ok(await request.executors.database.run(update))


def _properties(body: NewAccount) -> AccountProperties:
    return cast("AccountProperties", account_properties(set_fields(body)))


def _changes(body: AccountChanges) -> CoreChanges:
    return cast("CoreChanges", account_properties(set_fields(body)))


def _record(host: ImageHost, account: Account) -> ManagedAccountRecord:
    return managed_account_record(account, host.accounts.usage(account))
