"""The static files of the pages: style sheets, scripts and icons, under URLs that name their content.

A URL contains the hash of the file, so that browsers keep the file for a year, and load another one as soon
as a new version of the server refers to it.
"""

from __future__ import annotations

import gzip
from base64 import urlsafe_b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from imagehost_core.error_responses import Headers
from imagehost_core.errors import NotFoundError
from imagehost_server.http.responses import RawResponse, to_litestar
from imagehost_server.routes.handler import ApiRequest
from imagehost_server.settings import WebSettings
from imagehost_server.web.presentation import accent_styles, ratio_styles

PREFIX = "/assets/"
"""The prefix of the paths of assets."""

_CACHE_SECONDS = 31_536_000

_NOT_FOR_CRAWLERS = ("admin", "albums", "api/", "images", "settings", "upload", "v1/")
"""The beginnings of paths, below the root path, that need an account or are those of programs."""

_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webp": "image/webp",
}

_HASH_CHARACTERS = 12


@frozen
class Asset:
    """A static file in memory.

    Attributes:
        data: Its bytes.
        compressed: The bytes compressed by gzip.
        media_type: The content type.
        path: The path of its URL.
    """

    data: bytes
    compressed: bytes
    media_type: str
    path: str


def asset_path(name: str, web: WebSettings) -> str:
    """Return the URL path of an asset by its name, such as `style.css`."""
    return _assets(web)[name].path


def logo(web: WebSettings) -> Asset:
    """Return the logo, which is the icon of the site too."""
    return _assets(web)[_logo_name(web)]


def _logo_name(web: WebSettings) -> str:
    return f"logo{Path(web.logo_file).suffix}" if web.logo_file else "icon.svg"


@cache
def _assets(web: WebSettings) -> dict[str, Asset]:
    """Return all assets by name; the colour and the logo are among them."""
    directory = files("imagehost_server.web").joinpath("static")
    contents = {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.is_file()}
    contents["ratios.css"] = ratio_styles().encode()
    if web.accent:
        contents["style.css"] += accent_styles(web.accent).encode()
    if web.logo_file:
        contents[_logo_name(web)] = Path(web.logo_file).read_bytes()
    # Modules import each other by plain names, so that all of them are in the directory of one hash.
    digest = sha256(b"\0".join(name.encode() + b"\0" + contents[name] for name in sorted(contents)))
    version = urlsafe_b64encode(digest.digest()).decode()[:_HASH_CHARACTERS]
    return {
        name: Asset(
            data=data,
            compressed=gzip.compress(data, mtime=0),
            media_type=_MEDIA_TYPES[name.rpartition(".")[2]],
            path=f"{PREFIX}{version}/{name}",
        )
        for name, data in contents.items()
    }


_SECURITY_HEADERS: Headers = (
    # An SVG that is opened by itself is a document of this origin, whose scripts would run.
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox",
    ),
    ("x-content-type-options", "nosniff"),
)
"""What every asset is sent with. Browsers apply the policy to documents, not to what a page loads."""


def _handler(path: str) -> HTTPRouteHandler:
    return HTTPRouteHandler(path, http_method=["GET", "HEAD"], status_code=200, include_in_schema=False)


@_handler(f"{PREFIX}{{version:str}}/{{name:str}}")
async def asset_file(request: ApiRequest, version: FromPath[str], name: FromPath[str]) -> Response[Any]:
    """Respond with a static file.

    Raises:
        NotFoundError: There is no such asset, or the path names another version of it.
    """
    found = _assets(request.settings.web).get(name)
    if found is None or found.path != f"{PREFIX}{version}/{name}":
        raise NotFoundError("expected the path of a file that a page of this version refers to")
    headers: Headers = (
        ("content-type", found.media_type),
        ("cache-control", f"public, max-age={_CACHE_SECONDS}, immutable"),
        ("vary", "Accept-Encoding"),
        *_SECURITY_HEADERS,
    )
    if "gzip" in request.headers.get("accept-encoding", ""):
        return to_litestar(RawResponse(200, found.compressed, (*headers, ("content-encoding", "gzip"))))
    return to_litestar(RawResponse(200, found.data, headers))


@_handler("/robots.txt")
async def robots(request: ApiRequest) -> Response[Any]:
    """Tell crawlers which paths are of no use to them (RFC 9309).

    What is not to be listed has `X-Robots-Tag: noindex`, which they see only where they may read: so links to
    pages keep their cards.
    """
    settings = request.settings
    rules = "".join(f"Disallow: {settings.root_path}/{path}\n" for path in _NOT_FOR_CRAWLERS)
    images = f"Allow: {urlsplit(settings.delivery_url).path}/\n"
    sitemap = f"Sitemap: {settings.site_url}/sitemap.xml\n" if settings.web.listed else ""
    body = f"User-agent: *\n{images}{rules}{sitemap}"
    headers = (("content-type", "text/plain; charset=utf-8"), ("cache-control", "public, max-age=3600"))
    return to_litestar(RawResponse(200, body.encode(), headers))


@_handler("/favicon.ico")
async def icon(request: ApiRequest) -> Response[Any]:
    """Respond with the icon, where a browser looks for it without a page that names it."""
    image = logo(request.settings.web)
    headers = (("content-type", image.media_type), ("cache-control", "public, max-age=86400"))
    return to_litestar(RawResponse(200, image.data, (*headers, *_SECURITY_HEADERS)))
