"""Responses that programs read, such as feeds: 304 where nothing has changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any

from litestar import Response

from imagehost_core import ImageHost
from imagehost_core.conditional import http_date, is_not_modified
from imagehost_core.models import Image
from imagehost_server.http.responses import RawResponse, to_litestar
from imagehost_server.web.page_headers import page_headers
from imagehost_server.web.request import WebRequest


def render_for_programs(
    request: WebRequest, template: str, media_type: str, last_modified: datetime, **values: object
) -> Response[Any]:
    """Return what `for_programs` does, of a template."""
    body = request.render_text(template, **values).encode()
    return for_programs(request, body, media_type, last_modified)


def last_modified(host: ImageHost, images: Iterable[Image]) -> datetime:
    """Return the last change of images; without any, the time at which the host was made."""
    return max((image.updated_at for image in images), default=host.installation.created_at)


def for_programs(request: WebRequest, body: bytes, media_type: str, last_modified: datetime) -> Response[Any]:
    """Return what a program polls, such as a feed, or 304 if the program has it.

    Only `If-None-Match` is evaluated: an image that was deleted changes the body, but no time in it.

    Args:
        request: The request.
        body: The representation; the entity tag is its hash.
        media_type: Its media type.
        last_modified: The last change of what it shows.
    """
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    web = request.settings.web
    headers = page_headers(
        request.settings.delivery_url, request.viewer, public=request.is_public, listed=web.listed
    )
    fields = {"etag": etag, "last-modified": http_date(last_modified), **headers}
    if is_not_modified(etag, last_modified, request.headers.get("if-none-match"), None):
        return to_litestar(RawResponse(304, b"", tuple(fields.items())))
    return to_litestar(RawResponse(200, body, (("content-type", media_type), *fields.items())))
