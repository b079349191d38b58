"""Delivery of images of the in-memory host: private images, signed URLs and processing parameters."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

import httpx2

from imagehost_client.errors import BadRequestError, MethodNotAllowedError, NotFoundError, ValidationError
from imagehost_client.models import rfc3339
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._members import Parser, parse_integer
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._responses import error_response
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import Record, Row, TokenGrant, current_time
from imagehost_client.urls import CHOICES, RANGES, SYNONYMS, build_query

DEFAULT_LIFETIME = 3_600
"""The lifetime of a signed URL in seconds, unless another is given."""

MAX_LIFETIME = 365 * 86_400
"""The maximum lifetime of a signed URL, in seconds."""

EXTENSIONS = frozenset({"", "jpg", "jpeg", "png", "webp", "avif", "gif", "auto"})

LIFETIME: Parser = partial(parse_integer, maximum=MAX_LIFETIME)


def parse_param(name: str, value: object) -> str | int:
    """Return a processing parameter in a JSON body; its name may follow that of an item and a dot."""
    param = value if isinstance(value, (str, int)) else repr(value)
    parameter = name.rpartition(".")[2]
    try:
        _check_param(parameter, param)
    except ValueError as error:
        raise ValidationError(str(error).replace(f"for {parameter} ", f"for {name} ")) from None
    return param


PARAMS: dict[str, Parser] = dict.fromkeys((*RANGES, *CHOICES), parse_param)
"""The processing parameters of a signed URL."""


def sign_url(request: FakeRequest) -> object:
    """Return a signed delivery URL of an image."""
    row, params = request.changed("images", {**PARAMS, "expires_in": LIFETIME})
    seconds = params.pop("expires_in", DEFAULT_LIFETIME)
    return signed_url(request, row.record, params, seconds)


def signed_url(request: FakeRequest, image: Record, params: Mapping[str, object], seconds: int) -> Record:
    """Return a signed URL of an image, and its expiry, which is no later than that of the request's key.

    Args:
        request: The request.
        image: The record of the image.
        params: The processing parameters.
        seconds: The requested lifetime.
    """
    host, grant, query = request.host, request.grant, build_query(params)
    expires = int(current_time().timestamp()) + seconds
    if grant.key is not None and (ends := host.tables["keys"].rows[grant.key].record["expires_at"]):
        expires = min(expires, int(datetime.fromisoformat(ends).timestamp()))
    signature = host.signature(grant.account, _string_to_sign(image["id"], query, str(expires)))
    signed_query = urlencode({**query, "exp": expires, "sig": signature})
    expires_at = rfc3339(datetime.fromtimestamp(expires, UTC))
    return {"url": f"{image['url']}?{signed_query}", "expires_at": expires_at}


def deliver(
    host: HostState, name: str, query: Mapping[str, str], grant: TokenGrant | None, errors: ErrorCollector
) -> Row:
    """Return the image of a delivery URL; a private one needs its owner's token or a signature.

    Args:
        host: The host's state.
        name: The last path segment: an id, with an extension or without.
        query: The query parameters.
        grant: The permissions of the caller's token, if there is one.
        errors: The errors found so far.

    Raises:
        NotFoundError: There is no such image that the caller may view.
        BadRequestError: A parameter is invalid.
    """
    image_id, _, extension = name.partition(".")
    row = host.tables["images"].rows.get(image_id)
    is_signed = row is not None and _is_signed(host, row, query)
    is_owner = row is not None and grant is not None and grant.account == row.owner
    if row is None or not host.is_active(row.owner) or not (row.record["is_public"] or is_owner or is_signed):
        raise NotFoundError(f"expected the id of an image but received {image_id!r}")
    if extension not in EXTENSIONS:
        raise NotFoundError(f"expected the extension of an image but received {extension!r}")
    for parameter in (*RANGES, *CHOICES):
        if parameter in query:
            errors.attempt(_require_param, parameter, query[parameter])
    errors.raise_all()
    return row


def image_response(request: httpx2.Request, row: Row) -> httpx2.Response:
    """Return the response with an image, or with the part of it that the request asks for.

    Raises:
        MethodNotAllowedError: The method is neither GET nor HEAD.
    """
    if request.method not in {"GET", "HEAD"}:
        raise MethodNotAllowedError(f"expected GET or HEAD for the method but received {request.method}")
    etag, size = f'"{row.record["sha256"][:32]}"', len(row.content)
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or etag in re.findall(r'"[^"]*"', known):
        return httpx2.Response(304, headers={"ETag": etag})
    headers = {"Content-Type": row.record["mime_type"], "ETag": etag, "Accept-Ranges": "bytes"}
    is_same = request.headers.get("if-range", etag) == etag
    part = _parse_range(request.headers.get("range", ""), size) if is_same else None
    if request.method == "HEAD" or part is None:
        content = row.content if request.method == "GET" else b""
        return httpx2.Response(200, headers={**headers, "Content-Length": str(size)}, content=content)
    start, stop = part
    if start >= stop:
        error = BadRequestError(f"expected a range of {size} bytes but received one behind them")
        return error_response(error, 416, {"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return httpx2.Response(206, headers=headers, content=row.content[start:stop])


def _parse_range(text: str, size: int) -> tuple[int, int] | None:
    """Return the positions of the first byte and behind the last byte of a `Range` header.

    The result is `None` for the whole image: without a range, with several ranges or an invalid one.
    """
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text, re.ASCII)
    if match is None or match[1] == match[2] == "":
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _string_to_sign(image_id: str, query: Mapping[str, object], expires: str) -> str:
    """Return the text under the signature of a delivery URL; defaults are left out of it."""
    params = {name: str(query[name]) for name in ("w", "h", "q", "fit", "fm") if name in query}
    if params.get("fit") == "cover":
        del params["fit"]
    return f"{image_id}\n{urlencode(params)}\n{expires}"


def _is_signed(host: HostState, row: Row, query: Mapping[str, str]) -> bool:
    """Return whether a delivery URL has a valid signature that is not expired."""
    expires, signature = query.get("exp", ""), query.get("sig", "")
    expected = host.signature(row.owner, _string_to_sign(row.record["id"], query, expires))
    matches = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
    return matches and expires.isdecimal() and int(expires) > current_time().timestamp()


def _check_param(name: str, value: str | int) -> None:
    """Raise ValueError unless the host accepts the value of a processing parameter; it knows no synonyms."""
    if value in SYNONYMS:
        raise ValueError(f"expected one of {', '.join(CHOICES['fm'])} for {name} but received {value!r}")
    build_query({name: value})


def _require_param(name: str, text: str) -> None:
    """Raise BadRequestError unless a processing parameter of a query is valid."""
    is_number = re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII) is not None
    try:
        _check_param(name, int(text) if name in RANGES and is_number else text)
    except ValueError as error:
        raise BadRequestError(str(error)) from None
