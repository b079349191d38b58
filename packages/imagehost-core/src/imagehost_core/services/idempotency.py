"""Requests that may come again, and must not do anything twice.

Contract 2: *the same request again gets the first answer and nothing happens twice; while the first is
under way the second waits, or gets 409; another request under the same key → 409; kept 24 h*.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core.db.database import Transaction
from imagehost_core.db.idempotency import Answer
from imagehost_core.errors import BadRequestError, ConflictError, Fault, UnavailableError, quoted
from imagehost_core.ids import AccountId
from imagehost_core.models import Account
from imagehost_core.services.context import Rooms

KEPT = timedelta(hours=24)
MAX_KEY = 255
PATIENCE_SECONDS = 20.0
"""How long the second waits for the first."""


@frozen
class Part:
    """One thing that a request makes: its file or its album of that number."""

    _rooms: Rooms = field(repr=False)
    account_id: AccountId
    key: str
    number: int

    def made(self) -> str | None:
        """Return the id of what was made for it before, or `None`."""
        return self._rooms.answers.made(self.account_id, self.key, self.number)

    def make(self, transaction: Transaction, made: str) -> None:
        """Note what was made for it, in the transaction that made it."""
        self._rooms.answers.make(transaction, self.account_id, self.key, self.number, made)


@frozen
class Claim:
    """A request under a key, while it is under way.

    Attributes:
        answer: What was answered when it came before, or `None`: do it now.
    """

    _rooms: Rooms = field(repr=False)
    account_id: AccountId
    key: str
    answer: Answer | None = None

    def part(self, number: int) -> Part:
        """Return what stands for one thing that it makes."""
        return Part(self._rooms, self.account_id, self.key, number)

    def answered(self, status: int, body: bytes) -> None:
        """Note what was answered, to be given again."""
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.answers.answer(transaction, self.account_id, self.key, Answer(status, body))


@contextmanager
def claim(rooms: Rooms, account: Account, key: str, request: str) -> Iterator[Claim]:
    """Yield a request's claim on a key of an account; nobody else has the key meanwhile.

    Args:
        rooms: Of the host.
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
        raise BadRequestError(faults=[Fault("Idempotency-Key", expected, quoted(key))])
    with rooms.locks.wait("once", f"{account.id}/{key}", PATIENCE_SECONDS) as held:
        if not held:
            if rooms.answers.get(account.id, key) is None:
                # Another key has the same lock: nothing contradicts this request, it only has to wait.
                raise UnavailableError("expected a lock for this Idempotency-Key but received none in time")
            raise ConflictError(
                "expected one request at a time for this Idempotency-Key but received a second",
                retry_after=1,
            )
        yield _claim(rooms, account, key, request)


def _claim(rooms: Rooms, account: Account, key: str, request: str) -> Claim:
    oldest = rooms.clock() - KEPT
    kept = rooms.answers.get(account.id, key)
    if kept is None or kept.created_at < to_micros(oldest):
        with rooms.catalog.transaction() as transaction:
            rooms.answers.delete_before(transaction, oldest)
            rooms.answers.insert(transaction, account.id, key, request, rooms.clock())
        return Claim(rooms, account.id, key)
    if kept.request != request:
        fault = Fault("Idempotency-Key", "a new key for another request", quoted(key))
        raise ConflictError(faults=[fault])
    return Claim(rooms, account.id, key, kept.answer)
