"""Idempotency keys: a repeated request gets the first response, without a second effect.

While the first request is in progress, a second one waits up to 20 seconds and then gets 409. A different
request with the same key gets 409. Keys are stored for 24 hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from attrs import evolve, field, frozen

from imagehost_core._util.clock import Clock, to_micros
from imagehost_core.coordination.locks import stripe
from imagehost_core.db.engines.database import Transaction
from imagehost_core.db.repositories.idempotency import StoredResponse
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import BadRequestError, ConflictError, UnavailableError, quote_value
from imagehost_core.ids import AccountId
from imagehost_core.models import Account
from imagehost_core.resources import with_current_urls
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.storage.image_files import ImageFiles

RETENTION = timedelta(hours=24)
"""Time for which a key is stored."""
MAX_KEY = 255
"""Characters of an `Idempotency-Key`."""
WAIT_SECONDS = 20.0
"""Seconds for which a second request waits for the first."""


class ResultRecorder(Protocol):
    """A record of what one operation creates, so that its repetition creates nothing."""

    def previous_result(self) -> str | None:
        """Return the id of what an earlier attempt created, or `None`."""

    def record_result(self, transaction: Transaction, result: str) -> None:
        """Record the id of what was created, in the transaction that creates it."""


@frozen
class SubOperation:
    """The creation of one record by an idempotent request: the image of its n-th file, or its album."""

    _records: Repositories = field(repr=False)
    account_id: AccountId
    key: str
    number: int

    def previous_result(self) -> str | None:
        """Return the id of what an earlier attempt created, or `None`."""
        return self._records.idempotency.get_result(self.account_id, self.key, self.number)

    def record_result(self, transaction: Transaction, result: str) -> None:
        """Record the id of what was created, in the transaction that creates it."""
        self._records.idempotency.put_result(transaction, self.account_id, self.key, self.number, result)


@frozen
class IdempotentRequest:
    """A request under an idempotency key, while it is in progress.

    Attributes:
        response: The response of an earlier attempt, with today's URLs, or `None`: run the request.
    """

    _records: Repositories = field(repr=False)
    account_id: AccountId
    key: str
    response: StoredResponse | None = None

    def sub_operation(self, number: int) -> SubOperation:
        """Return the creation of the n-th record of the request."""
        return SubOperation(self._records, self.account_id, self.key, number)

    def complete(self, status: int, body: bytes) -> None:
        """Record the response, to be sent again for a repeated request."""
        with self._records.database.transaction(self.account_id) as transaction:
            response = StoredResponse(status, body)
            self._records.idempotency.set_response(transaction, self.account_id, self.key, response)


@frozen
class IdempotencyService:
    """One effect and one response for all requests of an account under a key."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _clock: Clock = field(repr=False)

    @contextmanager
    def begin(self, account: Account, key: str, fingerprint: str) -> Iterator[IdempotentRequest]:
        """Begin a request under a key; no other request with the key runs in the block.

        Args:
            account: The account that sent the request.
            key: The `Idempotency-Key` header: 1–255 printable ASCII characters.
            fingerprint: A hash that differs for different requests.

        Raises:
            BadRequestError: The key has another form.
            ConflictError: The key was used for another request, or the first request is still in progress.
            UnauthorizedError: The token that the account acts by has ended; also for a stored response.
            UnavailableError: A request under another key with the same lock did not end in time.
        """
        with self._begin(account, key, fingerprint, WAIT_SECONDS) as request:
            if request is None:
                raise self.in_progress_error(account, key)
            yield request

    @contextmanager
    def try_begin(self, account: Account, key: str, fingerprint: str) -> Iterator[IdempotentRequest | None]:
        """Begin a request as `begin` does, but yield `None` at once if another one is in progress."""
        with self._begin(account, key, fingerprint, 0) as request:
            yield request

    def in_progress_error(self, account: Account, key: str) -> ConflictError | UnavailableError:
        """Return the error of a request that has waited too long for another one."""
        if self._records.idempotency.get(account.id, key) is None:
            # Two keys may share a lock: this request is not in conflict, it can be retried.
            return UnavailableError("expected a lock for this Idempotency-Key but received none in time")
        return ConflictError(
            "expected one request at a time for this Idempotency-Key but received a second", retry_after=1
        )

    @contextmanager
    def _begin(
        self, account: Account, key: str, fingerprint: str, wait_seconds: float
    ) -> Iterator[IdempotentRequest | None]:
        if not (1 <= len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
            expected = f"1 to {MAX_KEY} printable ASCII characters"
            raise BadRequestError.of("Idempotency-Key", expected, quote_value(key))
        name = f"{account.id}/{key}"
        with (
            self._files.locks.try_acquire("idempotency", stripe(name), seconds=wait_seconds) as is_acquired,
            self._records.database.request_lock(
                f"idempotency/{name}", wait_seconds
            ) as is_acquired_among_hosts,
        ):
            is_first = is_acquired and is_acquired_among_hosts
            yield self._find_or_insert(account, key, fingerprint) if is_first else None

    def _find_or_insert(self, account: Account, key: str, fingerprint: str) -> IdempotentRequest:
        self._units.verify(account)
        account_id, now = account.id, self._clock()
        oldest = now - RETENTION
        record = self._records.idempotency.get(account_id, key)
        if record is None or record.created_at < to_micros(oldest):
            with self._units.transaction(account) as transaction:
                self._records.idempotency.delete_before(transaction, oldest)
                self._records.idempotency.insert(transaction, account_id, key, fingerprint, now)
            return IdempotentRequest(self._records, account_id, key)
        if record.fingerprint != fingerprint:
            raise ConflictError.of("Idempotency-Key", "a new key for another request", quote_value(key))
        response = record.response
        if response is not None:
            response = evolve(response, body=with_current_urls(response.body, self._records.urls))
        return IdempotentRequest(self._records, account_id, key, response)
