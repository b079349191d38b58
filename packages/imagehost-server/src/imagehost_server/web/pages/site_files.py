"""Files at fixed paths that tell programs of the site: the site map, the web app manifest, `security.txt`."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import islice
from typing import Any

from litestar import Response

from imagehost_core import to_rfc3339
from imagehost_core.errors import NotFoundError
from imagehost_core.formats import FORMATS, UPLOADABLE
from imagehost_server.http.responses import RawResponse, to_litestar
from imagehost_server.web.assets import logo
from imagehost_server.web.page import page
from imagehost_server.web.pages.public import iter_gallery
from imagehost_server.web.program_responses import last_modified, render_for_programs
from imagehost_server.web.request import WebRequest

SITEMAP_IMAGES = 1_000
"""Images of the site map; search engines find older ones by the links of the gallery's pages."""
CONTACT_DAYS = 365
"""How long a `security.txt` is valid (RFC 9116, 2.5.5)."""


@page("/sitemap.xml", public=True, json=True)
async def sitemap(request: WebRequest) -> Response[Any]:
    """Return the pages of the newest public images for search engines (https://sitemaps.org)."""
    if not request.settings.web.listed:
        raise NotFoundError("expected a site whose pages may be listed (IMAGEHOST_WEB_LISTED)")

    images = await request.executors.reads.run(lambda: list(islice(iter_gallery(request), SITEMAP_IMAGES)))
    return render_for_programs(
        request,
        "sitemap.xml",
        "application/xml",
        last_modified(request.host, images),
        site_url=request.settings.site_url,
        pages=[(image.id, to_rfc3339(image.updated_at), request.host.urls.image(image)) for image in images],
    )


@page("/manifest.webmanifest", json=True)
async def manifest(request: WebRequest) -> Response[Any]:
    """Describe the site as an app, to which phones can share images (https://www.w3.org/TR/appmanifest)."""
    root, icon = request.settings.root_path, logo(request.settings.web)
    accepted = [FORMATS[each].media_type for each in UPLOADABLE]
    description = {
        "name": request.settings.web.site_name,
        "start_url": f"{root}/",
        "scope": f"{root}/",
        "display": "minimal-ui",
        "icons": [{"src": root + icon.path, "type": icon.media_type, "sizes": "any"}],
        "share_target": {
            "action": f"{root}/upload",
            "method": "POST",
            "enctype": "multipart/form-data",
            "params": {"files": [{"name": "files[]", "accept": accepted}]},
        },
    }
    return _text(json.dumps(description), "application/manifest+json")


@page("/.well-known/security.txt", json=True)
async def security_contact(request: WebRequest) -> Response[Any]:
    """Name the contact for reports of vulnerabilities (RFC 9116), if there is one."""
    contact = request.settings.web.security_contact
    if not contact:
        raise NotFoundError("expected a contact (IMAGEHOST_WEB_SECURITY_CONTACT)")
    expires = request.host.now().replace(hour=0, minute=0, second=0, microsecond=0)
    expires += timedelta(days=CONTACT_DAYS)
    return _text(f"Contact: {contact}\nExpires: {to_rfc3339(expires)}\n", "text/plain; charset=utf-8")


def _text(text: str, media_type: str) -> Response[Any]:
    headers = (
        ("content-type", media_type),
        ("cache-control", "public, max-age=3600"),
        ("x-content-type-options", "nosniff"),
    )
    return to_litestar(RawResponse(200, text.encode(), headers))
