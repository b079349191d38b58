"""The responses of `/v1/openapi.json` and `/v1/docs`; the page is Swagger UI, without other origins.

Swagger UI's files come from the package swagger-ui-bundle-v2 and are served from this origin. Litestar's
`SwaggerRenderPlugin` could refer to them too, but its page has an inline script and an inline style, which
the Content-Security-Policy of this page forbids.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import File
from swagger_ui_bundle import swagger_ui_path

from imagehost_core.error_responses import JSON_HEADERS
from imagehost_core.errors import NotFoundError
from imagehost_server.auth.identity import DOCS_ASSETS
from imagehost_server.http.responses import RawResponse
from imagehost_server.openapi.document import document

_SWAGGER_UI = Path(str(swagger_ui_path))
_STATIC = Path(__file__).parent / "static"

ASSETS: dict[str, tuple[Path, str]] = {
    "swagger-ui.css": (_SWAGGER_UI / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_SWAGGER_UI / "swagger-ui-bundle.js", "text/javascript"),
    "favicon.png": (_SWAGGER_UI / "favicon-32x32.png", "image/png"),
    "docs.js": (_STATIC / "docs.js", "text/javascript"),
}
"""The files that the page loads, with their media types; Swagger UI's directory has others, and a page."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>imagehost API</title>
<link rel="icon" href="{path}/docs/assets/favicon.png">
<link rel="stylesheet" href="{path}/docs/assets/swagger-ui.css">
</head>
<body>
<noscript>This page requires JavaScript. The API is also described in an
<a href="{path}/openapi.json">OpenAPI document</a>.</noscript>
<div id="docs"></div>
<script src="{path}/docs/assets/swagger-ui-bundle.js"></script>
<script src="{path}/docs/assets/docs.js"></script>
</body>
</html>
"""

_ASSET_HEADERS = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}


class ApiDescription:
    """The responses of `/v1/openapi.json` and `/v1/docs`.

    Args:
        routes: The routes of the API.
        base_url: The base URL of the API, which ends in `/v1`.
        delivery_url: The base URL of images.
        registration: Whether accounts can be created without a token.
    """

    def __init__(
        self,
        routes: Iterable[HTTPRouteHandler],
        base_url: str,
        delivery_url: str,
        *,
        registration: bool = False,
    ) -> None:
        self._routes, self._registration = tuple(routes), registration
        self._base_url, self._delivery_url = base_url, delivery_url

    @cached_property
    def document(self) -> RawResponse:
        """The OpenAPI document."""
        tree = document(self._routes, self._base_url, self._delivery_url, registration=self._registration)
        return RawResponse(200, msgspec.json.encode(tree), JSON_HEADERS)

    @property
    def page(self) -> RawResponse:
        """The HTML page."""
        headers = (
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", content_security_policy(self._base_url, self._delivery_url)),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        )
        return RawResponse(200, PAGE.format(path=urlsplit(self._base_url).path).encode(), headers)


def content_security_policy(base_url: str, delivery_url: str) -> str:
    """Return the page's policy: files of this origin, and requests to the host's own URLs.

    Swagger UI's icons are `data:` URLs, and an image that was requested is shown by a `blob:` URL.
    """
    parts = map(urlsplit, (base_url, delivery_url))
    origins = " ".join(dict.fromkeys(f"{part.scheme}://{part.netloc}" for part in parts))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        f"connect-src 'self' {origins}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


async def _docs_asset(name: FromPath[str]) -> File:
    """Respond with a file that the page loads.

    Raises:
        NotFoundError: The page loads no such file.
    """
    if name not in ASSETS:
        raise NotFoundError("expected a file of the page /v1/docs")
    path, media_type = ASSETS[name]
    return File(
        path,
        filename=name,
        media_type=media_type,
        content_disposition_type="inline",
        headers=_ASSET_HEADERS,
    )


docs_asset = HTTPRouteHandler(
    f"{DOCS_ASSETS}{{name:str}}", http_method=["GET", "HEAD"], status_code=200, include_in_schema=False
)(_docs_asset)
"""The route of the page's files."""
