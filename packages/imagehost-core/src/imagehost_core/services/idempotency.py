"""Requests that may come again, and must not do anything twice.

Contract 2: *the same request again gets the first answer and nothing happens twice; while the first is
under way the second waits, or gets 409; another request under the same key → 409; kept 24 h*.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.database import Transaction
from imagehost_core.db.idempotency import StoredResponse
from imagehost_core.errors import BadRequestError, ConflictError, FieldError, UnavailableError, quote_value
from imagehost_core.ids import AccountId
from imagehost_core.models import Account
from imagehost_core.services.context import HostContext

RETENTION = timedelta(hours=24)
MAX_KEY = 255
WAIT_SECONDS = 20.0
"""How long the second waits for the first."""


@frozen
class SubOperation:
    """One thing that a request makes: its file or its album of that number."""

    _context: HostContext = field(repr=False)
    account_id: AccountId
    key: str
    number: int

    def previous_result(self) -> str | None:
        """Return the id of what was made for it before, or `None`."""
        return self._context.idempotency.get_result(self.account_id, self.key, self.number)

    def record_result(self, transaction: Transaction, made: str) -> None:
        """Note what was made for it, in the transaction that made it."""
        self._context.idempotency.put_result(transaction, self.account_id, self.key, self.number, made)


@frozen
class IdempotentRequest:
    """A request under a key, while it is under way.

    Attributes:
        answer: What was answered when it came before, or `None`: do it now.
    """

    _context: HostContext = field(repr=False)
    account_id: AccountId
    key: str
    response: StoredResponse | None = None

    def sub_operation(self, number: int) -> SubOperation:
        """Return what stands for one thing that it makes."""
        return SubOperation(self._context, self.account_id, self.key, number)

    def complete(self, status: int, body: bytes) -> None:
        """Note what was answered, to be given again."""
        with self._context.database.transaction() as transaction:
            self._context.idempotency.set_response(
                transaction, self.account_id, self.key, StoredResponse(status, body)
            )


@frozen
class IdempotencyService:
    """The idempotency keys of a host."""

    _context: HostContext = field(repr=False)

    def begin(self, account: Account, key: str, request: str) -> AbstractContextManager[IdempotentRequest]:
        """Return a context that runs a request once under its idempotency key.

        Args:
            account: The account that sent the request.
            key: The `Idempotency-Key` header: 1–255 printable ASCII characters.
            request: A fingerprint of the request.

        Raises:
            BadRequestError: The key has another form.
            ConflictError: The key was used for another request, or the first is still in progress.
        """
        return begin_request(self._context, account, key, request)


@contextmanager
def begin_request(
    context: HostContext, account: Account, key: str, request: str
) -> Iterator[IdempotentRequest]:
    """Yield a request's claim on a key of an account; nobody else has the key meanwhile.

    Args:
        context: Of the host.
        account: Whose key.
        key: 1–255 printable ASCII characters.
        request: What tells the request from others, such as a hash of all it says.

    Raises:
        BadRequestError: The key is not one.
        ConflictError: Another request has the key, or the first is still under way.
        UnavailableError: A request under another key has held the lock for too long.
    """
    if not (1 <= len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        expected = f"1 to {MAX_KEY} printable ASCII characters"
        raise BadRequestError(errors=[FieldError("Idempotency-Key", expected, quote_value(key))])
    with context.locks.acquire_with_timeout("once", f"{account.id}/{key}", WAIT_SECONDS) as held:
        if not held:
            if context.idempotency.get(account.id, key) is None:
                # Another key has the same lock: nothing contradicts this request, it only has to wait.
                raise UnavailableError("expected a lock for this Idempotency-Key but received none in time")
            raise ConflictError(
                "expected one request at a time for this Idempotency-Key but received a second",
                retry_after=1,
            )
        yield _begin(context, account, key, request)


def _begin(context: HostContext, account: Account, key: str, request: str) -> IdempotentRequest:
    oldest = context.clock() - RETENTION
    kept = context.idempotency.get(account.id, key)
    if kept is None or kept.created_at < to_micros(oldest):
        with context.database.transaction() as transaction:
            context.idempotency.delete_before(transaction, oldest)
            context.idempotency.insert(transaction, account.id, key, request, context.clock())
        return IdempotentRequest(context, account.id, key)
    if kept.fingerprint != request:
        fault = FieldError("Idempotency-Key", "a new key for another request", quote_value(key))
        raise ConflictError(errors=[fault])
    return IdempotentRequest(context, account.id, key, kept.response)
