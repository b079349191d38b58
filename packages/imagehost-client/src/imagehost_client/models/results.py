"""The base of all results: their metadata, lists of them, and deletions."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Generic, TypeVar

from attrs import field, fields, frozen, has

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

    def to_dict(self) -> dict[str, object]:
        """Return the result as a JSON object, without `meta`; times are in RFC 3339, bytes in base64.

        Tokens and secrets are included.
        """
        return {
            attribute.name: _to_json(getattr(self, attribute.name))
            for attribute in fields(type(self))
            if attribute.name != "meta"
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result as the text of a JSON object, as `to_dict` does.

        Args:
            indent: The number of spaces of each level; `None` for one line.
        """
        import json  # not needed before the first result

        return json.dumps(self.to_dict(), ensure_ascii=False, indent=indent)


def _to_json(value: object) -> object:
    if isinstance(value, Result):
        return value.to_dict()
    kind = type(value)
    if has(kind):
        return {one.name: _to_json(getattr(value, one.name)) for one in fields(kind)}
    if isinstance(value, (tuple, list)):
        return [_to_json(item) for item in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value) if isinstance(value, Enum) else value


def rfc3339(time: datetime) -> str:
    """Return a time in RFC 3339, in UTC with `Z`.

    Raises:
        ValueError: The time has no UTC offset.
    """
    if time.tzinfo is None:
        raise ValueError(f"expected a time with a UTC offset but received {time.isoformat()}")
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


@frozen(kw_only=True)
class RawResponse(Generic[T]):
    """A response as it was received, and the result decoded from it.

    Attributes:
        status: The HTTP status.
        headers: The headers; names are in lower case.
        content: The body.
        parsed: What the method returns without `with_raw_response`.
        meta: The request id, the rate limit and the number of attempts.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)
    parsed: T
    meta: ResponseMeta = field(factory=ResponseMeta, repr=False)

    @property
    def request_id(self) -> str | None:
        """The value of `X-Request-Id`."""
        return self.meta.request_id


@frozen(kw_only=True)
class ResultList(Result, Generic[T]):
    """A part of a list of results: those of one request."""

    items: tuple[T, ...]


@frozen(kw_only=True)
class Deleted(Result):
    """The result of a deletion."""

    id: str
    deleted: bool = True
