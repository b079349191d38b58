"""API keys, and the principal of a token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

import attrs
from attrs import field, frozen

from imagehost_core._util.fields import require_known
from imagehost_core.db.engines.database import Queryable
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import (
    ConflictError,
    ErrorCollector,
    FieldError,
    InsufficientStorageError,
    NotFoundError,
    UnauthorizedError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import KeyId, new_id
from imagehost_core.lists import PageKeywords, parse_page_request
from imagehost_core.models import (
    ALL_SCOPES,
    Account,
    ApiKey,
    ApiKeyWithToken,
    Deleted,
    Page,
    Principal,
    Scope,
    ScopeName,
    Session,
)
from imagehost_core.services.principals import (
    INVALID_TOKEN,
    LAST_USED_RESOLUTION,
    PrincipalCache,
    principal_of,
)
from imagehost_core.services.references import KeyRef, Owner, get_account, key_id_of
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.tokens import PREFIX_LENGTH, TokenKind, new_token, parse_token, token_hash
from imagehost_core.uploads import INVALID_TEXT, is_valid_text

log = logging.getLogger("imagehost.accounts")

MAX_KEY_NAME = 100
"""Characters of a key's name; albums have the same limit."""


class KeyChanges(TypedDict, total=False):
    """The fields of a key that can be updated; a field that is left out keeps its value."""

    name: str
    scopes: Iterable[ScopeName]
    expires_at: datetime | None


@frozen
class KeyService:
    """The API keys of a host."""

    _records: Repositories = field(repr=False)
    _principals: PrincipalCache = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _env: Environment = field(repr=False)

    def create(
        self,
        name: str = "",
        *,
        owner: Owner,
        scopes: Iterable[ScopeName] | None = None,
        expires_at: datetime | None = None,
    ) -> ApiKeyWithToken:
        """Create a key. The result is the only place that has its token.

        Args:
            name: Up to 100 characters, without NUL and lone surrogates.
            owner: The account.
            scopes: The scopes of the key; by default all.
            expires_at: Timezone-aware; `None` for a key that does not expire.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: A value is not allowed; all errors are reported together.
        """
        account = get_account(self._records.accounts, owner)
        key, token = self._new_key(
            account, name=name, scopes=ALL_SCOPES if scopes is None else scopes, expires_at=expires_at
        )
        with self._units.transaction(account) as transaction:
            self._records.keys.insert(transaction, key, token_hash(token))
        _log("key created", account, key)
        return _with_token(key, token)

    def create_first(self, *, owner: Owner, name: str, password_hash: str) -> ApiKeyWithToken | None:
        """Create the first key of an account with all scopes, and set its password, in one transaction.

        Of several hosts that start at once on one database, one does.

        Args:
            owner: The account.
            name: As for `create`.
            password_hash: An argon2id hash.

        Returns:
            `None` if the account has a key; then nothing is changed.

        Raises:
            NotFoundError: There is no such account.
        """
        account = get_account(self._records.accounts, owner)
        key, token = self._new_key(account, name=name, scopes=ALL_SCOPES, expires_at=None)
        with self._units.transaction(account) as transaction:
            if self._records.keys.is_any(account.id, transaction):
                return None
            self._records.accounts.set_password_hash(transaction, account.id, password_hash)
            self._records.keys.insert(transaction, key, token_hash(token))
        return _with_token(key, token)

    def _new_key(self, account: Account, **fields: object) -> tuple[ApiKey, str]:
        now = self._env.clock()
        values = _validate_key(fields, now)
        token = new_token(TokenKind.KEY, self._env.random)
        key = ApiKey(
            id=new_id(KeyId, self._env.random),
            account_id=account.id,
            prefix=token[:PREFIX_LENGTH],
            last_used_at=None,
            created_at=now,
            revoked_at=None,
            **values,
        )
        return key, token

    def list(self, *, owner: Owner, **page: Unpack[PageKeywords]) -> Page[ApiKey]:
        """Return a page of an account's keys, revoked ones included, newest first.

        Raises:
            NotFoundError: There is no such account.
        """
        account = get_account(self._records.accounts, owner)
        return self._records.keys.list_by_account(account.id, parse_page_request(**page))

    def get(self, key: KeyRef, *, owner: Owner) -> ApiKey:
        """Return a key of an account.

        Raises:
            NotFoundError: The account has no such key.
        """
        return self._get(key, get_account(self._records.accounts, owner), self._records.database)

    def update(self, key: KeyRef, *, owner: Owner, **changes: Unpack[KeyChanges]) -> ApiKey:
        """Change the given fields of a key.

        Args:
            key: The key.
            owner: The account.
            changes: `name`; `scopes`; `expires_at`, timezone-aware and in the future, or `None`: never.

        Raises:
            NotFoundError: The account has no such key; the error also names values that are not allowed.
            ValidationError: Values are not allowed; every one is listed in `errors`.
            ConflictError: The key is revoked.
        """
        account = get_account(self._records.accounts, owner)
        errors = ErrorCollector()
        now = self._env.clock()
        with errors.catch():
            self._get(key, account, self._records.database)
        with errors.catch():
            values = _validate_key(dict(changes), now)
        errors.raise_if_any()
        with self._principals.invalidated_by(self._units.transaction(account)) as transaction:
            # Read again: it may have been revoked since.
            current = self._get(key, account, transaction)
            if current.revoked_at is not None:
                raise ConflictError("expected a key that is not revoked but received one that is")
            changed = attrs.evolve(current, **values)
            self._records.keys.update(transaction, changed)
        if changed != current:
            _log("key changed", account, changed)
        return changed

    def delete(self, key: KeyRef, *, owner: Owner) -> Deleted:
        """Revoke a key at once, in every process; its record stays. Doing it again changes nothing.

        Raises:
            NotFoundError: The account has no such key.
        """
        account = get_account(self._records.accounts, owner)
        with self._principals.invalidated_by(self._units.transaction(account)) as transaction:
            current = self._get(key, account, transaction)
            revoked = current
            if current.revoked_at is None:
                revoked = attrs.evolve(current, revoked_at=self._env.clock())
                self._records.keys.update(transaction, revoked)
        if revoked != current:
            _log("key revoked", account, revoked)
        return Deleted(id=current.id, deleted=True)

    def authenticate(self, token: str) -> Principal:
        """Return the principal of a key's or session's token.

        Raises:
            UnauthorizedError: The token is malformed, unknown, expired or revoked, or its account is
                suspended. The error does not say which.
        """
        kind = parse_token(token)
        now = self._env.clock()
        hashed = token_hash(token)
        cached = self._principals.get(hashed, now)
        if cached is not None:
            return cached
        generation = self._principals.generation()
        found: tuple[ApiKey | Session, Account] | None = (
            self._records.sessions.get_by_token_hash(hashed, now)
            if kind is TokenKind.SESSION
            else self._records.keys.get_by_token_hash(hashed)
        )
        if found is None:
            raise UnauthorizedError(INVALID_TOKEN)
        principal, last_used_at = principal_of(*found, now), found[0].last_used_at or _NEVER
        if abs(now - last_used_at) >= LAST_USED_RESOLUTION:
            # A full disk must not lock clients out: they delete images to free space.
            with (
                suppress(InsufficientStorageError),
                self._records.database.transaction(blind=True) as transaction,
            ):
                if principal.key_id is not None:
                    self._records.keys.set_last_used(transaction, principal.key_id, now)
                elif principal.session_id is not None:
                    self._records.sessions.set_last_used(transaction, principal.session_id, now)
                last_used_at = now
        self._principals.put(hashed, principal, generation, last_used_at)
        return principal

    def authenticate_cached(self, token: str) -> Principal | None:
        """Return the principal of a token if it is in memory and valid now.

        Never waits for a disk or a lock, so that an event loop can call it.

        Returns:
            `None` if only `authenticate` can tell.
        """
        return self._principals.get(token_hash(token), self._env.clock()) if token.isascii() else None

    def _get(self, key: KeyRef, account: Account, queryable: Queryable) -> ApiKey:
        key_id = key_id_of(key)
        record = self._records.keys.get(key_id, account.id, queryable)
        if record is None:
            raise NotFoundError(f"expected the id of one of your API keys but received {quote_value(key_id)}")
        return record


def _log(event: str, account: Account, key: ApiKey) -> None:
    fields = {"account": account.name, "key": key.id, "scopes": " ".join(sorted(key.scopes))}
    log.info(event, extra={"fields": fields})


def _with_token(key: ApiKey, token: str) -> ApiKeyWithToken:
    return ApiKeyWithToken(**attrs.asdict(key, recurse=False), token=token)


_NEVER = datetime.min.replace(tzinfo=UTC)


def _validate_key(fields: Mapping[str, object], now: datetime) -> dict[str, Any]:
    """Return a key's fields in their stored form.

    Raises:
        ValidationError: Values are not allowed; every one is listed in `errors`.
        TypeError: There is no such field.
    """
    require_known(fields, _VALIDATORS)
    errors: list[FieldError] = []
    values = {name: _VALIDATORS[name](value, now, errors) for name, value in fields.items()}
    if errors:
        raise ValidationError(errors=errors)
    return values


def _validate_name(name: object, _now: datetime, errors: list[FieldError]) -> object:
    if not isinstance(name, str):
        errors.append(FieldError("name", "text", quote_value(name)))
        return name
    if len(name.strip()) > MAX_KEY_NAME:
        errors.append(FieldError("name", f"at most {MAX_KEY_NAME} characters", f"{len(name.strip())}"))
    if not is_valid_text(name):
        errors.append(FieldError("name", *INVALID_TEXT))
    return name.strip()


def _validate_scopes(scopes: object, _now: datetime, errors: list[FieldError]) -> object:
    expected = f"one or more of {', '.join(sorted(Scope))}"
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        errors.append(FieldError("scopes", expected, quote_value(scopes)))
        return scopes
    given = list(scopes)
    unknown = [scope for scope in given if scope not in _SCOPES]
    if unknown or not given:
        errors.append(FieldError("scopes", expected, ", ".join(map(quote_value, unknown)) or "none"))
        return scopes
    return frozenset(map(Scope, given))


def _validate_expiry(expires_at: object, now: datetime, errors: list[FieldError]) -> object:
    errors += expiry_errors(expires_at, now)
    return expires_at


def expiry_errors(expires_at: object, now: datetime) -> tuple[FieldError, ...]:
    """Return an error unless a value is `None` or a timezone-aware time after `now`."""
    if expires_at is None or (isinstance(expires_at, datetime) and expires_at.tzinfo and expires_at > now):
        return ()
    return (FieldError("expires_at", "a future time with a time zone", quote_value(expires_at)),)


_SCOPES = tuple(scope.value for scope in Scope)
_VALIDATORS: dict[str, Callable[[object, datetime, list[FieldError]], object]] = {
    "name": _validate_name,
    "scopes": _validate_scopes,
    "expires_at": _validate_expiry,
}
"""The function for each field that its owner sets: it returns the stored form, or appends errors."""
