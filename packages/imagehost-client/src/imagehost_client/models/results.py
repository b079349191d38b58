"""The base of all results: their metadata, lists of them, and deletions."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from attrs import field, frozen

T = TypeVar("T")


@frozen
class RateLimit:
    """The state of the rate limit window with the fewest requests remaining.

    Attributes:
        limit: Requests allowed in the window.
        remaining: Requests left in the window.
        reset: The end of the window.
    """

    limit: int
    remaining: int
    reset: datetime


@frozen
class ResponseMeta:
    """Metadata of a response.

    Attributes:
        request_id: The value of `X-Request-Id`.
        rate_limit: The rate limit, where the response has its headers.
        replayed: Whether the host replayed the response to an earlier request with the same
            `Idempotency-Key`.
        attempts: The number of requests sent, from 1.
    """

    request_id: str | None = None
    rate_limit: RateLimit | None = None
    replayed: bool = False
    attempts: int = 1


@frozen(kw_only=True)
class Result:
    """The base class of results; `meta` is ignored by comparisons."""

    meta: ResponseMeta = field(factory=ResponseMeta, eq=False, repr=False)


@frozen(kw_only=True)
class ResultList(Result, Generic[T]):
    """A part of a list of results: those of one request."""

    items: tuple[T, ...]


@frozen(kw_only=True)
class Deleted(Result):
    """The result of a deletion."""

    id: str
    deleted: bool = True
