"""Delivery of images of the in-memory host: private images, signed URLs and processing parameters."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

from imagehost_client._wire import rfc3339
from imagehost_client.errors import BadRequestError, NotFoundError, ValidationError
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._members import Parser, parse_integer
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import Record, Row, TokenGrant
from imagehost_client.urls import CHOICES, RANGES, Params, build_query

DEFAULT_LIFETIME = 3_600
"""The lifetime of a signed URL in seconds, unless another is given."""

MAX_LIFETIME = 365 * 86_400
"""The maximum lifetime of a signed URL, in seconds."""

EXTENSIONS = frozenset({"", "jpg", "jpeg", "png", "webp", "avif", "gif", "auto"})

LIFETIME: Parser = partial(parse_integer, maximum=MAX_LIFETIME)


def parse_param(name: str, value: object) -> Params:
    """Return a processing parameter in a JSON body; its name may follow that of an item and a dot."""
    param = value if isinstance(value, (str, int)) else repr(value)
    parameter = name.rpartition(".")[2]
    try:
        build_query({parameter: param})
    except ValueError as error:
        raise ValidationError(str(error).replace(f"for {parameter} ", f"for {name} ")) from None
    return param


PARAMS: dict[str, Parser] = dict.fromkeys((*RANGES, *CHOICES), parse_param)
"""The processing parameters of a signed URL."""


def sign_url(request: FakeRequest) -> object:
    """Return a signed delivery URL of an image."""
    row, params = request.changed("images", {**PARAMS, "expires_in": LIFETIME})
    seconds = params.pop("expires_in", DEFAULT_LIFETIME)
    return signed_url(request.host, row.record, params, int(time.time()) + seconds)


def signed_url(host: HostState, image: Record, params: Mapping[str, Params], expires: int) -> Record:
    """Return a signed URL of an image, and its expiry.

    Args:
        host: The host's state, with its signing key.
        image: The record of the image.
        params: The processing parameters.
        expires: The expiry, as a Unix timestamp.
    """
    query = build_query(params)
    signature = host.signature(_string_to_sign(image["id"], query, str(expires)))
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
    is_signed = row is not None and _is_signed(host, image_id, query)
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


def _string_to_sign(image_id: str, query: Mapping[str, object], expires: str) -> str:
    """Return the text under the signature of a delivery URL; defaults are left out of it."""
    params = {name: str(query[name]) for name in ("w", "h", "q", "fit", "fm") if name in query}
    if params.get("fit") == "cover":
        del params["fit"]
    return f"{image_id}\n{urlencode(params)}\n{expires}"


def _is_signed(host: HostState, image_id: str, query: Mapping[str, str]) -> bool:
    """Return whether a delivery URL has a valid signature that is not expired."""
    expires, signature = query.get("exp", ""), query.get("sig", "")
    expected = host.signature(_string_to_sign(image_id, query, expires))
    matches = hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
    return matches and expires.isdecimal() and int(expires) > time.time()


def _require_param(name: str, text: str) -> None:
    """Raise BadRequestError unless a processing parameter of a query is valid."""
    is_number = re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII) is not None
    try:
        build_query({name: int(text) if name in RANGES and is_number else text})
    except ValueError as error:
        raise BadRequestError(str(error)) from None
