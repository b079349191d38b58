"""What is not a page itself: static files, and `robots.txt`."""

from __future__ import annotations

from typing import Any

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from imagehost_server.api.envelope import to_litestar
from imagehost_server.api.request import ApiRequest
from imagehost_server.http.responses import RawResponse
from imagehost_server.web.assets import PREFIX, asset_response


async def _asset(request: ApiRequest, version: FromPath[str], name: FromPath[str]) -> Response[Any]:
    """Respond with a static file."""
    accept_encoding = request.headers.get("accept-encoding", "")
    return to_litestar(asset_response(f"{PREFIX}{version}/{name}", accept_encoding))


async def _robots(request: ApiRequest) -> Response[Any]:
    """Tell crawlers which pages they may read (RFC 9309)."""
    rules = "Allow: /$\nAllow: /a/\nAllow: /i/\nAllow: /assets/\nDisallow: /\n"
    body = f"User-agent: *\n{rules if request.settings.web.listed else 'Disallow: /'}\n"
    headers = (("content-type", "text/plain; charset=utf-8"), ("cache-control", "public, max-age=3600"))
    return to_litestar(RawResponse(200, body.encode(), headers))


def _handler(path: str) -> HTTPRouteHandler:
    return HTTPRouteHandler(path, http_method=["GET", "HEAD"], status_code=200, include_in_schema=False)


HANDLERS = (_handler(f"{PREFIX}{{version:str}}/{{name:str}}")(_asset), _handler("/robots.txt")(_robots))
