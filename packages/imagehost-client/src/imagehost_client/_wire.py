"""Decoding of responses: the JSON envelope, records and errors.

cattrs is imported when the first response is decoded, because it is slow to import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from imagehost_client import models
from imagehost_client._retry import parse_timestamp
from imagehost_client.errors import (
    BY_CODE,
    BY_STATUS,
    ImageHostError,
    ServerError,
)
from imagehost_client.models import (
    ImageHead,
    Page,
    RateLimit,
    Rendered,
    ResponseMeta,
    Result,
    ResultList,
)
from imagehost_client.models import rfc3339 as rfc3339

if TYPE_CHECKING:
    from enum import StrEnum

    from cattrs import Converter

T = TypeVar("T")
R = TypeVar("R", bound=Result)

MAX_EXCERPT = 200
"""The number of characters of an unexpected response that an error quotes."""

PROXY_STATUSES = frozenset({413, 429, 502, 503, 504})
"""Statuses whose meaning is clear in the response of a proxy, which has no envelope."""


def read_data(
    status: int, headers: Mapping[str, str], body: bytes, *, meta: ResponseMeta, retry_after: float | None
) -> object:
    """Return the `data` of a response.

    Args:
        status: The HTTP status.
        headers: The headers, names in lower case.
        body: The whole body.
        meta: The response's metadata, for the error.
        retry_after: The delay that the response requests, in seconds, for the error.

    Raises:
        ImageHostError: The response is an error; the class depends on its code, and is
            `ServerError` if the response is not the host's JSON envelope.
    """
    envelope = _json(body)
    common: dict[str, Any] = {
        "status": status,
        "request_id": meta.request_id,
        "rate_limit": meta.rate_limit,
        "retry_after": retry_after,
    }
    if isinstance(envelope, dict):
        if envelope.get("success") is True and "data" in envelope and 200 <= status < 300:
            return envelope["data"]
        error = envelope.get("error")
        if envelope.get("success") is False and isinstance(error, dict):
            code = str(error.get("code") or "")
            raise _class_of(code, status)(
                str(error.get("details") or ""),
                message=str(error.get("message") or "") or None,
                code=code,
                **common,
            )
    kind = BY_STATUS[status] if status in PROXY_STATUSES else ServerError
    message = "The response is not from an image host"
    if status in {407, *PROXY_STATUSES}:
        message = f"The proxy in front of the image host answered {status}"
    raise kind(
        _describe_unexpected(status, headers, body),
        message=message,
        code="INVALID_RESPONSE" if kind is ServerError else None,
        **common,
    )


def read_image(
    status: int, headers: Mapping[str, str], body: bytes, *, meta: ResponseMeta, retry_after: float | None
) -> object:
    """Return the image in a response; the arguments are those of `read_data`.

    Raises:
        ImageHostError: The response is an error, or not an image.
    """
    media_type = media_type_of(headers)
    if status == 200 and media_type.startswith("image/"):
        from imagehost_client._dimensions import dimensions  # not needed before the first image

        width, height = dimensions(body)
        etag = headers.get("etag", "")
        return Rendered(data=body, media_type=media_type, width=width, height=height, etag=etag)
    if status == 304:
        return Rendered(data=b"", media_type="", etag=headers.get("etag", ""), not_modified=True)
    read_data(status, headers, body, meta=meta, retry_after=retry_after)
    raise ServerError(
        f"expected an image but received {media_type or 'no content type'}",
        message="The response is not from an image host",
        status=status,
        code="INVALID_RESPONSE",
    )


def read_head(
    status: int, headers: Mapping[str, str], body: bytes, *, meta: ResponseMeta, retry_after: float | None
) -> object:
    """Return the headers of a response with an image whose body is not read yet.

    The arguments are those of `read_data`, with the body of an error.

    Raises:
        ImageHostError: The response is an error, or not an image.
    """
    media_type = media_type_of(headers)
    length = headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdecimal() else None
    if status == 304 or (status == 200 and media_type.startswith("image/")):
        is_encoded = headers.get("content-encoding", "identity") != "identity"
        return ImageHead(
            media_type=media_type,
            size=0 if status == 304 else None if is_encoded else size,
            etag=headers.get("etag", ""),
            not_modified=status == 304,
        )
    content_range = re.fullmatch(
        r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", headers.get("content-range", ""), re.ASCII
    )
    if status == 206 and media_type.startswith("image/") and content_range is not None:
        offset, total = map(int, content_range.groups())
        return ImageHead(media_type=media_type, offset=offset, size=total, etag=headers.get("etag", ""))
    return read_image(status, headers, body, meta=meta, retry_after=retry_after)


def of_kind(kind: type[T], data: object) -> T:
    """Return the result of `read_image` or `read_head`, typed."""
    assert isinstance(data, kind)
    return data


def media_type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of a response in lower case, without parameters; `""` if it has none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def read_meta(headers: Mapping[str, str], attempts: int) -> ResponseMeta:
    """Return the metadata of a response; malformed headers are ignored."""
    return ResponseMeta(
        request_id=headers.get("x-request-id"),
        rate_limit=_rate_limit(headers),
        replayed=headers.get("idempotent-replayed", "").lower() == "true",
        attempts=attempts,
    )


def decode(kind: type[T], data: object) -> T:
    """Return `data` as a `kind`; unknown fields are dropped, unknown enum values stay strings.

    Raises:
        ServerError: A field is missing, or has another type.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return _converter().structure(data, kind)
    except BaseValidationError as error:
        errors = "; ".join(transform_error(error))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        errors = str(error)
    raise ServerError(
        f"expected a valid record for {kind.__name__} but received one with errors: {errors}",
        message="The response cannot be decoded",
        code="INVALID_RESPONSE",
    )


def decode_page(kind: type[T], name: str, data: object) -> Page[T]:
    """Return the page of records in `data[name]` and `data["pagination"]`."""
    if not isinstance(data, dict) or not isinstance(data.get("pagination"), dict):
        data = {"pagination": {}}
    page = {**data["pagination"], "items": data.get(name), "album": data.get("album")}
    return decode(Page[kind], page)  # type: ignore[valid-type]


def decode_list(kind: type[T], name: str, data: object) -> ResultList[T]:
    """Return the records in `data[name]`."""
    items = data.get(name) if isinstance(data, dict) else None
    return decode(ResultList[kind], {"items": items})  # type: ignore[valid-type]


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _class_of(code: str, status: int) -> type[ImageHostError]:
    fallback = ServerError if status >= 500 or status < 400 else ImageHostError
    return BY_CODE.get(code) or BY_STATUS.get(status) or fallback


def _describe_unexpected(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """Return the details for an unexpected response; a redirect hints at a wrong base URL."""
    text = " ".join(body[: MAX_EXCERPT * 4].decode("utf-8", "replace").split())
    excerpt = "".join(character if character.isprintable() else "?" for character in text)
    if len(excerpt) > MAX_EXCERPT:
        excerpt = f"{excerpt[:MAX_EXCERPT]}…"
    target = headers.get("location")
    content_type = headers.get("content-type", "no content type")
    redirect = f", a redirect to {target!r} (check base_url)" if target and 300 <= status < 400 else ""
    return (
        f"expected the host's JSON envelope but received status {status}{redirect}, "
        f"{content_type}: {excerpt!r}"
    )


def _rate_limit(headers: Mapping[str, str]) -> RateLimit | None:
    limit, remaining = (headers.get(f"x-ratelimit-{name}", "") for name in ("limit", "remaining"))
    reset = parse_timestamp(headers.get("x-ratelimit-reset", ""))
    if reset is None or not all(
        text.isascii() and text.isdecimal() and len(text) < 19 for text in (limit, remaining)
    ):
        return None
    return RateLimit(int(limit), int(remaining), reset)


def _parse_datetime(value: object, _: object) -> datetime:
    """Parse RFC 3339, or a Unix timestamp."""
    if type(value) is int and (time := parse_timestamp(str(value))):
        return time
    if isinstance(value, str):
        time = datetime.fromisoformat(value)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    raise ValueError("expected a time with a UTC offset")


def _strict(kind: type[T]) -> Callable[[object, object], T]:
    def check(value: object, _: object) -> T:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}")
        return value

    return check


def _text(value: object, _: object) -> str:
    """Return a string; an integer becomes its digits, because ids may be either."""
    if isinstance(value, str) or type(value) is int:
        return str(value)
    raise TypeError("expected str")


NAMES: dict[object, type[StrEnum]] = {
    models.BulkStatusName: models.BulkStatus,
    models.DeliveryEventName: models.EventKind,
    models.DeliveryStatusName: models.DeliveryStatus,
    models.EventName: models.EventKind,
    models.FormatName: models.Format,
    models.MemberStatusName: models.MemberStatus,
    models.RoleName: models.Role,
}
"""The types of names in records, and the enumerations that have them."""


def _member_or_text(kind: type[StrEnum]) -> Callable[[object, object], StrEnum | str]:
    def read(value: object, _: object) -> StrEnum | str:
        text = _text(value, _)
        return kind(text) if text in set(kind) else text

    return read


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override

    def is_result(kind: Any) -> bool:
        origin = getattr(kind, "__origin__", kind)
        return isinstance(origin, type) and issubclass(origin, Result)

    converter = Converter()
    converter.register_structure_hook(int, _strict(int))
    converter.register_structure_hook(bool, _strict(bool))
    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(datetime, _parse_datetime)
    hooks = {name: _member_or_text(kind) for name, kind in NAMES.items()}
    converter.register_structure_hook_factory(hooks.__contains__, lambda kind: hooks[kind])
    converter.register_structure_hook_factory(
        is_result, lambda kind: make_dict_structure_fn(kind, converter, meta=override(omit=True))
    )
    return converter
