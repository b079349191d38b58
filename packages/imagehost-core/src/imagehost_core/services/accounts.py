"""Accounts: create, list, update and delete them, and change their passwords."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TypedDict, Unpack

import attrs
from attrs import Factory, field, frozen

from imagehost_core._util.fields import is_within, parse_choice, require_known
from imagehost_core.db.engines.database import ALL_IMAGES, Queryable, ReadCache, Transaction
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import (
    ConflictError,
    ErrorCollector,
    FieldError,
    ForbiddenError,
    NotFoundError,
    ValidationError,
    quote_value,
)
from imagehost_core.lists import MAX_PER_PAGE, PageKeywords, parse_page_request
from imagehost_core.models import Account, AccountLimits, AccountUsage, Page, Role, RoleName, own_limits
from imagehost_core.services.deletion import ImageDeleter
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.services.references import AccountRef, SessionRef, account_name_errors, session_id_of
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage.image_files import ImageFiles

SECRET_BYTES = 32
"""Bytes of the secret of an account's signed URLs."""
MAX_LIMIT = 2**63 - 1
"""The largest limit or quota that the database stores."""
LIMITS = (*(attribute.name for attribute in attrs.fields(AccountLimits)), "quota_bytes")
"""The names of the limits of an account."""
_ROLES = {role.value: role for role in Role}

USAGES_IN_MEMORY = 1_000
"""Accounts of which the usage is in memory, per process."""

UsageCache = ReadCache[int | str, AccountUsage]
"""What accounts have stored, by id or by name."""

log = logging.getLogger("imagehost.accounts")
"""The log of changes of accounts and keys; a line has its values as `fields`, and no secret."""


class AccountProperties(TypedDict, total=False):
    """What operators set of an account; a limit of `None` is the host's, and one of 0 is unlimited."""

    role: RoleName
    api_per_minute: int | None
    api_per_hour: int | None
    api_per_day: int | None
    uploads_per_minute: int | None
    bulk_ids_per_minute: int | None
    quota_bytes: int | None


class AccountChanges(AccountProperties, total=False):
    """What operators change of an account; a property that is left out keeps its value."""

    suspended: bool


@frozen
class DeletedAccount:
    """What was deleted with an account.

    Attributes:
        images: The number of its images.
        bytes: Bytes of their masters.
        albums: The number of its albums.
        keys: The number of its API keys, those that were revoked too.
        webhooks: The number of its webhooks.
    """

    images: int
    bytes: int
    albums: int
    keys: int
    webhooks: int


@frozen
class AccountService:
    """Creates, lists, changes and deletes accounts, with their passwords, limits and signing secrets."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _principals: PrincipalCache = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _deleter: ImageDeleter = field(repr=False)
    _env: Environment = field(repr=False)
    _usages: UsageCache = field(
        init=False,
        repr=False,
        default=Factory(lambda self: ReadCache(self._records.database, USAGES_IN_MEMORY), takes_self=True),
    )

    def create(
        self,
        name: str,
        *,
        password_hash: str | None = None,
        operator: Account | None = None,
        **properties: Unpack[AccountProperties],
    ) -> Account:
        """Create an account.

        Args:
            name: 1–64 letters, digits or `._@+-`.
            password_hash: An argon2id hash; `None` for an account without a password.
            operator: The account that creates it; `None` for the program itself, or a registration.
            properties: `role`, by default `user`; `quota_bytes` and the limits that differ from the host's.

        Raises:
            ValidationError: The name or another value is not allowed; all errors are reported together.
            ForbiddenError: `operator` is no operator.
            ConflictError: The name is taken.
        """
        parsed = _parse_changes(properties)
        if errors := (*account_name_errors(name), *parsed.errors):
            raise ValidationError(errors=errors)
        with self._operated(operator) as transaction:
            if self._records.accounts.get_by_name(name, transaction) is not None:
                raise ConflictError.of("name", "a name that is not taken", quote_value(name))
            account = self._insert(transaction, name, password_hash, parsed)
        _log("account created", account, _changes(None, account) | _by(operator))
        return account

    def create_first(self, name: str) -> None:
        """Create the first account, an operator without a password, unless there are accounts."""
        if not self._records.accounts.is_any():
            with self._records.database.transaction() as transaction:
                if not self._records.accounts.is_any(transaction):
                    self._insert(transaction, name, None, _parse_changes({"role": Role.OPERATOR}))

    def get(self, account: AccountRef) -> Account:
        """Return the current record of an account.

        Raises:
            NotFoundError: There is no such account.
        """
        return self._get(account, self._records.database)

    def get_or_create(self, name: str) -> Account:
        """Return the account of a name; create it, without a password, if it does not exist.

        For programs that register their users elsewhere.

        Raises:
            ValidationError: The name is not allowed.
        """
        account = self._records.accounts.get_by_name(name)
        if account is not None:
            return account
        if errors := account_name_errors(name):
            raise ValidationError(errors=errors)
        with self._records.database.transaction() as transaction:
            existing = self._records.accounts.get_by_name(name, transaction)
            return existing or self._insert(transaction, name, None, _NO_CHANGES)

    def list(self, **page: Unpack[PageKeywords]) -> Page[Account]:
        """Return a page of all accounts, newest first."""
        return self._records.accounts.list(parse_page_request(**page))

    def list_largest(self, count: int = MAX_PER_PAGE) -> tuple[Account, ...]:
        """Return the accounts that store the most bytes, the largest first.

        Args:
            count: The most accounts to return.
        """
        return self._records.accounts.list_largest(count)

    def iter(self) -> Iterator[Account]:
        """Yield all accounts, newest first, without gaps or repeats while others change them."""
        cursor: str | None = None
        while True:
            page = self.list(per_page=MAX_PER_PAGE, cursor=cursor)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def update(
        self, account: AccountRef, *, operator: Account | None = None, **changes: Unpack[AccountChanges]
    ) -> Account:
        """Change the given properties of an account.

        A suspended account's sessions end, its keys are refused and its images are not found, in every
        process before this returns, and its webhooks are paused. All but the sessions is restored when the
        suspension ends.

        Args:
            account: The account, its id or its name.
            operator: The account that changes it; `None` for the program itself.
            changes: `role`, `suspended`, and the limits `api_per_minute`, `api_per_hour`, `api_per_day`,
                `uploads_per_minute`, `bulk_ids_per_minute` and `quota_bytes`.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: A value is not allowed; all errors are reported together.
            ForbiddenError: `operator` is no operator.
            ConflictError: The account is the only operator that is not suspended, and would not be any more.
        """
        parsed = _parse_changes(changes)
        errors = ErrorCollector()
        if parsed.errors:
            with errors.catch():
                self.get(account)
            errors.add(ValidationError(errors=parsed.errors))
        errors.raise_if_any()
        with self._principals.invalidated_by(self._operated(operator)) as transaction:
            current = self._get(account, transaction)
            changed = parsed.apply(current, self._env.clock())
            if current.is_active_operator and not changed.is_active_operator:
                self._require_other_operator(current, transaction)
            if changed != current:
                self._records.accounts.update(transaction, changed)
            if parsed.suspended is not None:
                transaction.invalidate([ALL_IMAGES])
            if changed.suspended_at is not None:
                self._records.sessions.delete_all(transaction, changed.id)
                if current.suspended_at is None:
                    self._records.cache_purges.record_account(transaction, changed.id, changed.suspended_at)
        if changed != current:
            _log("account changed", changed, _changes(current, changed) | _by(operator))
        if parsed.suspended is not None:
            # Also without a change: an earlier attempt may have failed here.
            self._files.generations.bump_all(self._files.locks, "image")
        return changed

    def set_password_hash(
        self,
        account: AccountRef,
        password_hash: str,
        *,
        replaces: str | None = None,
        keep: SessionRef | None = None,
        operator: Account | None = None,
    ) -> None:
        """Replace the password hash of an account and end all its sessions, or all but one.

        Args:
            account: The account, its id or its name.
            password_hash: An argon2id hash.
            replaces: The hash that the current password was verified with, if it was.
            keep: The session that changes its account's password; it does not end.
            operator: The account that changes the password of another one.

        Raises:
            NotFoundError: There is no such account.
            UnauthorizedError: The token that `account` or `operator` was authorized by is not valid any more.
            ForbiddenError: `operator` is no operator.
            ConflictError: The password has been changed since it was verified.
        """
        kept = None if keep is None else session_id_of(keep)
        owner = account if isinstance(account, Account) else None
        begin = self._units.verified(owner, self._operated(operator))
        with self._principals.invalidated_by(begin) as transaction:
            current = self._get(account, transaction)
            if replaces not in (None, self._records.accounts.password_hash(current.id, transaction)):
                raise ConflictError("expected the current password but it was changed by another request")
            self._records.accounts.set_password_hash(transaction, current.id, password_hash)
            self._records.sessions.delete_all(transaction, current.id, keep=kept)
        _log("password changed", current, _by(operator))

    def renew_signing_secret(self, account: AccountRef) -> None:
        """End all signed URLs of an account at once, in every process; new ones can be made.

        Nothing else ends them but their expiry, and the suspension or deletion of the account.

        Args:
            account: The account, its id or its name.

        Raises:
            NotFoundError: There is no such account.
        """
        owner = account if isinstance(account, Account) else self.get(account)
        with self._principals.invalidated_by(self._units.transaction(owner)) as transaction:
            self._records.accounts.set_signing_secret(transaction, owner.id, self._env.random(SECRET_BYTES))
        _log("signing secret renewed", owner)

    def password_hash(self, name: str) -> str | None:
        """Return the password hash of an account; `None` without a password or without such an account."""
        account = self._records.accounts.get_by_name(name)
        return None if account is None else self._records.accounts.password_hash(account.id)

    def usage(self, account: AccountRef) -> AccountUsage:
        """Return what an account has stored.

        Raises:
            NotFoundError: There is no such account.
        """
        key = account.id if isinstance(account, Account) else account
        return self._usages.get(key, lambda: self._records.accounts.usage(self.get(account).id))

    def delete(self, account: AccountRef, *, operator: Account | None = None) -> DeletedAccount:
        """Delete an account with its images, albums, keys, sessions, webhooks and events; no event is sent.

        It is suspended first. If the program ends before the deletion does, the next call goes on with it.

        Args:
            account: The account, its id or its name.
            operator: The account that deletes it; `None` for the program itself.

        Returns:
            What was deleted; without what an earlier attempt has deleted, if it was interrupted.

        Raises:
            NotFoundError: There is no such account.
            ForbiddenError: `operator` is no operator.
            ConflictError: It is the only operator that is not suspended.
        """
        suspended = self.update(account, operator=operator, suspended=True)
        account_id, usage = suspended.id, self._records.accounts.usage(suspended.id)
        with self._records.database.transaction() as transaction:
            webhook_ids = self._records.webhooks.ids_by_account(account_id, transaction)
            for webhook_id in webhook_ids:
                self._records.webhooks.delete(transaction, webhook_id)
        while True:
            for image_id in self._records.images.ids_by_account(account_id):
                self._deleter.delete_one(image_id, missing_ok=True)
            with self._principals.invalidated_by(self._records.database.transaction()) as transaction:
                # An upload in progress may have added one more.
                if not self._records.images.ids_by_account(account_id, transaction):
                    counts = self._records.accounts.delete(transaction, account_id)
                    break
        deleted = DeletedAccount(
            images=usage.images,
            bytes=usage.bytes,
            albums=counts["albums"],
            keys=counts["api_keys"],
            webhooks=len(webhook_ids),
        )
        _log("account deleted", suspended, attrs.asdict(deleted) | _by(operator))
        return deleted

    def _get(self, account: AccountRef, queryable: Queryable) -> Account:
        if isinstance(account, str):
            record = self._records.accounts.get_by_name(account, queryable)
        else:
            account = account.id if isinstance(account, Account) else account
            is_id = is_within(account, MAX_LIMIT)
            record = self._records.accounts.get(account, queryable) if is_id else None
        if record is None:
            raise NotFoundError(f"expected the name or id of an account but received {quote_value(account)}")
        return record

    def _insert(
        self, transaction: Transaction, name: str, password_hash: str | None, changes: _ParsedChanges
    ) -> Account:
        now = self._env.clock()
        self._records.accounts.insert(transaction, name, password_hash, self._env.random(SECRET_BYTES), now)
        account = self._get(name, transaction)
        changed = changes.apply(account, now)
        self._records.accounts.update(transaction, changed)
        return changed

    @contextmanager
    def _operated(self, operator: Account | None) -> Iterator[Transaction]:
        """Run a block in a write transaction in which the account that makes the change is an operator."""
        with self._units.verified(operator, self._records.database.transaction()) as transaction:
            if operator is not None and self._get(operator, transaction).role is not Role.OPERATOR:
                raise ForbiddenError("expected an operator for this operation but received a user")
            yield transaction

    def _require_other_operator(self, account: Account, transaction: Transaction) -> None:
        if not self._records.accounts.is_any_other_operator(transaction, account.id):
            expected = "another operator that is not suspended"
            raise ConflictError.of("this change", expected, f"{account.name} alone")


def _log(event: str, account: Account, fields: Mapping[str, object] = {}) -> None:
    log.info(event, extra={"fields": {"account": account.name, **fields}})


def _by(operator: Account | None) -> dict[str, object]:
    """Return who has made a change, for the log."""
    return {} if operator is None else {"operator": operator.name}


def _changes(before: Account | None, after: Account) -> dict[str, object]:
    """Return the changed properties of an account, for the log; of a new one those with a value."""
    old = _properties(before)
    new = _properties(after)
    return {name: value for name, value in new.items() if value != old.get(name)}


def _properties(account: Account | None) -> dict[str, object]:
    if account is None:
        return {"suspended": False, **dict.fromkeys(LIMITS)}
    return {"role": str(account.role), "suspended": account.suspended, **own_limits(account)}


def account_change_errors(changes: Mapping[str, object]) -> tuple[FieldError, ...]:
    """Return the errors of the members of an `AccountChanges`.

    Raises:
        TypeError: There is no such property.
    """
    return _parse_changes(changes).errors


@frozen
class _ParsedChanges:
    """Changes of an account whose values are allowed, or their errors."""

    role: Role | None
    suspended: bool | None
    limits: dict[str, int | None]
    errors: tuple[FieldError, ...] = ()

    def apply(self, account: Account, now: datetime) -> Account:
        """Return an account with the changes."""
        suspended_at = account.suspended_at
        if self.suspended is not None and self.suspended is (suspended_at is None):
            suspended_at = now if self.suspended else None
        limits = {name: value for name, value in self.limits.items() if name != "quota_bytes"}
        return attrs.evolve(
            account,
            role=self.role or account.role,
            suspended_at=suspended_at,
            limits=attrs.evolve(account.limits, **limits),
            quota_bytes=self.limits.get("quota_bytes", account.quota_bytes),
        )


def _parse_changes(changes: Mapping[str, object]) -> _ParsedChanges:
    """Return changes with their values parsed.

    Raises:
        TypeError: There is no such property.
    """
    require_known(changes, ("role", "suspended", *LIMITS))
    errors: list[FieldError] = []
    role = parse_choice("role", changes["role"], _ROLES, errors) if "role" in changes else None
    suspended = changes.get("suspended")
    if "suspended" in changes and not isinstance(suspended, bool):
        errors.append(FieldError("suspended", "true or false", quote_value(suspended)))
    limits: dict[str, int | None] = {}
    for name in LIMITS:
        if name in changes:
            value = changes[name]
            if value is None or (type(value) is int and 0 <= value <= MAX_LIMIT):
                limits[name] = value
            else:
                expected = f"an integer from 0 to {MAX_LIMIT} or null"
                errors.append(FieldError(name, expected, quote_value(value)))
    return _ParsedChanges(role, suspended if isinstance(suspended, bool) else None, limits, tuple(errors))


_NO_CHANGES = _ParsedChanges(None, None, {})
