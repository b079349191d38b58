"""API keys, and who is behind a token."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import attrs
from attrs import field, frozen

from imagehost_core.errors import (
    ConflictError,
    FieldError,
    InsufficientStorageError,
    NotFoundError,
    UnauthorizedError,
    ValidationError,
    quote_value,
)
from imagehost_core.ids import KeyId, new_key_id
from imagehost_core.models import ALL_SCOPES, ApiKey, ApiKeyWithToken, Page, Principal, Scope
from imagehost_core.pagination import PageRequest
from imagehost_core.services import owners
from imagehost_core.services.context import HostContext
from imagehost_core.services.owners import Owner
from imagehost_core.tokens import PREFIX_LENGTH, TokenKind, new_token, parse_token, token_hash
from imagehost_core.uploads.options import INVALID_TEXT, is_valid_text

MAX_NAME = 100
"""Characters of a key's name; the length that contract 6 gives albums."""
LAST_USED_RESOLUTION = timedelta(minutes=1)
"""How exact `last_used_at` is: one write a minute, and not one a request."""


@frozen
class KeyService:
    """The API keys of a host."""

    _context: HostContext = field(repr=False)

    def create(
        self,
        *,
        owner: Owner,
        name: str = "",
        scopes: Iterable[Scope | str] = ALL_SCOPES,
        expires_at: datetime | None = None,
    ) -> ApiKeyWithToken:
        """Make a key; its token is to be had from the answer and never again.

        Args:
            owner: Whose it is.
            name: Up to 100 characters, without NUL and lone surrogates.
            scopes: What it may do; all, unless given.
            expires_at: When it stops, aware, or `None`.

        Raises:
            NotFoundError: There is no such account.
            ValidationError: A value is not allowed. Names every fault.
        """
        context = self._context
        account, now = owners.get_account(context, owner), context.clock()
        wanted = _validate_key(name, list(scopes), expires_at, now)
        token = new_token(TokenKind.KEY, context.random)
        key = ApiKey(
            id=new_key_id(context.random),
            account_id=account.id,
            name=name.strip(),
            prefix=token[:PREFIX_LENGTH],
            scopes=wanted,
            expires_at=expires_at,
            last_used_at=None,
            created_at=now,
            revoked_at=None,
        )
        with context.database.transaction() as transaction:
            context.keys.insert(transaction, key, token_hash(token))
        return ApiKeyWithToken(key, token)

    def list(self, *, owner: Owner, page: PageRequest | None = None) -> Page[ApiKey]:
        """Return an account's keys, newest first, revoked ones too."""
        account = owners.get_account(self._context, owner)
        return self._context.keys.list_by_account(account.id, page or PageRequest())

    def get(self, key_id: str, *, owner: Owner) -> ApiKey:
        """Return a key of an account.

        Raises:
            NotFoundError: It has no such key.
        """
        key = self._context.keys.get(KeyId(key_id), owners.get_account(self._context, owner).id)
        if key is None:
            raise NotFoundError(f"expected the id of a key of yours but received {quote_value(key_id)}")
        return key

    def update(self, key_id: str, *, owner: Owner, **changes: object) -> ApiKey:
        """Rename a key, change what it may do, or move its end.

        Args:
            key_id: Which.
            owner: Whose it is.
            changes: `name`; `scopes`; `expires_at`, aware and to come, or `None`: never.

        Raises:
            NotFoundError: The account has no such key.
            ValidationError: A value is not allowed. Names every fault.
            ConflictError: It is revoked.
        """
        key = self.get(key_id, owner=owner)
        values: dict[str, Any] = {
            "name": key.name,
            "scopes": key.scopes,
            "expires_at": key.expires_at,
            **changes,
        }
        moved = values["expires_at"] if "expires_at" in changes else None
        scopes = _validate_key(values["name"], list(values["scopes"]), moved, self._context.clock())
        if key.revoked_at is not None:
            raise ConflictError("expected a key that is in force but received one that is revoked")
        changed = attrs.evolve(
            key, name=values["name"].strip(), scopes=scopes, expires_at=values["expires_at"]
        )
        with self._context.database.transaction() as transaction:
            self._context.keys.update(transaction, changed)
        return changed

    def revoke(self, key_id: str, *, owner: Owner) -> ApiKey:
        """Stop a key for ever, at once and in every process. Revoking it again changes nothing.

        Raises:
            NotFoundError: The account has no such key.
        """
        key = self.get(key_id, owner=owner)
        if key.revoked_at is None:
            key = attrs.evolve(key, revoked_at=self._context.clock())
            with self._context.database.transaction() as transaction:
                self._context.keys.update(transaction, key)
        return key

    def authenticate(self, token: str) -> Principal:
        """Return who is behind a token.

        Raises:
            UnauthorizedError: The token is malformed, unknown, expired or revoked, or its account is
                suspended. Which of these it is, is told to nobody.
        """
        context, now = self._context, self._context.clock()
        if parse_token(token) is TokenKind.SESSION:
            return self._session(token, now)
        found = context.keys.get_by_token_hash(token_hash(token))
        if found is None:
            raise UnauthorizedError(INVALID_TOKEN)
        key, account = found
        expired = key.expires_at is not None and key.expires_at <= now
        if expired or key.revoked_at is not None or account.suspended_at is not None:
            raise UnauthorizedError(INVALID_TOKEN)
        if key.last_used_at is None or now - key.last_used_at >= LAST_USED_RESOLUTION:
            # A full disk must not lock anybody out: deleting is how room is made.
            with suppress(InsufficientStorageError), context.database.transaction() as transaction:
                context.keys.set_last_used(transaction, key.id, now)
        return Principal(account, key.scopes, key.id)

    def _session(self, token: str, now: datetime) -> Principal:
        account = self._context.sessions.get_account(token_hash(token), now)
        if account is None or account.suspended_at is not None:
            raise UnauthorizedError(INVALID_TOKEN)
        return Principal(account, ALL_SCOPES)


INVALID_TOKEN = "expected a token that is valid now but received one that is unknown, expired or revoked"  # noqa: S105


def _validate_key(
    name: str, scopes: list[Scope | str], expires_at: datetime | None, now: datetime
) -> frozenset[Scope]:
    faults = []
    if len(name.strip()) > MAX_NAME:
        faults.append(FieldError("name", f"at most {MAX_NAME} characters", f"{len(name.strip())}"))
    if not is_valid_text(name):
        faults.append(FieldError("name", *INVALID_TEXT))
    known = {scope.value for scope in Scope}
    unknown = [scope for scope in scopes if scope not in known]
    if unknown or not scopes:
        received = ", ".join(map(quote_value, unknown)) or "none"
        faults.append(FieldError("scopes", f"one or more of {', '.join(sorted(known))}", received))
    if expires_at is not None and (expires_at.tzinfo is None or expires_at <= now):
        faults.append(FieldError("expires_at", "a time to come, with its zone", quote_value(expires_at)))
    if faults:
        raise ValidationError(errors=faults)
    return frozenset(map(Scope, scopes))
