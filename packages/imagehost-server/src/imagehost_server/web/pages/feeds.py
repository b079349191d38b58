"""What programs read of the public pages: Atom feeds, the site map, the web app manifest, `security.txt`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from litestar import Response
from litestar.params import FromPath

from imagehost_core import ImageHost, to_rfc3339
from imagehost_core.errors import NotFoundError
from imagehost_core.formats import FORMATS, UPLOADABLE
from imagehost_core.models import Image
from imagehost_server.http.responses import RawResponse, to_litestar
from imagehost_server.web.assets import logo
from imagehost_server.web.page import page
from imagehost_server.web.pages.public import iter_gallery, read_gallery
from imagehost_server.web.presentation import ImagePresenter, alt_text
from imagehost_server.web.program_responses import render_for_programs
from imagehost_server.web.request import WebRequest

FEED_IMAGES = 50
"""Images of a feed."""
SITEMAP_IMAGES = 1_000
"""Images of the site map; search engines find older ones by the links of the gallery's pages."""
CONTACT_DAYS = 365
"""How long a `security.txt` is valid (RFC 9116, 2.5.5)."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that an XML document cannot contain (XML 1.0, 2.2)."""


@page("/feed.xml", public=True, json=True)
async def feed(request: WebRequest) -> Response[Any]:
    """Return the newest public images as an Atom feed (RFC 4287)."""
    return await _feed(request, "/", None)


@page("/a/{album_id:str}/feed.xml", public=True, json=True)
async def album_feed(request: WebRequest, album_id: FromPath[str]) -> Response[Any]:
    """Return the newest public images of a public album as an Atom feed."""
    return await _feed(request, f"/a/{album_id}", album_id)


async def _feed(request: WebRequest, path: str, album_id: str | None) -> Response[Any]:
    listed = await request.executors.reads.run(read_gallery, request, None, album_id, FEED_IMAGES)
    album, images, host = listed.album, listed.items, request.host
    last_modified = _last_modified(host, images)
    presenter, site = ImagePresenter(host.urls, request.settings.delivery), request.settings.site_url
    entries = [
        {
            "id": _tag(host, f"images/{image.id}"),
            "title": _xml_text(alt_text(image)),
            "page": f"{site}/i/{image.id}",
            "time": to_rfc3339(image.created_at),
            "updated": to_rfc3339(image.updated_at),
            "image": host.urls.image(image),
            "type": image.mime_type,
            "size": image.size,
            "shown": presenter.card_images(image)[0],
            "text": _xml_text(image.description),
        }
        for image in images
    ]
    return render_for_programs(
        request,
        "feed.xml",
        "application/atom+xml",
        last_modified,
        id=_tag(host, f"albums/{album.id}" if album else "gallery"),
        title=_xml_text(album.name if album else request.settings.web.site_name),
        url=f"{site}{path}",
        feed_url=f"{site}{path.rstrip('/')}/feed.xml",
        updated=to_rfc3339(last_modified),
        entries=entries,
    )


def _tag(host: ImageHost, name: str) -> str:
    """Return the permanent id of something of a host (RFC 4151): it does not depend on the site's domain.

    Its authority is the id of the installation, which restored data keep, below a domain that is never used.
    """
    return f"tag:{host.installation.id}.invalid,2026:{name}"


def _last_modified(host: ImageHost, images: Sequence[Image]) -> datetime:
    return max((image.updated_at for image in images), default=host.installation.created_at)


def _xml_text(text: str) -> str:
    """Return a text of a user without the characters that would make the whole feed unreadable."""
    return _NOT_XML.sub("", text)


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
        _last_modified(request.host, images),
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
